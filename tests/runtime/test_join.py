"""Pointwise calls that run block by block: bits of the separate calls, for any chain and memory.

`csrc/testing/run_op.c` joins each pointwise kernel that `tests/kernels` runs, too.
"""

from collections.abc import Sequence

import numpy as np
import pytest

from executorch_c import InvalidProgramError, Method, Runtime
from tests.plans import BOUNDED, Plan, V, build

SHAPES = ((16384,), (3, 7001), (2, 64, 129), (5, 3, 37, 41), (1, 40000, 1))
UNARY = ("abs", "ceil", "cos", "erf", "exp", "neg", "relu", "sigmoid", "sqrt", "tanh", "log")
BINARY = ("add.out", "sub.out", "mul.out", "div.out", "maximum.out", "minimum.out", "atan2.out")


def load(plan: Plan, **options: object) -> Method:
    program = Runtime.get().load_program(build(plan))
    options = {"delegate_at_load": False, **options}
    return program.load_method("forward", **options)  # type: ignore[arg-type]


def separate(method: Method, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the results of a traced call, which runs each call on its own."""
    with method.tracing():
        return method.execute(inputs)


def numbers(rng: np.random.Generator, shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
    x = rng.standard_normal(shape)
    x[rng.random(shape) < 0.01] = np.nan
    x[rng.random(shape) < 0.01] = -np.inf
    x[rng.random(shape) < 0.01] = np.inf
    x[rng.random(shape) < 0.02] = -0.0
    return x.astype(dtype)


def broadcast(rng: np.random.Generator, shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape that broadcasts to another one: 0-d, a row, a column, a channel, all of it."""
    kept = tuple(n if rng.random() < 0.6 else 1 for n in shape)
    return kept[rng.integers(0, len(kept) + 1) if rng.random() < 0.4 else 0 :]


class Chain:
    """Random calls on tensors of one shape, and on some that broadcast to it."""

    def __init__(self, seed: int, calls: int = 12) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.plan, self.shape = Plan(), SHAPES[seed % len(SHAPES)]
        self.plan.place(16 * int(np.prod(self.shape)), 0)  # four tensors that values share
        order = tuple(rng.permutation(len(self.shape))) if rng.random() < 0.3 else None
        self.order = None if order is None else [int(d) for d in order]
        self.inputs: list[np.ndarray] = []
        self.values: list[V] = []
        self.sides = [self.input(broadcast(rng, self.shape), None) for _ in range(3)]
        for _ in range(2):
            self.values.append(self.input(self.shape, self.order))
        for _ in range(calls):
            self.call()

    def input(self, shape: tuple[int, ...], order: list[int] | None) -> V:
        array = numbers(self.rng, shape)
        if order is not None:
            array = array.transpose(order).copy().transpose(np.argsort(order))
        self.inputs.append(array)
        return self.plan.input(shape, order=order)

    def out(self) -> V:
        """Return a new tensor, an output, or one whose value another call overwrites."""
        kind = self.rng.random()
        if kind < 0.15 and len(self.values) > 2:
            return self.values[int(self.rng.integers(2, len(self.values)))]
        make = self.plan.output if kind < 0.3 else self.plan.tensor
        size = 4 * int(np.prod(self.shape))
        at = int(self.rng.integers(0, 4)) * size if kind > 0.7 else None
        options = {} if at is None else {"at": at}
        return make(self.shape, order=self.order, **options)

    def call(self) -> None:
        rng, one = self.rng, self.pick()
        kind, alpha = rng.random(), 1 + int(rng.integers(0, 2))
        out = self.out()
        if kind < 0.4:
            self.plan.call(f"aten::{rng.choice(UNARY)}.out", one, out)
        elif kind < 0.5:
            self.plan.call("aten::clamp.out", one, -1.5, None if rng.random() < 0.3 else 0.5, out)
        elif kind < 0.6:
            self.plan.call("aten::pow.Tensor_Scalar_out", one, float(rng.integers(0, 4)), out)
        else:
            other = self.sides[int(rng.integers(0, 3))] if kind < 0.8 else self.pick()
            pair = [one, other] if rng.random() < 0.5 else [other, one]
            name = str(rng.choice(BINARY))
            more = [alpha] if name[:3] in ("add", "sub") else []
            self.plan.call(f"aten::{name}", *pair, *more, out)
        self.values.append(out)

    def pick(self) -> V:
        last = len(self.values) - 1
        return self.values[last if self.rng.random() < 0.6 else int(self.rng.integers(0, last + 1))]


class Arithmetic(Chain):
    """Random arithmetic, mostly on the last result: what chains keep in registers."""

    def call(self) -> None:
        rng, kind = self.rng, self.rng.random()
        one, private = self.values[-1], rng.random() < 0.8
        out = self.plan.tensor(self.shape, order=self.order) if private else self.out()
        rare = rng.random() < 0.04  # results of these would hide others
        number = float(rng.choice([0.0, np.inf, np.nan] if rare else [3.0, -0.7, 6.0]))
        if kind < 0.2:
            low, high = sorted((3 * rng.standard_normal(2)).tolist(), reverse=rare)
            bounds = [[low, high], [low, None], [None, high], [None, number]][rng.integers(0, 4)]
            self.plan.call("aten::clamp.out", one, *bounds, out)
        elif kind < 0.25:
            self.plan.call("aten::hardtanh.out", one, -4.0, 5.0, out)
        else:
            scalar = kind < 0.7
            names = ["add", "sub", "mul", "div"] + ["rsub"] * scalar
            name = str(rng.choice(names))
            pair = [one, number if scalar else self.pick()]
            alpha = [int(rng.choice([1, 1, -1, 2]))] if name[-3:] in ("add", "sub") else []
            pair = pair[::-1] if not scalar and rng.random() < 0.5 else pair
            self.plan.call(f"aten::{name}.{'Scalar_out' if scalar else 'out'}", *pair, *alpha, out)
        self.values.append(out)


def assert_same_bits(result: np.ndarray, expected: np.ndarray, payloads: bool) -> None:
    """Compare bits, of NaNs only with `payloads`."""
    if payloads:
        result, expected = result.view(np.uint32), expected.view(np.uint32)
    else:
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(expected[numbers]))
    np.testing.assert_array_equal(result, expected)


