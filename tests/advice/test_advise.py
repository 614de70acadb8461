"""advise: layers in float for a target that the program reaches; code that makes the quantiser."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

import executorch_c
from executorch_c import cli
from executorch_c.advice.configuration import CONFIGURATIONS, configuration_of
from executorch_c.advice.simulation import Simulation
from executorch_c.check import flows
from executorch_c.devtools import Advice, advise
from executorch_c.testing import compare
from tests.advice import brute, small_models

Calls = list[tuple[torch.Tensor, ...]]


def simulated(name: str, flow: str) -> tuple[Simulation, Any, Calls]:
    """Return the simulation of a small model, its export and calls."""
    model, calls = small_models.made(name)
    exported = flows.export(model, (calls[0], {}), None)
    samples = [(call, {}) for call in calls]
    quantizers = configuration_of(flow)
    simulation = Simulation(flows.FLOWS[flow], exported, samples, quantizers.quantizer)
    return simulation, exported, calls


def converted(exported: Any, flow: str, calls: Calls, names: list[str]) -> list[torch.Tensor]:
    """Return the outputs of the graph that the flow lowers, with modules in float."""
    quantizer = CONFIGURATIONS[flow].quantizer(names)
    samples = [(call, {}) for call in calls]
    graph = convert_pt2e(flows.prepared(flows.FLOWS[flow], exported, samples, quantizer))
    with torch.no_grad():
        return [graph(*call) for call in calls]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", small_models.MODELS)
def test_a_simulation_is_the_converted_graph(name: str) -> None:
    """Bit by bit, with no, one, half of and all layers in float."""
    simulation, exported, calls = simulated(name, "xnnpack-int8")
    layers = [*simulation.layers]
    assert len(layers) > 2
    model, _ = small_models.made(name)
    for names in ([], layers[1:2], layers[::2], layers):
        outputs = simulation.outputs(names, [(call, {}) for call in calls])
        expected = converted(exported, "xnnpack-int8", calls, names)
        assert all(torch.equal(a, b) for [a], b in zip(outputs, expected)), names
    left = simulation._quantized(layers)  # with all in float
    assert all(reader == "cat" for _, reader in left), "XNNPACK's annotator of cat has no filter"
    with torch.no_grad():
        for [a], call in zip(outputs, calls if not left else []):
            torch.testing.assert_close(a, model(*call), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("flow", CONFIGURATIONS)
def test_code_without_layers_is_the_flows_quantizer(flow: str) -> None:
    """The converted graphs agree bit by bit, of the code and of the flow's own quantiser; the
    simulation has their SQNR within 0.5 dB: ties round to other steps in Arm's graphs of 8 bits."""
    for package in flows.FLOWS[flow].packages:
        pytest.importorskip(package)
    name = "attention" if "dynamic" in flow else "residual"
    simulation, exported, calls = simulated(name, flow)
    samples = [(call, {}) for call in calls]
    own = flows._quantize(flows.FLOWS[flow], exported, samples)
    expected = converted(exported, flow, calls, [])
    with torch.no_grad():
        assert all(torch.equal(own(*call), one) for call, one in zip(calls, expected))
        exact = torch.cat([small_models.made(name)[0](*call) for call in calls])
    runs = [torch.cat(expected), torch.cat([one for [one] in simulation.outputs([], samples)])]
    noise = [10 * torch.log10((run - exact).square().sum()) for run in runs]
    assert abs(noise[0] - noise[1]) < 0.5, "the search goes by SQNR"


@pytest.fixture(scope="module")
def advice() -> Advice:
    model, calls = small_models.made("mlp outlier")
    return advise(
        model, calls[0], flow="xnnpack-int8", target="30dB", real_inputs=calls[1:], min_time=0.05
    )


def test_the_target_is_reached_by_the_program(advice: Advice) -> None:
    whole, advised, plain = advice
    assert advice and advice.verdict == "match" and advice.in_float
    assert not whole.reached.ok and advised.reached.ok and plain.reached.ok
    assert (whole.count, plain.count) == (0, len(advice.layers)) and advised.count < plain.count
    assert len(whole.data) < len(advised.data) < len(plain.data)
    assert all(one.seconds and one.seconds > 0 for one in advice)
    model, calls = small_models.made("mlp outlier")
    method = executorch_c.load(advised.data).load_method("forward")
    with torch.no_grad():
        for call in calls:
            assert compare(method.execute([*call]), [model(*call)], require="sqnr_db>=30").ok


