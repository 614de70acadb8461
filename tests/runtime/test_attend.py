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
from tests.plans import BOUNDED, PLANNED, Plan, V, build, load

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


@pytest.mark.parametrize("kernels", ["default", "reference"])
@pytest.mark.parametrize(("queries", "keys", "width"), [(3, 6, 8), (33, 40, 64)])
def test_errors_of_many_draws(queries: int, keys: int, width: int, kernels: str) -> None:
    """Attention over large logits has errors no larger than eager's. exp() of logits of magnitude
    100 turns each unit in the last place of a logit into a relative error of 1e-5, so only the
    errors of many samples characterise a kernel."""
    generator = torch.Generator().manual_seed(0)

    def draw() -> list[torch.Tensor]:
        sizes = (queries, keys, keys)
        return [torch.rand(4, n, width, generator=generator) * 18 - 9 for n in sizes]

    method = load(export(safe, *draw()), kernels=kernels)
    ours, eagers = [], []
    for _ in range(300):
        inputs = draw()
        exact = safe(*(x.double() for x in inputs))
        results = torch.from_numpy(method(*(x.numpy() for x in inputs)))
        ours.append(float((results - exact).abs().max()))
        eagers.append(float((safe(*inputs) - exact).abs().max()))
    rms = [float(np.sqrt(np.mean(np.square(errors)))) for errors in (ours, eagers)]
    assert rms[0] <= 1.2 * rms[1], f"root mean square of errors {rms[0]:.2e}, eager {rms[1]:.2e}"


# ---- single calls --------------------------------------------------------------------------------


def never(chain: Any) -> None:
    """Append no calls."""


class Chain:
    """An attention of one call each, whose operands are computed; every tensor has memory of its
    own. `changes` replace attributes: `between` appends calls after the softmax, `views` reads the
    scores and weights in views without an instruction, as the exporter makes them."""

    n, rows, keys, dim = 2, 300, 220, 12
    scale: Any = 0.3
    alpha: Any = 1
    axis = -1
    views = False
    between: Callable[[Any], None] = staticmethod(never)

    def __init__(self, **changes: Any) -> None:
        vars(self).update(changes)
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
        shape = (1, *self.scores_shape) if self.views else self.scores_shape
        self.scores, self.weights = (plan.tensor(self.scores_shape) for _ in range(2))
        self.scaled, self.masked = (plan.tensor(shape) for _ in range(2))
        self.out, self.y = plan.tensor((n, rows, dim)), plan.output((n, rows, dim))

    def offset(self, tensor: V) -> int:
        return self.plan.memory(tensor)[0]

    def view(self, tensor: V) -> V:
        """Return what the next call reads, or the last one has written."""
        if not self.views:
            return tensor
        return self.plan.tensor((1, *self.scores_shape), at=self.offset(tensor))

    def calls(self) -> "Chain":
        plan, of = self.plan, self.operands
        for name, source in self.inputs.items():
            plan.call("aten::mul.Scalar_out", source, 1.0, of[name])
        plan.call("aten::bmm.out", of["q"], of["k"], self.scores)
        self.scale_and_mask(self.view(self.scores))
        plan.call("aten::_softmax.out", self.masked, self.axis, False, self.view(self.weights))
        self.between(self)
        plan.call("aten::bmm.out", self.weights, of["v"], self.out)
        plan.call("aten::mul.Scalar_out", self.out, 2.0, self.y)
        return self

    def scale_and_mask(self, scores: V) -> None:
        plan, mask = self.plan, self.operands["mask"]
        if isinstance(self.scale, V):
            plan.call("aten::mul.out", scores, self.scale, self.scaled)
        else:
            plan.call("aten::mul.Scalar_out", scores, self.scale, self.scaled)
        plan.call("aten::add.out", self.scaled, mask, self.alpha, self.masked)

    def read_later(self, tensor: V) -> None:
        value = self.plan.plan.values[tensor].val
        later = self.plan.tensor(value.sizes, dynamism=value.shape_dynamism)
        self.plan.call("aten::mul.Scalar_out", tensor, 3.0, later)

    def program(self) -> Program:
        return Runtime.get().load_program(build(self.plan))

    def check(self, fused: bool, *more: np.ndarray) -> None:
        rng, program = np.random.default_rng(1), self.program()
        inputs = [rng.standard_normal(x).astype(np.float32) / 2 for x in self.shapes.values()]
        plain = program.load_method("forward", kernels="reference")
        check(program, [*inputs, *more], plain.execute([*inputs, *more])[0], fused)