SEEDS = [*((Chain, seed) for seed in range(60)), *((Arithmetic, 1000 + i) for i in range(24))]


@pytest.mark.parametrize("make, seed", SEEDS)
def test_random_chains(make: type[Chain], seed: int) -> None:
    chain = make(seed)
    if make is Arithmetic or not chain.plan.plan.outputs:
        chain.plan.plan.outputs.append(chain.values[-1])
    for threads in (1, 2):
        method = load(chain.plan, num_threads=threads)
        want = separate(method, chain.inputs)
        for _ in range(2):
            for output, expected in zip(method.execute(chain.inputs), want, strict=True):
                assert_same_bits(output, expected, payloads=make is Chain)


def hardswish(shape: Sequence[int], dtype: str = "float32", **options: object) -> Plan:
    plan = Plan()
    x, y = plan.input(shape, dtype, **options), plan.output(shape, dtype, **options)
    inner = [plan.tensor(shape, dtype, **options) for _ in range(3)]
    plan.call("aten::add.Scalar_out", x, 3, 1, inner[0])
    plan.call("aten::clamp.out", inner[0], 0, 6, inner[1])
    plan.call("aten::mul.out", x, inner[1], inner[2])
    plan.call("aten::div.Scalar_out", inner[2], 6, y)
    return plan


@pytest.mark.parametrize("shape", [(), (0, 4), (5, 6), (70, 1000)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_shapes_and_dtypes(shape: tuple[int, ...], dtype: str) -> None:
    method = load(hardswish(shape, dtype))
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    (want,) = separate(method, [x])
    (output,) = method.execute([x])
    np.testing.assert_array_equal(output, want)


def test_shapes_that_change_between_calls() -> None:
    method = load(hardswish((100, 1000), dynamism=BOUNDED))
    plain = load(hardswish((100, 1000), dynamism=BOUNDED), kernels="reference")
    rng = np.random.default_rng(0)
    for shape in ((100, 1000), (3, 5), (99, 999), (0, 4), (40, 500), (100, 1000)):
        x = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(method.execute([x])[0], plain.execute([x])[0])


def test_an_error_names_its_call() -> None:
    """The loops before it have run, as if each call had run on its own."""
    plan, n = Plan(), 20000
    x, side, y = plan.input((n,)), plan.input((n,), dynamism=BOUNDED), plan.output((n,))
    inner = [plan.tensor((n,)) for _ in range(2)]
    plan.call("aten::exp.out", x, inner[0])
    plan.call("aten::add.out", inner[0], side, 1, inner[1])
    plan.call("aten::relu.out", inner[1], y)
    method, ones = load(plan), np.ones(n, np.float32)
    with pytest.raises(Exception, match=r"instruction 1: aten::add.out: .*broadcast") as error:
        method.execute([ones, ones[:7]])
    assert "relu" not in str(error.value)
    (want,) = separate(method, [ones, ones])
    np.testing.assert_array_equal(method.execute([ones, ones])[0], want)


def test_constants_are_not_written() -> None:
    from tests.plans import Constants

    plan, constants, n = Plan(), Constants(), 20000
    x = plan.input((n,))
    weight = plan.constant(constants, np.ones(n, np.float32))
    inner, y = plan.tensor((n,)), plan.output((n,))
    plan.call("aten::exp.out", x, inner)
    plan.call("aten::relu.out", inner, weight)
    plan.call("aten::relu.out", weight, y)
    data = build(plan, constants=constants)
    method = Runtime.get().load_program(data).load_method("forward", delegate_at_load=False)
    for _ in range(2):
        with pytest.raises(InvalidProgramError, match=r"instruction 1: aten::relu.out: .*constant"):
            method.execute([np.ones(n, np.float32)])


@pytest.mark.parametrize("shift", [0, 4, 64, 4096])
def test_memory_that_calls_share(shift: int) -> None:
    """The second call reads what the first has written, at other places, while blocks alternate."""
    plan, n = Plan(), 30000
    x, y = plan.input((n,)), plan.output((n,))
    first = plan.tensor((n,), at=100 * n)
    moved = plan.tensor((n,), at=100 * n + shift)
    plan.call("aten::mul.Scalar_out", x, 2.0, first)
    plan.call("aten::exp.out", x, plan.tensor((n,), at=200 * n))
    plan.call("aten::add.Scalar_out", moved, 1.0, 1, y)
    method = load(plan)
    array = np.arange(n, dtype=np.float32)
    (want,) = separate(method, [array])
    for _ in range(2):
        np.testing.assert_array_equal(method.execute([array])[0], want)
