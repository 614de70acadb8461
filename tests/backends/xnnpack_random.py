"""Random graphs of moves and pointwise nodes for XnnpackBackend, and their results by NumPy.

Numbers are small multiples of powers of two, and so are scales, so that XNNPACK's results are
exact, whatever it leaves out, joins or makes a table of: NumPy's are equal. The values of a payload
are in random order, as no exporter writes them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.backends.xnnpack_graphs import Graph, Tensor

QUANTISED = (Tensor(0.5, 0), Tensor(0.25, 3), Tensor(0.5, -7))
UNARY: dict[str, tuple[Callable[[np.ndarray], np.ndarray], dict[str, Any]]] = {
    "Abs": (np.abs, {}),
    "Negate": (np.negative, {}),
    "Clamp": (lambda x: np.clip(x, np.float32(-4), np.float32(6)), {"bounds": (-4.0, 6.0)}),
    "LeakyReLU": (lambda x: np.where(x < 0, x / 2, x), {"negative_slope": 0.5}),
    "Floor": (np.floor, {}),
}
BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Add": np.add,
    "Subtract": np.subtract,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
}


class Shuffled(Graph):
    """A graph whose values need not be in the order of their ids."""

    def tensor(self, index: int) -> dict[str, Any]:
        values = (value["xvalue_union"][1] for value in self.values)
        tensors = (fields.get("tensor_value", fields) for fields in values)
        tensor: dict[str, Any] = next(t for t in tensors if t["id_out"] == index)
        return tensor


def divisors(count: int, rng: np.random.Generator) -> list[int]:
    """Return a random shape with a number of elements."""
    shape = []
    for _ in range(int(rng.integers(0, 4))):
        size = int(rng.choice([d for d in range(1, count + 1) if count % d == 0]))
        shape.append(size)
        count //= size
    shape.insert(int(rng.integers(0, len(shape) + 1)), count)
    return shape


@dataclass
class Value:
    """A value of the graph, in the numbers of its dtype."""

    index: int
    array: np.ndarray
    how: Tensor | None = None

    @property
    def dtype(self) -> str:
        return "fp32" if self.how is None else "qint8"


class Random:
    """A random graph, its inputs and the results of its outputs."""

    def __init__(self, seed: int, nodes: int = 12) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = Shuffled()
        self.values: list[Value] = []
        self.outputs: list[Value] = []
        self.inputs = [self.input() for _ in range(int(self.rng.integers(1, 3)))]
        for _ in range(nodes):
            self.node()
        while not self.outputs:
            self.node(shown=True)
        self.rng.shuffle(self.graph.values)  # type: ignore[arg-type]

    def input(self) -> np.ndarray:
        rng = self.rng
        shape = [(4, 6), (2, 3, 4), (1, 4, 4), (1, 2, 1, 8), (24,)][int(rng.integers(5))]
        how = QUANTISED[int(rng.integers(3))] if rng.random() < 0.4 else None
        array = rng.integers(-9, 10, shape).astype(np.float32 if how is None else np.int8)
        self.values.append(
            Value(self.graph.input(shape, "fp32" if how is None else "qint8", how), array, how)
        )
        return array

    def pick(self) -> Value:
        """Return a value, mostly one of the last."""
        at = len(self.values) - 1 - int(self.rng.geometric(0.35) - 1)
        return self.values[max(at, 0)]

    def add(self, array: np.ndarray, how: Tensor | None, shown: bool) -> int:
        """Add the value of a node's result, which may be an output."""
        shown = shown or self.rng.random() < 0.2
        make = self.graph.output if shown else self.graph.value
        value = Value(make(array.shape, "fp32" if how is None else "qint8", how), array, how)
        self.values.append(value)
        self.outputs += [value] if shown else []
        return value.index

    def node(self, shown: bool = False) -> None:
        x = self.pick()
        choice = self.rng.random()
        if choice < 0.5:
            self.move(x, shown)
        elif choice < 0.7 or x.how is not None:
            self.convert(x, shown)
        elif choice < 0.85:
            kind = str(self.rng.choice(list(UNARY)))
            function, fields = UNARY[kind]
            y = self.add(function(x.array).astype(np.float32), None, shown)
            self.graph.unary(kind, x.index, y, **fields)
        else:
            self.pair(x, shown)

    def move(self, x: Value, shown: bool) -> None:
        rng, graph = self.rng, self.graph
        kind = ["StaticTranspose", "StaticReshape", "Copy"][int(rng.choice(3, p=[0.5, 0.4, 0.1]))]
        if kind == "StaticTranspose":
            order = [int(d) for d in rng.permutation(x.array.ndim)]
            y = self.add(x.array.transpose(order), x.how, shown)
            graph.unary(kind, x.index, y, num_dims=len(order), perm=order)
        elif kind == "StaticReshape":
            shape = divisors(x.array.size, rng)
            y = self.add(x.array.reshape(shape), x.how, shown)
            graph.unary(kind, x.index, y, num_dims=len(shape), new_shape=shape)
        else:
            graph.unary(kind, x.index, self.add(x.array, x.how, shown))

    def convert(self, x: Value, shown: bool) -> None:
        """Convert integers to floats, or floats to integers."""
        if x.how is not None:
            numbers = (x.array.astype(np.float32) - x.how.zero_point) * np.float32(x.how.scale)
            self.graph.unary("Convert", x.index, self.add(numbers, None, shown))
            return
        how = QUANTISED[int(self.rng.integers(3))]
        steps = np.rint(x.array / np.float32(how.scale)) + how.zero_point
        y = self.add(np.clip(steps, -128, 127).astype(np.int8), how, shown)
        self.graph.unary("Convert", x.index, y)

    def pair(self, x: Value, shown: bool) -> None:
        """Add a binary node of two values of one shape, or a value and a number."""
        kind = str(self.rng.choice(list(BINARY)))
        others = [v for v in self.values if v.how is None and v.array.shape == x.array.shape]
        if self.rng.random() < 0.4:
            number = np.full(1, self.rng.integers(-3, 4), np.float32)
            index = self.graph.constant(number)
        else:
            other = others[int(self.rng.integers(len(others)))]
            number, index = other.array, other.index
        y = self.add(BINARY[kind](x.array, number), None, shown)
        self.graph.binary(kind, x.index, index, y)
