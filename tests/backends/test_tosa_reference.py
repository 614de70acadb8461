"""Operators of TOSABackend equal Arm's reference model: integers bit by bit, floats to 1e-5.

The specification leaves the last bit of INEXACT_ROUND to devices: the model rounds in float32.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tosa_reference_model")
import tosa_serializer as ts

from executorch_c import Error, Runtime
from tests.backends.tosa_graphs import DTYPES, Graph

D = ts.DType
RANGES = {
    D.BOOL: (0, 1),
    D.INT4: (-7, 7),
    D.INT8: (-128, 127),
    D.INT16: (-32768, 32767),
    D.INT32: (-(2**20), 2**20),
    D.INT48: (-(2**30), 2**30),
}
Case = Callable[[Graph, np.random.Generator], list[np.ndarray]]
"""Builds a graph, and returns its inputs."""
Shape = Sequence[int]
Values = Callable[[np.random.Generator], Any]
Operand = Callable[[Graph, np.random.Generator], "tuple[str, list[np.ndarray]]"]
"""Adds an operand to a graph, and returns its name and the inputs of the graph that it is."""
CASES: dict[str, Case] = {}


def draw(rng: np.random.Generator, shape: Shape, dtype: Any) -> np.ndarray:
    """Return a random array of a TOSA dtype, in the dtype of a program's argument."""
    if dtype in RANGES:
        low, high = RANGES[dtype]
        return rng.integers(low, high + 1, shape).astype(DTYPES[dtype])
    return rng.standard_normal(shape).astype(DTYPES[dtype])


# ---- operands ----------------------------------------------------------------------------------


def arg(shape: Shape, dtype: Any, values: Values | None = None) -> Operand:
    """Return an input of the graph; random without values."""

    def add_to(g: Graph, rng: np.random.Generator) -> tuple[str, list[np.ndarray]]:
        array = draw(rng, shape, dtype) if values is None else values(rng)
        return g.input(shape, dtype), [np.asarray(array).astype(DTYPES[dtype])]

    return add_to


def const(shape: Shape, dtype: Any, values: Values | None = None) -> Operand:
    """Return a constant; random without values."""
    draw_it = values or (lambda rng: draw(rng, shape, dtype))
    return lambda g, rng: (g.const(shape, dtype, draw_it(rng)), [])


def zero(dtype: Any, value: int = 0) -> Operand:
    """Return a zero point."""
    return const((1,), dtype, lambda _: [value])


def zeros(dtype: Any, first: int, second: int) -> list[Operand]:
    """Return the zero points of two values of a dtype, which only int8 has."""
    return [zero(dtype, number if dtype == D.INT8 else 0) for number in (first, second)]


def sizes(*numbers: int) -> Operand:
    """Return a constant shape."""
    return lambda g, _: (g.shape(numbers), [])


def int48(shape: tuple[int, int, int]) -> Operand:
    """Return a value of int48 with up to 40 bits, computed from an input of int16."""
    square = (shape[0], shape[2], shape[2])
    matrix = const(square, D.INT16, lambda _: [32767, -20001, 5] * 36)

    def add_to(g: Graph, rng: np.random.Generator) -> tuple[str, list[np.ndarray]]:
        operands = [arg(shape, D.INT16), matrix, zero(D.INT16), zero(D.INT16)]
        names, inputs = add_all(g, rng, operands)
        return g.apply("MATMUL", names, shape, D.INT48, final=False), inputs

    return add_to


def add_all(
    g: Graph, rng: np.random.Generator, operands: Sequence[Operand]
) -> tuple[list[str], list[np.ndarray]]:
    """Return the names of operands, and the graph's inputs among them."""
    parts = [operand(g, rng) for operand in operands]
    return [name for name, _ in parts], [x for _, inputs in parts for x in inputs]


