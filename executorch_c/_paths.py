"""Files by their paths: errors have the path, and files are written whole or not at all.

A full disk or an interrupt leaves the file that was there before.
"""

from __future__ import annotations

import os
import stat
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from executorch_c._types import FilePath


class OwnedPath(str):
    """Path of a temporary file, which is removed with the last reference to the path."""

    @classmethod
    def new(cls, suffix: str) -> OwnedPath:
        """Return the path of a new, empty file."""
        handle, name = tempfile.mkstemp(suffix, "executorch_c-")
        os.close(handle)
        path = cls(name)
        weakref.finalize(path, _remove, name, os.getpid())
        return path


def _remove(name: str, owner: int) -> None:
    """Remove a file, but not in a fork of its owner."""
    if os.getpid() == owner:
        with suppress(OSError):
            os.remove(name)


@contextmanager
def reading(path: FilePath, flags: int = 0) -> Iterator[BinaryIO]:
    """Open a binary file, with more flags of os.open. Raises OSError with the path, also in the
    block."""
    with (
        _named(os.fspath(path)),
        open(path, "rb", opener=lambda name, mode: os.open(name, mode | flags)) as file,
    ):
        yield file


def read_bytes(path: FilePath) -> bytes:
    """Return the contents of a file."""
    with reading(path) as file:
        return file.read()


@contextmanager
def writing(path: FilePath, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file that replaces `path` at the end of the block, unless the block raises.

    A new file is written beside `path` and renamed. Devices, pipes and streams (`/dev/stdout`),
    and files of folders that cannot be written to, are opened as they are. Symbolic links and
    permissions stay.

    Args:
        mode: "w" for text in UTF-8, with line ends as they are, or "wb".

    Raises OSError with the name of `path`.
    """
    name = os.fspath(path)
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "")
    with _named(name):
        real = os.path.realpath(name)
        temporary, number = _opened_beside(real) if _is_replaceable(name) else (None, name)
        try:
            with open(number, mode, encoding=encoding, newline=newline) as file:
                yield file
            if temporary is not None:
                os.replace(temporary, real)
        except BaseException:
            if temporary is not None:
                with suppress(OSError):
                    os.unlink(temporary)
            raise


def write_text(path: FilePath, text: str) -> None:
    """Write a text file in UTF-8."""
    with writing(path) as file:
        file.write(text)


def write_bytes(path: FilePath, data: bytes | bytearray | memoryview) -> None:
    """Write a binary file."""
    with writing(path, "wb") as file:
        file.write(data)


def _is_replaceable(name: str) -> bool:
    """Return True unless a path is no regular file, or one that a stream has open."""
    absolute = os.path.abspath(name)
    if absolute.startswith(("/dev/", "/proc/")):
        return False
    return os.path.isfile(name) or not os.path.lexists(os.path.realpath(name))


def _opened_beside(path: str) -> tuple[str | None, int | str]:
    """Return the name and the descriptor of a new file in the folder of `path`; None and `path` if
    the folder allows none, but the file can be written to."""
    temporary = os.path.join(os.path.dirname(path), f".{os.urandom(8).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        number = os.open(temporary, flags, 0o666)
    except PermissionError:
        if os.access(path, os.W_OK):
            return None, path
        raise
    with suppress(OSError):
        os.fchmod(number, stat.S_IMODE(os.stat(path).st_mode))
    return temporary, number


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Put a file's name into errors that have none, or that of its temporary file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # UnsupportedOperation, which is a ValueError, too
            raise OSError(f"{name}: {error}") from None
        if error.filename is None or str(error.filename).endswith(".part"):
            raise type(error)(error.errno, error.strerror, name) from None
        raise
