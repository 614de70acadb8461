"""explain: operators that only the program, or only the model, has are named, and not their
neighbours; wrong neighbours are named, and not the operators. In quantised programs, too."""

import copy
from collections.abc import Callable
from typing import Any

import executorch.kernels.quantized  # noqa: F401  the out variants of quantize and dequantize
import pytest
import torch
from torch import Tensor, nn

from executorch_c.devtools import ErrorReport
from tests.backends import xnnpack_flow
from tests.debug.deep import FLOWS, explained
from tests.exports import Fn


ROWS = torch.linspace(-2, 2, 256).sin().reshape(8, 32) * 1.5
X = (ROWS,)


class Mlp(nn.Module):
    """Two linear layers with an activation in between, and a third; `views` apart from them."""

    def __init__(self, act: nn.Module, wrong: str = "", views: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.act, self.b = nn.Linear(32, 64), act, nn.Linear(64, 32)
        self.c, self.views = nn.Linear(32, 32), views
        if wrong:
            self.get_parameter(wrong).data[:2] *= 1.2

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(1, *x.shape) if self.views else x
        return self.c(torch.tanh(self.b(self.act(self.a(x)))))


def check_first(report: ErrorReport, module: str | None) -> Any:
    """Assert that the first divergence is in a layer, and the only one; return its row."""
    assert report.first is not None and report.first.module == module, str(report)
    assert sum(row.verdict == "source" for row in report) == 1, str(report)
    return report.first


# ---- an activation that is another one, is missing, or is too many -----------------------------


@pytest.mark.sweep(3)
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize(
    ("good", "bad", "missing"),
    [
        *((nn.GELU, nn.ReLU, "gelu"), (nn.GELU, nn.SiLU, "gelu")),
        *((nn.GELU, nn.Identity, "gelu"), (nn.SiLU, nn.Hardswish, "sigmoid")),
        *((nn.ReLU, nn.Identity, "relu"), (nn.ReLU, nn.Sigmoid, "relu")),
    ],
)
def test_another_activation(
    flow: str, good: Callable[[], nn.Module], bad: Callable[[], nn.Module], missing: str
) -> None:
    report = explained(Mlp(good()), Mlp(bad()), X, flow)
    row = report.first
    assert row is not None and row.module == "act", str(report)
    assert {one.module for one in report if one.verdict == "source"} <= {"act", None}
    assert row.missing[0] == missing and row.line.startswith("test_unmatched.py:")
    assert str(row).startswith(f"{', '.join(row.missing)} of 'act' (test_unmatched.py:")
    there = "which has none there" if bad is nn.Identity else "which has "
    assert f"no node of the program computes it, {there}" in " ".join(report.summary().split())


def test_a_limit_inside_a_fused_layer() -> None:
    """A delegate limits the result of a layer: of the same activation, a narrower one."""
    report = explained(Mlp(nn.ReLU()), Mlp(nn.Hardtanh(0, 0.5)), X, "xnnpack")
    row = check_first(report, "act")
    assert row.missing == ("relu",) and row.instead[0].startswith("a limit at"), str(report)


@pytest.mark.parametrize("flow", FLOWS)
def test_an_activation_too_many(flow: str) -> None:
    report = explained(Mlp(nn.Identity()), Mlp(nn.ReLU()), X, flow)
    row = check_first(report, None)
    assert not row.missing and row.instead and row.before == "a"
    name = "aten::relu.out" if flow == "portable" else "a limit at 0 from below"
    assert str(row).startswith(f"{name} after 'a'")
    assert "no node of the model computes it" in " ".join(report.summary().split())
    assert next(row for row in report if row.module == "b").local.mismatched == 0


@pytest.mark.sweep(5)
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("act", [nn.GELU, nn.ReLU])
@pytest.mark.parametrize("wrong", ["a.weight", "b.weight", "c.bias"])
def test_a_wrong_neighbour(flow: str, act: Callable[[], nn.Module], wrong: str) -> None:
    """The opposite: the activation is right, a layer beside it is not."""
    report = explained(Mlp(act()), Mlp(act(), wrong), X, flow)
    row = check_first(report, wrong.partition(".")[0])
    assert not row.missing and not row.instead, str(report)


def test_a_wrong_element_is_no_limit() -> None:
    """A wrong row of a weight makes the program's largest element too small."""
    good, bad, x = Mlp(nn.Identity()), Mlp(nn.Identity()), (ROWS[:1],)
    top = int(bad.a(*x).argmax())
    for end in (bad.a.weight, bad.a.bias):
        end.data[top] *= 0.99
    assert int(bad.a(*x).argmax()) == top
    row = check_first(explained(good, bad, x, "xnnpack"), "a")
    assert not row.missing and not row.instead


@pytest.mark.sweep(3)
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("act", [nn.GELU, nn.SiLU, nn.ReLU, nn.Hardswish, nn.Identity])
def test_right_programs(flow: str, act: Callable[[], nn.Module]) -> None:
    report = explained(Mlp(act()), Mlp(act()), X, flow)
    assert report, str(report)
    assert not any(row.missing or row.instead for row in report)


# ---- around views, sums and norms ---------------------------------------------------------------


def block(act: Callable[[Tensor], Tensor], wrong: str = "") -> nn.Module:
    """Build an MLP of a transformer: a norm, an activation without a module, a skip connection."""

    def run(x: Tensor, n: Any, up: Any, down: Any, out: Any) -> Tensor:
        return out(x + down(act(up(n(x))).reshape(2, 3, 32)))

    torch.manual_seed(1)
    up, down, out = nn.Linear(16, 32), nn.Linear(32, 16), nn.Linear(16, 4)
    model = Fn(run, n=nn.LayerNorm(16), up=up, down=down, out=out)
    if wrong:
        model.get_parameter(wrong).data[:2] *= 1.5
    return model


TOKENS = (torch.linspace(-3, 3, 96).cos().reshape(2, 3, 16),)


@pytest.mark.parametrize("flow", FLOWS)
def test_functions_beside_views(flow: str) -> None:
    good, bad = block(nn.functional.gelu), block(torch.sin)
    row = check_first(explained(good, bad, TOKENS, flow), None)
    assert row.missing == ("gelu",)
    for layer in ("up", "down"):
        wrong = block(nn.functional.gelu, f"{layer}.weight")
        assert not check_first(explained(good, wrong, TOKENS, flow), layer).missing


EXTRA = (torch.sin, torch.relu, lambda y: y * 1.5, lambda y: torch.tanh(y) + 1)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("act", EXTRA, ids=["sin", "relu", "factor", "two"])
def test_a_step_too_many_before_a_view(flow: str, act: Callable[[Tensor], Tensor]) -> None:
    """The step is named, not the view, which is right."""
    row = check_first(explained(block(lambda y: y), block(act), TOKENS, flow), None)
    assert not row.missing and row.instead and row.before == "up", str(row)
    for layer in ("up", "down"):
        wrong = block(act, f"{layer}.weight")
        assert not check_first(explained(block(act), wrong, TOKENS, flow), layer).instead


def twice(act: nn.Module) -> nn.Module:
    """Build an activation whose result two layers read, of which one adds what was before it."""

    def run(x: Tensor, act: Any, a: Any, b: Any, c: Any) -> Tensor:
        y = a(x)
        z = act(y)
        return b(z) * c(z + y).sigmoid()

    torch.manual_seed(2)
    return Fn(run, act=act, a=nn.Linear(32, 16), b=nn.Linear(16, 8), c=nn.Linear(16, 8))


@pytest.mark.parametrize("flow", FLOWS)
def test_a_result_with_two_readers(flow: str) -> None:
    for act in (nn.Tanh(), nn.Identity()):
        report = explained(twice(nn.GELU()), twice(act), X, flow)
        assert check_first(report, "act").missing == ("gelu",)
    row = explained(twice(nn.Identity()), twice(nn.GELU()), X, flow).first
    assert row is not None and not row.missing and row.instead and row.before == "a"


@pytest.mark.parametrize("flow", FLOWS)
def test_the_last_operator(flow: str) -> None:
    torch.manual_seed(3)
    layer = nn.Linear(32, 16)
    report = explained(nn.Sequential(layer, nn.GELU()), nn.Sequential(layer, nn.Tanh()), X, flow)
    assert check_first(report, "1").missing == ("gelu",)


# ---- a factor that moves from one operand to the other -----------------------------------------


def scores(query: float, key: float) -> nn.Module:
    """Build products of queries and keys, scaled on both sides, or on one."""

    def run(x: Tensor, qk: Any, out: Any) -> Tensor:
        q, k = qk(x).chunk(2, -1)
        return out(torch.softmax((q if query == 1 else q * query) @ (k * key).T, -1))

    torch.manual_seed(0)
    return Fn(run, qk=nn.Linear(32, 32), out=nn.Linear(8, 3))


@pytest.mark.parametrize("flow", FLOWS)
def test_a_factor_of_the_other_operand(flow: str) -> None:
    """Errors that cancel each other are no fault: Core ML scales the keys alone. A wrong layer
    after them is named; a wrong factor is."""
    good, moved = scores(0.5, 0.5), scores(1.0, 0.25)
    report = explained(good, moved, X, flow)
    assert report.verdict == "match" and not any(row.verdict == "source" for row in report)
    moved.get_parameter("out.weight").data[0] *= -1
    check_first(explained(good, moved, X, flow), "out")
    wrong = explained(good, scores(1.0, 0.3), X, flow)
    assert wrong.verdict == "differ" and wrong.first is not None
    assert "mul" in wrong.first.name


# ---- in quantised programs ----------------------------------------------------------------------

ATEN = torch.ops.aten
SCHEMES = {
    "static": ("static_channel", "xnnpack", ROWS),
    "undelegated": ("static", "portable", ROWS),
    "dynamic": ("dynamic_channel", "xnnpack", ROWS[:1]),
    "8da4w": ("8da4w_32", "xnnpack", ROWS),
}
"""For each flow the scheme, the delegate, and the input."""


def layer_of(node: Any) -> str:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return stack[-1][0].rpartition(".")[2].removeprefix("L['self'].") if stack else ""


def planted(good: Any, act: nn.Module, operator: Any, *args: Any) -> Any:
    """Return a quantised model with another activation: an operator in place of the model's, None
    for none, or one more after layer "a" of a model without; scales stay as they are."""
    bad = copy.deepcopy(good)
    if not isinstance(bad, torch.fx.GraphModule):
        bad.act = act
        return bad
    calls = [node for node in bad.graph.nodes if str(node.target).startswith("aten.")]
    acts = [node for node in calls if layer_of(node) == "act"]
    if not acts:
        [node] = [node for node in calls if layer_of(node) == "a"]
        with bad.graph.inserting_after(node):
            new = bad.graph.call_function(operator, (node, *args))
        node.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)
        new.meta = dict(node.meta)
    elif operator is None:
        acts[0].replace_all_uses_with(acts[0].args[0])
        bad.graph.erase_node(acts[0])
    else:
        acts[0].target, acts[0].args, acts[0].kwargs = operator, (acts[0].args[0], *args), {}
    bad.recompile()
    return bad