def write_v(to: str) -> Callable[[Chain], None]:
    """Return a call that writes the values again, or another tensor."""

    def call(chain: Chain) -> None:
        target = chain.operands["v"] if to == "v" else chain.plan.tensor(chain.shapes["v"])
        chain.plan.call("aten::mul.Scalar_out", chain.inputs["v"], 1.5, target)

    return call


def copy_v(memory: str | None = None) -> Callable[[Chain], None]:
    """Return a copy of the values, which the product reads, in memory of its own or of an operand;
    exports expand them so."""

    def call(chain: Chain) -> None:
        shape, source = chain.shapes["v"], chain.operands["v"]
        at = PLANNED if memory is None else chain.offset(chain.operands[memory])
        copy = chain.operands["v"] = chain.plan.tensor(shape, at=at)
        chain.plan.call("aten::expand_copy.out", source, [*shape], False, copy)

    return call


CHANGES: dict[str, tuple[dict[str, Any], bool]] = {
    "none": ({}, True),
    "views": ({"views": True}, True),
    "copied values": ({"between": copy_v("q")}, True),
    "alpha": ({"alpha": 2}, False),
    "axis": ({"axis": 1}, False),
    "few rows": ({"rows": 16, "n": 40}, False),
    "few scores": ({"rows": 290}, False),
    "another call": ({"between": write_v("another")}, False),
    "other values": ({"between": write_v("v")}, False),
}
"""Changes of a chain, and whether it is fused."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_chain(name: str) -> None:
    changes, fused = CHANGES[name]
    Chain(**changes).calls().check(fused)


def test_an_infinite_scale() -> None:
    """e^(-inf) and NaN: only that it is not fused."""
    chain = Chain(scale=-math.inf).calls()
    method = chain.program().load_method("forward")
    assert not is_fused(method, [np.ones(x, np.float32) for x in chain.shapes.values()])


def test_a_scale_that_a_call_computes() -> None:
    chain = Chain()
    chain.scale = chain.plan.input((1,))
    chain.calls().check(False, np.full(1, 0.3, np.float32))


RESULTS = ("scores", "scaled", "masked", "weights")


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_that_is_an_output(name: str) -> None:
    chain = Chain()
    chain.plan.take(getattr(chain, name))
    program = chain.calls().program()
    inputs = [np.full(x, 0.5, np.float32) for x in chain.shapes.values()]
    outputs = program.load_method("forward", delegate_at_load=False).execute(inputs)
    want = program.load_method("forward", kernels="reference").execute(inputs)
    for a, b in zip(outputs, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", [*RESULTS, "memory of the weights"])
def test_a_result_that_is_read_later(name: str) -> None:
    """The last: a view without an instruction, the same memory under another name."""
    chain = Chain().calls()
    size, at = chain.n * chain.rows * chain.keys, chain.offset(chain.weights)
    chain.read_later(getattr(chain, name) if name in RESULTS else chain.plan.tensor((size,), at=at))
    chain.check(False)


@pytest.mark.parametrize(
    "operand, member",
    [("v", "scores"), ("v", "weights"), ("mask", "scores"), ("v", "masked"), ("mask", "scaled")],
)
def test_an_operand_in_the_memory_of_a_result(operand: str, member: str) -> None:
    """The chain writes the memory of the operand before it is read."""
    chain = Chain()
    at = chain.offset(getattr(chain, member)) + 64
    chain.operands[operand] = chain.plan.tensor(chain.shapes[operand], at=at)
    chain.calls().check(False)


@pytest.mark.parametrize("name", ["q", "k", "v", "mask"])
@pytest.mark.parametrize("distance", [0, 64])
def test_an_output_in_the_memory_of_an_operand(name: str, distance: int) -> None:
    """The last product may overwrite what only calls before it read; it reads v itself, so a copy
    of it."""
    chain = Chain(between=copy_v() if name == "v" else never)
    at = chain.offset(chain.operands[name]) + distance
    chain.out = chain.plan.tensor((chain.n, chain.rows, chain.dim), at=at)
    chain.calls().check(True)


@pytest.mark.parametrize("shape", [(5, 220), (7, 1, 220), (600, 220), (2, 5, 220)])
def test_a_mask_of_another_shape(shape: tuple[int, ...]) -> None:
    """The sum refuses it; the engine would read other memory."""
    chain = Chain()
    chain.operands["mask"], chain.inputs["mask"] = chain.plan.tensor(shape), chain.plan.input(shape)
    program = chain.calls().program()
    inputs = [np.zeros(x, np.float32) for x in (*chain.shapes.values(), shape)]
    for options in ({"delegate_at_load": False}, {"kernels": "reference"}):
        method = program.load_method("forward", **options)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError, match="does not broadcast|shape"):
            method.execute(inputs)


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

    def __init__(self, **changes: Any) -> None:
        four = changes.get("four", self.four)
        super().__init__(**changes, rows=four[2] + 80)
        plan, n, rows, keys = self.plan, self.n, self.rows, self.keys
        self.bounds = self.shapes
        self.shapes = {**self.bounds, "q": (n, four[2], self.dim), "mask": (four[2], keys)}
        self.viewed, self.scaled, self.masked, self.softmax = (
            plan.tensor((1, n, rows, keys)) for _ in range(4)
        )
        for value in plan.plan.values:
            if hasattr(value.val, "shape_dynamism"):
                value.val.shape_dynamism = type(value.val.shape_dynamism)(BOUNDED)

    def calls(self) -> Chain:
        plan, of, view = self.plan, self.operands, "executorch_prim::et_view.default"
        for name, source in self.inputs.items():
            plan.call("aten::mul.Scalar_out", source, 1.0, of[name])
        plan.call("aten::bmm.out", of["q"], of["k"], self.scores)
        plan.call(view, self.scores, [*self.four], self.viewed)
        self.scale_and_mask(self.viewed)
        plan.call("aten::_softmax.out", self.masked, self.axis, False, self.softmax)
        self.between(self)
        plan.call(view, self.softmax, [self.n, *self.four[2:]], self.weights)
        plan.call("aten::bmm.out", self.weights, of["v"], self.out)
        plan.call("aten::mul.Scalar_out", self.out, 2.0, self.y)
        return self


BOUNDED_CHANGES: dict[str, dict[str, Any]] = {
    "none": {},
    "alpha": {"alpha": 2},
    "axis": {"axis": 2},
    "few scores": {"four": (1, 2, 290, 220)},
    "few rows": {"n": 40, "four": (1, 40, 16, 220)},
    "other values": {"between": write_v("v")},
}


@pytest.mark.parametrize("name", BOUNDED_CHANGES)
def test_a_chain_within_bounds(name: str) -> None:
    Dynamic(**BOUNDED_CHANGES[name]).calls().check(name == "none")


@pytest.mark.parametrize("name", [*RESULTS, "viewed", "softmax"])
def test_a_dynamic_result_that_is_read_later(name: str) -> None:
    chain = Dynamic().calls()
    chain.read_later(getattr(chain, name))
    chain.check(False)


@pytest.mark.parametrize("operand, member", [("v", "scores"), ("mask", "scaled")])
def test_a_dynamic_operand_in_the_memory_of_a_result(operand: str, member: str) -> None:
    """The chain writes the memory of the operand before it is read."""
    chain = Dynamic()
    at, bounds = chain.offset(getattr(chain, member)) + 64, chain.bounds[operand]
    chain.operands[operand] = chain.plan.tensor(bounds, at=at, dynamism=BOUNDED)
    chain.calls().check(False)


@pytest.mark.parametrize("four", [(1, 1, 300, 220), (2, 1, 220, 300)])
def test_a_view_of_other_sizes(four: tuple[int, ...]) -> None:
    """The view or the sum refuses its sizes, as without the fusion."""
    chain = Dynamic()
    chain.four = four
    program = chain.calls().program()
    inputs = [np.zeros(x, np.float32) for x in chain.shapes.values()]
    texts = []
    for options in ({"delegate_at_load": False}, {"kernels": "reference"}):
        method = program.load_method("forward", **options)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError) as raised:
            method.execute(inputs)
        texts.append(str(raised.value))
    assert texts[0] == texts[1]
