"""FlatBuffers of payloads behind their headers: XNNPACK's, Vulkan's and MLX's."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from executorch_c import _flatbuffers

Graph: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Layout:
    """Payloads of a backend."""

    tables: _flatbuffers.Tables
    """What a change of outputs needs."""
    root: str
    magic: bytes = b""
    """Of the header, after four zeros."""
    added: _flatbuffers.Tables = field(default_factory=dict)
    """Tables that a change adds, and those inside them."""

    def _parts(self, payload: bytes) -> tuple[bool, bytes, bytes]:
        has_header = bool(self.magic) and payload[4:8] == self.magic
        return (has_header, *(split(payload) if has_header else (payload, b"")))

    def read(self, payload: bytes) -> Graph:
        """Return the graph of a payload.

        Raises ValueError for one with fields that the tables do not have.
        """
        flat = self._parts(payload)[1]
        return _flatbuffers.read(flat, self.tables, self.root, is_complete=True)

    def change(self, payload: bytes, change: Callable[[Graph], None]) -> bytes:
        """Return the payload with a changed graph.

        Raises ValueError for a graph with fields that the tables do not have.
        """
        has_header, flat, behind = self._parts(payload)
        graph = self.read(payload)
        change(graph)
        identifier = None if self.magic == MLX else flat[4:8]
        result = _flatbuffers.write(
            graph,
            {**self.tables, **self.added},
            self.root,
            "payloads",
            identifier=identifier,
            kept=flat,
            size=len(flat) + 4096,
        )
        return joined(self.magic, result, behind) if has_header else result


MLX = b"MLX0"
MLX_HEADER, HEADER, ALIGNED_HEADER, ALIGNMENT = 24, 30, 32, 16


def split(payload: bytes) -> tuple[bytes, bytes]:
    """Return the graph of a payload with a header, and the constants behind it."""
    if payload[4:8] == MLX:
        end = struct.unpack_from("<Q", payload, 8)[0]
        return payload[MLX_HEADER:end], payload[end:]
    start, size, behind, count = struct.unpack_from("<IIIQ", payload, 10)
    return payload[start : start + size], payload[behind : behind + count]


def joined(magic: bytes, flat: bytes, constants: bytes) -> bytes:
    """Return a payload with a header."""
    padded = flat + bytes(-len(flat) % ALIGNMENT)
    if magic == MLX:
        sizes = struct.pack("<QQ", MLX_HEADER + len(padded), len(constants))
        return bytes(4) + magic + sizes + padded
    at = ALIGNED_HEADER + len(padded)
    sizes = struct.pack("<HIIIQ", HEADER, ALIGNED_HEADER, len(flat), at, len(constants))
    return bytes(4) + magic + sizes + bytes(ALIGNED_HEADER - HEADER) + padded + constants