def explained_quantized(flow: str, good: nn.Module, *fault: Any, **options: bool) -> ErrorReport:
    """Return the report on a program with a fault; that on a right one accuses nothing."""
    scheme, delegate, x = SCHEMES[flow]
    model = xnnpack_flow.SCHEMES[scheme](Mlp(good, **options).eval(), (x,), None)
    right = explained(model, model, (x,), delegate)
    assert right.ok, str(right)
    return explained(model, planted(model, *fault), (x,), delegate)


REPLACED = {
    "relu-hardtanh": ("relu", nn.ReLU(), nn.Hardtanh(0, 0.3), ATEN.hardtanh.default, 0.0, 0.3),
    "relu-leaky": ("relu", nn.ReLU(), nn.LeakyReLU(0.2), ATEN.leaky_relu.default, 0.2),
    "relu-none": ("relu", nn.ReLU(), nn.Identity(), None),
    "gelu-none": ("gelu", nn.GELU(), nn.Identity(), None),
    "gelu-sigmoid": ("gelu", nn.GELU(), nn.Sigmoid(), ATEN.sigmoid.default),
    "sigmoid-hard": ("sigmoid", nn.Sigmoid(), nn.Hardsigmoid(), ATEN.hardsigmoid.default),
    "silu-hard": ("sigmoid", nn.SiLU(), nn.Hardswish(), ATEN.hardswish.default),
}
"""For each fault the model's operator, its activation, the wrong one, and its operator."""

