"""Calls of every operator with arguments of the right kinds but otherwise random.

One program per operator, made from its schema in csrc/kernels/ops.def: shapes, dtypes, layouts,
dimensions and numbers are random, often consistent enough for a kernel to run. Kernels must
reject invalid arguments and compute the others.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.dtypes import DTYPES, np_dtype
from tests.plans import BOUNDED, STATIC, UNBOUND
from tests.single_op import Arg, Out, SingleOps, Slot

OPS = Path(__file__).parents[2] / "csrc/kernels/ops.def"
ROW = re.compile(r'^EC_OP\(\w+, "((?:[^"\\]|\\.)+)"', re.M)
ARGUMENT = re.compile(r"(\w+)(\([a-z]!?\))?((?:\?|\[\d*\])*) (\w+)(?:=(.*))?$")
HOSTILE_INTS = [
    *(-1, -2, 0, 1, 7, 255, 65536, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**62, 2**63 - 1),
    *(-(2**63), -(2**63) + 1),
]
HOSTILE_FLOATS = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 1e300, 3e38, float("inf"), float("-inf")),
    *(float("nan"), 2.0**63, 256.0),
]
TEXTS = ["none", "tanh", "floor", "trunc", "linear", "mean", "", "x" * 300]


def schemas() -> list[str]:
    """Return the schema of every operator."""
    return ROW.findall(OPS.read_text())


def parse(schema: str) -> tuple[str, list[tuple[str, bool, str]], str]:
    """Parse a schema into name, arguments (type, True if written, marks such as "[]?") and
    result."""
    name, rest = schema.split("(", 1)
    inside, result = rest.rsplit(") -> ", 1)
    arguments = []
    for text in re.split(r", (?![^\[]*\])", inside):
        match = ARGUMENT.match(text.strip())
        if match:
            kind, alias, marks = match.group(1, 2, 3)
            arguments.append((kind, "!" in (alias or ""), marks or ""))
    return name, arguments, result


class Caller:
    """Random arguments with a common dtype, shape or layout."""

    def __init__(self, rng: np.random.Generator, largest: int = 6) -> None:
        self.rng = rng
        self.dtype = str(rng.choice([*DTYPES, "float32", "float32", "float32", "int64"]))
        self.shape = self.new_shape(largest)
        self.order = list(range(len(self.shape)))
        if self.chance(0.25):
            rng.shuffle(self.order)

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def new_shape(self, largest: int) -> list[int]:
        rank = int(self.rng.choice([0, 1, 2, 2, 3, 3, 4, 4, 5]))
        sizes = self.rng.integers(1, largest, rank).tolist()
        if rank and self.chance(0.1):
            sizes[int(self.rng.integers(rank))] = 0
        return sizes

    def any_shape(self) -> list[int]:
        shape = list(self.shape)
        if self.chance(0.15):
            return self.new_shape(6)
        if shape and self.chance(0.2):
            shape[int(self.rng.integers(len(shape)))] = int(self.rng.integers(0, 7))
        if shape and self.chance(0.1):
            del shape[int(self.rng.integers(len(shape)))]
        if self.chance(0.05):
            shape.insert(0, int(self.rng.integers(1, 4)))
        return shape

    def any_dtype(self) -> str:
        if self.chance(0.15):
            return str(self.rng.choice(list(DTYPES)))
        return str(self.rng.choice(["bool", "int64"])) if self.chance(0.1) else self.dtype

    def any_order(self, rank: int) -> list[int]:
        order = list(self.order) if rank == len(self.order) else list(range(rank))
        if self.chance(0.1):
            self.rng.shuffle(order)
        return order

    def tensor(self) -> Arg:
        shape, dtype = self.any_shape(), self.any_dtype()
        values = self.rng.integers(0, 5, shape).astype(np_dtype(dtype))
        constant = self.chance(0.2)
        order = self.any_order(len(shape))
        return Arg(
            values,
            constant=constant,
            dim_order=order,
            planned=self.chance(0.5),
            dynamism=int(self.rng.choice([STATIC, STATIC, BOUNDED])),
        )

    def out(self) -> Out:
        shape = self.any_shape()
        dynamism = int(self.rng.choice([STATIC, BOUNDED, UNBOUND, UNBOUND]))
        if dynamism == BOUNDED and shape:
            shape[0] = shape[0] * 4 + 1
        return Out(
            shape,
            self.any_dtype(),
            self.any_order(len(shape)),
            dynamism,
            planned=dynamism != UNBOUND and self.chance(0.7),
        )

    def int(self) -> int:
        if self.chance(0.15):
            return int(self.rng.choice(np.array(HOSTILE_INTS, dtype=object)))
        return int(self.rng.integers(-2, 6))

    def number(self, kind: str) -> Any:
        rng = self.rng
        if kind == "bool":
            return self.chance(0.5)
        if kind == "float" or (kind == "Scalar" and self.chance(0.4)):
            return float(rng.choice(HOSTILE_FLOATS)) if self.chance(0.3) else float(rng.normal())
        if kind == "Scalar" and self.chance(0.2):
            return self.chance(0.5)
        if kind == "ScalarType":
            return int(rng.choice(list(DTYPES.values()))) if self.chance(0.9) else self.int()
        return str(rng.choice(TEXTS)) if kind == "str" else self.int()

    def numbers(self, kind: str) -> list[Any]:
        rank = len(self.shape)
        if kind != "bool" and self.chance(0.3):
            return [*self.shape]
        n = int(self.rng.choice([0, 1, 2, 2, rank, rank, 2 * rank, 40]))
        return [self.number("int" if kind in ("SymInt", "Scalar") else kind) for _ in range(n)]

    def argument(self, kind: str, written: bool, marks: str, is_first: bool) -> Any:
        if marks.endswith("?") and not written and self.chance(0.4):
            return None
        if kind == "Tensor" and written and "[" in marks:
            return [self.out() for _ in range(int(self.rng.integers(0, 5)))] or [self.out()]
        if kind == "Tensor" and written:
            return self.tensor() if is_first else self.out()
        if kind == "Tensor" and "[" in marks:
            items = [self.tensor() for _ in range(int(self.rng.integers(1, 5)))]
            if "?[" in marks:
                return [None if self.chance(0.3) else item for item in items]
            return items
        if kind == "Tensor":
            return self.tensor()
        return self.numbers(kind) if "[" in marks else self.number(kind)


def add_call(ops: SingleOps, schema: str, rng: np.random.Generator) -> None:
    """Add one method with one call of the operator."""
    name, arguments, result = parse(schema)
    caller = Caller(rng)
    args = [caller.argument(*a, i == 0) for i, a in enumerate(arguments)]
    if result in ("Scalar", "int", "bool", "SymInt", "float"):
        ops.add(name, *args, Slot(rng.choice([0, 1.5]).item()))
    elif any(
        isinstance(a, Out) or (isinstance(a, list) and a and isinstance(a[0], Out)) for a in args
    ):
        ops.add(name, *args)
    else:
        ops.add(name, *args, returns=[0])


def programs(seed: int, calls: int = 12) -> Iterator[tuple[str, bytes]]:
    """Yield one program per operator, with the given number of calls."""
    for schema in schemas():
        name = parse(schema)[0]
        digits = [seed, *name.encode()]
        rng = np.random.default_rng(digits)
        ops = SingleOps()
        for _ in range(calls):
            add_call(ops, schema, rng)
        yield re.sub(r"\W", "_", name), ops.build()
