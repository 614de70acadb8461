"""Copies of the same bytes at load: one address for operand and result, equal results, nothing that
a call can observe."""

import numpy as np
import pytest
import torch

from executorch_c import Error, Method, Runtime
from tests.exports import lowered
from tests.plans import Plan, V, build

BYTES = 1024 * 4
X = np.arange(1024, dtype=np.float32)


def load(pte: bytes, **options: object) -> Method:
    options = {"delegate_at_load": False, **options}
    return Runtime.get().load_program(pte).load_method("forward", **options)  # type: ignore


def merged_bytes(pte: bytes) -> int:
    """Return the memory of copies; `kernels="reference"` has none."""
    assert load(pte, kernels="reference").memory()["merged"] == 0
    return load(pte).memory()["merged"]


def check(plan: Plan, expected: np.ndarray, merged: bool) -> None:
    pte = build(plan)
    assert (merged_bytes(pte) > 0) == merged
    for options in ({}, {"kernels": "reference"}, {"delegate_at_load": "always"}):
        method = load(pte, **options)
        for k in range(3):
            (output,) = method.execute([X + k])
            np.testing.assert_array_equal(output, expected if k == 0 else output)
        with method.tracing(values=True) as trace:
            (output,) = method.execute([X])
        np.testing.assert_array_equal(output, expected)
        assert len(trace.events) >= 3


class Chain:
    """t = x * 2; c = a copy of t; y = c + t or c + c."""

    def __init__(self, at: object = 0, copy_at: object = BYTES) -> None:
        self.plan = Plan()
        self.x, self.y = (
            self.plan.input((1024,), at=(2, 0)),
            self.plan.output((1024,), at=(2, BYTES)),
        )
        self.t = self.plan.tensor((1024,), at=at)
        self.c = self.plan.tensor((1024,), at=copy_at)
        self.plan.call("aten::mul.Scalar_out", self.x, 2.0, self.t)

    def copy(self, to: V | None = None) -> None:
        to = self.c if to is None else to
        self.plan.call("aten::expand_copy.out", self.t, [1024], False, to)

    def add(self, a: V, b: V) -> None:
        self.plan.call("aten::add.out", a, b, 1, self.y)


def test_a_copy() -> None:
    chain = Chain()
    chain.copy()
    chain.add(chain.c, chain.c)
    check(chain.plan, X * 4, merged=True)


def test_both_are_read() -> None:
    chain = Chain()
    chain.copy()
    chain.add(chain.c, chain.t)
    check(chain.plan, X * 4, merged=True)


def test_a_copy_of_a_copy() -> None:
    chain = Chain()
    other = chain.plan.tensor((1024,), at=2 * BYTES)
    chain.copy()
    chain.plan.call("aten::clone.out", chain.c, None, other)
    chain.add(other, chain.t)
    check(chain.plan, X * 4, merged=True)


def test_blocks_are_used_again() -> None:
    """Three copies in turn, of which two have values at one time."""
    plan = Plan()
    x, y = plan.input((1024,), at=(2, 0)), plan.output((1024,), at=(2, BYTES))
    value = x
    for k in range(3):
        t, c = plan.tensor((1024,), at=2 * k * BYTES), plan.tensor((1024,), at=(2 * k + 1) * BYTES)
        plan.call("aten::mul.Scalar_out", value, 2.0, t)
        plan.call("aten::view_copy.out", t, [1024], c)
        value = c
    plan.call("aten::add.out", value, value, 1, y)
    check(plan, X * 16, merged=True)
    assert merged_bytes(build(plan)) == 2 * BYTES


@pytest.mark.parametrize("written", ["operand", "result"])
def test_a_second_writer(written: str) -> None:
    chain = Chain()
    chain.copy()
    again = chain.t if written == "operand" else chain.c
    chain.plan.call("aten::mul.Scalar_out", chain.x, 3.0, again)
    chain.add(chain.c, chain.t)
    check(chain.plan, X * 5, merged=False)


@pytest.mark.parametrize("at", [0, BYTES])
def test_a_view_without_an_instruction(at: int) -> None:
    """Another tensor in the memory of the operand, or of the result, is read, never written."""
    chain = Chain()
    view = chain.plan.tensor((1024,), at=at)
    chain.copy()
    chain.add(view, chain.c)
    check(chain.plan, X * 4, merged=False)


def test_memory_that_is_used_again_later() -> None:
    """The planner gives the operand's memory to the next result, while the copy is read."""
    chain = Chain()
    chain.copy()
    later = chain.plan.tensor((1024,), at=0)
    chain.plan.call("aten::mul.Scalar_out", chain.x, 3.0, later)
    chain.add(chain.c, later)
    check(chain.plan, X * 5, merged=True)


def test_memory_that_is_used_again_too_early() -> None:
    """A fault of a planner stays visible: the copy is read after its memory was overwritten."""
    chain = Chain()
    chain.copy()
    early = chain.plan.tensor((1024,), at=BYTES)
    chain.plan.call("aten::mul.Scalar_out", chain.x, 3.0, early)
    chain.add(chain.c, chain.t)
    check(chain.plan, X * 5, merged=False)


