"""A griffe extension: objects of the extension module get their docstrings from C.

The stub `_core.pyi` has the types, but only the first lines of docstrings.
"""

from __future__ import annotations

import inspect
from typing import Any

import griffe

CORE = "executorch_c._core."


class CDocstrings(griffe.Extension):
    """Replaces docstrings of the stub."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Replace the docstring of an object by its runtime docstring, if it has one."""
        if not obj.path.startswith(CORE) or obj.docstring is None:
            return
        from executorch_c import _core

        target: Any = _core
        for name in obj.path[len(CORE) :].split("."):
            target = getattr(target, name, None)
        if text := inspect.getdoc(target):
            obj.docstring.value = text
