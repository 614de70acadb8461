"""Damaged programs and payloads: numbers, items and fields of their tables changed, or bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from executorch_c.rewrite import mlx, native, tosa, vulkan, xnnpack
from executorch_c.rewrite.program import ProgramTables

LAYOUTS = {
    "MLXBackend": mlx.LAYOUT,
    "NativeBackend": native.LAYOUT,
    "TOSABackend": tosa.LAYOUT,
    "VulkanBackend": vulkan.LAYOUT,
    "XnnpackBackend": xnnpack.LAYOUT,
}
"""Layouts of the payloads that are FlatBuffers."""
NUMBERS = (0, 1, -1, 2, 3, 5, 127, 255, 1 << 30, -(1 << 31), (1 << 31) - 1)
Place: TypeAlias = "tuple[Any, Any]"
"""A list or dictionary, and an index or key."""


def places(values: Any) -> Iterator[Place]:
    """Yield the places of all values in nested lists and dictionaries."""
    for key in list(values) if isinstance(values, dict) else range(len(values)):
        yield values, key
        if isinstance(values[key], (dict, list)):
            yield from places(values[key])


def change(draw: random.Random, root: Any) -> None:
    """Change one value: another number or text, an item or field removed, repeated or moved."""
    owner, key = draw.choice([*places(root)])
    value = owner[key]
    if isinstance(value, int):
        near = (value + 1, value - 1, value ^ 1 << draw.randrange(8), draw.randrange(16))
        owner[key] = draw.choice([*near, *NUMBERS])
    elif isinstance(value, str) and draw.random() < 0.5:
        owner[key] = draw.choice(["", value + "x", value[:-1], "x" * 200, "é"])
    elif isinstance(value, list) and value and not isinstance(value[0], str):
        at = draw.randrange(len(value))
        action = draw.randrange(4)
        if action == 0:
            del value[at]
        elif action == 1:
            value.insert(at, value[draw.randrange(len(value))])
        elif action == 2:
            owner[key] = []
        else:
            other = draw.randrange(len(value))
            value[at], value[other] = value[other], value[at]
    elif isinstance(owner, dict):
        del owner[key]


def changed(draw: random.Random) -> Callable[[Any], None]:
    """Return a function that changes one to three values of tables."""
    count = draw.choice((1, 1, 2, 3))

    def apply(root: Any) -> None:
        for _ in range(count):
            change(draw, root)

    return apply


def damaged_bytes(draw: random.Random, data: bytes) -> bytes:
    """Return bytes with some changed, most of them near an end."""
    result = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4))):
        span = min(len(data), 1 << draw.randrange(6, 24))
        at = draw.randrange(span) if draw.random() < 0.5 else len(data) - 1 - draw.randrange(span)
        if draw.random() < 0.5 or at + 4 > len(data):
            result[at] = draw.choice((0, 1, 255, result[at] ^ 1 << draw.randrange(8)))
        else:
            at -= at % 4
            struct.pack_into("<i", result, at, draw.choice(NUMBERS))
    return bytes(result)


def damaged(draw: random.Random, data: bytes) -> bytes:
    """Return a damaged program.

    Raises TypeError, ValueError or struct.error for values that the writer refuses.
    """
    tables = ProgramTables(data, "forward")
    delegates = tables.plan.get("delegates", [])
    kind = draw.randrange(4) if delegates else draw.choice((0, 3))
    if kind == 0:
        changed(draw)(tables.root)
    elif kind == 3:
        return damaged_bytes(draw, data)
    else:
        number = draw.randrange(len(delegates))
        payload = tables.payload(number)
        layout = LAYOUTS.get(delegates[number]["id"])
        if layout is None or kind == 1:
            tables.set_payload(number, damaged_bytes(draw, payload))
        else:
            tables.set_payload(number, layout.change(payload, changed(draw)))
    return tables.write()