def add(
    name: str,
    operands: Sequence[Operand],
    shape: Shape,
    dtype: Any,
    *attribute: Any,
    bits: int = 14,
) -> None:
    """Add the case of an operator, the first word of its name. A result of int48, which neither
    Python binding returns, becomes one of int32, less some bits."""

    def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        names, inputs = add_all(g, rng, operands)
        op, is_wide = name.split()[0], dtype == D.INT48
        result = g.apply(op, names, shape, dtype, *attribute, final=not is_wide)
        if is_wide:
            factor = [
                const((1,), D.INT16, lambda _: [2**14]),
                const((1,), D.INT8, lambda _: [bits]),
            ]
            more, _ = add_all(g, rng, [*factor, zero(D.INT48), zero(D.INT32)])
            g.apply("RESCALE", [result, *more], shape, D.INT32, False, ONCE, False, False, False)
        return inputs

    CASES[name] = build


PROPAGATE, IGNORE = ts.NanPropagationMode.PROPAGATE, ts.NanPropagationMode.IGNORE
ONCE = ts.RoundingMode.SINGLE_ROUND


# ---- products --------------------------------------------------------------------------------

PRODUCTS = {
    "int8": (D.INT8, D.INT8, D.INT32),
    "int4": (D.INT8, D.INT4, D.INT32),
    "int16": (D.INT16, D.INT8, D.INT48),
    "fp32": (D.FP32, D.FP32, D.FP32),
}
"""dtypes of the input, of the weight, of the result."""
ONES = [1, 1]
CONVOLUTIONS: dict[str, tuple[Any, ...]] = {
    "CONV2D": ((2, 7, 6, 5), (4, 3, 2, 5), (2, 4, 6, 4), [1, 1, 0, 1], [2, 1], ONES),
    "CONV2D dilated": ((1, 9, 8, 3), (2, 3, 3, 3), (1, 5, 4, 2), [0] * 4, ONES, [2, 2]),
    "CONV3D": (
        (1, 3, 5, 6, 2),
        (3, 2, 3, 3, 2),
        (1, 2, 5, 6, 3),
        *([0, 0, 1, 1, 1, 1], [1] * 3, [1] * 3),
    ),
    "DEPTHWISE_CONV2D": ((1, 6, 6, 70), (3, 3, 70, 1), (1, 6, 6, 70), [1] * 4, ONES, ONES),
    "DEPTHWISE_CONV2D twice": (
        (1, 6, 7, 3),
        (3, 2, 3, 2),
        (1, 3, 7, 6),
        *([1, 0, 0, 1], [2, 1], ONES),
    ),
    "TRANSPOSE_CONV2D": ((1, 4, 5, 3), (2, 3, 2, 3), (1, 9, 9, 2), [0, 0, -1, 0], [2, 2]),
}
"""Shapes of image, weight and result; padding, strides and dilations."""

for kind_, (x_, w_, out_) in PRODUCTS.items():
    points_ = [zero(x_, -5 if x_ == D.INT8 else 0), zero(w_, 3 if w_ == D.INT8 == x_ else 0)]
    for name_, (shape_, weight_, result_, *lists_) in CONVOLUTIONS.items():
        weights_ = const(weight_, w_), const(result_[-1:], out_)
        operands_ = [arg(shape_, x_), *weights_, *points_]
        add(f"{name_} {kind_}", operands_, result_, out_, *lists_, False, out_)
    if kind_ != "int4":
        pair_ = [arg((2, 5, 300), x_), arg((2, 300, 4), x_)]
        add(f"MATMUL {kind_}", [*pair_, *zeros(x_, 7, -3)], (2, 5, 4), out_, bits=18)


# ---- RESCALE ---------------------------------------------------------------------------------