def test_the_code_makes_the_same_program(advice: Advice) -> None:
    """Pasted, it gives the flow the quantiser of the advised program, byte by byte."""
    names: dict[str, Any] = {}
    exec(advice.code, names)
    flow = replace(flows.FLOWS["xnnpack-int8"], quantizer=lambda: names["quantizer"])
    model, calls = small_models.made("mlp outlier")
    samples = [(call, {}) for call in calls]
    exported = flows.export(model, samples[0], None)
    subject = flows._from_flow(flow, exported, None, samples, "forward")
    assert subject.opened is not None and subject.opened.source == advice.advised.data


def test_the_report(advice: Advice, tmp_path: Path) -> None:
    text = str(advice)
    assert advice.code in text
    assert f"keep {advice.advised.count} of" in advice.summary().replace("\n", " ")
    assert all(name in text for name in advice.in_float)
    figures = json.loads(advice.to_json())
    assert figures["in_float"] == [*advice.in_float] and figures["code"] == advice.code
    assert [row["bytes"] for row in figures["programs"]] == [len(one.data) for one in advice]
    advice.save(tmp_path / "a.html")
    assert "set_filter_function" in (tmp_path / "a.html").read_text()
    assert advice._repr_html_() and repr(advice).startswith("<executorch_c.devtools.Advice: keep")


MODEL = """\
from tests.advice import small_models


def make():
    model, calls = small_models.made("mlp")
    return model, calls[0], {"real_inputs": calls[1:]}
"""


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target that no program reaches: the best one; and a flow without a configuration."""
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    line = ["advise", "model.py:make", "--flow", "xnnpack-int8", "--target"]
    assert cli.main([*line, "900dB", "--save-pte", "a.pte", "--json"]) == 3
    figures = json.loads(capsys.readouterr().out)
    assert figures["verdict"] == "differ" and (tmp_path / "a.pte").stat().st_size
    assert "sqnr_db>=900 is not reached: sqnr_db 1" in figures["summary"]
    assert figures["in_float"] == figures["layers"]
    for flow, message in (
        ("samsung", "`advise` has no configuration with modules in float for flow 'samsung'"),
        ("xnnpack", "flow 'xnnpack' does not quantise"),
        ("xnpack-int8", "did you mean 'xnnpack-int8'"),
    ):
        line[3] = flow
        with pytest.raises(SystemExit):
            cli.main([*line, "30dB"])
        assert message in capsys.readouterr().err


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return self.linear(x) + self.count


def test_a_model_with_state_is_refused() -> None:
    with pytest.raises(ValueError, match="the model changes count: expected one without state"):
        advise(Counting().eval(), torch.ones(2, 4), flow="xnnpack-int8", target="30dB")


def test_a_target_that_needs_nothing() -> None:
    model, calls = small_models.made("mlp")
    report = advise(model, calls[0], flow="xnnpack-int8", target="5dB", min_time=0)
    assert report.ok and not report.in_float and len(report) == 2
    assert report.advised is report.programs[0] and "reached with all layers" in report.summary()


@pytest.mark.heavy  # a small one: `test_search.py`
def test_a_layer_that_covers_others_is_listed_with_them() -> None:
    """The summary, the table, the code and the program count the same layers."""
    model, calls = small_models.made("residual")
    report = advise(model, calls[0], flow="xnnpack-int8", target="41dB", min_time=0)
    known = {layer.name: layer for layer in report.layers}
    covered = [name for name in report.in_float if len(known[name].covers) > 1]
    assert covered and all(known[name].covers <= {*report.in_float} for name in covered)
    count = len(report.in_float)
    assert count == report.advised.count < len(known) and report.advised.reached.ok
    assert f"keep {count} of {len(known)} layers" in report.summary()
    assert all(f'    "{name}",\n' in report.code for name in report.in_float)
    assert report.code.count('    "') == len(report._layer_cells()) + 1 == count + 1  # a docstring


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if i % 7 == 1 else pytest.mark.heavy)
        for i, name in enumerate(small_models.MODELS)
    ],
)
def test_within_one_layer_of_brute_force(name: str) -> None:
    """In the graph; the programs of some reach the target, too."""
    for row in brute.rows(name, with_programs=False):
        assert 0 <= row.more <= 1, row
