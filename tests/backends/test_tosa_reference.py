"""Operators of TOSABackend equal Arm's reference model: integers bit by bit, floats to 1e-5.

The specification leaves the last bit of INEXACT_ROUND to devices: the model rounds in float32.
"""

from collections.abc import Callable
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
CASES: dict[str, Case] = {}


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return a random array of a TOSA dtype, in the dtype of a program's argument."""
    if dtype in RANGES:
        low, high = RANGES[dtype]
        return rng.integers(low, high + 1, shape).astype(DTYPES[dtype])
    return rng.standard_normal(shape).astype(DTYPES[dtype])


def case(name: str) -> Callable[[Case], Case]:
    def keep(fn: Case) -> Case:
        CASES[name] = fn
        return fn

    return keep


def constant(g: Graph, rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> str:
    return g.const(shape, dtype, draw(rng, shape, dtype))


def zero(g: Graph, dtype: Any, value: int = 0) -> str:
    return g.const((1,), dtype, [value])


def zeros(g: Graph, dtype: Any, first: int, second: int) -> list[str]:
    """Return the zero points of two values of a dtype, which only int8 has."""
    return [zero(g, dtype, number if dtype == D.INT8 else 0) for number in (first, second)]


def plain(
    name: str, inputs: list[tuple[Any, Any]], shape: Any, out: Any, *attribute: Any, op: str = ""
) -> None:
    """Add a case: an operator of random inputs (shape, dtype), without constants."""

    @case(name)
    def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        operands = [g.input(*x) for x in inputs]
        g.apply(op or name.split()[0], operands, shape, out, *attribute)
        return [draw(rng, *x) for x in inputs]


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


def show_int48(g: Graph, name: str, shape: tuple[int, ...], dtype: Any, shift: int = 14) -> None:
    """Make a value of int48, which neither Python binding returns, a result in int32."""
    if dtype == D.INT48:
        factors = [g.const((1,), D.INT16, [2**14]), g.const((1,), D.INT8, [shift])]
        operands = [name, *factors, zero(g, D.INT48), zero(g, D.INT32)]
        g.apply("RESCALE", operands, shape, D.INT32, False, ONCE, False, False, False)


def zeros_of(g: Graph, x: Any, w: Any) -> list[str]:
    return [zero(g, x, -5 if x == D.INT8 else 0), zero(g, w, 3 if w == D.INT8 == x else 0)]


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


def add_conv(name: str, kind: str) -> None:
    shape, weight, result, *lists = CONVOLUTIONS[name]
    x, w, out = PRODUCTS[kind]

    @case(f"{name} {kind}")
    def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        weights = constant(g, rng, weight, w), constant(g, rng, result[-1:], out)
        operands = [g.input(shape, x), *weights, *zeros_of(g, x, w)]
        attribute = out, *lists, False, out
        wide = g.apply(name.split()[0], operands, result, *attribute, final=out != D.INT48)
        show_int48(g, wide, result, out)
        return [draw(rng, shape, x)]


for kind_ in PRODUCTS:
    for name_ in CONVOLUTIONS:
        add_conv(name_, kind_)


def add_matmul(kind: str, x: Any, out: Any) -> None:
    @case(f"MATMUL {kind}")
    def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        a, b = (2, 5, 300), (2, 300, 4)
        operands = [g.input(a, x), g.input(b, x), *zeros(g, x, 7, -3)]
        wide = g.apply("MATMUL", operands, (2, 5, 4), out, final=out != D.INT48)
        show_int48(g, wide, (2, 5, 4), out, 18)
        return [draw(rng, a, x), draw(rng, b, x)]


add_matmul("int8", D.INT8, D.INT32)
add_matmul("int16", D.INT16, D.INT48)
add_matmul("fp32", D.FP32, D.FP32)


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


def draw_int48(g: Graph, shape: tuple[int, ...]) -> str:
    """Return a value of int48 with up to 40 bits, computed from an input of int16."""
    x = g.input(shape, D.INT16)
    weight = g.const((shape[0], shape[2], shape[2]), D.INT16, [32767, -20001, 5] * 36)
    return g.apply(
        "MATMUL", [x, weight, zero(g, D.INT16), zero(g, D.INT16)], shape, D.INT48, final=False
    )


def add_rescale(source: Any, target: Any, rounding: str, channels: bool, wide: bool) -> None:
    name = f"RESCALE {source.name} to {target.name} {rounding}"
    name += f" {'by channel' if channels else 'whole'} {32 if wide else 16}"

    @case(name)
    def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        shape, count = (3, 40, 6), 6 if channels else 1
        low, high = (2**30, 2**31) if wide else (2**14, 2**15)
        narrow = (24, 30) if source == D.INT48 else (13, 19)
        shifts = rng.integers(*((28, 44) if wide else narrow), count)
        factors = rng.integers(low, high, count)
        multipliers = g.const((count,), D.INT32 if wide else D.INT16, factors)
        x = draw_int48(g, shape) if source == D.INT48 else g.input(shape, source)
        operands = [
            x,
            multipliers,
            g.const((count,), D.INT8, shifts),
            zero(g, source, -11 if source == D.INT8 else 0),
            zero(g, target, 9 if target == D.INT8 else 0),
        ]
        mode = getattr(ts.RoundingMode, rounding)
        g.apply("RESCALE", operands, shape, target, wide, mode, channels, False, False)
        return [draw(rng, shape, D.INT16 if source == D.INT48 else source)]


for row in RESCALES:
    add_rescale(*row)


@case("RESCALE of unsigned numbers")
def _(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
    shape = (4, 33)
    x = g.input(shape, D.INT8)
    one = [g.const((1,), D.INT32, [2**30]), g.const((1,), D.INT8, [30])]
    for before, after, signs in ((-128, 0, (True, False)), (0, -128, (False, True))):
        operands = [x, *one, zero(g, D.INT8, before), zero(g, D.INT8, after)]
        x = g.apply("RESCALE", operands, shape, D.INT8, True, ONCE, False, *signs)
    return [draw(rng, shape, D.INT8)]


# ---- elements --------------------------------------------------------------------------------

UNARY: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys("CEIL COS EXP FLOOR SIN ERF SIGMOID TANH RECIPROCAL".split(), (D.FP32,)),
    "ABS": (D.INT32, D.FP32),
    "BITWISE_NOT": (D.INT8, D.INT16, D.INT32),
    "CLZ": (D.INT32,),
    "LOGICAL_NOT": (D.BOOL,),
    "IDENTITY": (D.INT8, D.INT16, D.FP32, D.FP16),
}
BINARY: dict[str, tuple[Any, ...]] = {
    "ADD": (D.INT32, D.FP32, D.FP16),
    "SUB": (D.INT32, D.FP32),
    "BITWISE_AND": (D.INT8, D.INT32),
    "BITWISE_OR": (D.INT16,),
    "BITWISE_XOR": (D.INT32,),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR"), (D.BOOL,)),
    **dict.fromkeys(("EQUAL", "GREATER", "GREATER_EQUAL"), (D.INT32, D.FP32)),
}


WIDE, LINE, GRID = (3, 5, 300), (4, 70), (9, 99)


def add_binary(op: str, dtype: Any, *attribute: Any) -> None:
    name = " ".join(map(str, (op, dtype.name, *attribute)))
    out = D.BOOL if op in ("EQUAL", "GREATER", "GREATER_EQUAL") else dtype
    plain(name, [((3, 1, 300), dtype), ((3, 5, 1), dtype)], WIDE, out, *attribute)


for op_, dtypes_ in UNARY.items():
    for dtype_ in dtypes_:
        plain(f"{op_} {dtype_.name}", [(WIDE, dtype_)], WIDE, dtype_)
for op_, dtypes_ in BINARY.items():
    for dtype_ in dtypes_:
        add_binary(op_, dtype_)
for op_ in ("MAXIMUM", "MINIMUM"):
    for dtype_, mode_ in ((D.FP32, PROPAGATE), (D.FP32, IGNORE), (D.INT32, PROPAGATE)):
        add_binary(op_, dtype_, mode_)


def add_shift(op: str, dtype: Any, *attribute: Any) -> None:
    @case(f"{op} {dtype.name}{''.join(f' {a}' for a in attribute)}")
    def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        g.apply(op, [g.input(LINE, dtype), g.input(LINE, dtype)], LINE, dtype, *attribute)
        bits = 8 * np.dtype(DTYPES[dtype]).itemsize
        return [draw(rng, LINE, dtype), rng.integers(0, bits, LINE).astype(DTYPES[dtype])]


for dtype_ in (D.INT8, D.INT16, D.INT32):
    add_shift("LOGICAL_LEFT_SHIFT", dtype_)
    add_shift("LOGICAL_RIGHT_SHIFT", dtype_)
    add_shift("ARITHMETIC_RIGHT_SHIFT", dtype_, True)
    add_shift("ARITHMETIC_RIGHT_SHIFT", dtype_, False)


def add_mul(dtype: Any, out: Any, shift: int) -> None:
    @case(f"MUL {dtype.name} {shift}")
    def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        a, b = (3, 5, 300), (1, 5, 1)
        g.apply("MUL", [g.input(a, dtype), g.input(b, dtype), zero(g, D.INT8, shift)], a, out)
        return [draw(rng, a, dtype), draw(rng, b, dtype)]


for dtype_ in (D.INT8, D.INT16):
    add_mul(dtype_, D.INT32, 0)
for dtype_, shift_ in ((D.INT32, 11), (D.INT32, 30), (D.FP32, 0)):
    add_mul(dtype_, dtype_, shift_)


@case("INTDIV")
def _(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
    g.apply("INTDIV", [g.input((5, 90), D.INT32), g.input((5, 90), D.INT32)], (5, 90), D.INT32)
    below = rng.integers(1, 99, (5, 90)) * rng.choice([-1, 1], (5, 90))
    return [draw(rng, (5, 90), D.INT32), below.astype(np.int32)]


def add_negate(dtype: Any) -> None:
    @case(f"NEGATE {dtype.name}")
    def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        g.apply("NEGATE", [g.input(GRID, dtype), *zeros(g, dtype, 5, -7)], GRID, dtype)
        return [draw(rng, GRID, dtype)]


for dtype_ in (D.INT8, D.INT16, D.INT32, D.FP32):
    add_negate(dtype_)


def add_table(dtype: Any, out: Any, entries: int) -> None:
    @case(f"TABLE {dtype.name}")
    def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        table = g.const((entries,), dtype, draw(rng, (entries,), dtype) // 2)
        g.apply("TABLE", [g.input(GRID, dtype), table], GRID, out)
        return [draw(rng, GRID, dtype)]


add_table(D.INT8, D.INT8, 256)
add_table(D.INT16, D.INT32, 513)


def add_cast(source: Any, target: Any) -> None:
    @case(f"CAST {source.name} to {target.name}")
    def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        g.apply("CAST", [g.input(GRID, source)], GRID, target)
        x = draw(rng, GRID, source)
        if source == D.FP32:
            x[:3] *= 1000
            x[3] = np.arange(99) / 2 - 25
        return [x]


for source_, targets_ in {
    D.FP32: (D.INT8, D.INT16, D.INT32, D.FP16),
    D.INT8: (D.FP32,),
    D.INT16: (D.INT32,),
    D.INT32: (D.INT8, D.BOOL),
    D.BOOL: (D.INT8,),
    D.FP16: (D.FP32,),
}.items():
    for target_ in targets_:
        add_cast(source_, target_)


def add_clamp(dtype: Any, low: Any, high: Any) -> None:
    @case(f"CLAMP {dtype.name}")
    def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        bounds = [list(np.array(n, DTYPES[dtype]).tobytes()) for n in (low, high)]
        g.apply("CLAMP", [g.input(GRID, dtype)], GRID, dtype, *bounds, PROPAGATE)
        return [draw(rng, GRID, dtype)]


for dtype_, low_, high_ in ((D.INT8, -20, 90), (D.INT16, -2000, 3000)):
    add_clamp(dtype_, low_, high_)
for dtype_ in (D.FP32, D.FP16):
    add_clamp(dtype_, -0.25, 0.5)
SELECTED = [((3, 1, 8), D.BOOL), ((3, 4, 8), D.INT16), ((1, 4, 1), D.INT16)]
plain("SELECT", SELECTED, (3, 4, 8), D.INT16)


# ---- windows ---------------------------------------------------------------------------------


WINDOWS = {
    "": ((2, 9, 8, 5), (2, 5, 8, 5), ([3, 2], [2, 1], [1, 1, 0, 1])),
    " of ATen": ((2, 9, 8, 5), (2, 5, 4, 5), ([3, 2], [2, 2], [1, 1, 0, 0])),
    " wide": ((1, 4, 4, 2), (1, 4, 4, 2), ([5, 5], [1, 1], [2, 2, 2, 2])),
    " padded": ((1, 4, 4, 2), (1, 6, 6, 2), ([3, 3], [1, 1], [2, 2, 2, 2])),
}
"""Shapes of input and result; kernel, stride, padding. ATen pads half a window at most."""


def add_pool(dtype: Any, window: str) -> None:
    shape, result, numbers = WINDOWS[window]

    @case(f"AVG_POOL2D {dtype.name}{window}")
    def average(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        wide = D.FP32 if dtype == D.FP32 else D.INT32
        operands = [g.input(shape, dtype), *zeros(g, dtype, 6, -9)]
        g.apply("AVG_POOL2D", operands, result, dtype, *numbers, wide)
        return [draw(rng, shape, dtype)]

    def greatest(mode: Any) -> Case:
        def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
            g.apply("MAX_POOL2D", [g.input(shape, dtype)], result, dtype, *numbers, mode)
            x = draw(rng, shape, dtype)
            if dtype == D.FP32:
                x[0, 1, 2, 0] = np.nan
            return [x]

        return build

    case(f"MAX_POOL2D {dtype.name}{window}")(greatest(PROPAGATE))
    if dtype == D.FP32:
        case(f"MAX_POOL2D IGNORE{window}")(greatest(IGNORE))


for dtype_ in (D.INT8, D.INT16, D.FP32):
    for window_ in WINDOWS:
        add_pool(dtype_, window_)


def add_resize(dtype: Any, wide: Any, mode: str) -> None:
    @case(f"RESIZE {dtype.name} {mode}")
    def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        shape, result = (1, 5, 6, 3), (1, 10, 12, 3)
        numbers = [g.shape(n) for n in ([4, 2, 4, 2], [-1, -1], [1, 1])]
        out = dtype if mode == "NEAREST" else wide
        operands, how = [g.input(shape, dtype), *numbers], getattr(ts.ResizeMode, mode)
        x = g.apply("RESIZE", operands, result, out, how, final=out != D.INT48)
        show_int48(g, x, result, out)
        return [draw(rng, shape, dtype)]


for mode_ in ("NEAREST", "BILINEAR"):
    add_resize(D.INT8, D.INT32, mode_)
    add_resize(D.INT16, D.INT48, mode_)
    add_resize(D.FP32, D.FP32, mode_)


# ---- reductions and moves --------------------------------------------------------------------


CUBE = (4, 7, 5)
for op_, dtype_, *mode_ in (
    ("REDUCE_SUM", D.INT32),
    ("REDUCE_SUM", D.FP32),
    ("REDUCE_PRODUCT", D.FP32),
    ("REDUCE_ALL", D.BOOL),
    ("REDUCE_ANY", D.BOOL),
    *((op, dtype, PROPAGATE) for op in ("REDUCE_MAX", "REDUCE_MIN") for dtype in list(RANGES)[2:5]),
    *(("REDUCE_MAX", D.FP32, PROPAGATE), ("REDUCE_MIN", D.FP32, PROPAGATE)),
):
    plain(f"{op_} {dtype_.name}", [(CUBE, dtype_)], (4, 1, 5), dtype_, 1, *mode_)
for dtype_ in (D.INT8, D.FP32):
    plain(f"ARGMAX {dtype_.name}", [(CUBE, dtype_)], (4, 5), D.INT32, 1, PROPAGATE)


def add_moves(dtype: Any) -> None:
    shape = (3, 4, 5)

    def move(op: str, result: Any, numbers: Any, *attribute: Any, value: Any = None) -> None:
        @case(f"{op} {dtype.name}")
        def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
            operands = [g.input(shape, dtype), *map(g.shape, numbers)]
            if value is not None:
                operands.append(g.const((1,), dtype, [value]))
            g.apply(op, operands, result, dtype, *attribute)
            return [draw(rng, shape, dtype)]

    move("RESHAPE", (2, 30), [[2, 30]])
    move("TRANSPOSE", (5, 3, 4), [], [2, 0, 1])
    move("REVERSE", shape, [], 1)
    move("SLICE", (2, 3, 2), [[1, 0, 2], [2, 3, 2]])
    move("TILE", (6, 4, 15), [[2, 1, 3]])
    move("PAD", (4, 9, 5), [[1, 0, 2, 3, 0, 0]], value=1)

    parts = [((3, size, 5), dtype) for size in (4, 1, 2)]
    plain(f"CONCAT {dtype.name}", parts, (3, 7, 5), dtype, 1)

    @case(f"GATHER {dtype.name}")
    def gather(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        g.apply("GATHER", [g.input(shape, dtype), g.input((3, 6), D.INT32)], (3, 6, 5), dtype)
        return [draw(rng, shape, dtype), rng.integers(0, 4, (3, 6)).astype(np.int32)]

    @case(f"SCATTER {dtype.name}")
    def scatter(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        operands = [g.input(shape, dtype), g.input((3, 2), D.INT32), g.input((3, 2, 5), dtype)]
        g.apply("SCATTER", operands, shape, dtype)
        rows = np.array([[0, 3], [2, 1], [1, 0]], np.int32)
        return [draw(rng, shape, dtype), rows, draw(rng, (3, 2, 5), dtype)]


for dtype_ in (D.INT8, D.INT16, D.INT32, D.FP32):
    add_moves(dtype_)


def add_fourier(op: str, inputs: int, shape: tuple[int, ...], *attribute: bool) -> None:
    @case(op)
    def build(g: Graph, rng: np.random.Generator) -> list[np.ndarray]:
        outs = [g.writer.addOutput(list(shape), D.FP32).name for _ in range(2)]
        g.outputs += [(shape, D.FP32)] * 2
        g.add(op, [g.input((2, 8, 4), D.FP32) for _ in range(inputs)], outs, *attribute)
        return [draw(rng, (2, 8, 4), D.FP32) for _ in range(inputs)]


add_fourier("FFT2D", 2, (2, 8, 4), False, False)
add_fourier("RFFT2D", 1, (2, 8, 3), False)


@pytest.mark.parametrize("name", CASES)
def test_an_operator_equals_the_reference_model(name: str) -> None:
    for seed in range(2):
        g, rng = Graph(), np.random.default_rng(seed)
        inputs = CASES[name](g, rng)
        for found, expected in zip(g.run(*inputs), g.reference(*inputs), strict=True):
            wanted = expected.reshape(found.shape)
            if found.dtype.kind == "f":
                limit = 2e-3 if found.dtype == np.float16 else 1e-5
                np.testing.assert_allclose(found, wanted, rtol=limit, atol=limit)
            elif "INEXACT" in name:
                np.testing.assert_allclose(found, wanted, rtol=0, atol=1)
            else:
                np.testing.assert_array_equal(found, wanted)


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


def test_a_wrong_number_is_seen() -> None:
    g, rng = Graph(), np.random.default_rng(0)
    inputs = CASES["CONV2D int8"](g, rng)
    expected = g.reference(*inputs)[0]
    inputs[0][0, 3, 3, 0] ^= 1
    assert not np.array_equal(g.run(*inputs)[0], expected)


def branches(truth: bool) -> tuple[Graph, list[np.ndarray]]:
    """Return a graph that doubles its input, or subtracts 3 and takes the absolute value."""
    g = Graph()
    operands = [g.input((), D.BOOL), g.input((2, 3), D.INT32)]
    g.apply("COND_IF", operands, (2, 3), D.INT32, "double", "other")
    for name in ("double", "other"):
        g.writer.startRegion(name)
        g.writer.addBasicBlock(name)
        inner = Graph(writer=g.writer)
        x = inner.input((2, 3), D.INT32)
        if name == "double":
            inner.apply("ADD", [x, x], (2, 3), D.INT32)
        else:
            three = inner.const((1, 1), D.INT32, [3])
            less = inner.apply("SUB", [x, three], (2, 3), D.INT32, final=False)
            inner.apply("ABS", [less], (2, 3), D.INT32)
    return g, [np.array(truth), np.arange(-2, 4, dtype=np.int32).reshape(2, 3)]


@pytest.mark.parametrize("truth", [True, False])
def test_a_branch_equals_the_reference_model(truth: bool) -> None:
    g, inputs = branches(truth)
    found = g.run(*inputs)[0]
    np.testing.assert_array_equal(found, g.reference(*inputs)[0])
    np.testing.assert_array_equal(found, 2 * inputs[1] if truth else abs(inputs[1] - 3))


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
        (found,) = g.run(np.ones(1, DTYPES[dtype]))
        assert found.shape == declared and found.dtype == DTYPES[dtype]
        np.testing.assert_array_equal(found, np.ones(declared))


@pytest.mark.parametrize("declared", [(), (2, 1)])
def test_a_result_with_more_elements_keeps_its_rank(declared: tuple[int, ...]) -> None:
    g = Graph()
    g.apply("IDENTITY", [g.input((2,), D.INT8)], (2,), D.INT8)
    g.outputs[0] = (declared, D.INT8)
    with pytest.raises(Error, match=r"output 0 is int8 of rank 1, expected int8 of"):
        g.run(np.ones(2, np.int8))
