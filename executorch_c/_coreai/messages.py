"""Messages between this process and the engine's: a header in JSON, and arrays as raw bytes."""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from typing import Any

import numpy as np

MAX_HEADER_BYTES = 1 << 24
MAX_ARRAY_BYTES = 1 << 32
"""Maximum size of all arrays of a message."""
MAX_PART_BYTES = 1 << 20
"""Maximum number of bytes of one read."""
MAX_RANK = 16
DTYPES = (
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 bfloat16"
).split()


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a name in DTYPES."""
    if name == "bfloat16":
        import ml_dtypes  # noqa: F401  registers it
    return np.dtype(name)


def send(to: socket.socket, header: dict[str, Any], arrays: list[np.ndarray]) -> None:
    """Write a message. The socket's timeout is that of the whole message."""
    rows = [[array.dtype.name, list(array.shape)] for array in arrays]
    text = json.dumps({**header, "arrays": rows}).encode()
    to.sendall(struct.pack("<I", len(text)) + text)
    for array in arrays:
        if array.nbytes:
            to.sendall(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def receive(
    source: socket.socket, deadline: float | None = None
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the header and the arrays of the next message.

    Raises EOFError at the end, TimeoutError at a time of time.monotonic, and ValueError for a
    malformed message.
    """
    (size,) = struct.unpack("<I", _bytes(source, 4, deadline))
    if size > MAX_HEADER_BYTES:
        raise ValueError(f"a header of {size:,} bytes")
    header = parsed(bytes(_bytes(source, size, deadline)))
    rows = header.pop("arrays", None)
    if not isinstance(rows, list):
        raise ValueError(f"'arrays' is {shown(rows)}, expected a list")
    types = [_array_type(row) for row in rows]
    total = sum(dtype.itemsize * math.prod(shape) for dtype, shape in types)
    if total > MAX_ARRAY_BYTES:
        raise ValueError(f"arrays of {total:,} bytes, expected at most {MAX_ARRAY_BYTES:,}")
    arrays = []
    for dtype, shape in types:
        data = _bytes(source, dtype.itemsize * math.prod(shape), deadline)
        arrays.append(np.frombuffer(data, np.uint8).view(dtype).reshape(shape))
    return header, arrays


def parsed(text: bytes) -> dict[str, Any]:
    """Return a header of JSON. Raises ValueError."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a header that is not JSON: {str(error)[:100]}") from error
    if not isinstance(header, dict):
        raise ValueError(f"a header that is {shown(header)}, expected an object")
    return header


def shown(value: object) -> str:
    """Return a short text of a value of JSON."""
    text = ascii(value)
    return text if len(text) < 80 else f"{text[:80]}..."


def _array_type(row: object) -> tuple[np.dtype[Any], list[int]]:
    """Return the dtype and the shape of an array of a header. Raises ValueError."""
    name, shape = row if isinstance(row, list) and len(row) == 2 else (None, None)
    if not isinstance(name, str) or name not in DTYPES:
        raise ValueError(f"an array {shown(row)}, expected a dtype and a shape")
    if not isinstance(shape, list) or len(shape) > MAX_RANK:
        raise ValueError(f"an array of shape {shown(shape)}, expected at most {MAX_RANK} sizes")
    if not all(type(size) is int and 0 <= size <= MAX_ARRAY_BYTES for size in shape):
        raise ValueError(f"an array of shape {shown(shape)}")
    return dtype_of(name), shape


def _bytes(source: socket.socket, size: int, deadline: float | None) -> bytearray:
    """Return the next bytes; memory grows with what has arrived."""
    data = bytearray()
    while len(data) < size:
        if deadline is not None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            source.settimeout(remaining)
        part = source.recv(min(size - len(data), MAX_PART_BYTES))
        if not part:
            raise EOFError
        data += part
    return data