RESCALES = [
    (source, target, rounding, channels, wide)
    for source in (D.INT8, D.INT16, D.INT32, D.INT48)
    for target in (D.INT8, D.INT16, D.INT32)
    for rounding in ("SINGLE_ROUND", "DOUBLE_ROUND", "INEXACT_ROUND")
    for channels in (False, True)
    for wide in (False, True)
    if not (source == D.INT48 and wide) and not (rounding == "DOUBLE_ROUND" and not wide)
]


def add_rescale(source: Any, target: Any, rounding: str, channels: bool, wide: bool) -> None:
    name = f"RESCALE {source.name} to {target.name} {rounding}"
    name += f" {'by channel' if channels else 'whole'} {32 if wide else 16}"
    shape, count = (3, 40, 6), 6 if channels else 1
    low, high = (2**30, 2**31) if wide else (2**14, 2**15)
    least, most = (28, 44) if wide else (24, 30) if source == D.INT48 else (13, 19)
    operands = [
        int48(shape) if source == D.INT48 else arg(shape, source),
        const((count,), D.INT32 if wide else D.INT16, lambda rng: rng.integers(low, high, count)),
        const((count,), D.INT8, lambda rng: rng.integers(least, most, count)),
        zero(source, -11 if source == D.INT8 else 0),
        zero(target, 9 if target == D.INT8 else 0),
    ]
    mode = getattr(ts.RoundingMode, rounding)
    add(name, operands, shape, target, wide, mode, channels, False, False)


for row in RESCALES:
    add_rescale(*row)


def unsigned(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
    """Add RESCALE of int8 to unsigned numbers, and back."""
    shape = (4, 33)
    x = g.input(shape, D.INT8)
    one = [g.const((1,), D.INT32, [2**30]), g.const((1,), D.INT8, [30])]
    for before, after, signs in ((-128, 0, (True, False)), (0, -128, (False, True))):
        points, _ = add_all(g, rng, [zero(D.INT8, before), zero(D.INT8, after)])
        x = g.apply("RESCALE", [x, *one, *points], shape, D.INT8, True, ONCE, False, *signs)
    return [draw(rng, shape, D.INT8)]


CASES["RESCALE of unsigned numbers"] = unsigned


# ---- elements --------------------------------------------------------------------------------

UNARY: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys("CEIL COS EXP FLOOR SIN ERF SIGMOID TANH RECIPROCAL".split(), (D.FP32,)),
    "ABS": (D.INT32, D.FP32),
    "BITWISE_NOT": (D.INT8, D.INT16, D.INT32),
    "CLZ": (D.INT32,),
    "LOGICAL_NOT": (D.BOOL,),
    "IDENTITY": (D.INT8, D.INT16, D.FP32, D.FP16),
}
COMPARED = ("EQUAL", "GREATER", "GREATER_EQUAL")
BINARY: dict[str, tuple[Any, ...]] = {
    "ADD": (D.INT32, D.FP32, D.FP16),
    "SUB": (D.INT32, D.FP32),
    "BITWISE_AND": (D.INT8, D.INT32),
    "BITWISE_OR": (D.INT16,),
    "BITWISE_XOR": (D.INT32,),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR"), (D.BOOL,)),
    **dict.fromkeys(COMPARED, (D.INT32, D.FP32)),
}
MODES = ((D.FP32, PROPAGATE), (D.FP32, IGNORE), (D.INT32, PROPAGATE))
WIDE, LINE, GRID, CUBE = (3, 5, 300), (4, 70), (9, 99), (4, 7, 5)
INTEGERS = (D.INT8, D.INT16, D.INT32)

for op_, dtypes_ in UNARY.items():
    for t in dtypes_:
        add(f"{op_} {t.name}", [arg(WIDE, t)], WIDE, t)
for op_, t, *mode_ in (
    *((op, dtype) for op, dtypes in BINARY.items() for dtype in dtypes),
    *((op, *mode) for op in ("MAXIMUM", "MINIMUM") for mode in MODES),
):
    pair_ = [arg((3, 1, 300), t), arg((3, 5, 1), t)]
    out_ = D.BOOL if op_ in COMPARED else t
    add(" ".join(map(str, (op_, t.name, *mode_))), pair_, WIDE, out_, *mode_)


