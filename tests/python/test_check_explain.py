"""check_model with faults planted while lowering, in each flow: the check fails, and `explain` of
its result names the layer."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from executorch_c import Runtime
from executorch_c.check import flows
from executorch_c.check.reference import Eager
from executorch_c.noise.rounding import RandomRounding
from executorch_c.testing import CheckResult, check_model
from tests.exports import Decaying, Fn, flow_params, manager

QUANTISED = [flow.name for flow in flows.FLOWS.values() if flow.quantizer is not None]
LAYERS = {"stem", "hidden", "last"}
COMPARED = {"vulkan-int8": {"stem"}, "cortex-m": {"stem", "last"}, "cadence": {"stem", "last"}}
"""Layers whose values explain finds: fused integer nodes of these flows have none in float."""


def net() -> nn.Module:
    """Build a convolution, then linear layers."""
    run = lambda x, a, b, c: c(torch.relu(b(torch.relu(a(x)).mean((2, 3)))))  # noqa: E731
    torch.manual_seed(0)
    return Fn(run, stem=nn.Conv2d(3, 8, 3), hidden=nn.Linear(8, 16), last=nn.Linear(16, 5))


class Named(nn.Module):
    """A module that takes a tuple and a keyword argument that is a dictionary, and returns a
    dictionary."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.out = nn.Linear(4, 6), nn.Linear(3, 6), nn.Linear(6, 2)

    def forward(self, pair: tuple[Tensor, Tensor], *, extra: dict[str, Any]) -> dict[str, Any]:
        both = torch.tanh(self.first(pair[0]) - self.second(pair[1]) * extra["factor"])
        return {"out": self.out(both + extra["shift"]), "both": [both]}


IMAGE = torch.linspace(-2, 2, 2 * 3 * 8 * 9).sin().reshape(2, 3, 8, 9)
NAMED = {
    "pair": (torch.linspace(-1, 1, 8).reshape(2, 4), torch.linspace(0, 2, 6).reshape(2, 3)),
    "extra": {"factor": torch.tensor(0.5), "shift": torch.linspace(0, 1, 6)},
}

# ---- faults -----------------------------------------------------------------------------------


def weights_of(exported: Any, layer: str) -> list[str]:
    """Return the names of a layer's weights in the state of an exported program, and of their
    scales if they are quantised."""
    signature = exported.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    for node in exported.graph.nodes:
        layers = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
        if layers[-1:] == [layer] and str(node.target).startswith(("aten.conv", "aten.linear")):
            weight = node.args[1]
            sources = weight.args[:2] if weight.op == "call_function" else (weight,)
            return [names[source.name] for source in sources]
    raise AssertionError(f"no layer {layer}")


def _weight(exported: Any, layer: str) -> tuple[str, Tensor]:
    name, *_ = weights_of(exported, layer)
    return name, exported.state_dict[name].roll(1, 0)


def _scale(exported: Any, layer: str) -> tuple[str, Tensor]:
    _, name = weights_of(exported, layer)
    return name, exported.state_dict[name] * 1.5


FAULTS: dict[str, Callable[[Any, str], tuple[str, Tensor]]] = {"weight": _weight, "scale": _scale}


@pytest.fixture(autouse=True, scope="module")
def _quantised_once() -> Iterator[None]:
    """Share the quantised graph of the only quantised model between flows: faults are planted
    later."""
    with pytest.MonkeyPatch.context() as patch:
        kept: dict[str, Any] = {}
        quantise = flows._quantize

        def once(flow: flows.Flow, *args: Any) -> Any:
            if flow.name not in kept:
                kept[flow.name] = quantise(flow, *args)
            return kept[flow.name]

        patch.setattr(flows, "_quantize", once)
        yield


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Make flows lower one layer wrongly."""
    lower = flows._lower

    def use(fault: str, layer: str) -> None:
        def lower_wrongly(exported: Any, *args: Any) -> Any:
            name, tensor = FAULTS[fault](exported, layer)
            kept = exported.state_dict[name]
            exported.state_dict[name] = type(kept)(tensor)
            try:
                return lower(exported, *args)
            finally:
                exported.state_dict[name] = kept

        monkeypatch.setattr(flows, "_lower", lower_wrongly)

    return use


def assert_named(result: CheckResult, layer: str, flow: str) -> None:
    """Assert that the check fails in all cases with outputs, and that the layer is the only
    source."""
    assert not result and {case.verdict for case in result} == {"differ"}, str(result)
    report = result.explain()
    assert report.title.startswith(f"{flow}, example, method 'forward'")
    assert report.first is not None and report.first.verdict == "source", str(report)
    assert report.first.module == layer, str(report)
    assert sum(row.verdict == "source" for row in report) == 1, str(report)
    assert any(row.where.startswith("delegate") for row in report) is (flow != "portable")


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("flow", "fault", "layer"),
    [
        *(("portable", "weight", "stem"), ("portable", "weight", "hidden")),
        *(("xnnpack", "weight", "stem"), ("xnnpack", "weight", "hidden")),
        *(("xnnpack-int8", "weight", "hidden"), ("xnnpack-int8", "scale", "stem")),
        *(("xnnpack-dynamic", "weight", "hidden"), ("xnnpack-dynamic", "scale", "last")),
        *(("vulkan", "weight", "stem"), ("vulkan", "weight", "hidden")),
    ],
)
def test_one_layer(plant: Callable[[str, str], None], flow: str, fault: str, layer: str) -> None:
    plant(fault, layer)
    assert_named(check_model(net(), IMAGE, flow=flow, n_random=1), layer, flow)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("flow", flow_params(QUANTISED))
def test_nothing_planted(flow: str) -> None:
    result = check_model(net(), IMAGE, flow=flow, n_random=1)
    assert result, str(result)
    with pytest.raises(ValueError, match="every case matches in this runtime; pass the case"):
        result.explain()
    report = result.explain(result.cases[1])
    assert report and "every one is within tolerance" in str(report), str(report)
    assert "random 0" in report.title
    assert COMPARED.get(flow, LAYERS) <= {row.module for row in report}, str(report)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("flow", flow_params(name for name in QUANTISED if name != "cadence"))
def test_an_operator_after_the_last_layer(flow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All layers are right, and every element of the output is off by a step, which is more than
    quantised graphs differ by. (Cadence quantises the mean and all sums, too.)"""
    lower = flows._lower

    def lower_wrongly(exported: Any, *args: Any) -> Any:
        output = exported.graph.find_nodes(op="output")[0].args[0][0]
        # OpenVINO's results are floats: its graph differs by 1e-3 from random rounding alone.
        step = output.args[1] if "dequantize" in str(output.target) else 3e-3
        shifted = Fn(lambda x, module: module(x) + step, module=exported.module())
        return lower(flows.export(shifted, ((IMAGE,), {}), None), *args)

    monkeypatch.setattr(flows, "_lower", lower_wrongly)
    result = check_model(net(), IMAGE, flow=flow, n_random=1)
    assert {case.verdict for case in result} == {"differ"}, str(result)
    report = result.explain()
    assert report.first is not None
    if flow.startswith("openvino"):  # its graph adds the step and the layer's bias at once
        assert (report.first.name, report.first.module) == ("aten.add.Tensor (addmm)", "last")
    else:
        assert report.first.where == "output 0", str(report)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("flow", flow_params(QUANTISED))
