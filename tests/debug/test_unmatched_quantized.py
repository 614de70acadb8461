"""explain: in quantised programs, too, an operator that only the program, or only the model, has is
named, and not the layer after it."""

import copy
from typing import Any

import executorch.kernels.quantized  # noqa: F401  the out variants of quantize and dequantize
import pytest
import torch
from torch import Tensor, nn

from executorch_c.devtools import ErrorReport, explain
from tests.backends import xnnpack_flow
from tests.debug.deep import lower

ATEN = torch.ops.aten
ROWS = torch.linspace(-2, 2, 256).sin().reshape(8, 32) * 1.5
SCHEMES = {
    "static": ("static_channel", "xnnpack", ROWS),
    "undelegated": ("static", "portable", ROWS),
    "dynamic": ("dynamic_channel", "xnnpack", ROWS[:1]),
    "8da4w": ("8da4w_32", "xnnpack", ROWS),
}
"""For each flow the scheme, the delegate, and the input."""


class Mlp(nn.Module):
    """Two linear layers with an activation in between, and a third; `views` apart from them."""

    def __init__(self, act: nn.Module, views: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.act, self.b = nn.Linear(32, 64), act, nn.Linear(64, 32)
        self.c, self.views = nn.Linear(32, 32), views

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(1, *x.shape) if self.views else x
        return self.c(torch.tanh(self.b(self.act(self.a(x)))))


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
    found = [node for node in bad.graph.nodes if str(node.target).startswith("aten.")]
    acts = [node for node in found if layer_of(node) == "act"]
    if not acts:
        [node] = [node for node in found if layer_of(node) == "a"]
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


def explained(flow: str, good: nn.Module, *fault: Any, views: bool = False) -> list[ErrorReport]:
    """Return the reports on a right program, and on one with a fault, if given."""
    scheme, delegate, x = SCHEMES[flow]
    model = xnnpack_flow.SCHEMES[scheme](Mlp(good, views).eval(), (x,), None)
    models = [model, *([planted(model, *fault)] if fault else [])]
    return [
        explain(model, (x,), program=lower(one, (x,), delegate).buffer, progress=False)
        for one in models
    ]


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


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("flow", "fault", "views"), CASES)
def test_another_activation(flow: str, fault: str, views: bool) -> None:
    operator, good, *bad = REPLACED[fault]
    right, report = explained(flow, good, *bad, views=views)
    assert right.ok, str(right)
    row = report.first
    assert row is not None and row.module == "act", str(report)
    assert operator in row.missing or operator in row.name, str(report)
    wrong = {one.module for one in report if one.verdict == "source"}
    assert wrong <= {"act", None}, str(report)


@pytest.mark.parametrize("operator", [ATEN.relu.default, ATEN.tanh.default], ids=["relu", "tanh"])
@pytest.mark.parametrize("flow", ["dynamic", "8da4w", "undelegated"])
def test_an_activation_too_many(flow: str, operator: Any) -> None:
    act = nn.ReLU() if operator is ATEN.relu.default else nn.Tanh()
    right, report = explained(flow, nn.Identity(), act, operator)
    assert right.ok, str(right)
    row = report.first
    assert row is not None and row.instead and not row.missing, str(report)
    assert (row.module, row.before) == (None, "a"), str(report)
    assert sum(one.verdict == "source" for one in report) == 1, str(report)
