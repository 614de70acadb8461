"""The Python part of executorch_c.register_operator: it checks the schema and the function."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from inspect import signature
from typing import TypeVar

from executorch_c import _core, _log

F = TypeVar("F", bound=Callable[..., object])

atexit.register(_core._unregister_all)  # functions must not outlive their interpreter


def register(schema: str, fn: F, *, override: bool) -> F:
    """Register a function whose parameters fit the schema, and return it."""
    parts = _core._parse_schema(schema)
    if not callable(fn):
        raise TypeError(f"`fn` must be callable, not {type(fn).__name__}")
    _core._register_operator(schema, fn, check_parameters(fn, *parts), override)
    name = getattr(fn, "__qualname__", repr(fn))
    if override:
        _log.info("operator %s is now %s, in methods loaded from now on", parts[0], name)
    else:
        _log.debug("operator %s is %s", parts[0], name)
    return fn


def check_schema(schema: str) -> None:
    """Raise InvalidArgumentError for a wrong schema, TypeError for another object."""
    _core._parse_schema(schema)


def check_parameters(
    fn: Callable[..., object],
    name: str,
    positional: Sequence[str],
    keywords: Sequence[str],
    outs: Sequence[str],
) -> bool:
    """Return True if the function takes the `out` arguments. Raises TypeError for other
    parameters."""
    try:
        parameters = signature(fn)
    except (TypeError, ValueError):  # some C functions have no signature
        return False
    taken = [out for out in outs if out in parameters.parameters]
    try:
        if taken and len(taken) < len(outs):
            missing = ", ".join(repr(out) for out in outs if out not in taken)
            raise TypeError(f"it takes '{taken[0]}' but not {missing}: expected all outs or none")
        parameters.bind(*positional, **dict.fromkeys([*keywords, *taken]))
    except TypeError as error:
        shown = ", ".join([*positional, *(["*"] if keywords else []), *keywords])
        raise TypeError(
            f"{getattr(fn, '__name__', fn)}{parameters} cannot be called with the arguments of "
            f"{name}, ({shown}): {error}"
        ) from None
    return bool(taken)
