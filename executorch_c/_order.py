"""The order of arguments: model, inputs, then the program by its name."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def model_first(function: Callable[P, R]) -> Callable[P, R]:
    """Raise a TypeError with the order of arguments for a third one without a name, and for no
    program where one is needed."""
    code = function.__code__
    is_needed = "program" not in (function.__kwdefaults__ or {})
    call = f"{function.__name__}({', '.join(code.co_varnames[:2])}, program=program)"

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        __tracebackhide__ = True  # pytest shows the line of the test
        if len(args) > 2 or (is_needed and "program" not in options):
            raise TypeError(f"pass `program` by its name: {call}")
        return function(*args, **options)

    return checked
