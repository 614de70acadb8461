"""Messages between this process and the engine's: a header in JSON, and arrays as raw bytes."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

import numpy as np

MAX_HEADER_BYTES = 1 << 24
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
    header = json.loads(bytes(_bytes(source, size, deadline)))
    arrays = []
    for name, shape in header.pop("arrays"):
        if name not in DTYPES or len(shape) > MAX_RANK or not all(0 <= n < 1 << 40 for n in shape):
            raise ValueError(f"an array of dtype {name!r}, shape {shape}")
        dtype, count = dtype_of(name), 1
        for n in shape:
            count *= n
        if count >= 1 << 40:
            raise ValueError(f"an array of shape {shape}")
        data = _bytes(source, count * dtype.itemsize, deadline)
        arrays.append(np.frombuffer(data, np.uint8).view(dtype).reshape(shape))
    return header, arrays


def _bytes(source: socket.socket, size: int, deadline: float | None) -> bytearray:
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        if deadline is not None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            source.settimeout(remaining)
        count = source.recv_into(view[at:])
        if not count:
            raise EOFError
        at += count
    return data
