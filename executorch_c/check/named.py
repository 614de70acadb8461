"""PyTorch models by the name of the function that makes them: "file.py:function"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from executorch_c import _functions
from executorch_c._stages import stage


def find(text: str) -> Callable[[], Any]:
    """Return the function that "module:function" names. Raises ValueError, OSError, and what the
    module raises, with its stage."""
    return _functions.find(text, partial(stage, "make"))


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
