"""Functions by name: "file.py:function", "module:function"."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeAlias

from executorch_c._render.text import did_you_mean

Around: TypeAlias = "Callable[[], AbstractContextManager[object]]"


def parts_of(text: str) -> tuple[str, str]:
    """Return module and function of "module:function". Raises ValueError."""
    place, _, name = text.rpartition(":")
    if not place or not name:
        hint = f": add the function, {text}:make" if text.endswith(".py") else ""
        raise ValueError(f"'{text}' is not module:function{hint}")
    return place, name


def _load(path: str, around: Around) -> Any:
    """Import a file as a module."""
    spec = importlib.util.spec_from_file_location(f"executorch_c_checked_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    os.stat(path)  # a missing file is an error outside of `around`
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    with around():
        spec.loader.exec_module(module)
    return module


def _import(place: str, around: Around) -> Any:
    """Import a module by its name."""
    sys.path.insert(0, os.getcwd())
    try:
        with around():
            return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and place.startswith(error.name):
            raise ValueError(f"no module named '{place}'") from None
        raise


def find(text: str, around: Around = nullcontext) -> Callable[..., Any]:
    """Return the function that "module:function" names. Raises ValueError, OSError, and what the
    module raises.

    Args:
        around: Makes the context in which the module runs.
    """
    place, name = parts_of(text)
    module = _load(place, around) if place.endswith(".py") else _import(place, around)
    attribute = getattr(module, name, None)
    if not callable(attribute):
        functions = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        hint = did_you_mean(name, functions)
        raise ValueError(f"{place} has no function '{name}'{hint}")
    function: Callable[..., Any] = attribute
    return function
