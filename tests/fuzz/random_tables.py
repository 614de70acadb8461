"""Random tables that a schema of FlatBuffers allows: most numbers are plausible, some wild, and few
fields are missing."""

import random
from typing import Any

Table = dict[str, Any]
WILD = (-1, -2, 100, 127, 255, 1 << 15, 1 << 30, (1 << 31) - 1, -(1 << 31), 1 << 62, -(1 << 63))
"""Numbers at the edges of their widths."""
BITS = {"1": 8, "2": 16, "4": 32, "8": 64}
"""Widths of numbers by their types in the notation of executorch_c/_flatbuffers.py."""
COUNTS = (0, 1, 1, 2, 2, 2, 3, 4, 17)


class Tables:
    """Random tables of a schema in the notation of executorch_c/_flatbuffers.py."""

    texts: tuple[str, ...] = ("", "a", "forward", "x" * 300)

    def __init__(self, schema: dict[str, dict[str, str]], seed: int) -> None:
        self.schema, self.random = schema, random.Random(seed)

    def table(self, name: str) -> Table:
        """Return a table."""
        return {
            field: self.field(name, field, kind)
            for field, kind in self.schema[name].items()
            if self.random.random() < 0.98
        }

    def field(self, table: str, field: str, kind: str) -> Any:
        """Return a field of a type."""
        if kind.startswith("["):
            return [self.field(table, field, kind[1:-1]) for _ in range(self.random.choice(COUNTS))]
        if kind == "string":
            return self.random.choice(self.texts)
        return self.scalar(table, field, kind) if kind in BITS else self.table(kind)

    def scalar(self, table: str, field: str, width: str) -> int | float:
        """Return a number."""
        return self.number(width, WILD)

    def number(self, width: str, wild: tuple[int, ...]) -> int:
        """Return a number that fits its width."""
        pick = self.random
        value = pick.randrange(5) if pick.random() < 0.8 else pick.choice(wild)
        low = -(1 << (BITS[width] - 1))
        return (value - low) % (1 << BITS[width]) + low
