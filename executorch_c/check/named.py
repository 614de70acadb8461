"""PyTorch models by the name of the function that makes them: "file.py:function"."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from executorch_c._render.text import did_you_mean
from executorch_c._stages import stage


def parts_of(text: str) -> tuple[str, str]:
    """Return module and function of "module:function". Raises ValueError."""
    place, _, name = text.rpartition(":")
    if not place or not name:
        hint = f": add the function, {text}:make" if text.endswith(".py") else ""
        raise ValueError(f"'{text}' is not module:function{hint}")
    return place, name


def _load(path: str) -> Any:
    """Import a file as a module."""
    spec = importlib.util.spec_from_file_location("executorch_c_checked", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    os.stat(path)  # a missing file is an error before the stage
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    with stage("make"):
        spec.loader.exec_module(module)
    return module


def _import(place: str) -> Any:
    """Import a module by its name."""
    sys.path.insert(0, os.getcwd())
    try:
        with stage("make"):
            return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and place.startswith(error.name):
            raise ValueError(f"no module named '{place}'") from None
        raise


def find(text: str) -> Callable[[], Any]:
    """Return the function that "module:function" names. Raises ValueError, OSError, and what the
    module raises."""
    place, name = parts_of(text)
    module = _load(place) if place.endswith(".py") else _import(place)
    attribute = getattr(module, name, None)
    if not callable(attribute):
        functions = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        hint = did_you_mean(name, functions)
        raise ValueError(f"{place} has no function '{name}'{hint}")
    function: Callable[[], Any] = attribute
    return function


def model_and_inputs(text: str) -> tuple[Any, Sequence[Any] | Any | None, dict[str, Any]]:
    """Return the model, its example inputs (or None), and additional arguments of check_model.

    Raises ValueError if the function returns another type.
    """
    function = find(text)
    with stage("make"):
        result = function()
    parts = result if isinstance(result, tuple) else (result,)
    if len(parts) not in (1, 2, 3) or parts[0] is None:
        raise ValueError(
            f"{text} returns a {type(result).__name__}, expected (model, example_inputs), (model, "
            "example_inputs, arguments of check_model) or the model"
        )
    model, example, more = (*parts, None, None)[:3]
    return model, example, dict(more) if more else {}
