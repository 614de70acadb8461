"""Random chains of calls that may be attention, valid or not: the fused call has the results of the
single calls, which a traced call runs, or their error."""

from typing import Any

import numpy as np
import pytest

from executorch_c import Error, Method, Runtime
from tests.plans import PLANNED, Plan, V, build

N, ROWS, KEYS, DIM = 2, 300, 220, 12
SCORES = (N, ROWS, KEYS)
MASKS: tuple[tuple[int, ...], ...] = (
    *((ROWS, KEYS), (1, KEYS), (KEYS,), SCORES, (N, 1, KEYS), (1, ROWS, KEYS)),
    *((1, 1, ROWS, KEYS), (5, KEYS), (7, KEYS), (3, 1, KEYS), (ROWS, 1), (1,), (5, ROWS, KEYS)),
    *((2 * ROWS, KEYS), (1, N, 5, KEYS), (KEYS, ROWS)),
)


class Chain:
    """A chain, some with odd masks, shapes, arguments or memory; `inputs` are its arguments."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.plan = Plan()
        self.placed: list[V] = []
        self.overlaps = 0.1 if rng.random() < 0.3 else 0.0
        self.odd = 0.05 if rng.random() < 0.3 else 0.0
        self.inputs: list[np.ndarray] = []
        mask = MASKS[int(rng.integers(len(MASKS)))]
        q, k, v, m = (
            self.operand(shape) for shape in ((N, ROWS, DIM), (N, DIM, KEYS), (N, KEYS, DIM), mask)
        )
        weights = self.softmax(self.masked(self.scaled(self.product(q, k)), m))
        out = self.call("aten::bmm.out", weights, v, shape=(N, ROWS, DIM))
        self.plan.call("aten::mul.Scalar_out", out, 2.0, self.plan.output((N, ROWS, DIM)))

    def tensor(self, shape: tuple[int, ...], operands: list[V]) -> V:
        """Add a tensor with memory of its own, or rarely with another tensor's; never with an
        operand's, because the result would depend on the order of the call's loops."""
        at: Any = PLANNED
        if self.placed and self.rng.random() < self.overlaps:
            at = self.plan.memory(self.placed[int(self.rng.integers(len(self.placed)))])[0]
            at += int(self.rng.choice([0, 64]))
            end = at + 4 * int(np.prod(shape))
            if any(a < end and at < b for a, b in map(self.plan.memory, operands)):
                at = PLANNED
        self.placed.append(self.plan.tensor(shape, at=at))
        return self.placed[-1]

    def is_tensor(self, value: V) -> bool:
        return getattr(self.plan.plan.values[value].val, "allocation_info", None) is not None

    def argument(self, arg: Any) -> Any:
        """Return the argument, or rarely another value of the plan."""
        if self.rng.random() >= self.odd:
            return arg
        self.plan.value(None), self.plan.value(3), self.plan.value([1, 2])
        return V(int(self.rng.integers(len(self.plan.plan.values))))

    def call(self, op: str, *args: Any, shape: tuple[int, ...] = SCORES) -> V:
        if shape == SCORES and self.rng.random() < 0.05:
            shape = [(1, *SCORES), (N, KEYS, ROWS), (N * ROWS, KEYS)][int(self.rng.integers(3))]
        arguments = [self.argument(arg) for arg in args]
        tensors = [arg for arg in arguments if isinstance(arg, V) and self.is_tensor(arg)]
        out = self.tensor(shape, tensors)
        self.plan.call(op, *arguments, out)
        return out

    def operand(self, shape: tuple[int, ...]) -> V:
        numbers = self.rng.standard_normal(shape).astype(np.float32) / 2
        self.inputs.append(numbers)
        return self.call("aten::mul.Scalar_out", self.plan.input(shape), 1.0, shape=shape)

    def product(self, q: V, k: V) -> V:
        return self.call("aten::bmm.out", q, k)

    def scaled(self, scores: V) -> V:
        op, args = [
            ("aten::mul.Scalar_out", (0.3,)),
            ("aten::div.Scalar_out", (3.0,)),
            ("aten::clone.out", (None,)),
            ("aten::view_copy.out", ([*SCORES],)),
        ][int(self.rng.integers(4))]
        return self.call(op, scores, *args)

    def masked(self, scores: V, mask: V) -> V:
        pair = (mask, scores) if self.rng.random() < 0.3 else (scores, mask)
        return self.call("aten::add.out", *pair, 1)

    def softmax(self, scores: V) -> V:
        return self.call("aten::_softmax.out", scores, int(self.rng.choice([-1, 2])), False)


def outcome(method: Method, inputs: list[np.ndarray]) -> np.ndarray | type[Error]:
    try:
        return np.asarray(method.execute(inputs)[0])
    except Error as error:
        return type(error)


def compare(seed: int) -> str:
    """Compare both runs of a chain, and return what they were."""
    chain = Chain(seed)
    try:
        method = (
            Runtime.get()
            .load_program(build(chain.plan))
            .load_method("forward", delegate_at_load=False, num_threads=1)
        )
    except Error:
        return "refused"
    result = outcome(method, chain.inputs)
    with method.tracing():
        single = outcome(method, chain.inputs)
    if isinstance(result, type) or isinstance(single, type):
        assert result is single, f"seed {seed}"
        return "failed"
    np.testing.assert_allclose(result, single, rtol=2e-6, atol=2e-6, err_msg=f"seed {seed}")
    return "single" if np.array_equal(result, single, equal_nan=True) else "fused"


@pytest.mark.parametrize(
    "first, count", [(0, 60), pytest.param(10_000, 1500, marks=pytest.mark.heavy)]
)
def test_random_chains(first: int, count: int) -> None:
    results = [compare(seed) for seed in range(first, first + count)]
    assert {"refused", "failed", "fused"} <= {*results}, results
