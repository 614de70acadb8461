"""Payloads of the XNNPACK delegate as Python values: read, edit, write, by the schema that the
official package ships (runtime_schema.fbs). `payloads` returns those of a program, `edited` returns
the program with other payloads or named data. Numbers are signed, as in payloads.py."""

from __future__ import annotations

import contextlib
import itertools
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests import fbs
from tests.backends.payloads import Format, Graph

BACKEND = "XnnpackBackend"


@cache
def schema_text() -> str:
    return fbs.texts("executorch.backends.xnnpack.serialization", "runtime_schema.fbs")


@cache
def layout() -> Format:
    return Format(Path(), fbs.tables(schema_text()), "XNNGraph", b"XN00", b"XH00")


@cache
def datatypes() -> list[str]:
    """Return short names of datatypes in order: "fp32", "qint8", ..."""
    return re.findall(r"xnn_datatype_(\w+) = \d+,", schema_text())


def node_kinds() -> list[str]:
    return layout().tables["XNode"]["xnode_union"].split("|")[1:]


@dataclass
class Payload:
    """The graph and its constants; a payload without a header is a bare FlatBuffer."""

    graph: Graph
    constants: bytes = b""
    has_header: bool = True

    @staticmethod
    def parse(data: bytes) -> Payload:
        return Payload(*layout().read(data), has_header=data[4:8] == b"XH00")

    def pack(self) -> bytes:
        return layout().write(self.graph, self.constants, self.has_header)

    @property
    def kinds(self) -> list[str]:
        return [node["xnode_union"][0] for node in self.graph["xnodes"]]

    @property
    def nodes(self) -> list[Graph]:
        return [node["xnode_union"][1] for node in self.graph["xnodes"]]

    @property
    def tensors(self) -> list[Graph]:
        """Return the tensor of each value, quantised or not."""
        fields = [value["xvalue_union"][1] for value in self.graph["xvalues"]]
        return [one.get("tensor_value", one) for one in fields]

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
        {"storage": named.get(entry.get("named_key", ""), b"")} for entry in entries
    ]
    payload.has_header = False
    return payload
