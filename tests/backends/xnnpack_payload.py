"""Payloads of the XNNPACK delegate as Python values: read, edit, write.

The reader follows the schema that the official package ships (runtime_schema.fbs), so that floats
stay exact, and returns dictionaries like flatc's JSON; the writer is flatc. `payloads` returns
those of a program, `edited` returns the program with other payloads or named data.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import itertools
import json
import re
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

BACKEND = "XnnpackBackend"
SCALARS = {
    "float": "f",
    "int": "i",
    "uint": "I",
    "uint64": "Q",
    "ushort": "H",
    "short": "h",
    "ubyte": "B",
}
Graph = dict[str, Any]


@cache
def schema_text() -> str:
    package = importlib.resources.files("executorch.backends.xnnpack.serialization")
    return (package / "runtime_schema.fbs").read_text()


@cache
def tables() -> dict[str, list[tuple[str, str]]]:
    """Return name and type of each slot; a union has two slots, the first is its type."""
    fields = {}
    text = re.sub(r"//.*", "", schema_text())
    for name, body in re.findall(r"table (\w+) \{(.*?)\}", text, re.S):
        slots = []
        for field, kind in re.findall(r"(\w+)\s*:\s*([\w\[\]]+)", re.sub(r"\(.*?\)", "", body)):
            if kind in unions():
                slots.append((field + "_type", "ubyte"))
            slots.append((field, kind))
        fields[name] = slots
    return fields


@cache
def unions() -> dict[str, list[tuple[str, str]]]:
    """Return the members of unions: names and tables; number 0 is NONE."""
    names = {}
    text = re.sub(r"//.*", "", schema_text())
    for name, body in re.findall(r"union (\w+) \{(.*?)\}", text, re.S):
        members = re.findall(r"(\w+)(?:\s*:\s*(\w+))?", body)
        names[name] = [(member, table or member) for member, table in members]
    return names


@cache
def datatypes() -> list[str]:
    """Return short names of datatypes in order: "fp32", "qint8", ..."""
    return re.findall(r"xnn_datatype_(\w+) = \d+,", schema_text())


def node_kinds() -> list[str]:
    return [member for member, _ in unions()["XNodeUnion"]]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def at(self, code: str, offset: int) -> Any:
        return struct.unpack_from("<" + code, self.data, offset)[0]

    def table(self, name: str, offset: int) -> Graph:
        vtable = offset - self.at("i", offset)
        size = self.at("H", vtable)
        fields: Graph = {}
        member = 0
        for slot, (field, kind) in enumerate(tables()[name]):
            entry = 4 + 2 * slot
            where = self.at("H", vtable + entry) if entry < size else 0
            if kind in unions():
                if where and member:
                    label, table = unions()[kind][member - 1]
                    fields[field + "_type"] = label
                    fields[field] = self.table(table, self.follow(offset + where))
            elif where:
                fields[field] = self.value(kind, offset + where)
                member = fields[field] if field.endswith("_type") else 0
                if field.endswith("_type"):
                    del fields[field]
        return fields

    def follow(self, offset: int) -> int:
        return offset + int(self.at("I", offset))

    def value(self, kind: str, offset: int) -> Any:
        if kind in SCALARS:
            return self.at(SCALARS[kind], offset)
        if kind == "XNNDatatype":
            return self.at("h", offset)
        target = self.follow(offset)
        if kind == "string":
            return self.data[target + 4 : target + 4 + self.at("I", target)].decode()
        if not kind.startswith("["):
            return self.table(kind, target)
        inner, count = kind[1:-1], self.at("I", target)
        if inner in SCALARS:
            return list(struct.unpack_from(f"<{count}{SCALARS[inner]}", self.data, target + 4))
        return [self.value(inner, target + 4 + 4 * i) for i in range(count)]


def _compile(graph: Graph) -> bytes:
    from executorch.exir._serialize._flatbuffer import _flatc_compile

    with tempfile.TemporaryDirectory() as folder:
        schema, source = Path(folder) / "graph.fbs", Path(folder) / "graph.json"
        schema.write_text(schema_text())
        source.write_text(json.dumps(graph))
        _flatc_compile(folder, str(schema), str(source))
        return (Path(folder) / "graph.bin").read_bytes()


@dataclass
class Payload:
    """The graph and its constants; a payload without a header is a bare FlatBuffer."""

    graph: Graph
    constants: bytes = b""
    has_header: bool = True

    @staticmethod
    def parse(data: bytes) -> Payload:
        if data[4:8] != b"XH00":
            return Payload(
                _Reader(data).table("XNNGraph", struct.unpack_from("<I", data)[0]), has_header=False
            )
        start, size, behind, count = struct.unpack_from("<IIIQ", data, 10)
        flat = data[start : start + size]
        graph = _Reader(flat).table("XNNGraph", struct.unpack_from("<I", flat)[0])
        return Payload(graph, data[behind : behind + count])

    def pack(self) -> bytes:
        flat = _compile(self.graph)
        if not self.has_header:
            return flat
        padded = flat + b"\0" * (-len(flat) % 16)
        header = (
            b"\0" * 4
            + b"XH00"
            + struct.pack("<HIIIQ", 30, 32, len(flat), 32 + len(padded), len(self.constants))
        )
        return header + b"\0\0" + padded + self.constants

    @property
    def kinds(self) -> list[str]:
        return [node["xnode_union_type"] for node in self.graph["xnodes"]]

    @property
    def nodes(self) -> list[Graph]:
        return [node["xnode_union"] for node in self.graph["xnodes"]]

    @property
    def tensors(self) -> list[Graph]:
        """Return the tensor of each value, quantised or not."""
        unions = [value["xvalue_union"] for value in self.graph["xvalues"]]
        return [union.get("tensor_value", union) for union in unions]

    @property
    def datatypes(self) -> list[str]:
        return [datatypes()[tensor["datatype"]] for tensor in self.tensors]


def parse_program(pte: bytes) -> Any:
    from executorch.exir._serialize._program import deserialize_pte_binary

    return deserialize_pte_binary(pte)


def payloads(pte: bytes) -> list[Payload]:
    """Return the payload of every XNNPACK delegate, in the order of methods and of their delegate
    tables."""
    program = parse_program(pte).program
    delegates = [d for plan in program.execution_plan for d in plan.delegates if d.id == BACKEND]
    return [Payload.parse(program.backend_delegate_data[d.processed.index].data) for d in delegates]


def operators(pte: bytes) -> set[str]:
    """Return the operators outside delegates."""
    plans = parse_program(pte).program.execution_plan
    return set(itertools.chain.from_iterable([op.name for op in p.operators] for p in plans))


def edited(
    pte: bytes,
    change: Callable[[Payload, dict[str, bytes]], Payload | bytes],
    drop_named: bool = False,
) -> bytes:
    """Return the program with its payloads replaced by `change`, which also receives the named
    data."""
    from executorch.exir._serialize._program import serialize_pte_binary

    file = parse_program(pte)
    store = file.named_data
    named = {}
    if store is not None:
        named = {key: store.buffers[entry.buffer_index] for key, entry in store.pte_data.items()}
    for data in file.program.backend_delegate_data:
        with contextlib.suppress(struct.error):  # payload of another backend
            payload = change(Payload.parse(data.data), named)
            data.data = payload if isinstance(payload, bytes) else payload.pack()
    if drop_named:
        file.named_data = None
    return bytes(serialize_pte_binary(file, extract_delegate_segments=True))


def with_constants_inside(payload: Payload, named: dict[str, bytes]) -> Payload:
    """Return the program in the format of exporters before 0.6: constants by offset after the
    graph."""
    constants = bytearray(payload.constants)
    for entry in payload.graph["constant_data"]:
        key = entry.pop("named_key", "")
        if key:
            constants += b"\0" * (-len(constants) % 16)
            entry["offset"] = len(constants)
            constants += named[key]
    payload.constants = bytes(constants)
    return payload


def with_constants_in_the_graph(payload: Payload, named: dict[str, bytes]) -> Payload:
    """Return the program in the format of the first exporters: no header, constants in FlatBuffer
    buffers."""
    entries = payload.graph.pop("constant_data")
    payload.graph["constant_buffer"] = [
        {"storage": list(named.get(entry.get("named_key", ""), b""))} for entry in entries
    ]
    payload.has_header = False
    return payload
