"""FlatBuffers as dictionaries: reads them, and writes them with the package `flatbuffers` (extra
`devtools`).

    tables = {
        "Line": {"name": "string", "points": "[Point]", "dashes": "[4]"},
        "Point": {"x": "8", "y": "8"},
    }
    write({"name": "a", "points": [{"x": 0.5}], "dashes": [2, 1]}, tables, "Line")

A schema is its tables: fields in the order of their numbers, with their types. "4" is a number of
4 bytes, "[4]" a vector of those, "string" a text, "Point" a table, "[Point]" tables, "|Point|Line"
a union, whose type is the field before it. `_core._file_tables` gives those of .pte, .ptd, .bpte
and ETDump files, as the runtime reads them.

A union's value is a pair: name of its table, and fields. A float is written as one, any other
number as a signed integer; all are read as integers. Bytes are a vector of bytes that is aligned
for data. A field that is None or missing is left out.

Tables that the schema does not have are read as their places (`Kept`). `write(kept=data)` puts that
data behind what it writes, as it was, and refers to them there: a file is edited by the schema of
what changes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from executorch_c import _extras

Tables: TypeAlias = Mapping[str, Mapping[str, str]]

ALIGNMENT = 32
"""Alignment of bytes: that of a program in a bundled program, the largest of all schemas."""
MAX_SHARED_BYTES = 64
"""Maximum size of a text that is written once for all its uses: verifiers bound the references of
a file by its size."""
KEPT_ALIGNMENT = 64
"""Alignment of kept data: a multiple of those of its parts."""
ROOT_BYTES = 8
"""Bytes of the reference to the root, and of the identifier."""
CODES = {"1": "b", "2": "h", "4": "i", "8": "q"}
"""Formats of `struct`, by type of number."""


@dataclass(frozen=True)
class Kept:
    """A table that the schema does not have."""

    at: int
    """Its place in the data that was read."""


def read(data: bytes, tables: Tables, root: str, *, is_complete: bool = False) -> dict[str, Any]:
    """Return the table of the type `root`, with the fields that are present.

    The data is trusted: other data is checked before, as by `_core._check_etdump`. Texts that are
    not UTF-8 have replacement characters. With `is_complete`, raises ValueError for a field that
    its table does not have in the schema: it would be lost if the table was written.
    """
    reader = _Reader(tables, data, is_complete)
    values = reader.table(root, reader.target(0))
    assert isinstance(values, dict)
    return values


def write(
    values: Mapping[str, Any],
    tables: Tables,
    root: str,
    what: str,
    *,
    identifier: bytes | None = None,
    is_prefixed: bool = False,
    size: int = 1024,
    kept: bytes = b"",
    header: bytes = b"",
) -> bytes:
    """Return the bytes of a table of the type `root`.

    Args:
        what: What is written, for errors.
        identifier: The four bytes that name the kind of file.
        is_prefixed: Put the file's size before it.
        size: Bytes to make room for at first.
        kept: What `Kept` tables were read from.
        header: Bytes behind the identifier.

    Raises ImportError where the package is missing, TypeError for a number out of range.
    """
    writer = _Writer(tables, _extras.load(f"writing {what}", "flatbuffers").Builder(size))
    writer.keep(kept)
    offset = writer.table(root, values)
    writer.head(header)
    finish = writer.builder.FinishSizePrefixed if is_prefixed else writer.builder.Finish
    finish(offset, file_identifier=identifier)
    return bytes(writer.builder.Output())


class _Reader:
    def __init__(self, tables: Tables, data: bytes, is_complete: bool) -> None:
        self.tables, self.data, self.is_complete = tables, data, is_complete

    def number(self, code: str, at: int) -> int:
        return int(struct.unpack_from("<" + code, self.data, at)[0])

    def target(self, at: int) -> int:
        return at + self.number("I", at)

    def table(self, name: str, at: int) -> dict[str, Any] | Kept:
        if name not in self.tables:
            return Kept(at)
        vtable = at - self.number("i", at)
        size, values = self.number("H", vtable), dict[str, Any]()
        for entry in range(4 + 2 * len(self.tables[name]), size if self.is_complete else 0, 2):
            if self.number("H", vtable + entry):
                raise ValueError(
                    f"{name} has field {entry // 2 - 2}, which its schema does not have"
                )
        for number, (field, kind) in enumerate(self.tables[name].items()):
            entry = 4 + 2 * number
            where = self.number("H", vtable + entry) if entry < size else 0
            if not where:
                continue
            if kind.startswith("|"):
                member = kind.split("|")[values.pop(f"{field}_type") & 0xFF]
                values[field] = [member, self.table(member, self.target(at + where))]
            else:
                values[field] = self.value(kind, at + where)
        return values

    def value(self, kind: str, at: int) -> Any:
        if kind.isdigit():
            return self.number(CODES[kind], at)
        start = self.target(at)
        if kind != "string" and not kind.startswith("["):
            return self.table(kind, start)
        count, start, item = self.number("I", start), start + 4, kind.strip("[]")
        if kind in ("[1]", "string"):
            data = bytes(self.data[start : start + count])
            return data.decode("utf-8", "replace") if kind == "string" else data
        if item.isdigit():
            return [*struct.unpack_from(f"<{count}{CODES[item]}", self.data, start)]
        return [self.value(item, start + 4 * i) for i in range(count)]


def _number(kind: str, *values: float) -> str:
    """Return the name that the builder has for numbers."""
    return f"{'Float' if any(isinstance(v, float) for v in values) else 'Int'}{8 * int(kind)}"


class _Writer:
    """Every method returns the offset of an object, which stands in the file by then."""

    def __init__(self, tables: Tables, builder: Any) -> None:
        self.tables = tables
        self.builder = builder
        self.kept = 0

    def keep(self, data: bytes) -> None:
        """Put data that tables refer to at the end."""
        if data:
            self.raw(data)
            self.kept = self.builder.Offset()

    def head(self, data: bytes) -> None:
        """Put data behind the identifier, before everything written so far."""
        if data:
            self.raw(data, before=ROOT_BYTES)

    def raw(self, data: bytes, before: int = 0) -> None:
        builder = self.builder
        builder.Prep(KEPT_ALIGNMENT, len(data) + before)
        builder.head -= len(data)
        builder.Bytes[builder.head : builder.head + len(data)] = data

    def table(self, name: str, values: Mapping[str, Any] | Kept) -> int:
        if isinstance(values, Kept):
            return self.kept - values.at
        fields = self.tables[name]
        order = {field: number for number, field in enumerate(fields)}
        slots = []
        for field, value in values.items():
            number, kind = order[field], fields[field]
            if value is None:
                continue
            if kind.startswith("|"):
                member, value = value
                slots.append((number - 1, "Uint8", kind.split("|").index(member)))
                kind = member
            if kind.isdigit():
                slots.append((number, _number(kind, value), value))
            else:
                slots.append((number, "UOffsetTRelative", self.value(kind, value)))
        self.builder.StartObject(len(fields))
        for number, kind, value in slots:
            getattr(self.builder, f"Prepend{kind}Slot")(number, value, None)
        offset: int = self.builder.EndObject()
        return offset

    def value(self, kind: str, value: Any) -> int:
        if not kind.startswith("["):
            return self.text(value) if kind == "string" else self.table(kind, value)
        kind = kind[1:-1]
        if isinstance(value, bytes):
            return self.data(value)
        if kind.isdigit():
            return self.vector(int(kind), _number(kind, *value), value)
        return self.vector(4, "UOffsetTRelative", [self.value(kind, item) for item in value])

    def text(self, value: str) -> int:
        create = "CreateSharedString" if len(value) <= MAX_SHARED_BYTES else "CreateString"
        offset: int = getattr(self.builder, create)(value)
        return offset

    def vector(self, width: int, kind: str, items: Sequence[float]) -> int:
        self.builder.StartVector(width, len(items), width)
        for item in reversed(items):
            getattr(self.builder, f"Prepend{kind}")(item)
        offset: int = self.builder.EndVector()
        return offset

    def data(self, data: bytes) -> int:
        builder = self.builder
        builder.StartVector(1, len(data), ALIGNMENT)
        builder.head -= len(data)
        builder.Bytes[builder.head : builder.head + len(data)] = data
        offset: int = builder.EndVector()
        return offset
