"""Random programs with many copies of the same bytes: calls that share memory with their operands
have the results of plain kernels, wherever the plan has its tensors."""

from typing import Any

import numpy as np
import pytest

from executorch_c import Runtime
from tests.backends.xnnpack_graphs import Graph
from tests.plans import PLANNED, Plan, V, build, schema

SIZES = (512, 1024)
COPIES = (
    "aten::expand_copy.out",
    "aten::clone.out",
    "aten::view_copy.out",
    "aten::slice_copy.Tensor_out",
    "dim_order_ops::_clone_dim_order.out",
)


def negation(size: int) -> bytes:
    """Return a payload of XNNPACK's."""
    graph = Graph()
    graph.unary("Negate", graph.input((size,)), graph.output((size,)))
    return graph.payload()


class Copies:
    """A program whose calls are exact, so that all ways to run it agree to the last bit."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.plan = Plan()
        self.delegates = [self.plan.delegate("XnnpackBackend", i) for i in range(len(SIZES))]
        self.size = dict[V, int]()
        self.overlaps = 0.2 if rng.random() < 0.3 else 0.0
        self.values = [self.own(self.plan.input((size,)), size) for size in SIZES]
        self.inputs = list(self.values)
        if rng.random() < 0.2:  # the memory's last value, unless one instruction has written it
            self.values.append(self.own(self.plan.tensor((SIZES[1],), at=PLANNED), SIZES[1]))
        self.outputs: list[V] = []
        for _ in range(int(rng.integers(6, 16))):
            self.step()
        for output in {*self.choices(2), *self.values[-1:]} - {*self.inputs}:
            self.outputs += self.plan.take(output)

    def choices(self, count: int) -> list[V]:
        return [self.values[int(i)] for i in self.rng.integers(len(self.values), size=count)]

    def own(self, tensor: V, size: int) -> V:
        self.size[tensor] = size
        return tensor

    def meet(self, at: int, size: int) -> list[V]:
        """Return the values whose memory includes some of the bytes."""
        places = [(value, *self.plan.memory(value)) for value in self.values]
        return [value for value, begin, end in places if begin < at + 4 * size and at < end]

    def result(self, size: int, operands: list[V]) -> V:
        """Return a tensor with new memory, with that of dead values, as a planner assigns it, or
        rarely with that of live values, which it then overwrites."""
        rng = self.rng
        if rng.random() < 0.1:  # a second writer
            old = [v for v in self.values if self.size[v] == size and v not in self.inputs]
            old = [v for v in old if not {*self.meet(self.plan.memory(v)[0], size)} & {*operands}]
            if old:
                return old[int(rng.integers(len(old)))]
        if rng.random() < 0.5:
            at = self.plan.memory(self.choices(1)[0])[0] + int(rng.choice([0, 64]))
            met = self.meet(at, size)
            if not {*met} & {*operands, *self.inputs}:
                if rng.random() >= self.overlaps:
                    self.values = [value for value in self.values if value not in met]
                return self.own(self.plan.tensor((size,), at=at), size)
        return self.own(self.plan.tensor((size,), at=PLANNED), size)

    def step(self) -> None:
        rng, plan = self.rng, self.plan
        operand = self.values[-1] if rng.random() < 0.6 else self.choices(1)[0]
        size = self.size[operand]
        others = [value for value in self.values if self.size[value] == size]
        other = others[int(rng.integers(len(others)))]
        if rng.random() < 0.15:  # a view without an instruction
            at = plan.memory(operand)[0]
            operand = self.own(plan.tensor((size,), at=at), size)
            self.values.append(operand)
        kind = rng.random()
        halves = kind < 0.1 and size == SIZES[1]
        out = self.result(SIZES[0] if halves else size, [operand, other])
        if halves and rng.random() < 0.5:
            start = int(rng.choice([0, 100, 256, SIZES[0]]))
            plan.call("aten::slice_copy.Tensor_out", operand, 0, start, start + SIZES[0], 1, out)
        elif halves:
            rest = self.own(plan.tensor((SIZES[0],), at=PLANNED), SIZES[0])
            plan.call("aten::split_copy.Tensor_out", operand, SIZES[0], 0, [out, rest])
            self.values.append(rest)
        elif kind < 0.6:
            self.copy(COPIES[int(rng.integers(len(COPIES)))], operand, out)
        elif kind < 0.75:
            plan.append(schema.DelegateCall(self.delegates[SIZES.index(size)], [operand, out]))
        elif kind < 0.85:
            plan.call("aten::mul.Scalar_out", operand, 2.0, out)
        else:
            plan.call("aten::add.out", operand, other, 1, out)
        if out not in self.values:
            self.values.append(out)

    def copy(self, name: str, operand: V, out: V) -> None:
        size = self.size[operand]
        args: dict[str, tuple[object, ...]] = {
            "aten::expand_copy.out": ([size], False),
            "aten::view_copy.out": ([size],),
            "aten::slice_copy.Tensor_out": (0, None, size, 1),
            "aten::clone.out": (None,),
            "dim_order_ops::_clone_dim_order.out": (False, None),
        }
        self.plan.call(name, operand, *args[name], out)


METHODS: dict[str, dict[str, Any]] = {
    "reference": {"kernels": "reference"},
    "plain": {"delegate_at_load": False},
    "always": {"delegate_at_load": "always"},
}


def compare(seed: int) -> bool:
    """Compare the runs of a program, and return whether copies share memory in it."""
    copies = Copies(seed)
    pte = build(copies.plan, payloads=[negation(size) for size in SIZES])
    program = Runtime.get().load_program(pte)
    methods = {name: program.load_method("forward", **how) for name, how in METHODS.items()}
    reference = methods.pop("reference")
    assert reference.memory()["merged"] == 0
    rng = np.random.default_rng(seed)
    for _ in range(2):
        inputs = [rng.standard_normal(size).astype(np.float32) for size in SIZES]
        expected = reference.execute(inputs)
        for name, method in methods.items():
            for one, other in zip(method.execute(inputs), expected, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"seed {seed}, {name}")
    return bool(methods["plain"].memory()["merged"])


@pytest.mark.parametrize(
    "first, count", [(0, 150), pytest.param(10_000, 3000, marks=pytest.mark.heavy)]
)
def test_random_programs(first: int, count: int) -> None:
    merged = sum(compare(seed) for seed in range(first, first + count))
    assert count // 4 < merged < count, merged


@pytest.mark.parametrize("name", METHODS)
def test_state_has_the_value_of_the_output_in_its_memory(name: str) -> None:
    """An output that went to the caller's memory left what was there before it."""
    plan, size = Plan(), SIZES[1]
    x, state = plan.input((size,)), plan.tensor((size,), at=PLANNED)
    total = plan.output((size,))
    plan.call("aten::add.out", state, x, 1, total)
    twice = plan.output((size,), at=plan.memory(state)[0])
    plan.call("aten::mul.Scalar_out", x, 2.0, twice)
    method = Runtime.get().load_program(build(plan)).load_method("forward", **METHODS[name])
    last = np.zeros(size, np.float32)
    for factor in (1, 2, 3):
        now = np.full(size, factor, np.float32)
        np.testing.assert_array_equal(method.execute([now])[0], last + now)
        last = 2 * now
