"""Every row of ops.def with samples: expected results, and programs that compute them.

The tests of the families examine single operators; this module treats all operators alike, for
tests of whole programs: one program per row, one method per sample, arrays as inputs of the method
and numbers as constants of the file; or calls of the kernel without a program (`called`).
"""

import functools
import importlib
import math
import operator
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests import op_harness
from tests.dtypes import dtype_id, np_dtype
from tests.judge import assert_equal
from tests.kernels import accuracy, decomp_check, llm_forms
from tests.kernels.eager import ALL, COMPLEX, FLOATING, INTS, WIDE_UNSIGNED, DType
from tests.kernels.eager import eager, spectrum, to_numpy, to_torch
from tests.kernels.samples_llm import CHANGED
from tests.plans import BOUNDED
from tests.single_op import Optionals, Out, SingleOps, Slot

SMALL = 130  # maximum number of elements of an array in a small sample
REFUSALS = (*accuracy.REFUSALS, ZeroDivisionError, AssertionError)
IN_PLACE = ("aten::copy_", "aten::index_put_", "aten::resize_")
LISTS = (
    "aten::split_copy.Tensor_out",
    "aten::split_with_sizes_copy.out",
    "aten::unbind_copy.int_out",
    "aten::_histogramdd_bin_edges.out",
)
UNFILLED = (
    "aten::empty.out",
    "aten::empty_permuted.out",
    "aten::empty_strided.out",
    "aten::new_empty_strided.out",
    "dim_order_ops::_empty_dim_order.out",
)
ROW = "executorch_prim::et_copy_index.tensor"
CREATED = (
    *"full.out zeros.out ones.out full_like.out fill.Scalar_out fill.Tensor_out".split(),
    *"scalar_tensor.out arange.out arange.start_out empty_permuted.out empty_strided.out".split(),
    *"new_empty_strided.out tril_indices.out triu_indices.out fft_fftfreq.out".split(),
    "fft_rfftfreq.out",
)
RANDOM_OUTS = (
    *"rand.out randn.out rand_like.out randn_like.out randint.out randint.low_out".split(),
    *"randint_like.out randint_like.low_dtype_out randperm.out normal.float_float_out".split(),
)

PYTHON: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(operator, name)
        for name in "add sub mul truediv floordiv mod eq gt ge lt le neg".split()
    },
    "sym_not": operator.not_,
    "sym_float": float,
    "sym_int": int,
    "trunc": math.trunc,
    "ceil": math.ceil,
    "round": round,
    "sym_ite": lambda b, t, f: t if b else f,
    "sym_max": lambda a, b: max(float(a), float(b)) if float in (type(a), type(b)) else max(a, b),
    "sym_min": lambda a, b: min(float(a), float(b)) if float in (type(a), type(b)) else min(a, b),
}

QUERIES = ("sym_stride.int", "sym_storage_offset", "sym_is_contiguous")


@functools.cache
def tables() -> dict[str, tuple[str, Callable[..., Iterator[list]]]]:
    """Return operator name -> family and samples(rng, dtype), from all samples_*.py."""
    results = {}
    for path in sorted(Path(__file__).parent.glob("samples_*.py")):
        for value in vars(importlib.import_module(f"tests.kernels.{path.stem}")).values():
            if isinstance(value, dict):
                family = path.stem.removeprefix("samples_")
                results |= {k: (family, v) for k, v in value.items() if "::" in str(k)}
    return results


def dtypes_of(name: str) -> list[str]:
    """Return every dtype, or one for operators on numbers."""
    numbers = name.startswith("executorch_prim::") and name.split("::")[1][:3] != "et_"
    return ["int64"] if numbers else ALL


def arrays(args: list) -> list[np.ndarray]:
    """Return the arrays among the arguments and in their lists."""
    results = []
    for a in args:
        results += arrays(a) if isinstance(a, list) else [a] if isinstance(a, np.ndarray) else []
    return results


def is_contiguous(args: list) -> bool:
    return all(a.flags.c_contiguous for a in arrays(args))


def spread(items: list, count: int) -> list:
    """Return `count` items at even distances, including the first and the last."""
    if len(items) <= count:
        return items
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]


def every_sample(name: str, dtype: str) -> list[list]:
    return list(tables()[name][1](np.random.default_rng(0), dtype))


