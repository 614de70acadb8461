"""Finds installed backends: entry points of the group "executorch_c.backends".

An entry point names an extension module, or an object of one: a capsule named
"executorch_c.backend", a sequence of capsules, or a function that returns either. A module is
asked for its attribute `backends`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib.metadata import entry_points
from threading import RLock
from types import ModuleType

from executorch_c._core import register_backend

GROUP = "executorch_c.backends"


def capsules(found: object) -> Iterator[object]:
    """The capsules that what an entry point names stands for."""
    if isinstance(found, ModuleType):
        found = found.backends
    if callable(found):
        found = found()
    if isinstance(found, (list, tuple)):
        yield from found
    else:
        yield found


_lock = RLock()
_looked: list[str] = []
"""The group, once its entry points are being or have been loaded."""


def discover() -> None:
    """Registers the backends of all entry points, once; a broken one is a warning, no error."""
    with _lock:
        if _looked:
            return
        _looked.append(GROUP)
        for entry in entry_points(group=GROUP):
            try:
                for capsule in capsules(entry.load()):
                    register_backend(capsule)
            except Exception as error:
                warnings.warn(
                    f"backend '{entry.name}' ({entry.value}) cannot be used: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )
