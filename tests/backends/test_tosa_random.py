"""Random graphs of integer operators equal Arm's reference model bit by bit.

A graph is a chain of operators on values of one of three kinds (int8, int16, int32), with diamonds:
ADD, CONCAT and MATMUL join an earlier value. Weights are int8 or int4.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tosa_reference_model")
import tosa_serializer as ts

from tests.backends.tosa_graphs import DTYPES, Graph

D = ts.DType
OPERATORS = 12
SHAPE = (1, 6, 5, 4)
NAN = ts.NanPropagationMode.PROPAGATE


@dataclass
class Value:
    name: str
    shape: tuple[int, ...]
    dtype: Any


@dataclass
class Maker:
    """A graph under construction, by a seed. A planted fault changes the operand of a step."""

    seed: int
    fault: int = -1
    graph: Graph = field(default_factory=Graph)
    values: list[Value] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    constants: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def numbers(self, low: int, high: int, shape: tuple[int, ...], dtype: Any) -> str:
        """Add a random constant; constant number `fault` gets one wrong element."""
        drawn = self.rng.integers(low, high + 1, shape)
        if self.constants == self.fault:
            flat = drawn.reshape(-1)
            middle = (low + high) // 2
            flat[0] = low if flat[0] > middle else high
        self.constants += 1
        return self.graph.const(shape, dtype, drawn)

    def zero(self, dtype: Any, value: int = 0) -> str:
        return self.graph.const((1,), dtype, [value])

    def add(
        self, op: str, operands: list[str], shape: tuple[int, ...], dtype: Any, *attribute: Any
    ) -> Value:
        self.operators.append(op)
        name = self.graph.apply(op, operands, shape, dtype, *attribute, final=False)
        return Value(name, shape, dtype)

    def point(self, value: Value) -> int:
        return int(self.rng.integers(-20, 20)) if value.dtype == D.INT8 else 0

    def rescale(self, x: Value, dtype: Any, bits: int) -> Value:
        """Return a value multiplied by about 2**-bits, by channel or as a whole."""
        channels = bool(self.rng.integers(2))
        count = x.shape[-1] if channels else 1
        wide = x.dtype != D.INT48
        base = 31 if wide else 15
        factors = self.numbers(2 ** (base - 1), 2**base - 1, (count,), D.INT32 if wide else D.INT16)
        shifts = self.graph.const((count,), D.INT8, [base + bits] * count)
        zeros = [self.zero(x.dtype, self.point(x)), self.zero(dtype, 3 if dtype == D.INT8 else 0)]
        mode = "DOUBLE_ROUND" if wide and self.rng.integers(2) else "SINGLE_ROUND"
        flags = wide, getattr(ts.RoundingMode, mode), channels, False, False
        return self.add("RESCALE", [x.name, factors, shifts, *zeros], x.shape, dtype, *flags)

    def narrow(self, x: Value) -> Value:
        """Return a value of int8 or int16 made of any value."""
        if x.dtype in (D.INT8, D.INT16):
            return x
        return self.rescale(x, self.rng.choice([D.INT8, D.INT16]), 4)

    # ---- operators -------------------------------------------------------------------------------

    def convolution(self, x: Value) -> Value:
        x = self.narrow(x)
        weight = D.INT4 if x.dtype == D.INT8 and self.rng.integers(2) else D.INT8
        out = D.INT48 if x.dtype == D.INT16 else D.INT32
        span, channels, side = (7 if weight == D.INT4 else 127), 4, int(self.rng.choice([1, 3]))
        n, h, w, c = x.shape
        each = bool(self.rng.integers(2))
        shape = (side, side, c, 1) if each else (channels, side, side, c)
        result = (n, h, w, c if each else channels)
        operands = [
            x.name,
            self.numbers(-span, span, shape, weight),
            self.numbers(-999, 999, (result[-1],), out),
            self.zero(x.dtype, self.point(x)),
            self.zero(weight),
        ]
        sides = [side // 2] * 4, [1, 1], [1, 1], False, out
        wide = self.add("DEPTHWISE_CONV2D" if each else "CONV2D", operands, result, out, *sides)
        return self.rescale(wide, x.dtype, (2 if weight == D.INT4 else 7) + side)

    def product(self, x: Value) -> Value:
        x = self.narrow(x)
        out = D.INT48 if x.dtype == D.INT16 else D.INT32
        n, h, w, c = x.shape
        a = self.reshape(x, (h, w, c))
        other = self.numbers(-99, 99, (h, c, c), x.dtype)
        zeros = [self.zero(x.dtype, self.point(x)), self.zero(x.dtype)]
        wide = self.add("MATMUL", [a.name, other, *zeros], (h, w, c), out)
        return self.reshape(self.rescale(wide, x.dtype, 8), x.shape)

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        return self.add("RESHAPE", [x.name, self.graph.shape(shape)], shape, x.dtype)

    def join(self, x: Value) -> Value:
        """Return a value with an earlier one added, subtracted, multiplied or chosen."""
        y = self.values[int(self.rng.integers(len(self.values)))]
        op = str(self.rng.choice(["ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"]))
        a, b = (v if v.dtype == D.INT32 else self.rescale(v, D.INT32, -4) for v in (x, y))
        # products of 13 bits fit in int32
        if op == "MUL":
            a, b = (self.rescale(self.narrow(v), D.INT32, 2) for v in (a, b))
        more: dict[str, tuple[Any, ...]] = {"MAXIMUM": (NAN,), "MINIMUM": (NAN,)}
        shift = [self.zero(D.INT8, 3)] if op == "MUL" else []
        result = self.add(op, [a.name, b.name, *shift], SHAPE, D.INT32, *more.get(op, ()))
        return self.rescale(result, self.rng.choice([D.INT8, D.INT16]), 6)

    def concat(self, x: Value) -> Value:
        """Return a value between parts of an earlier one of its dtype, cut to its shape."""
        same = [v for v in self.values if v.dtype == x.dtype]
        y = same[int(self.rng.integers(len(same)))] if same else x
        n, h, w, c = SHAPE
        both = self.add("CONCAT", [y.name, x.name], (n, h, 2 * w, c), x.dtype, 2)
        start = int(self.rng.integers(w + 1))
        cut = [self.graph.shape(s) for s in ((0, 0, start, 0), SHAPE)]
        return self.add("SLICE", [both.name, *cut], SHAPE, x.dtype)

    def table(self, x: Value) -> Value:
        x = self.narrow(x)
        if x.dtype == D.INT8:
            entries = self.numbers(-128, 127, (256,), D.INT8)
            return self.add("TABLE", [x.name, entries], x.shape, D.INT8)
        entries = self.numbers(-9999, 9999, (513,), D.INT16)
        result = self.add("TABLE", [x.name, entries], x.shape, D.INT32)
        return self.rescale(result, D.INT16, 8)

    def clamp(self, x: Value) -> Value:
        x = self.narrow(x)
        high = 60 if x.dtype == D.INT8 else 9000
        bounds = [list(np.array(n, DTYPES[x.dtype]).tobytes()) for n in (-high // 2, high)]
        return self.add("CLAMP", [x.name], x.shape, x.dtype, *bounds, NAN)

    def pool(self, x: Value) -> Value:
        x = self.narrow(x)
        window = ([3, 3], [1, 1], [1, 1, 1, 1])
        if self.rng.integers(2):
            return self.add("MAX_POOL2D", [x.name], x.shape, x.dtype, *window, NAN)
        zeros = [self.zero(x.dtype, self.point(x)), self.zero(x.dtype, self.point(x))]
        return self.add("AVG_POOL2D", [x.name, *zeros], x.shape, x.dtype, *window, D.INT32)

    def move(self, x: Value) -> Value:
        """Return a value reversed, or transposed and shaped back."""
        if self.rng.integers(2):
            return self.add("REVERSE", [x.name], x.shape, x.dtype, int(self.rng.integers(4)))
        order = [0, *(int(i) + 1 for i in self.rng.permutation(3))]
        shape = tuple(x.shape[i] for i in order)
        return self.reshape(self.add("TRANSPOSE", [x.name], shape, x.dtype, order), x.shape)

    def reduce(self, x: Value) -> Value:
        """Return a value less its largest, least or summed part, of all rows."""
        wide = x if x.dtype == D.INT32 else self.rescale(x, D.INT32, 0)
        op = str(self.rng.choice(["REDUCE_MAX", "REDUCE_MIN", "REDUCE_SUM"]))
        more = () if op == "REDUCE_SUM" else (NAN,)
        n, _, w, c = SHAPE
        part = self.add(op, [wide.name], (n, 1, w, c), D.INT32, 1, *more)
        result = self.add("SUB", [wide.name, part.name], SHAPE, D.INT32)
        return self.rescale(result, self.rng.choice([D.INT8, D.INT16]), 2)

    def build(self) -> list[np.ndarray]:
        """Build the graph and return its inputs. All values that nothing reads are results."""
        inputs = []
        for dtype, high in ((D.INT8, 127), (D.INT16, 32767)):
            self.values.append(Value(self.graph.input(SHAPE, dtype), SHAPE, dtype))
            inputs.append(self.rng.integers(-high, high + 1, SHAPE).astype(DTYPES[dtype]))
        steps = [
            *(self.convolution, self.product, self.join, self.concat, self.table, self.clamp),
            *(self.pool, self.move, self.reduce),
        ]
        while len(self.operators) < OPERATORS:
            x = self.values[-1 - int(self.rng.integers(min(2, len(self.values))))]
            self.values.append(steps[int(self.rng.integers(len(steps)))](x))
        for value in self.values[2:]:
            self.graph.apply("IDENTITY", [value.name], value.shape, value.dtype)
        return inputs


def test_the_graphs_have_all_operators_and_weights() -> None:
    items = [Maker(seed) for seed in range(80)]
    for maker in items:
        maker.build()
    assert {op for maker in items for op in maker.operators} == set(
        "CONV2D DEPTHWISE_CONV2D MATMUL RESHAPE TRANSPOSE REVERSE CONCAT SLICE TABLE CLAMP RESCALE "
        "MAX_POOL2D AVG_POOL2D ADD SUB MUL MAXIMUM MINIMUM REDUCE_MAX REDUCE_MIN REDUCE_SUM".split()
    )
    assert {value.dtype for maker in items for value in maker.values} == {D.INT8, D.INT16}


@pytest.mark.sweep(30)
@pytest.mark.parametrize("seed", range(300))
def test_a_graph_equals_the_reference_model(seed: int) -> None:
    maker = Maker(seed)
    inputs = maker.build()
    results = zip(maker.graph.run(*inputs), maker.graph.reference(*inputs), strict=True)
    for number, (result, expected) in enumerate(results):
        wanted = expected.reshape(result.shape)
        np.testing.assert_array_equal(result, wanted, f"{number}: {', '.join(maker.operators)}")


def test_a_wrong_number_is_seen() -> None:
    """A weight, a multiplier or an entry of a table, each with another number in our graph."""
    seen = tried = 0
    for seed in range(6):
        right = Maker(seed)
        inputs = right.build()
        expected = right.graph.reference(*inputs)
        for fault in range(right.constants):
            wrong = Maker(seed, fault)
            wrong.build()
            outputs = wrong.graph.run(*inputs)
            tried += 1
            seen += any(
                not np.array_equal(a, b.reshape(a.shape)) for a, b in zip(outputs, expected)
            )
    assert tried > 20 and seen > 0.6 * tried, (seen, tried)
