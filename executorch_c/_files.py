"""Files of programs: their kind, and errors that name them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from executorch_c._core import Error
from executorch_c._paths import reading

BUNDLED = b"BP08"
"""Identifier of a .bpte, at byte 4."""
PACKAGE = b"PK\3\4"
"""First bytes of a .ptn."""


def _head(source: object) -> bytes:
    """Return the first 8 bytes of a file or buffer; empty if they cannot be read twice."""
    if isinstance(source, (str, os.PathLike)):
        with reading(source) as file:
            return file.read(8)
    if hasattr(source, "read"):
        stream = cast(Any, source)
        if not stream.seekable():
            return b""
        start = stream.tell()
        head = stream.read(8)
        stream.seek(start)
        return bytes(head)
    try:
        return bytes(memoryview(cast(bytes, source)).cast("B")[:8])
    except TypeError:
        return b""


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
            name, message = os.fspath(source), str(error.args[0])
            if str(name) not in message:
                error.args = (f"{name}: {message}", *error.args[1:])
        raise