CASES = [
    *(("dynamic", name, False) for name in REPLACED),
    *(("8da4w", name, True) for name in ("relu-hardtanh", "gelu-none", "sigmoid-hard")),
    *(("static", name, False) for name in ("relu-hardtanh", "gelu-sigmoid", "silu-hard")),
    *(("undelegated", name, False) for name in ("gelu-none", "sigmoid-hard")),
]


@pytest.mark.sweep(5)
@pytest.mark.parametrize(("flow", "fault", "views"), CASES)
def test_another_activation_of_a_quantised_model(flow: str, fault: str, views: bool) -> None:
    operator, good, *bad = REPLACED[fault]
    report = explained_quantized(flow, good, *bad, views=views)
    row = report.first
    assert row is not None and row.module == "act", str(report)
    assert operator in row.missing or operator in row.name, str(report)
    wrong = {one.module for one in report if one.verdict == "source"}
    assert wrong <= {"act", None}, str(report)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("operator", [ATEN.relu.default, ATEN.tanh.default], ids=["relu", "tanh"])
@pytest.mark.parametrize("flow", ["dynamic", "8da4w", "undelegated"])
def test_an_activation_too_many_of_a_quantised_model(flow: str, operator: Any) -> None:
    act = nn.ReLU() if operator is ATEN.relu.default else nn.Tanh()
    report = explained_quantized(flow, nn.Identity(), act, operator)
    row = check_first(report, None)
    assert row.instead and not row.missing and row.before == "a", str(report)
