"""Core ML's model.mlmodel as dictionaries: read, edit, write, by the rows of coreml/schema.def.

Tables have the kinds of executorch_c/_flatbuffers.py, so that the tests of fields take them.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from executorch_c.rewrite import protobuf
from tests.backends.payloads import BACKENDS, SPARE_BYTES, Change, Graph, filled, roomy

VARINT, BYTES = 0, 2
ROW = re.compile(r"^ECM_(?:FIELD|IGNORED|REFUSED)\((\w+), (\d+), (\w+), (\w+), (\w+)\)", re.M)
KINDS = {"VARINT": "8", "PACKED": "[8]", "STRING": "string", "STRINGS": "[string]", "BYTES": "[1]"}

Tables = dict[str, dict[str, str]]


def rows() -> tuple[Tables, dict[tuple[str, str], int]]:
    """Return the kinds of the fields of each message, and their numbers."""
    tables: Tables = {}
    numbers: dict[tuple[str, str], int] = {}
    for message, number, field, kind, arg in ROW.findall(
        (BACKENDS / "coreml/schema.def").read_text()
    ):
        inside = {"MESSAGE": arg, "MESSAGES": f"[{arg}]"}
        tables.setdefault(message, {})[field] = (KINDS | inside)[kind]
        numbers[message, field] = int(number)
    return tables, numbers


TABLES, NUMBERS = rows()


def varint(value: int) -> bytes:
    return protobuf.varint(value & 2**64 - 1)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a signed number of 64 bits, and where the next one begins."""
    value, at = protobuf.read_varint(data, at)
    return value - (value >> 63 << 64), at


def varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = read_varint(data, at)
        yield value


def fields_of(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and values of the fields of a message."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        value, at = read_varint(data, at)
        if tag & 7 == BYTES:
            yield tag >> 3, data[at : at + value]
            at += value
        else:
            assert tag & 7 == VARINT
            yield tag >> 3, value


def read(data: bytes, message: str) -> Graph:
    graph: Graph = {}
    names = {NUMBERS[message, name]: name for name in TABLES[message]}
    for number, value in fields_of(data):
        name = names[number]
        kind = TABLES[message][name]
        inner = kind.strip("[]")
        if inner in TABLES:
            value = read(value, inner)
        elif kind == "[8]":
            value = list(varints(value)) if isinstance(value, bytes) else [value]
        elif inner == "string":
            value = value.decode()
        if kind[0] == "[" and kind != "[1]":
            graph.setdefault(name, []).extend(value if kind == "[8]" else [value])
        else:
            graph[name] = value
    return graph


def content(value: Any, kind: str) -> bytes:
    """Return the bytes of a field that is not a number."""
    if kind in TABLES:
        return write(value, kind)
    if kind == "[8]":
        return b"".join(map(varint, value))
    return value.encode() if kind == "string" else bytes(value)


def write(graph: Graph, message: str) -> bytes:
    data = b""
    for name, value in graph.items():
        kind, tag = TABLES[message][name], NUMBERS[message, name] << 3
        if kind == "8":
            data += varint(tag) + varint(value)
            continue
        is_repeated = kind[0] == "[" and kind not in ("[1]", "[8]")
        for item in value if is_repeated else [value]:
            inside = content(item, kind.strip("[]") if is_repeated else kind)
            data += varint(tag | BYTES) + varint(len(inside)) + inside
    return data


def graphs(graph: Graph, message: str) -> Iterator[tuple[str, Graph]]:
    """Yield the name and fields of each message in one."""
    yield message, graph
    for name, value in graph.items():
        inner = TABLES[message][name].strip("[]")
        if inner in TABLES:
            for item in value if isinstance(value, list) else [value]:
                yield from graphs(item, inner)


def first(message: str, model: Graph) -> Graph:
    """Return the fields of the first message of a name."""
    return next(graph for name, graph in graphs(model, "Model") if name == message)


def edited(pte: bytes, change: Change) -> bytes:
    """Return a program whose first payload has a changed model, before the index."""
    pte, at, payload = roomy(pte)
    index, length = json.JSONDecoder().raw_decode(payload[::-1].decode("latin1"))
    node = next(node for node in index["nodes"] if node["name"] == "model.mlmodel")
    region = node["dataRegion"]
    graph = read(payload[region["offset"] :][: region["size"]], "Model")
    change(graph)
    model, files = write(graph, "Model"), payload[: len(payload) - length]
    node["dataRegion"] = {"offset": len(files), "size": len(model)}
    text = json.dumps(index)[::-1].encode()
    room = 256 * (1 + (len(payload) + SPARE_BYTES) // 256)
    return filled(pte, at, (files + model).ljust(room - len(text), b"\0") + text)