def test_an_output_is_not_moved() -> None:
    chain = Chain()
    chain.copy(chain.y)
    check(chain.plan, X * 2, merged=False)


def test_wrong_sizes_are_an_error() -> None:
    chain = Chain()
    chain.plan.call("aten::expand_copy.out", chain.t, [1000], False, chain.c)
    chain.add(chain.c, chain.c)
    method = load(build(chain.plan))
    for _ in range(2):
        with pytest.raises(Error, match="not an expansion"):
            method.execute([X])


def parts(name: str, *args: object, at: list[int], rows: int = 1) -> np.ndarray:
    """Return the result of a program: the sum of two parts of 512 of x * 2."""
    plan = Plan()
    shape = (1024,) if rows == 1 else (rows, 1024 // rows)
    x, y = plan.input(shape, at=(2, 0)), plan.output((512,), at=(2, BYTES))
    t = plan.tensor(shape, at=0)
    both = [plan.tensor((512,), at=k) for k in at]
    plan.call("aten::mul.Scalar_out", x, 2.0, t)
    if name.startswith("aten::slice"):
        for start, out in zip((0, 512), both):
            plan.call(name, t, 0, start, start + 512, 1, out)
    else:
        plan.call(name, t, *args, both)
    plan.call("aten::sub.out", both[0], both[1], 1, y)
    pte, inputs = build(plan), X.reshape(shape)
    assert merged_bytes(pte) == BYTES, name
    for options in ({}, {"kernels": "reference"}, {"delegate_at_load": "always"}):
        method = load(pte, **options)
        for _ in range(3):
            (output,) = method.execute([inputs])
            np.testing.assert_array_equal(output, 2 * (X[:512] - X[512:]))
    return output


def test_slices_and_splits() -> None:
    at = [BYTES, BYTES + BYTES // 2]
    parts("aten::slice_copy.Tensor_out", at=at)
    parts("aten::split_copy.Tensor_out", 512, 0, at=at)
    parts("aten::split_with_sizes_copy.out", [512, 512], -1, at=at)
    parts("aten::unbind_copy.int_out", 0, at=at, rows=2)


def sliced(at: int, size: int, *args: int, shape: tuple[int, ...] = (1024,)) -> bytes:
    """Return the program of a slice of x * 2, plus 1; a shape makes the operand a view of it."""
    plan = Plan()
    row = (size,) if len(shape) == 1 else (1, size)
    x, y = plan.input((1024,), at=(2, 0)), plan.output(row, at=(2, BYTES))
    t, out = plan.tensor((1024,), at=0), plan.tensor(row, at=at)
    operand = t if shape == (1024,) else plan.tensor(shape, at=0)
    plan.call("aten::mul.Scalar_out", x, 2.0, t)
    plan.call("aten::slice_copy.Tensor_out", operand, *args, out)
    plan.call("aten::add.Scalar_out", out, 1.0, 1, y)
    return build(plan)


@pytest.mark.parametrize(
    "args, merged",
    [
        ((0, 4, 516, 1), True),
        ((0, -512, None, 1), True),
        ((0, 600, 5000, 1), True),
        ((0, 1, 513, 1), False),  # an address that is not aligned
        ((0, 0, 1024, 2), False),
        ((0, 0, 32, 1), False),  # small
    ],
    ids=str,
)
def test_slices(args: tuple[int, ...], merged: bool) -> None:
    expected = (2 * X)[slice(*args[1:])] + 1
    pte = sliced(BYTES, expected.size, *args)
    assert (merged_bytes(pte) > 0) == merged
    for options in ({}, {"kernels": "reference"}, {"delegate_at_load": "always"}):
        method = load(pte, **options)
        for k in range(3):
            (output,) = method.execute([X + k])
            np.testing.assert_array_equal(output, expected + 2 * k)


def test_a_slice_of_a_view_without_an_instruction() -> None:
    """The operand is a view of a product, which has its memory, and nothing else has."""
    pte = sliced(BYTES, 512, 0, 1, 2, 1, shape=(2, 512))
    assert merged_bytes(pte) == BYTES
    method = load(pte)
    for k in range(3):
        (output,) = method.execute([X + k])
        np.testing.assert_array_equal(output[0], 2 * (X[512:] + k) + 1)


class Heads(torch.nn.Module):
    """An attention of four heads, as MobileViT has: each of its products expands both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.norm = torch.nn.Linear(32, 96), torch.nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).reshape(2, 64, 3, 4, 8).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)).softmax(-1)
        return self.norm((scores @ v).transpose(1, 2).reshape(2, 64, 32))


@pytest.mark.parametrize("threads", [1, 2])
def test_beside_delegates(threads: int) -> None:
    torch.manual_seed(0)
    model, x = Heads().eval(), torch.randn(2, 64, 32)
    pte = lowered(model, x, delegated=True)
    assert b"expand_copy" in pte and merged_bytes(pte) > 0
    method, plain = load(pte, num_threads=threads), load(pte, kernels="reference")
    for k in range(3):
        (output,), (expected,) = method.execute([(x + k).numpy()]), plain.execute([(x + k).numpy()])
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(output, model(x + k).detach().numpy(), rtol=1e-4, atol=1e-4)
