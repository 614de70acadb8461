"""Attention of several calls as one: equal results, complete traces, no fusion where a call can
tell. Fused results differ from those of the single calls, which a traced call runs, in last places;
so a test sees whether a chain is fused."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from executorch_c import InvalidArgumentError, Method, Program, Runtime
from tests.exports import export
from tests.plans import BOUNDED, Plan, V, build

Fn = Callable[..., torch.Tensor]


def is_fused(method: Method, inputs: list[np.ndarray]) -> bool:
    output = method.execute(inputs)[0]
    with method.tracing():
        traced = method.execute(inputs)[0]
    return not np.array_equal(output, traced, equal_nan=True)


def check(program: Program, inputs: list[np.ndarray], want: np.ndarray, fused: bool) -> None:
    """Compare all ways to run a program; `fused`: without delegates."""
    one, two = (
        program.load_method("forward", delegate_at_load=False, num_threads=n) for n in (1, 2)
    )
    assert is_fused(one, inputs) == fused
    for _ in range(2):
        (output,), (also,) = one.execute(inputs), two.execute(inputs)
        np.testing.assert_allclose(output, want, rtol=2e-6, atol=2e-6)
        np.testing.assert_array_equal(output, also)
    plain = program.load_method("forward", kernels="reference")
    for method in (program.load_method("forward"), plain):
        np.testing.assert_allclose(method.execute(inputs)[0], want, rtol=2e-6, atol=2e-6)
    assert not is_fused(plain, inputs)


# ---- exported ------------------------------------------------------------------------------------


def tensors(batch: int, heads: int, rows: int, keys: int, dim: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(rows + keys)
    shapes = ((batch, heads, n, dim) for n in (rows, keys, keys))
    return [torch.randn(shape, generator=generator) for shape in shapes]


def mask_of(*shape: int) -> torch.Tensor:
    """Return a mask with hidden keys and a row of -inf, where it has several rows."""
    generator = torch.Generator().manual_seed(sum(shape))
    mask = torch.randn(shape, generator=generator)
    mask[torch.rand(shape, generator=generator) < 0.3] = -math.inf
    if len(shape) == 1 or shape[-2] == 1:
        mask[..., 0] = 0
    else:
        mask[..., 2, :] = -math.inf
    return mask


def eager(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any = None) -> torch.Tensor:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + mask
    return scores.softmax(-1) @ v


def scaled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (0.3 * (q @ k.transpose(-1, -2)) * 0.7).softmax(-1) @ v


def unscaled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any) -> torch.Tensor:
    a, b, c = q[0], k[0].transpose(1, 2), v[0]
    return (mask + torch.bmm(a, b)).softmax(2) @ c


def safe(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any = None) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


SHAPE = (2, 3, 150, 150, 20)
FINITE = mask_of(2, 3, 150, 150).clamp(min=-1e4)
FINITE[..., 2, :] = 0  # else the scores of a row are only numbers near -10,000, of three decimals
CASES: dict[str, tuple[Fn, tuple[int, ...], Any]] = {
    "eager": (eager, SHAPE, None),
    "eager, one head": (eager, (1, 1, 2000, 66, 33), None),
    "eager, mask of everything": (eager, SHAPE, FINITE),
    "eager, mask of keys": (eager, SHAPE, mask_of(2, 1, 1, 150)),
    "eager, mask of a batch": (eager, SHAPE, FINITE[:, :1]),
    "eager, mask of heads": (eager, SHAPE, FINITE[:1, :, :1]),
    "eager, mask of rows": (eager, SHAPE, FINITE[0, 0]),
    "eager, mask of all keys": (eager, SHAPE, mask_of(150)),
    "factors": (scaled, SHAPE, None),
    "three dimensions": (unscaled, (1, 9, 150, 101, 8), FINITE[0, :1, :, :101]),
    "three dimensions, masks": (unscaled, (1, 6, 150, 150, 8), FINITE.flatten(0, 1)),
    "sdpa": (safe, SHAPE, None),
    "sdpa, mask of everything": (safe, SHAPE, mask_of(2, 3, 150, 150)),
    "sdpa, mask of a batch": (safe, SHAPE, mask_of(2, 1, 150, 150)),
    "sdpa, mask of rows": (safe, (1, 2, 260, 260, 64), mask_of(260, 260)),
    "sdpa, mask of keys": (safe, SHAPE, mask_of(2, 1, 1, 150)),
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", CASES)
def test_exported(name: str) -> None:
    fn, shape, mask = CASES[name]
    inputs = [*tensors(*shape), *([] if mask is None else [mask])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = Runtime.get().load_program(export(fn, *inputs))
    check(program, [x.numpy() for x in inputs], fn(*inputs).numpy(), True)
    reasons = {
        (row["operator"], row["reason"]) for row in program.load_method("forward").undelegated()
    }
    assert (("aten::bmm.out", "fused with other calls") in reasons) == (fn is safe)


# ---- single calls --------------------------------------------------------------------------------


class Chain:
    """An attention of one call each, whose operands are computed; every tensor has memory of its
    own. Subclasses and tests change parts of it."""

    n, rows, keys, dim = 2, 300, 220, 12
    scale: Any = 0.3
    alpha: Any = 1
    axis = -1

    def __init__(self) -> None:
        self.plan = plan = Plan()
        n, rows, keys, dim = self.n, self.rows, self.keys, self.dim
        self.scores_shape = (n, rows, keys)
        self.shapes = {
            "q": (n, rows, dim),
            "k": (n, dim, keys),
            "v": (n, keys, dim),
            "mask": (rows, keys),
        }
        self.inputs = {name: plan.input(shape) for name, shape in self.shapes.items()}
        self.operands = {name: plan.tensor(shape) for name, shape in self.shapes.items()}
        self.scores, self.scaled, self.masked, self.weights = (
            plan.tensor(self.scores_shape) for _ in range(4)
        )
        self.out, self.y = plan.tensor((n, rows, dim)), plan.output((n, rows, dim))

    def offset(self, tensor: V) -> int:
        return self.plan.plan.values[tensor].val.allocation_info.memory_offset_low

    def between(self) -> None:
        """Append calls after the softmax."""

    def calls(self) -> None:
        plan, of = self.plan, self.operands
        for name, source in self.inputs.items():
            plan.call("aten::mul.Scalar_out", source, 1.0, of[name])
        plan.call("aten::bmm.out", of["q"], of["k"], self.scores)
        plan.call("aten::mul.Scalar_out", self.scores, self.scale, self.scaled)
        plan.call("aten::add.out", self.scaled, of["mask"], self.alpha, self.masked)
        plan.call("aten::_softmax.out", self.masked, self.axis, False, self.weights)
        self.between()
        plan.call("aten::bmm.out", self.weights, of["v"], self.out)
        plan.call("aten::mul.Scalar_out", self.out, 2.0, self.y)

    def check(self, fused: bool) -> None:
        rng = np.random.default_rng(1)
        inputs = [rng.standard_normal(x).astype(np.float32) / 2 for x in self.shapes.values()]
        program = Runtime.get().load_program(build(self.plan))
        plain = program.load_method("forward", kernels="reference")
        check(program, inputs, plain.execute(inputs)[0], fused)


def test_a_chain() -> None:
    chain = Chain()
    chain.calls()
    chain.check(True)


OTHER = {
    "alpha": {"alpha": 2},
    "axis": {"axis": 1},
    "few rows": {"rows": 16, "n": 40},
    "few scores": {"rows": 290},
    "a scale that is infinite": {"scale": -math.inf},
}


@pytest.mark.parametrize("name", OTHER)
def test_another_number(name: str) -> None:
    chain = type("Other", (Chain,), OTHER[name])()
    if name == "a scale that is infinite":  # e^(-inf) and NaN: only that it is not fused
        chain.calls()
        method = Runtime.get().load_program(build(chain.plan)).load_method("forward")
        assert not is_fused(method, [np.ones(x, np.float32) for x in chain.shapes.values()])
        return
    chain.calls()
    chain.check(False)


@pytest.mark.parametrize("name", ["scores", "scaled", "masked", "weights"])
def test_a_result_that_is_an_output(name: str) -> None:
    chain = Chain()
    chain.plan.take(getattr(chain, name))
    chain.calls()
    inputs = [np.full(x, 0.5, np.float32) for x in chain.shapes.values()]
    program = Runtime.get().load_program(build(chain.plan))
    outputs = program.load_method("forward", delegate_at_load=False).execute(inputs)
    want = program.load_method("forward", kernels="reference").execute(inputs)
    for a, b in zip(outputs, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", ["scores", "scaled", "masked", "weights"])
def test_a_result_that_is_read_later(name: str) -> None:
    chain = Chain()
    chain.calls()
    later = chain.plan.tensor(chain.scores_shape)
    chain.plan.call("aten::mul.Scalar_out", getattr(chain, name), 3.0, later)
    chain.check(False)


def test_memory_that_is_read_later() -> None:
    """A view without an instruction: the memory of the weights under another name."""
    chain = Chain()
    chain.calls()
    size = chain.n * chain.rows * chain.keys
    view = chain.plan.tensor((size,), at=chain.offset(chain.weights))
    chain.plan.call("aten::mul.Scalar_out", view, 3.0, chain.plan.tensor((size,)))
    chain.check(False)


def test_views_between() -> None:
    """The exporter gives views the memory of their bases."""
    chain = Chain()
    shape = (1, *chain.scores_shape)
    for name in ("scores", "weights"):
        base = getattr(chain, name)
        view = chain.plan.tensor(shape, at=chain.offset(base))
        setattr(chain, name + "_view", view)
    chain.scaled, chain.masked = (chain.plan.tensor(shape) for _ in range(2))
    plan, of = chain.plan, chain.operands
    for name, source in chain.inputs.items():
        plan.call("aten::mul.Scalar_out", source, 1.0, of[name])
    plan.call("aten::bmm.out", of["q"], of["k"], chain.scores)
    plan.call("aten::mul.Scalar_out", chain.scores_view, 0.3, chain.scaled)
    plan.call("aten::add.out", chain.scaled, of["mask"], 1, chain.masked)
    plan.call("aten::_softmax.out", chain.masked, 3, False, chain.weights_view)
    plan.call("aten::bmm.out", chain.weights, of["v"], chain.out)
    plan.call("aten::mul.Scalar_out", chain.out, 2.0, chain.y)
    chain.check(True)


@pytest.mark.parametrize("writes", ["another", "v"])
def test_a_call_between(writes: str) -> None:
    class Between(Chain):
        def between(self) -> None:
            to = self.plan.tensor(self.shapes["v"]) if writes == "another" else self.operands["v"]
            self.plan.call("aten::mul.Scalar_out", self.inputs["v"], 1.5, to)

    chain = Between()
    chain.calls()
    chain.check(False)


def test_a_copy_of_the_values_between() -> None:
    """Exports expand the values right before the product, often into the memory of q."""

    class Copied(Chain):
        def between(self) -> None:
            copy = self.plan.tensor(self.shapes["v"], at=self.offset(self.operands["q"]))
            self.plan.call(
                "aten::expand_copy.out", self.operands["v"], [*self.shapes["v"]], False, copy
            )
            self.operands["v"] = copy

    chain = Copied()
    chain.calls()
    chain.check(True)


@pytest.mark.parametrize(
    "operand, member",
    [("v", "scores"), ("v", "weights"), ("mask", "scores"), ("v", "masked"), ("mask", "scaled")],
)
def test_an_operand_in_the_memory_of_a_result(operand: str, member: str) -> None:
    """The chain writes the memory of the operand before it is read."""
    chain = Chain()
    at = chain.offset(getattr(chain, member)) + 64
    chain.operands[operand] = chain.plan.tensor(chain.shapes[operand], at=at)
    chain.calls()
    chain.check(False)


@pytest.mark.parametrize("name", ["q", "k", "v", "mask"])
@pytest.mark.parametrize("distance", [0, 64])
def test_an_output_in_the_memory_of_an_operand(name: str, distance: int) -> None:
    """The last product may overwrite what only calls before it read."""
    chain = Chain()
    if name == "v":  # read by the last product itself: copied before
        copy = chain.plan.tensor(chain.shapes["v"])
        source = chain.operands["v"]
        chain.between = lambda: chain.plan.call(  # type: ignore[method-assign]
            "aten::clone.out", source, None, copy
        )
        at = chain.offset(source)
        chain.out = chain.plan.tensor((chain.n, chain.rows, chain.dim), at=at + distance)
        plan, of = chain.plan, chain.operands
        for key, value in chain.inputs.items():
            plan.call("aten::mul.Scalar_out", value, 1.0, of[key])
        plan.call("aten::bmm.out", of["q"], of["k"], chain.scores)
        plan.call("aten::_softmax.out", chain.scores, -1, False, chain.weights)
        chain.between()
        plan.call("aten::bmm.out", chain.weights, copy, chain.out)
        plan.call("aten::mul.Scalar_out", chain.out, 2.0, chain.y)
    else:
        at = chain.offset(chain.operands[name]) + distance
        chain.out = chain.plan.tensor((chain.n, chain.rows, chain.dim), at=at)
        chain.calls()
    program = Runtime.get().load_program(build(chain.plan))
    rng = np.random.default_rng(2)
    inputs = [rng.standard_normal(x).astype(np.float32) / 2 for x in chain.shapes.values()]
    want = program.load_method("forward", kernels="reference").execute(inputs)[0]
    check(program, inputs, want, True)


@pytest.mark.parametrize("shape", [(5, 220), (7, 1, 220), (600, 220), (2, 5, 220)])
def test_a_mask_of_another_shape(shape: tuple[int, ...]) -> None:
    """The sum refuses it; the engine would read other memory."""

    class Wrong(Chain):
        def __init__(self) -> None:
            super().__init__()
            self.operands["mask"] = self.plan.tensor(shape)

        def calls(self) -> None:
            self.inputs["mask"] = self.plan.input(shape)
            super().calls()

    chain = Wrong()
    chain.calls()
    program = Runtime.get().load_program(build(chain.plan))
    inputs = [np.zeros(x, np.float32) for x in (*chain.shapes.values(), shape)]
    for options in ({"delegate_at_load": False}, {"kernels": "reference"}):
        method = program.load_method("forward", **options)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError, match="does not broadcast|shape"):
            method.execute(inputs)


def test_a_scale_that_a_call_computes() -> None:
    chain = Chain()
    plan, of = chain.plan, chain.operands
    for name, source in chain.inputs.items():
        plan.call("aten::mul.Scalar_out", source, 1.0, of[name])
    plan.call("aten::bmm.out", of["q"], of["k"], chain.scores)
    plan.call("aten::mul.out", chain.scores, plan.input((1,)), chain.scaled)
    plan.call("aten::_softmax.out", chain.scaled, -1, False, chain.weights)
    plan.call("aten::bmm.out", chain.weights, of["v"], chain.out)
    plan.call("aten::mul.Scalar_out", chain.out, 2.0, chain.y)
    program = Runtime.get().load_program(build(plan))
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(x).astype(np.float32) for x in (*chain.shapes.values(), (1,))]
    want = program.load_method("forward", kernels="reference").execute(inputs)[0]
    check(program, inputs, want, False)


# ---- dynamic shapes ------------------------------------------------------------------------------


class Grouped(torch.nn.Module):
    """Attention as in Llama and Qwen of transformers: groups of heads share keys and values."""

    def __init__(self, fn: Fn) -> None:
        super().__init__()
        self.fn, self.heads, self.shared, self.dim = fn, 8, 2, 16
        generator = torch.Generator().manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(192, 64, generator=generator) / 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, _ = x.shape
        parts = (x @ self.weight.T).split([128, 32, 32], -1)
        q, k, v = (part.view(b, n, -1, self.dim).transpose(1, 2) for part in parts)
        index = torch.arange(n)
        mask = torch.where(index[None] <= index[:, None], 0.0, -1e30)[None, None]
        k, v = (self.repeat(part) for part in (k, v))
        return self.fn(q, k, v, mask).transpose(1, 2).reshape(b, n, -1)

    def repeat(self, x: torch.Tensor) -> torch.Tensor:
        b, h, n, dim = x.shape
        group = self.heads // self.shared
        return x[:, :, None].expand(b, h, group, n, dim).reshape(b, h * group, n, dim)


@pytest.mark.parametrize("fn", [eager, safe])
def test_exported_with_a_dynamic_length(fn: Fn) -> None:
    """Prompts are one call, tokens are the calls of the program."""
    model, x = Grouped(fn).eval(), torch.randn(1, 150, 64, generator=torch.Generator())
    shapes = ({1: torch.export.Dim("n", min=2, max=256)},)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = Runtime.get().load_program(export(model, x, dynamic_shapes=shapes))
        for n, fused in ((150, True), (20, False), (256, True), (2, False)):
            result = x[:, :1].expand(1, n, 64) * torch.linspace(-1, 1, n)[None, :, None]
            if fn is eager:
                check(program, [result.numpy()], model(result).numpy(), fused)
                continue
            method = program.load_method("forward")  # its softmax is fused at any length
            (got,) = method.execute([result.numpy()])
            np.testing.assert_allclose(got, model(result).numpy(), rtol=2e-6, atol=2e-6)


class Dynamic(Chain):
    """A chain within bounds, with views that are calls. `four` has the sizes of the scores."""

    four: Sequence[int] = (1, 2, 300, 220)

    def __init__(self) -> None:
        self.rows = self.four[2] + 80
        super().__init__()
        plan, n, rows, keys = self.plan, self.n, self.rows, self.keys
        self.bounds = self.shapes
        self.shapes = {
            **self.bounds,
            "q": (n, self.four[2], self.dim),
            "mask": (self.four[2], keys),
        }
        self.view, self.scaled, self.masked, self.weights = (
            plan.tensor((1, n, rows, keys)) for _ in range(4)
        )
        self.flat = plan.tensor((n, rows, keys))
        for value in plan.plan.values:
            if hasattr(value.val, "shape_dynamism"):
                value.val.shape_dynamism = type(value.val.shape_dynamism)(BOUNDED)

    def calls(self) -> None:
        plan, of = self.plan, self.operands
        for name, source in self.inputs.items():
            plan.call("aten::mul.Scalar_out", source, 1.0, of[name])
        plan.call("aten::bmm.out", of["q"], of["k"], self.scores)
        view = "executorch_prim::et_view.default"
        plan.call(view, self.scores, [*self.four], self.view)
        plan.call("aten::mul.Scalar_out", self.view, self.scale, self.scaled)
        plan.call("aten::add.out", self.scaled, of["mask"], self.alpha, self.masked)
        plan.call("aten::_softmax.out", self.masked, self.axis, False, self.weights)
        self.between()
        plan.call(view, self.weights, [self.n, *self.four[2:]], self.flat)
        plan.call("aten::bmm.out", self.flat, of["v"], self.out)
        plan.call("aten::mul.Scalar_out", self.out, 2.0, self.y)


def test_a_chain_within_bounds() -> None:
    chain = Dynamic()
    chain.calls()
    chain.check(True)


REFUSED = {
    "alpha": {"alpha": 2},
    "axis": {"axis": 2},
    "few scores": {"four": (1, 2, 290, 220)},
    "few rows": {"n": 40, "four": (1, 40, 16, 220)},
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_number_within_bounds(name: str) -> None:
    chain = type("Other", (Dynamic,), REFUSED[name])()
    chain.calls()
    chain.check(False)


@pytest.mark.parametrize("name", ["scores", "view", "scaled", "masked", "weights", "flat"])
def test_a_dynamic_result_that_is_read_later(name: str) -> None:
    chain = Dynamic()
    chain.calls()
    of = chain.plan.plan.values[getattr(chain, name)].val.sizes
    later = chain.plan.tensor(of, dynamism=BOUNDED)
    chain.plan.call("aten::mul.Scalar_out", getattr(chain, name), 3.0, later)
    chain.check(False)


def test_a_call_between_within_bounds() -> None:
    class Between(Dynamic):
        def between(self) -> None:
            self.plan.call("aten::mul.Scalar_out", self.inputs["v"], 1.5, self.operands["v"])

    chain = Between()
    chain.calls()
    chain.check(False)


@pytest.mark.parametrize("operand, member", [("v", "scores"), ("mask", "scaled")])
def test_a_dynamic_operand_in_the_memory_of_a_result(operand: str, member: str) -> None:
    """The chain writes the memory of the operand before it is read."""
    chain = Dynamic()
    at = chain.offset(getattr(chain, member)) + 64
    bounds = chain.bounds[operand]
    chain.operands[operand] = chain.plan.tensor(bounds, at=at, dynamism=BOUNDED)
    chain.calls()
    chain.check(False)


@pytest.mark.parametrize("four", [(1, 1, 300, 220), (2, 1, 220, 300)])
def test_a_view_of_other_sizes(four: tuple[int, ...]) -> None:
    """The view or the sum refuses its sizes, as without the fusion."""
    chain = Dynamic()
    chain.four = four
    chain.calls()
    program = Runtime.get().load_program(build(chain.plan))
    inputs = [np.zeros(x, np.float32) for x in chain.shapes.values()]
    texts = []
    for options in ({"delegate_at_load": False}, {"kernels": "reference"}):
        method = program.load_method("forward", **options)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError) as raised:
            method.execute(inputs)
        texts.append(str(raised.value))
    assert texts[0] == texts[1]
