"""Well-formed random programs of many instructions, as starting points of mutations.

Kernels, views, moves, frees and jumps in any order over tensors whose planned memory may overlap,
with inputs of every kind, state, lists and constants. Their results are not checked.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.plans import Constants, Plan, V, build
from tests.plans import BOUNDED, STATIC, UNBOUND

SHAPES = ((2, 3), (2, 3), (128, 3))
"""The last is large enough for passes that share memory."""
SLOTS = 12
"""Places of tensors in the planned memory, a third of a tensor apart."""
UNARY = ["aten::relu.out", "aten::neg.out", "aten::sigmoid.out", "aten::abs.out"]
COPIES: dict[str, tuple[Any, ...]] = {
    "aten::clone.out": (None,),
    "aten::view_copy.out": ([-1, 3],),
    "aten::slice_copy.Tensor_out": (0, None, None, 1),
}
"""Operators that copy the same bytes, with their arguments."""
BINARY = ["aten::mul.out", "aten::maximum.out", "aten::div.out"]
SINGLE = [None, True, 7, 0.5, "nearest"]


class RandomPlan:
    """A method under construction."""

    def __init__(self, rng: np.random.Generator, name: str, constants: Constants) -> None:
        self.rng, self.plan = rng, Plan(name)
        self.shape = SHAPES[int(rng.integers(len(SHAPES)))]
        self.tensors = [self.plan.input(self.shape, **self.place()) for _ in range(2)]
        self.tensors += [self.plan.output(self.shape, **self.place()) for _ in range(2)]
        for _ in range(4):
            self.tensors.append(self.plan.tensor(self.shape, **self.place()))
        weight = rng.standard_normal(self.shape).astype(np.float32)
        self.sources = [*self.tensors, self.plan.constant(constants, weight)]
        state = constants.add_mutable(weight)
        self.tensors.append(self.plan.tensor(self.shape, buffer=state, name="state", at=(2, 0)))
        self.numbers = [self.plan.value(i) for i in range(3)]
        self.flags = [self.plan.value(flag) for flag in (True, False)]
        self.plan.give(*(value for value in SINGLE if rng.random() < 0.5))

    def place(self) -> dict[str, Any]:
        """Return a place in memory 1, possibly overlapping another tensor, or on the heap."""
        if self.rng.random() < 0.04:
            return {"at": None, "dynamism": UNBOUND}
        dynamism = int(self.rng.choice([STATIC, STATIC, BOUNDED]))
        step = self.shape[0] * self.shape[1] * 4 // 3
        return {"at": step * int(self.rng.integers(SLOTS)), "dynamism": dynamism}

    def tensors_of(self, count: int) -> list[V]:
        """Return source tensors, and a target that is not among them."""
        target = self.tensors[self.rng.integers(len(self.tensors))]
        others = [source for source in self.sources if source != target]
        return [*(others[self.rng.integers(len(others))] for _ in range(count)), target]

    def number(self) -> V:
        return self.numbers[self.rng.integers(len(self.numbers))]

    def instruction(self, length: int) -> None:
        """Append an instruction; most jumps go forward, some back."""
        plan, rng, kind = self.plan, self.rng, self.rng.integers(10)
        if kind < 2:
            plan.call(str(rng.choice(UNARY)), *self.tensors_of(1))
        elif kind < 4:
            plan.call(str(rng.choice(BINARY)), *self.tensors_of(2))
        elif kind == 4:
            name = str(rng.choice([*COPIES]))
            source, target = self.tensors_of(1)
            plan.call(name, source, *COPIES[name], target)
        elif kind == 5:
            *sources, target = self.tensors_of(1)
            plan.call("aten::cat.out", sources, 0, target)
        elif kind == 6:
            plan.move(*self.tensors_of(1))
        elif kind == 7 and rng.random() < 0.2:
            plan.free(self.tensors_of(0)[0])
        elif kind <= 8:
            plan.call("executorch_prim::add.Scalar", *(self.number() for _ in range(3)))
        else:
            back = rng.random() < 0.03
            to = int(rng.integers(length)) if back else len(plan.code) + int(rng.integers(1, 4))
            plan.jump_false(self.flags[rng.integers(2)], min(to, length))

    def fill(self) -> Plan:
        length = int(self.rng.integers(4, 24))
        for _ in range(length):
            self.instruction(length)
        self.plan.call("aten::neg.out", *self.tensors_of(1))
        self.plan.take(*(self.number() for _ in range(self.rng.integers(2))))
        return self.plan


def programs(seed: int, count: int = 60) -> Iterator[tuple[str, bytes]]:
    """Yield names and programs, some with two methods."""
    for i in range(count):
        rng, constants = np.random.default_rng([seed, i]), Constants()
        names = ["forward", "other"][: 1 + i % 2]
        plans = [RandomPlan(rng, name, constants).fill() for name in names]
        yield f"plan_{i}", build(*plans, constants=constants)
