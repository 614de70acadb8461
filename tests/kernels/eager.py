"""torch eager as the oracle of single operators.

A sample is the list of an operator's arguments in schema order without its outputs. Arrays stand
for tensors (their strides are their layout), `DType` for a ScalarType.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch

from tests.dtypes import FLOAT8, dtype_id, np_dtype
from tests.kernels import llm_forms

INTS = ["uint8", "int8", "int16", "int32", "int64"]  # dtypes of eager's heavier operators
INTEGRAL = [*INTS, "uint16", "uint32", "uint64"]
HALVES = ["float16", "bfloat16"]
FLOATING = [*HALVES, "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
REALB = [*INTEGRAL, *FLOATING, "bool"]
ALL = [*REALB, *COMPLEX]
WIDE_UNSIGNED = ["uint16", "uint32", "uint64"]  # eager lacks many kernels for them


Samples = Callable[[np.random.Generator, str], Iterator[list]]
"""A function that yields an operator's arguments for a dtype."""


class DType(str):
    """A dtype as an argument of type ScalarType."""


def array(rng: np.random.Generator, shape: Any, dtype: str, order: Any = None) -> np.ndarray:
    """Return random elements: small integers, so that sums of any dtype are far from overflow.
    `order` lists the dimensions from the outermost in memory."""
    shape = tuple(shape)
    if dtype == "bool":
        a = rng.random(shape) < 0.5
    elif "int" in dtype:
        a = rng.integers(0 if dtype[0] == "u" else -9, 10, shape)
    else:
        a = rng.standard_normal(shape)
        if dtype in COMPLEX:
            a = a + 1j * rng.standard_normal(shape)
    a = np.asarray(a).astype(np_dtype(dtype))
    if order is not None:
        a = in_order(a, order)
    return a


def with_nan(rng: np.random.Generator, a: np.ndarray, share: float = 0.1) -> np.ndarray:
    """Return a copy with some NaN, if the dtype has them."""
    a = a.copy(order="K")
    if a.dtype.kind not in "iub" and a.size:
        a[rng.random(a.shape) < share] = np.nan
    return a


def in_order(a: np.ndarray, order: Any) -> np.ndarray:
    """Return a copy whose dimensions have this order in memory, from the outermost."""
    return np.ascontiguousarray(a.transpose(order)).transpose(np.argsort(order))


def of_self(*cases: tuple[Sequence[int], Sequence[int] | None, list]) -> Samples:
    """Return a sample function: self of a shape and memory order, followed by the other
    arguments."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape, order, rest in cases:
            yield [array(rng, shape, dtype, order), *rest]

    return samples


def fixed(*cases: Iterable) -> Samples:
    """Return a sample function: the same arguments, without tensors, for every dtype."""
    every = [list(case) for case in cases]
    return lambda rng, dtype: iter(every)


def to_torch(a: Any) -> Any:
    if isinstance(a, np.ndarray):
        if a.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16)
        if a.dtype.name in FLOAT8:
            return torch.from_numpy(a.view(np.uint8)).view(getattr(torch, a.dtype.name))
        return torch.from_numpy(a)
    if isinstance(a, DType):
        return getattr(torch, a)
    return [to_torch(x) for x in a] if isinstance(a, list) else a


def to_numpy(t: torch.Tensor) -> np.ndarray:
    if t.dtype == torch.bfloat16:
        return t.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    name = str(t.dtype).removeprefix("torch.")
    if name in FLOAT8:
        return t.view(torch.uint8).numpy().view(np_dtype(name))
    return t.numpy()


FUNCTIONAL = {
    "arange.start_out": "arange.start_step",  # start's third argument is a dtype
    "empty.out": "empty.memory_format",
    "index_put_": "index_put.default",
}


@functools.cache
def functional(name: str) -> Any:
    """Return torch's functional operator of the out form `aten::...`: the overload with its
    argument types, or of its name."""
    if name.startswith("quantized_decomposed::"):
        from tests.kernels import quantized_forms

        return quantized_forms.functional(name)
    name = name.removeprefix("aten::")
    packet, _, overload = FUNCTIONAL.get(name, name).partition(".")
    forms = getattr(torch.ops.aten, packet)
    arguments = getattr(forms, overload or "default")._schema.arguments
    wanted = [str(a.type) for a in arguments if not a.is_out]
    for other in forms.overloads():
        op = getattr(forms, other)
        if [str(a.type) for a in op._schema.arguments] == wanted and not op._schema.is_mutable:
            return op
    return getattr(forms, overload.removesuffix("out").removesuffix("_") or "default")


def called(name: str, values: list[Any], **keywords: Any) -> list[Any]:
    """Return the results of torch's functional operator for arguments of torch's types."""
    op = functional(name)
    specs = list(zip(op._schema.arguments, values, strict=False))
    positional = [value for spec, value in specs if not spec.kwarg_only]
    keywords |= {spec.name: value for spec, value in specs if spec.kwarg_only}
    result = op(*positional, **keywords)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def eager(name: str, args: list) -> list[np.ndarray]:
    if name.startswith(llm_forms.SPACES):
        return [to_numpy(t) for t in llm_forms.results(name, [to_torch(a) for a in args])]
    results = called(name, [to_torch(a) for a in args])
    if name == "aten::convolution_backward.out":  # oneDNN ignores output_mask
        results = [r if wanted else None for r, wanted in zip(results, args[-1], strict=True)]
    # The exporter writes an empty byte tensor for a None output.
    return [np.zeros(0, np.uint8) if t is None else to_numpy(t.resolve_conj()) for t in results]


def spectrum(name: str, args: list[Any]) -> np.ndarray:
    """Return the result of the transform, computed by NumPy in extended precision and rounded once:
    eager's library loses 8 to 11 bits of float64 for lengths with factors like 67 and 73 on CPUs
    with AVX-512."""
    a, dims, normalization, last = args
    if not a.size or not dims:
        return eager(name, args)[0]
    wide = a.astype(np.clongdouble if np.iscomplexobj(a) else np.longdouble)
    sizes = [a.shape[dim] for dim in dims]
    if name == "aten::_fft_c2r.out":
        sizes[-1] = last
        result = np.fft.irfftn(wide, s=sizes, axes=dims, norm="forward")
    elif name == "aten::_fft_c2c.out" and not last:
        result = np.fft.ifftn(wide, axes=dims, norm="forward")
    else:
        one_sided = name == "aten::_fft_r2c.out" and last
        result = (np.fft.rfftn if one_sided else np.fft.fftn)(wide, axes=dims)
    count = np.longdouble(np.prod(sizes))
    result = result / [np.longdouble(1), np.sqrt(count), count][normalization]
    is_complex = np.iscomplexobj(result)
    return result.astype(np.result_type(a.dtype, np.complex64) if is_complex else a.real.dtype)


def ours(args: list) -> list:
    return [dtype_id(a) if isinstance(a, DType) else a for a in args]


def widened(a: Any) -> Any:
    half = isinstance(a, np.ndarray) and a.dtype.name in HALVES
    return np.asarray(a.astype(np.float32)) if half else a


def channels_last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)