def pick(name: str, dtype: str, count: int = 3, size_limit: int = SMALL) -> list[list]:
    """Return some small samples, contiguous and, if there are any, of other layouts; for operators
    on numbers, all samples."""
    every = every_sample(name, dtype)
    if dtypes_of(name) != ALL:
        return every
    size = [max((a.size for a in arrays(args)), default=0) for args in every]
    full = [n for args, n in zip(every, size, strict=True) if all(a.size for a in arrays(args))]
    limit = max(size_limit, min(full, default=0))
    small = [args for args, n in zip(every, size, strict=True) if n <= limit]
    plain = [args for args in small if is_contiguous(args)]
    other = [args for args in small if not is_contiguous(args)]
    return spread(plain, count) + spread(other, max(2, count // 2))


def number(name: str, args: list) -> Any:
    """Return the expected result of a prim operator on numbers; integers wrap, rounding
    saturates."""
    op = PYTHON[name.split("::")[1].split(".")[0]]
    doubles = op is operator.truediv or float in map(type, args)
    if op in (operator.truediv, operator.floordiv, operator.mod) and doubles and args[1] == 0:
        a = float(args[0])  # Python raises; this follows the official runtime and IEEE
        return math.nan if a == 0 or op is operator.mod else math.copysign(math.inf, a)
    value = op(*args)
    if op in (int, math.trunc, math.ceil, round) and abs(value) >= 2**63:
        return 2**63 - 1 if value > 0 else -(2**63)
    if type(value) is bool and op in (operator.neg, PYTHON["sym_max"], PYTHON["sym_min"]):
        value = int(value)
    return (value + 2**63) % 2**64 - 2**63 if type(value) is int else value


def created(name: str, args: list, dtype: str) -> list[np.ndarray]:
    """Return the result of eager's out= form, because the dtype is the output's."""
    packet, overload = name.removeprefix("aten::").split(".")
    op = getattr(getattr(torch.ops.aten, packet), overload)
    named = {s.name: v for s, v in zip(op._schema.arguments, args, strict=False) if s.kwarg_only}
    values = [to_torch(a) for a in args[: len(args) - len(named)]]
    return [to_numpy(op(*values, **named, out=torch.empty(0, dtype=getattr(torch, dtype))))]


def in_wider(name: str, args: list) -> list[np.ndarray]:
    """Return eager's result in a dtype that it supports for every kind of convolution, cast
    back."""
    dtype = args[0].dtype.name
    wide = dict.fromkeys(FLOATING, "float64") | dict.fromkeys(INTS, "int64")
    wide = wide.get(dtype, dtype)
    results = eager(name, [a.astype(wide) if isinstance(a, np.ndarray) else a for a in args])
    return [r.astype(args[0].dtype) for r in results]


def computed(name: str, args: list, dtype: str) -> list[Any]:
    """Return the expected result for the arguments."""
    short = name.split("::")[1]
    if short in QUERIES:
        packet = getattr(torch.ops.aten, short.split(".")[0])
        return [packet(to_torch(args[0]), *args[1:])]
    if name.startswith("aten::sym_"):
        return [args[0].size if short == "sym_numel" else args[0].shape[args[1]]]
    if short == "_local_scalar_dense":
        value = to_torch(args[0]).item()
        if isinstance(value, complex):
            raise TypeError("a program has no complex numbers")
        return [value]
    if name == "executorch_prim::et_view.default":
        return [args[0].reshape(args[1])]
    if name == ROW:
        return [args[1]]
    if name.startswith("executorch_prim::"):
        return [number(name, args)]
    if name in UNFILLED and short not in CREATED:
        return [np.zeros(args[0], np_dtype(dtype))]
    if name in ("aten::copy_", "aten::copy.out"):
        return eager("aten::copy.out", args)
    if name == "aten::resize_":
        return eager("aten::resize.out", args)
    if short in (*CREATED, *RANDOM_OUTS):
        return created(name, args, dtype)
    if name.startswith(("dim_order_ops::", "et_copy::")) or short == "_to_copy.out":
        return eager("aten::clone.out", [args[0], None])
    if short == "convolution.out":
        return in_wider(name, args)
    if short.startswith("_fft_") and dtype in ("float64", "complex128"):
        return [spectrum(name, args)] if eager(name, args) else []
    llm_forms.check_dtypes(name, args)
    return eager(name, [a.copy("K") if isinstance(a, np.ndarray) else a for a in args])


def wanted(name: str, args: list, dtype: str) -> list[Any] | None:
    """Return the results; None if eager rejects the arguments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return computed(name, args, dtype)
        except REFUSALS:
            return None


def outs_of(results: list[Any]) -> list[Any]:
    return [Out(r.shape, r.dtype.name) if isinstance(r, np.ndarray) else Slot(r) for r in results]


def add(ops: SingleOps, name: str, args: list, outs: list[Any]) -> str:
    """Add a method that calls the operator on the arguments; return the method's name."""
    values = [dtype_id(a) if isinstance(a, DType) else a for a in args]
    if name.startswith("aten::index") and isinstance(values[1], list):
        values[1] = Optionals(values[1])
    if name in IN_PLACE:
        return ops.add(name, *values, returns=[0])
    if name in CHANGED:
        changed, end = CHANGED[name], len(values)
        values += outs[len(changed) :] or [Out((1,), args[0].dtype.name)]  # a placeholder
        return ops.add(
            name, *values, outputs=[*changed, *range(end, end + len(outs) - len(changed))]
        )
    if name == ROW:
        whole = Out(args[0].shape, args[0].dtype.name, dynamism=BOUNDED)
        return ops.add(name, whole, *values[1:], returns=[])
    if name == "executorch_prim::et_view.default":
        return ops.add(name, *values, Out(outs[0].shape, outs[0].dtype, planned=False))
    return ops.add(name, *values, *([outs] if name in LISTS else outs))


def order_of(a: np.ndarray) -> tuple[int, ...]:
    return tuple(sorted(range(a.ndim), key=lambda d: (-a.strides[d], -a.shape[d], d)))


def called(
    name: str, args: list, outs: list[Any], reference: bool = False, orders: Any = ()
) -> list[Any]:
    """Return the results of the kernel, called without a program, with outputs in the `orders` of
    dimensions that have their rank."""

    def out_like(out: Any, order: Any = None) -> Any:
        if isinstance(out, Slot):
            return op_harness.Ret({bool: "bool", int: "int"}.get(type(out.value), "double"))
        order = order if len(order or ()) == len(out.shape) else None
        return op_harness.Out(tuple(out.shape), out.dtype, order)

    values = [dtype_id(a) if isinstance(a, DType) else a for a in args]
    places = (0,) if name in (*IN_PLACE, ROW) else CHANGED.get(name, ())
    for i in places:
        a = args[i]
        values[i] = op_harness.Out(a.shape, a.dtype.name, order_of(a), initial=a)
    rest = [out_like(out, order) for out, order in zip_longest(outs, orders[: len(outs)])]
    rest = rest[len(places) :] or [op_harness.Out((1,), args[0].dtype.name)] * (name in CHANGED)
    arguments = [*values, rest] if name in LISTS else [*values, *rest]
    return op_harness.run(name, arguments, reference)[: len(outs)]


def check_random(name: str, args: list, outputs: list[Any]) -> None:
    """Check properties of every draw: its range, a permutation, dropout's scale."""
    short = name.split("::")[1].split(".")[0]
    x = np.asarray(outputs[0])
    x = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    if short == "native_dropout":
        operand, p, train = args[0], args[1], args[2] is not False and args[0].size
        kept = np.where(outputs[1], operand, np.zeros((), operand.dtype))
        if train:  # rounded once
            wide = np.result_type(operand.dtype, np.float32)
            scale = wide.type(0 if p == 1 else 1 / (1 - p))
            kept = (kept.astype(wide) * scale).astype(operand.dtype)
        np.testing.assert_array_equal(kept, np.asarray(outputs[0]))
        assert train or np.all(outputs[1])
        return
    assert np.all(np.isfinite(x)), (name, args)
    if short == "randperm":
        assert sorted(x) == list(range(args[0]))
    numbers = [a for a in args if type(a) in (int, float)]
    low, high = {
        "rand": (0, 1),
        "rand_like": (0, 1),
        "uniform": numbers,
        "bernoulli": (0, 2),
        **dict.fromkeys(("randint", "randint_like"), [0, *numbers][-2:]),
        "geometric": (1, np.inf),
        **dict.fromkeys("exponential log_normal randperm poisson binomial".split(), (0, np.inf)),
        "multinomial": (0, args[0].shape[-1] if short == "multinomial" else 0),
    }.get(short, (-np.inf, np.inf))
    for part in (x.real, x.imag) if x.dtype.kind == "c" else (x,):
        assert np.all((part >= low) & (part < high)), (name, args, x)
    if short == "multinomial" and not args[2]:
        rows = x.reshape(-1, x.shape[-1])
        assert all(len(set(row)) == len(row) for row in rows)


def check(name: str, args: list, outputs: list[Any], results: list[Any]) -> None:
    """Compare results with eager's (accuracy.py); for random operators, check properties of the
    draw."""
    family = tables()[name][0]
    assert len(outputs) == len(results), (name, args)
    if family == "random":
        for f, r in zip(outputs, results, strict=True):
            assert (f.shape, f.dtype) == (r.shape, r.dtype), (name, args)
        check_random(name, args, outputs)
        return
    if name in decomp_check.CHECKS:
        decomp_check.check(name, args, outputs, results)
        return
    if name == ROW:
        assert outputs[0].shape == (args[2] + 1, *args[0].shape[1:])
        assert_equal(np.asarray(outputs[0][args[2]]), results[0], (name, args))
    elif name in UNFILLED:
        for f, r in zip(outputs, results, strict=True):
            assert (f.shape, f.dtype) == (r.shape, r.dtype), (name, args)
    else:
        accuracy.compare(name, args, outputs, results)


@dataclass
class MethodCase:
    """A method of a program, with its sample and the results; None if eager rejects it."""

    operator: str
    dtype: str
    args: list
    results: list[Any] | None
    method: str


def samples(name: str, dtype: str, count: int) -> list[tuple[list, list[Any] | None]]:
    """Return samples with their results. Eager ignores the dtype if there is nothing to compute,
    and accepts empty arrays of dtypes that it otherwise rejects: these are skipped."""
    return expected(name, pick(name, dtype, count), dtype)


def expected(name: str, picked: list[list], dtype: str) -> list[tuple[list, list[Any] | None]]:
    """Return `samples` of the given arguments."""
    results = [(args, wanted(name, args, dtype)) for args in picked]
    full = [(args, r) for args, r in results if all(a.size for a in arrays(args))]
    return full if full and all(r is None for _, r in full) else results


def program(
    names: list[str], dtypes: list[str] | None = None, count: int = 3, contiguous: bool = False
) -> tuple[SingleOps, list[MethodCase]]:
    """Return one program with a method per sample that eager accepts."""
    ops, cases = SingleOps(), []
    for name in names:
        for dtype in dtypes_of(name):
            chosen = samples(name, dtype, count) if dtypes is None or dtype in dtypes else []
            for args, results in chosen:
                if results is not None and (is_contiguous(args) or not contiguous):
                    method = add(ops, name, args, outs_of(results))
                    cases.append(MethodCase(name, dtype, args, results, method))
    return ops, cases


def inputs_of(ops: SingleOps, case: MethodCase) -> list[Any]:
    return [np.copy(v, "K") if isinstance(v, np.ndarray) else v for v in ops.inputs[case.method]]


def lacks_eager_kernel(args: list, dtype: str) -> bool:
    """Return True for dtypes without eager kernels: wide unsigned integers, and complex32, eager's
    result for float16 with 0-d complex numbers (complex64 here)."""
    dtypes = {dtype, *(a.dtype.name for a in arrays(args))}
    return bool(dtypes & set(WIDE_UNSIGNED)) or (
        "float16" in dtypes and bool(dtypes & set(COMPLEX))
    )


Samples = Callable[[str, str], list[list]]


@functools.cache
def supported(name: str, pick: Samples) -> list[list[list[Any] | None]]:
    """Return the results of the samples in dtypes of which most operators support one."""
    kinds = ("float32", "int64", "complex64", "int8")
    return [[wanted(name, args, d) for args in pick(name, d)] for d in kinds]


def rejected(name: str, dtype: str, pick: Samples) -> Iterator[tuple[list, list[Any]]]:
    """Yield samples that eager rejects, and outputs that fit everything but the sample."""
    for i, (args, results) in enumerate(expected(name, pick(name, dtype), dtype)):
        if results is None and not lacks_eager_kernel(args, dtype):
            forms = [form[i] for form in supported(name, pick) if i < len(form)]
            yield args, outs_like(name, args, dtype, forms)


def outs_like(name: str, args: list, dtype: str, forms: list[list[Any] | None]) -> list[Any]:
    """Return outputs in another dtype; converting operators may write complex128."""
    if tables()[name][0] == "pointwise":
        return [Out(np.broadcast_shapes(*[a.shape for a in arrays(args)]), "complex128")]
    if not arrays(args):
        return [Slot()] if name.startswith("executorch_prim::") else [Out((9,), dtype)]
    results = next((f for f in forms if f is not None), None)
    if results is None:  # supports neither float32 nor int64
        return [Out(arrays(args)[0].shape, dtype)]
    of_self = [isinstance(r, np.ndarray) and r.dtype == np.float32 for r in results]
    return [
        Out(r.shape, dtype) if own else outs_of([r])[0]
        for r, own in zip(results, of_self, strict=True)
    ]


def agrees(case: MethodCase, outputs: list[Any]) -> bool:
    """Return True if results are those of eager."""
    try:
        check(case.operator, case.args, outputs, case.results or [])
    except AssertionError:
        return False
    return True
