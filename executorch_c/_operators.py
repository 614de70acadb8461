"""Operators written in Python: executorch_c.register_operator."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, overload

from executorch_c import _core

F = TypeVar("F", bound=Callable[..., object])


@overload
def register_operator(schema: str, fn: F, *, override: bool = False) -> F: ...


@overload
def register_operator(
    schema: str, fn: None = None, *, override: bool = False
) -> Callable[[F], F]: ...


def register_operator(
    schema: str, fn: F | None = None, *, override: bool = False
) -> F | Callable[[F], F]:
    """Makes a function on NumPy arrays an operator that programs can call.

        @register_operator("ns::scale.out(Tensor x, float alpha, *, Tensor(a!) out) -> Tensor(a!)")
        def scale(x, alpha):
            return x * np.float32(alpha)

    Args:
        schema: That of the out variant, as `torch.ops.ns.scale.out._schema` prints it.
        fn: The function; it is returned. Left out: a decorator.
        override: Take the place of an operator of the same name and arguments, a built-in one
            (but for `executorch_prim::`) or one that was registered before, until this one is
            unregistered. Without it that is an AlreadyRegisteredError.

    The function is called with the arguments of the schema in order, keyword-only ones by name.
    A Tensor is an array, read-only unless the schema says that it is written (`Tensor(a!) x`); a
    list is a list; int, float, bool, str and None are themselves, a Scalar is what the program
    has; a ScalarType is a numpy.dtype, a MemoryFormat or Layout torch's number.

    Results: the function returns an array for each `out` argument, several as a tuple. Each must
    have the planned dtype and shape, or a shape within the bound where the program lets shapes
    change; NumPy scalars and what has __dlpack__ are arrays, too. A function with parameters named
    as the `out` arguments gets these as writable arrays (zeros, as large as the output may be) and
    may return None for what it has written there.

    Arrays are the function's own: arguments and results are copied, so it may keep them. For large
    data, write the operator in C (executorch_c/operator.h).

    A method uses the operators that are registered when it is loaded, and keeps them whatever
    happens afterwards; load the program again to have others. The function is called with the GIL,
    perhaps by several threads at once; it may run other methods, not the one that calls it. What
    it raises is the `__cause__` of the Error of the call (of the same code, if it is an Error
    itself, else INTERNAL); what is no Exception (KeyboardInterrupt) comes through as it is.

    Raises InvalidArgumentError (a ValueError: the schema, with the character where it is not
    understood; no out variant; another schema than that of what is overridden),
    AlreadyRegisteredError, TypeError (a function with other parameters).
    """
    if fn is None:
        _core._parse_schema(schema)
        return partial(register_operator, schema, override=override)
    if not callable(fn):
        raise TypeError(f"fn must be callable, not {type(fn).__name__}")
    takes_outs = check_parameters(fn, *_core._parse_schema(schema))
    atexit.unregister(_core._unregister_all)  # functions do not outlive their interpreter
    atexit.register(_core._unregister_all)
    _core._register_operator(schema, fn, takes_outs, override)
    return fn


def check_parameters(
    fn: Callable[..., object],
    name: str,
    positional: Sequence[str],
    keywords: Sequence[str],
    outs: Sequence[str],
) -> bool:
    """Whether the function takes the `out` arguments; TypeError where it cannot be called."""
    from inspect import signature  # only here: it costs more than the rest of the package

    try:
        parameters = signature(fn)
    except (TypeError, ValueError):  # some functions written in C have none
        return False
    taken = [out for out in outs if out in parameters.parameters]
    try:
        if taken and len(taken) < len(outs):
            missing = ", ".join(repr(out) for out in outs if out not in taken)
            raise TypeError(f"it takes '{taken[0]}' but not {missing}: all outs, or none of them")
        parameters.bind(*positional, **dict.fromkeys([*keywords, *taken]))
    except TypeError as error:
        shown = ", ".join([*positional, *(["*"] if keywords else []), *keywords])
        raise TypeError(
            f"{getattr(fn, '__name__', fn)}{parameters} cannot be called with the arguments of "
            f"{name}, ({shown}): {error}"
        ) from None
    return bool(taken)