def test_noise_of_a_quantised_graph(flow: str) -> None:
    """Quantised graphs run with random rounding, which changes some integers by a step."""
    exported = flows.export(net(), ((IMAGE,), {}), None)
    graph = flows._quantize(flows.FLOWS[flow], exported, [((IMAGE,), {})])
    call = ((IMAGE,), {})
    runs, right = Eager(graph).noise([call]), Eager(graph)([call])[0][0]
    assert runs is not None
    spread = np.mean([np.abs(run[0][0] - right) for run in runs])
    assert 0 < spread < 0.05 * np.abs(right).mean()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.complex64])
def test_noise_of_infinities(dtype: torch.dtype) -> None:
    """Infinities and the largest numbers, as in masks, are unchanged by random rounding."""
    least = torch.finfo(dtype).min
    values = torch.tensor([-math.inf, math.inf, math.nan, least, -least, 1.5], dtype=dtype)
    values = values.repeat(50)
    for seed in range(4):
        with RandomRounding(seed):
            noisy = values + torch.zeros((), dtype=dtype)
        kept = values != 1.5
        torch.testing.assert_close(noisy[kept], values[kept], rtol=1e-2, atol=0, equal_nan=True)
        assert (noisy[~kept] != 1.5).any()


def test_noise_of_whole_numbers() -> None:
    """Integers are exact: zero points and quantised values, which are truncated to integers."""
    whole, other = torch.arange(-128.0, 128.0), torch.arange(-128.0, 128.0) + 0.5
    with RandomRounding(0):
        sums, changed = whole + 1, other + 1
    assert torch.equal(sums, whole + 1) and not torch.equal(changed, other + 1)


@pytest.mark.parametrize("flow", ["portable", "xnnpack"])
def test_keyword_and_nested_arguments(plant: Callable[[str, str], None], flow: str) -> None:
    plant("weight", "second")
    assert_named(check_model(Named().eval(), NAMED, flow=flow, n_random=1), "second", flow)


def test_a_ready_program(tmp_path: Any) -> None:
    """The reference is exported from the model, with nested arguments."""
    model, damaged = Named().eval(), Named().eval()
    with torch.no_grad():
        damaged.first.weight[2] *= 2
    with torch.no_grad():
        exported = torch.export.export(damaged, (), NAMED)
    path = tmp_path / "model.pte"
    path.write_bytes(flows._lower(exported, flows.FLOWS["portable"], "forward").buffer)
    program = Runtime.get().load_program(path)
    for source in (path, program, program.load_method("forward")):
        report = check_model(model, NAMED, program=source, n_random=0).explain()
        assert report.first is not None and report.first.module == "first", str(report)
        assert report.first.line.startswith("test_check_explain.py:")


def test_state_of_earlier_calls() -> None:
    """The sum is wrong from the second call on: both sides reach that state before the
    comparison."""
    x = torch.tensor([0.5, -1.0, 2.0])
    pte = bytes(manager(Decaying(0.75), x).buffer)
    result = check_model(Decaying(0.5).eval(), (x,), program=pte)
    assert [case.kind for case in result.failures] == ["state"]
    report = result.explain()
    assert report.first is not None and report.first.name == "aten::mul.out", str(report)
    assert report.first.verdict == "source" and report[-1].verdict == "propagated"
    assert result.explain(result.cases[0])  # the first call is right


def test_a_program_that_fails() -> None:
    """`explain` raises the exception of inputs that the program refuses; cases that differ come
    first."""
    x = torch.ones(4)
    pte = bytes(manager(lambda x: x * 3, x).buffer)
    five = [(torch.ones(5),)]
    result = check_model(lambda x: x * 2, x, program=pte, n_random=0, real_inputs=five)
    assert [case.verdict for case in result] == ["differ", "error"]
    assert result.explain().first is not None
    with pytest.raises(Exception, match=r"\[5\]|shape"):
        result.explain(result.cases[1])
