"""Payloads in FlatBuffers as dictionaries: read, edit, write, by the backend's own schema.def.

A `Format` reads the graph of a recorded program and writes an edited one into the program. A
number is signed, a union's value is a list: the name of its member, and its fields. A number that
becomes a float is written as one.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from executorch_c import _flatbuffers
from executorch_c.rewrite import flat

BACKENDS = Path(__file__).resolve().parents[2] / "backends" / "interpreted"
SPARE_BYTES = 1 << 15
"""Bytes after a payload in the programs that `Format.program` fills."""

Graph = dict[str, Any]
Change = Callable[[Graph], None]
Row = tuple[Change, str]
"""A change of a program's graph, and a sentence that the exception must have."""
SIZES = {"BOOL": "1", "TID": "4", "VID": "4"} | {
    f"{kind}{8 * size}": str(size) for kind in "IUF" for size in (1, 2, 4, 8)
}
"""Named sizes of MLX's schema.def."""


ROW = re.compile(
    r"^(?:EC_FB_FIELD|ECX_FIELD_\w+)\((\w+), (\d+), (\w+)(?:, (\w+), (\w+))?\)", re.MULTILINE
)


def schema(
    backend: str, unions: dict[str, list[str]], name: str = "schema.def"
) -> dict[str, dict[str, str]]:
    """Return the tables of a schema.def in the notation of executorch_c/_flatbuffers.py. Numbers
    without a row are fields like "_3"."""
    text = (BACKENDS / backend / name).read_text()
    tables: dict[str, dict[str, str]] = {
        table: {} for table in re.findall(r"^EC_FB_TABLE_BEGIN\((\w+)\)", text, re.M)
    }
    for table, number, field, kind, size in ROW.findall(text):
        arg, entries = SIZES.get(size, size), tables[table]
        entries |= {f"_{i}": "1" for i in range(len(entries), int(number))}
        entries[field] = {
            "": "4",
            "SCALAR": arg,
            "VECTOR": f"[{arg}]",
            "STRING": "string",
            "STRINGS": "[string]",
            "TABLE": arg,
            "TABLES": f"[{arg}]",
            "UNION": "|".join(["", *unions.get(arg, [])]),
        }[kind]
    return tables


def rows_of(**tables: list[Any]) -> list[tuple[str, Any, str]]:
    """Return the rows of tables, with the name of the program that they change."""
    return [(name, *row) for name, rows in tables.items() for row in rows]


@dataclass(frozen=True)
class Format:
    """Payloads of a backend: FlatBuffers, behind a header if that has a magic."""

    folder: Path
    tables: dict[str, dict[str, str]]
    root: str
    identifier: bytes | None
    magic: bytes = b""

    def read(self, payload: bytes) -> tuple[Graph, bytes]:
        """Return the graph and the constants behind it."""
        has_header = self.magic and payload[4:8] == self.magic
        data, constants = flat.split(payload) if has_header else (payload, b"")
        return _flatbuffers.read(data, self.tables, self.root), constants

    def write(self, graph: Graph, constants: bytes = b"", has_header: bool = True) -> bytes:
        identifier = self.identifier
        data = _flatbuffers.write(graph, self.tables, self.root, "payloads", identifier=identifier)
        has_header = has_header and bool(self.magic)
        return flat.joined(self.magic, data, constants) if has_header else data

    def edited(self, source: str | bytes, change: Callable[[Graph], None]) -> bytes:
        """Return a program, or the recorded one of a name, whose first payload is changed."""
        if isinstance(source, str):
            source = (self.folder / f"{source}.pte").read_bytes()
        pte, at, payload = roomy(source)
        graph, constants = self.read(payload)
        change(graph)
        return filled(pte, at, self.write(graph, constants))


@cache
def roomy(pte: bytes) -> tuple[bytes, int, bytes]:
    """Return a program with room after its first payload, the payload's offset, and the payload."""
    from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

    file = deserialize_pte_binary(pte)
    payload = file.program.backend_delegate_data[0].data
    marker = bytes(range(256)) * (1 + (len(payload) + SPARE_BYTES) // 256)
    file.program.backend_delegate_data[0].data = marker
    pte = bytes(serialize_pte_binary(file, extract_delegate_segments=True))
    at = pte.index(marker)
    return pte[:at] + bytes(len(marker)) + pte[at + len(marker) :], at, payload


def filled(pte: bytes, at: int, payload: bytes) -> bytes:
    """Return a program of `roomy` with this payload."""
    assert at + len(payload) <= len(pte) and not any(pte[at : at + len(payload)])
    return pte[:at] + payload + pte[at + len(payload) :]
