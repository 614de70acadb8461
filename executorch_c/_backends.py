"""Discovery of installed plug-ins: entry points of the groups of backends and of operators.

An entry point names an extension module, or an object of one: a capsule (named
"executorch_c.backend" or "executorch_c.operators") or a class of a backend, a sequence of them, or
a function that returns either. A module is asked for its attribute `backends` or `operators`.

Most programs need XNNPACK only, so the other plug-ins of this package are loaded when a program
names what is still missing, or when a list is wanted (csrc/python/method_type.c). They take no
kernel calls, and no other plug-in waits.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from threading import RLock
from types import ModuleType

from executorch_c import _log
from executorch_c import register_backend
from executorch_c._core import register_operators
from executorch_c._entry_points import EntryPoint, entry_points

GROUPS: dict[str, Callable[[object], object]] = {
    "backends": register_backend,
    "operators": register_operators,
}
"""Functions that register plug-ins, by group: "executorch_c." and the name."""


def capsules(source: object, name: str) -> Iterator[object]:
    """Yield the capsules of the object that an entry point names."""
    if isinstance(source, ModuleType):
        source = getattr(source, name)
    if callable(source) and not hasattr(source, "execute"):
        source = source()
    if isinstance(source, (list, tuple)):
        yield from source
    else:
        yield source


def left_out(entry: EntryPoint, error: Exception) -> bool:
    """Return True if an entry point belongs to an extension that the build skipped on request."""
    ours = entry.module.startswith("executorch_c._")
    return ours and isinstance(error, ModuleNotFoundError) and error.name == entry.module


FIRST = "executorch_c._backend_xnnpack"
"""The plug-in of this package that does not wait."""

_lock = RLock()
_looked: list[str] = []
"""Stages that are running or have run: "first", "rest"."""
_waiting: dict[str, list[EntryPoint]] = {}
"""Entry points of the stage "rest", by group."""


def _after_fork() -> None:
    """Reset a search that another thread was running at the fork: the child does not have that
    thread."""
    global _lock
    if not _lock.acquire(blocking=False):
        _looked.clear()
        _waiting.clear()
        _lock = RLock()
        return
    _lock.release()


os.register_at_fork(after_in_child=_after_fork)


def _waits(entry: EntryPoint) -> bool:
    """Return True if an entry point belongs to the stage "rest"."""
    return entry.module.startswith("executorch_c._") and entry.module != FIRST


def _register(name: str, entry: EntryPoint) -> None:
    """Register the plug-ins of an entry point of a group."""
    try:
        for capsule in capsules(entry.load(), name):
            GROUPS[name](capsule)
        _log.debug("plug-in of %s '%s' (%s) is registered", name, entry.name, entry.value)
    except Exception as error:
        if left_out(entry, error):
            _log.debug("'%s' was excluded from the build", entry.name)
            return
        text = f"{name[:-1]} '{entry.name}' ({entry.value}) cannot be used: {error}"
        _log.error("%s", text)
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def discover_first() -> None:
    """Register XNNPACK and the plug-ins of other packages, once."""
    with _lock:
        if _looked:
            return
        _looked.append("first")
        entries = entry_points(*(f"executorch_c.{name}" for name in GROUPS))
        _waiting.update({n: [e for e in entries[f"executorch_c.{n}"] if _waits(e)] for n in GROUPS})
        for name in GROUPS:
            for entry in entries[f"executorch_c.{name}"]:
                if not _waits(entry):
                    _register(name, entry)


def discover() -> None:
    """Register the plug-ins of all entry points, once. A broken plug-in is a warning, not an
    error."""
    with _lock:
        discover_first()
        if "rest" in _looked:
            return
        _looked.append("rest")
        for name, entries in _waiting.items():
            for entry in entries:
                _register(name, entry)
