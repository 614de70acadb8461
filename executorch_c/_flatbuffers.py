"""Helpers to write FlatBuffers with the package `flatbuffers` (extra `devtools`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from executorch_c import _extras


def builder(size: int, what: str) -> Any:
    """A flatbuffers.Builder that has room for `size` bytes at first.

    Raises ImportError where the package is missing; `what` is what needs it.
    """
    return _extras.load(f"writing {what}", "flatbuffers").Builder(size)


def offsets(builder: Any, items: Sequence[int]) -> int:
    """Return a vector of these offsets."""
    builder.StartVector(4, len(items), 4)
    for offset in reversed(items):
        builder.PrependUOffsetTRelative(offset)
    vector: int = builder.EndVector()
    return vector
