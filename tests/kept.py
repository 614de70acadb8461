"""The cache of the tests: files that are made once, whatever processes want them at a time.

A name must say all that the content depends on (`digest`), so that no file is ever out of date.
"""

import contextlib
import fcntl
import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any


def folder() -> Path:
    """Return the folder of the cache, made on first use."""
    default = Path(__file__).parent / ".cache"
    path = Path(os.environ.get("EXECUTORCH_C_TEST_CACHE") or default).absolute()
    path.mkdir(parents=True, exist_ok=True)
    ignore = path / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return path


def digest(*parts: object, packages: tuple[str, ...] = ()) -> str:
    """Return a digest of files (a Path: its content), of other objects (their `repr`) and of the
    versions of packages."""
    result = hashlib.sha256(repr([version(name) for name in packages]).encode())
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else repr(part).encode()
        result.update(hashlib.sha256(data).digest())
    return result.hexdigest()[:12]


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Keep other processes out that lock the same name."""
    locks = folder() / "locks"
    locks.mkdir(exist_ok=True)
    with open(locks / name, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def file(name: str, write: Callable[[Path], object]) -> Path:
    """Return the path of a file, or folder, which `write` makes at the path that it is given.

    One process makes it, others wait: an export takes seconds of all cores.
    """
    path = folder() / name
    if not path.exists():
        with locked(name.replace("/", "-")):
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(dir=path.parent, prefix="part-") as work:
                    part = Path(work, path.name)
                    write(part)
                    part.replace(path)
    return path


def data(name: str, make: Callable[[], bytes]) -> bytes:
    """Return the content of a file, which `make` returns the first time."""
    return file(name, lambda path: path.write_bytes(make())).read_bytes()


def pickled(name: str, make: Callable[[], Any]) -> Any:
    """Return an object from its pickle; `make` returns it the first time."""
    return pickle.loads(data(f"{name}.pickle", lambda: pickle.dumps(make())))
