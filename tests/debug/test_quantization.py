"""quantization_error: the layer that costs most at the outputs is first, delegated or not, and the
outputs gain what the advice says."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from executorch.backends.xnnpack.quantizer import xnnpack_quantizer
from torch import nn

from executorch_c import cli
from executorch_c.devtools import QuantizationReport, quantization_error
from tests import exports
from tests.backends import xnnpack_flow
from tests.debug import deep
from tests.debug.deep import FLOWS, lower

Both = tuple[QuantizationReport, QuantizationReport]
"""SQNR of the model of 50 layers, and of the one with a wrong scale."""


@cache
def budgets_of(flow: str) -> Both:
    good, bad = deep.programs(flow)
    return tuple(quantization_error(deep.model(), deep.INPUTS, program=pte) for pte in (good, bad))


@pytest.fixture(params=FLOWS)
def budgets(request: pytest.FixtureRequest) -> Both:
    return budgets_of(request.param)


@pytest.mark.sweep(2)
def test_a_bad_scale(budgets: Both) -> None:
    """The layer with weights 1.5 times too large is first, with an error of at least a third."""
    good, bad = budgets
    assert bad[0].module == f"{deep.BAD}.0" and bad[0].local is not None
    assert 0.3 < bad[0].local.relative < 0.5
    linear = [row for row in bad if str(row.module).endswith(".0")]
    assert len(linear) == deep.LAYERS
    assert f"costs most: {bad[0]}" in bad.summary() and f"of '{deep.BAD}.0'" in bad.summary()
    assert f"Keep '{deep.BAD}.0' in float" in bad.summary() and bad[0].gain_db > 3
    assert all(row.local.relative < 0.03 for row in good if row.local is not None)
    for budget in budgets:
        assert budget and budget.first is None
        assert budget.notes == (f"compared {len(budget)} layers",)
        costs = [row.cost_db for row in budget]
        assert costs == sorted(costs) and len(costs) == len(budget) and np.isfinite(costs).any()
        gains = [row.gain_db for row in budget]
        assert gains == sorted(gains, reverse=True) and gains[-1] >= 0
        assert [row.index for row in budget] == list(range(len(budget)))


@pytest.mark.sweep(2)
def test_accumulated_error_of_the_last_layer(budgets: Both) -> None:
    """The accumulated error of the last layer is the error of the model's output."""
    good, bad = deep.quantized()
    with torch.no_grad():
        expected = deep.model()(*deep.INPUTS)
        for budget, graph in zip(budgets, (good, bad)):
            error = (graph(*deep.INPUTS) - expected).norm() / expected.norm()
            assert budget.arrives is not None
            # The program may round an element to a neighbouring step of the last layer.
            assert budget.arrives.relative == pytest.approx(error.item(), rel=0.2)


@pytest.mark.heavy
def test_flows_agree() -> None:
    """Delegated and portable programs have equal errors: rounding is attributed to its layer."""
    errors = {}
    for flow in FLOWS:
        layers: dict[str, float] = {}
        for row in budgets_of(flow)[1]:
            name = str(row.module).partition(".")[0]
            layers[name] = max(layers.get(name, 0.0), row.accumulated.relative)
        errors[flow] = layers
    assert errors["portable"].keys() == errors["xnnpack"].keys()
    ratios = [errors["portable"][n] / errors["xnnpack"][n] for n in errors["portable"]]
    assert np.median(ratios) == pytest.approx(1, abs=0.2)


@pytest.mark.heavy
@torch.no_grad()
def test_an_outlier_channel() -> None:
    """One channel of a layer's result is 200 times larger, and sets the step of all others: that
    layer is the most expensive although the next one has a larger relative error, and the outputs
    gain at least what the advice says where it and the layer that reads it stay in float."""
    torch.manual_seed(1)
    model = nn.Sequential(*(part for _ in range(5) for part in (nn.Linear(32, 32), nn.ReLU())))
    inputs = (torch.randn(64, 32),)
    model[4].weight[3] *= 200
    model[4].bias[3] *= 200
    model[6].weight[:, 3] /= 200

    def quantized(*floats: str) -> nn.Module:
        config = xnnpack_quantizer.get_symmetric_quantization_config(is_per_channel=True)
        quantizer = xnnpack_quantizer.XNNPACKQuantizer()
        for name in {"0", "2", "4", "6", "8"}.difference(floats):
            quantizer.set_module_name(name, config)
        return exports.quantized(model, inputs, quantizer)

    def sqnr_db(graph: nn.Module) -> float:
        expected = model(*inputs)
        return 20 * np.log10((expected.norm() / (graph(*inputs) - expected).norm()).item())

    whole = quantized()
    budget = quantization_error(model, list(inputs), program=lower(whole, inputs, "xnnpack"))
    assert budget[0].module == "4", str(budget)
    assert budget[0].local.relative < budget[1].local.relative, str(budget)  # not the largest
    assert budget.whole_db == pytest.approx(sqnr_db(whole), abs=1.0)
    assert "Keep '4' in float (and the layers that read its result): +" in budget.summary()
    assert budget[0].gain_db > 6
    assert sqnr_db(quantized("4", "6")) - sqnr_db(whole) > budget[0].gain_db - 1


