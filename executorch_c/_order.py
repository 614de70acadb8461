"""The order of arguments of functions that compare a model with a program: the model first."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def model_first(function: Callable[P, R]) -> Callable[P, R]:
    """Raise a TypeError with the order of arguments for a third one without a name."""

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        if len(args) > 2:
            name = function.__name__
            raise TypeError(f"{name}: pass the model first: {name}(model, inputs, program=program)")
        return function(*args, **options)

    return checked