def bits_of(dtype: Any) -> Values:
    return lambda rng: rng.integers(0, 8 * np.dtype(DTYPES[dtype]).itemsize, LINE)


for t in INTEGERS:
    pair_ = [arg(LINE, t), arg(LINE, t, bits_of(t))]
    add(f"LOGICAL_LEFT_SHIFT {t.name}", pair_, LINE, t)
    add(f"LOGICAL_RIGHT_SHIFT {t.name}", pair_, LINE, t)
    for rounds_ in (True, False):
        add(f"ARITHMETIC_RIGHT_SHIFT {t.name} {rounds_}", pair_, LINE, t, rounds_)
for t, out_, shift_ in (
    *((D.INT8, D.INT32, 0), (D.INT16, D.INT32, 0), (D.INT32, D.INT32, 11)),
    *((D.INT32, D.INT32, 30), (D.FP32, D.FP32, 0)),
):
    operands_ = [arg(WIDE, t), arg((1, 5, 1), t), zero(D.INT8, shift_)]
    add(f"MUL {t.name} {shift_}", operands_, WIDE, out_)


def divisors(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(1, 99, LINE) * rng.choice([-1, 1], LINE)


add("INTDIV", [arg(LINE, D.INT32), arg(LINE, D.INT32, divisors)], LINE, D.INT32)
for t in (*INTEGERS, D.FP32):
    add(f"NEGATE {t.name}", [arg(GRID, t), *zeros(t, 5, -7)], GRID, t)
for t, out_, entries_ in ((D.INT8, D.INT8, 256), (D.INT16, D.INT32, 513)):
    table_ = const((entries_,), t, lambda rng, t=t, n=entries_: draw(rng, (n,), t) // 2)
    add(f"TABLE {t.name}", [arg(GRID, t), table_], GRID, out_)


def with_halves(rng: np.random.Generator) -> np.ndarray:
    """Return large numbers, and halves, which are rounded to even ones."""
    x = draw(rng, GRID, D.FP32)
    x[:3] *= 1000
    x[3] = np.arange(99) / 2 - 25
    return x


for t, targets_ in {
    D.FP32: (D.INT8, D.INT16, D.INT32, D.FP16),
    D.INT8: (D.FP32,),
    D.INT16: (D.INT32,),
    D.INT32: (D.INT8, D.BOOL),
    D.BOOL: (D.INT8,),
    D.FP16: (D.FP32,),
}.items():
    for out_ in targets_:
        values_ = with_halves if t == D.FP32 else None
        add(f"CAST {t.name} to {out_.name}", [arg(GRID, t, values_)], GRID, out_)
for t, *bounds_ in (
    *((D.INT8, -20, 90), (D.INT16, -2000, 3000), (D.FP32, -0.25, 0.5), (D.FP16, -0.25, 0.5)),
):
    bytes_ = [list(np.array(n, DTYPES[t]).tobytes()) for n in bounds_]
    add(f"CLAMP {t.name}", [arg(GRID, t)], GRID, t, *bytes_, PROPAGATE)
operands_ = [arg((3, 1, 8), D.BOOL), arg((3, 4, 8), D.INT16), arg((1, 4, 1), D.INT16)]
add("SELECT", operands_, (3, 4, 8), D.INT16)


# ---- windows ---------------------------------------------------------------------------------

WINDOWS = {
    "": ((2, 9, 8, 5), (2, 5, 8, 5), ([3, 2], [2, 1], [1, 1, 0, 1])),
    " of ATen": ((2, 9, 8, 5), (2, 5, 4, 5), ([3, 2], [2, 2], [1, 1, 0, 0])),
    " wide": ((1, 4, 4, 2), (1, 4, 4, 2), ([5, 5], [1, 1], [2, 2, 2, 2])),
    " padded": ((1, 4, 4, 2), (1, 6, 6, 2), ([3, 3], [1, 1], [2, 2, 2, 2])),
}
"""Shapes of input and result; kernel, stride, padding. ATen pads half a window at most."""


def with_nan(shape: Shape) -> Values:
    def values(rng: np.random.Generator) -> np.ndarray:
        x = draw(rng, shape, D.FP32)
        x[0, 1, 2, 0] = np.nan
        return x

    return values


for t in (D.INT8, D.INT16, D.FP32):
    for window_, (shape_, result_, numbers_) in WINDOWS.items():
        operands_ = [arg(shape_, t), *zeros(t, 6, -9)]
        sums_ = D.FP32 if t == D.FP32 else D.INT32
        add(f"AVG_POOL2D {t.name}{window_}", operands_, result_, t, *numbers_, sums_)
        operands_ = [arg(shape_, t, with_nan(shape_) if t == D.FP32 else None)]
        add(f"MAX_POOL2D {t.name}{window_}", operands_, result_, t, *numbers_, PROPAGATE)
        if t == D.FP32:
            add(f"MAX_POOL2D IGNORE{window_}", operands_, result_, t, *numbers_, IGNORE)
for mode_ in ("NEAREST", "BILINEAR"):
    for t, wide_ in ((D.INT8, D.INT32), (D.INT16, D.INT48), (D.FP32, D.FP32)):
        operands_ = [arg((1, 5, 6, 3), t), sizes(4, 2, 4, 2), sizes(-1, -1), sizes(1, 1)]
        out_ = t if mode_ == "NEAREST" else wide_
        how_ = getattr(ts.ResizeMode, mode_)
        add(f"RESIZE {t.name} {mode_}", operands_, (1, 10, 12, 3), out_, how_)


# ---- reductions and moves --------------------------------------------------------------------

for op_, t, *mode_ in (
    *(("REDUCE_SUM", D.INT32), ("REDUCE_SUM", D.FP32), ("REDUCE_PRODUCT", D.FP32)),
    *(("REDUCE_ALL", D.BOOL), ("REDUCE_ANY", D.BOOL)),
    *((op, dtype, PROPAGATE) for op in ("REDUCE_MAX", "REDUCE_MIN") for dtype in list(RANGES)[2:5]),
    *(("REDUCE_MAX", D.FP32, PROPAGATE), ("REDUCE_MIN", D.FP32, PROPAGATE)),
):
    add(f"{op_} {t.name}", [arg(CUBE, t)], (4, 1, 5), t, 1, *mode_)
for t in (D.INT8, D.FP32):
    add(f"ARGMAX {t.name}", [arg(CUBE, t)], (4, 5), D.INT32, 1, PROPAGATE)
for t in (*INTEGERS, D.FP32):
    x_ = arg((3, 4, 5), t)
    add(f"RESHAPE {t.name}", [x_, sizes(2, 30)], (2, 30), t)
    add(f"TRANSPOSE {t.name}", [x_], (5, 3, 4), t, [2, 0, 1])
    add(f"REVERSE {t.name}", [x_], (3, 4, 5), t, 1)
    add(f"SLICE {t.name}", [x_, sizes(1, 0, 2), sizes(2, 3, 2)], (2, 3, 2), t)
    add(f"TILE {t.name}", [x_, sizes(2, 1, 3)], (6, 4, 15), t)
    add(f"PAD {t.name}", [x_, sizes(1, 0, 2, 3, 0, 0), zero(t, 1)], (4, 9, 5), t)
    add(f"CONCAT {t.name}", [arg((3, n, 5), t) for n in (4, 1, 2)], (3, 7, 5), t, 1)
    places_ = arg((3, 6), D.INT32, lambda rng: rng.integers(0, 4, (3, 6)))
    add(f"GATHER {t.name}", [x_, places_], (3, 6, 5), t)
    rows_ = arg((3, 2), D.INT32, lambda _: [[0, 3], [2, 1], [1, 0]])
    add(f"SCATTER {t.name}", [x_, rows_, arg((3, 2, 5), t)], (3, 4, 5), t)


def add_fourier(op: str, inputs: int, shape: tuple[int, ...], *attribute: bool) -> None:
    def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        outs = [g.writer.addOutput(list(shape), D.FP32).name for _ in range(2)]
        g.outputs += [(shape, D.FP32)] * 2
        names, arrays = add_all(g, rng, [arg((2, 8, 4), D.FP32)] * inputs)
        g.add(op, names, outs, *attribute)
        return arrays

    CASES[op] = build


add_fourier("FFT2D", 2, (2, 8, 4), False, False)
add_fourier("RFFT2D", 1, (2, 8, 3), False)


@pytest.mark.parametrize("name", CASES)
def test_an_operator_equals_the_reference_model(name: str) -> None:
    for seed in range(2):
        g, rng = Graph(), np.random.default_rng(seed)
        inputs = CASES[name](g, rng)
        for result, expected in zip(g.run(*inputs), g.reference(*inputs), strict=True):
            wanted = expected.reshape(result.shape)
            if result.dtype.kind == "f":
                limit = 2e-3 if result.dtype == np.float16 else 1e-5
                np.testing.assert_allclose(result, wanted, rtol=limit, atol=limit)
            elif "INEXACT" in name:
                np.testing.assert_allclose(result, wanted, rtol=0, atol=1)
            else:
                np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("op", ["MAX_POOL2D", "AVG_POOL2D"])
def test_a_window_that_aten_has_is_delegated(op: str) -> None:
    delegates = {}
    for window in WINDOWS:
        g = Graph()
        CASES[f"{op} FP32{window}"](g, np.random.default_rng(0))
        program = Runtime.get().load_program(g.program())
        method = program.load_method("forward", delegate_at_load="always")
        delegates[window] = sum(method.backend_report()[0]["nested_delegated_at_load"].values())
    assert delegates == {"": 0, " of ATen": 3, " wide": 3, " padded": 0}  # with two permutations


@pytest.mark.parametrize("op", ["VARIABLE_READ", "CUSTOM"])
def test_an_operator_that_is_not_supported_is_named(op: str) -> None:
    g = Graph()
    attribute = ("name", "domain", [1]) if op == "CUSTOM" else ()
    g.apply(op, [g.input((2,), D.FP32)], (2,), D.FP32, *attribute)
    with pytest.raises(Error, match=rf"{op} '.*' \(operator 0\): the operator is not supported"):
        g.run(np.zeros(2, np.float32))


@pytest.mark.parametrize("declared", [(), (1, 1)])
def test_a_result_with_one_element_may_have_another_rank(declared: tuple[int, ...]) -> None:
    """The exporter declares () where the graph has (1,)."""
    for dtype in (D.BOOL, D.INT8, D.FP32):
        g = Graph()
        g.apply("IDENTITY", [g.input((1,), dtype)], (1,), dtype)
        g.outputs[0] = (declared, dtype)
        (outputs,) = g.run(np.ones(1, DTYPES[dtype]))
        assert outputs.shape == declared and outputs.dtype == DTYPES[dtype]
        np.testing.assert_array_equal(outputs, np.ones(declared))


@pytest.mark.parametrize("declared", [(), (2, 1)])
def test_a_result_with_more_elements_keeps_its_rank(declared: tuple[int, ...]) -> None:
    g = Graph()
    g.apply("IDENTITY", [g.input((2,), D.INT8)], (2,), D.INT8)
    g.outputs[0] = (declared, D.INT8)
    with pytest.raises(Error, match=r"output 0 is int8 of rank 1, expected int8 of"):
        g.run(np.ones(2, np.int8))
