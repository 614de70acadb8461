"""Files of programs: their kind, and errors that name them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from executorch_c._core import Error, InvalidArgumentError
from executorch_c._names import visible
from executorch_c._paths import reading

if TYPE_CHECKING:
    from executorch_c._types import FilePath

BUNDLED = b"BP08"
"""Identifier of a .bpte, at byte 4."""
PACKAGE = b"PK\3\4"
"""First bytes of a .ptn."""
MAX_BYTES = 256 << 20
"""Bytes of a tokenizer's file."""
MAX_PARSED = 64 << 20
"""Bytes of a file that becomes Python objects, which take up to 25 times the memory."""


def read(path: FilePath, limit: int) -> bytes:
    """Return the bytes of a file. Raises InvalidArgumentError for a device, a pipe, and for a file
    of more than `limit` bytes; OSError."""
    with reading(path, os.O_NONBLOCK) as file:  # a pipe without a writer is refused, too
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise InvalidArgumentError(f"{path!s}: not a regular file")
        data = file.read(limit + 1) if info.st_size <= limit else b""
    if max(info.st_size, len(data)) > limit:
        raise InvalidArgumentError(
            f"{path!s}: {max(info.st_size, len(data)):,} bytes, expected at most {limit:,}"
        )
    return data


def _head(source: object) -> bytes:
    """Return the first 8 bytes of a file or buffer; empty if they cannot be read twice."""
    if isinstance(source, (str, os.PathLike)):
        with reading(source) as file:
            return file.read(8)
    with suppress(TypeError, BufferError):
        return bytes(memoryview(cast(bytes, source)).cast("B")[:8])
    stream = cast(Any, source)
    if not hasattr(source, "read") or not getattr(stream, "seekable", bool)():
        return b""
    start = stream.tell()
    head = stream.read(8)
    stream.seek(start)
    return bytes(head)


def is_bundled(source: object) -> bool:
    """Return True if a path, buffer or open file is a .bpte."""
    return _head(source)[4:8] == BUNDLED


def is_package(source: object) -> bool:
    """Return True if a path, buffer or open file is a zip archive: as a program, a .ptn."""
    return _head(source).startswith(PACKAGE)


def is_readable(source: object) -> bool:
    """Return True if the head of a file is readable. For other paths, the loader raises the
    error."""
    return not isinstance(source, (str, os.PathLike)) or os.path.isfile(source)


@contextmanager
def named_after(source: object) -> Iterator[None]:
    """Prefix runtime errors with the path of a source, unless they have it."""
    try:
        yield
    except Error as error:
        if isinstance(source, (str, os.PathLike)):
            name, message = visible(str(os.fspath(source))), str(error.args[0])
            if name not in message:
                error.args = (f"{name}: {message}", *error.args[1:])
        raise
