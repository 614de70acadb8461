"""Writes FlatBuffers from dictionaries, with the package `flatbuffers` (extra `devtools`).

    tables = {
        "Line": {"name": "string", "points": "[Point]", "dashes": "[4]"},
        "Point": {"x": "8", "y": "8"},
    }
    write({"name": "a", "points": [{"x": 0.5}], "dashes": [2, 1]}, tables, "Line")

A schema is its tables: fields in the order of their numbers, with their types. "4" is a number of
4 bytes, "[4]" a vector of those, "string" a text, "Point" a table, "[Point]" tables, "|Point|Line"
a union, whose type is the field before it. `_core._file_tables` gives those of .pte, .ptd and .bpte
files, as the runtime reads them.

A union's value is a pair: name of its table, and fields. A float is written as one, any other
number as a signed integer. Bytes are a vector of bytes that is aligned for data. A field that is
None or missing is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from executorch_c import _extras

Tables: TypeAlias = Mapping[str, Mapping[str, str]]

ALIGNMENT = 32
"""Alignment of bytes: that of a program in a bundled program, the largest of all schemas."""


def write(
    values: Mapping[str, Any],
    tables: Tables,
    root: str,
    what: str,
    *,
    identifier: bytes | None = None,
    is_prefixed: bool = False,
    size: int = 1024,
) -> bytes:
    """Return the bytes of a table of the type `root`.

    Args:
        what: What is written, for errors.
        identifier: The four bytes that name the kind of file.
        is_prefixed: Put the file's size before it.
        size: Bytes to make room for at first.

    Raises ImportError where the package is missing, TypeError for a number out of range.
    """
    writer = _Writer(tables, _extras.load(f"writing {what}", "flatbuffers").Builder(size))
    offset = writer.table(root, values)
    finish = writer.builder.FinishSizePrefixed if is_prefixed else writer.builder.Finish
    finish(offset, file_identifier=identifier)
    return bytes(writer.builder.Output())


def _number(kind: str, *values: float) -> str:
    """Return the name that the builder has for numbers."""
    return f"{'Float' if any(isinstance(v, float) for v in values) else 'Int'}{8 * int(kind)}"


class _Writer:
    """Every method returns the offset of an object, which stands in the file by then."""

    def __init__(self, tables: Tables, builder: Any) -> None:
        self.tables = tables
        self.builder = builder

    def table(self, name: str, values: Mapping[str, Any]) -> int:
        fields = self.tables[name]
        order = {field: number for number, field in enumerate(fields)}
        slots = []
        for field, value in values.items():
            number, kind = order[field], fields[field]
            if value is None:
                continue
            if kind.startswith("|"):
                member, value = value
                slots.append((number - 1, "Int8", kind.split("|").index(member)))
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
            text = kind == "string"
            return self.builder.CreateSharedString(value) if text else self.table(kind, value)
        kind = kind[1:-1]
        if isinstance(value, bytes):
            return self.data(value)
        if kind.isdigit():
            return self.vector(int(kind), _number(kind, *value), value)
        return self.vector(4, "UOffsetTRelative", [self.value(kind, item) for item in value])

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