@pytest.mark.sweep(2)
@pytest.mark.parametrize("flow", FLOWS)
def test_an_outlier(flow: str) -> None:
    """The layer with an outlier weight, which determines the step size, costs most."""
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3))).eval()
    with torch.no_grad():
        model[1][0].weight[0, 0] = 60.0
    graph = xnnpack_flow.SCHEMES["static"](model, deep.INPUTS, None)
    program = lower(graph, deep.INPUTS, flow)
    budget = quantization_error(model, deep.INPUTS, program=program)
    assert budget[0].module in ("1.0", "1.1"), str(budget)
    assert {f"{i}.0" for i in range(3)} <= {row.module for row in budget}, str(budget)
    # The report mentions layers missing from the program.
    more = nn.Sequential(*model, nn.Linear(8, 8))
    text = str(quantization_error(more, deep.INPUTS, program=program))
    assert "not found in the program: addmm of '3'" in text


@pytest.mark.sweep(2)
def test_how_it_is_shown(budgets: Both, tmp_path: Path) -> None:
    _, bad = budgets
    text = str(bad)
    assert "verdict" not in text and "local" in text
    assert "cost dB" in text and f"(12 of {len(bad)} layers: the most expensive)" in text
    shown = bad._repr_html_()
    assert shown.count("<tr>") == 13 and "width: 100.00%" in shown  # the bar of the first row
    bad.to_html(tmp_path / "budget.html")
    page = (tmp_path / "budget.html").read_text()
    layers = page.partition("About this")[0]
    assert "accumulated" in layers, "narrow tables omit it"
    assert "data:image/svg+xml" in page and layers.count("<tr>") == len(bad) + 1
    drawn = bad.plot(target_db=30).axes[0].lines
    costs = drawn[0].get_ydata()
    assert list(costs) == pytest.approx([row.cost_db for row in bad])
    assert {"target 30.0 dB", f"outputs {bad.whole_db:.1f} dB"} < {x.get_label() for x in drawn}
    [axes] = bad.plot("added").axes
    bars = [bar.get_width() for bar in axes.patches]
    assert bars[0] == max(bars) == pytest.approx(100 * bad[0].local.relative)
    assert axes.get_yticklabels()[0].get_text() == f"{deep.BAD}.0"
    figures = json.loads(bad.to_json())
    assert "ok" not in figures and "verdict" not in figures["rows"][0]
    assert figures["rows"][0]["local"]["relative"] == pytest.approx(bars[0] / 100)
    assert figures["arrives"]["elements"] == 32
    empty = QuantizationReport("empty", ())
    assert empty.plot() and "nothing" in str(empty)


def test_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    count, wrong = 8, 5
    (tmp_path / "bad.pte").write_bytes(deep.programs("xnnpack", count, wrong)[1])
    torch.save((deep.model(count), deep.INPUTS), tmp_path / "model.pt")
    (tmp_path / "floats.py").write_text(
        "import torch\ndef make():\n    return torch.load('model.pt', weights_only=False)\n"
    )
    monkeypatch.chdir(tmp_path)
    command = ["quantization-error", "bad.pte", "--model", "floats.py:make"]
    assert cli.main(command) == 0
    out = capsys.readouterr().out
    assert out.startswith("bad.pte, method 'forward': quantization error") and f"'{wrong}.0'" in out
    np.save("x.npy", deep.INPUTS[0].numpy())
    assert cli.main([*command, "--inputs", "x.npy", "--json", "--html", "b.html"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["module"] == f"{wrong}.0"
    assert "costs most" in (tmp_path / "b.html").read_text()
    assert cli.main(["quantization-error", "no.pte", "--model", "floats.py:make"]) == 1
    with pytest.raises(SystemExit) as usage:
        cli.main(["quantization-error", "bad.pte"])
    assert usage.value.code == 2
    with pytest.raises(SystemExit):
        cli.main(["quantization-error", "--help"])
    assert "on the activations of the program" in " ".join(capsys.readouterr().out.split())
