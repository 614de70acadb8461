"""Configurations of flows besides XNNPACK's: code that makes the quantiser of the program."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import executorch_c
from executorch_c.advice.run import Choice, maker_of
from executorch_c.advice.simulation import Simulation
from executorch_c.advice.targets import targets_of
from executorch_c.check import flows
from executorch_c.progress import Progress
from tests.advice import small_models

HEAVY = ("tosa-int8", "ethos-u55", "ethos-u85-a16w8", "cortex-m", "openvino-int8")
FLOWS = ["qnn", *(pytest.param(flow, marks=pytest.mark.heavy) for flow in HEAVY)]


def results(program: bytes, calls: list[Any]) -> list[bytes]:
    """Return the outputs of calls as bytes."""
    method = executorch_c.load(program).load_method("forward")
    return [out.tobytes() for call in calls for out in method.execute([*call])]


@pytest.mark.filterwarnings("ignore:This API is experimental")
@pytest.mark.parametrize("flow", FLOWS)
def test_layers_of_other_flows_in_float(flow: str) -> None:
    """The pasted code makes the program, byte by byte, with layers in float: its error falls."""
    for package in flows.FLOWS[flow].packages:
        pytest.importorskip(package)
    model, calls = small_models.made("mlp outlier")
    say, target = Progress("", False), targets_of("30dB")
    maker, _ = maker_of(model, calls[0], flow, target, calls[1:], (), "forward", say)
    simulation = Simulation(maker.flow, maker.exported, maker.samples, maker.quantizer)
    layers = [*simulation.layers]
    assert {"0", "2", "4", "6", "8"} <= {*layers}
    choice = Choice(maker, simulation, say)
    sets = [[name for name in layers if name != left] for left in layers]
    names = max(sets, key=lambda one: choice.search.result(one).sqnr_db)
    whole, advised = choice.made("all quantised", ()), choice.made("advised", names)
    assert advised.reached.sqnr_db > whole.reached.sqnr_db + 1
    values: dict[str, Any] = {}
    with maker.configuration.context():
        exec(maker.configuration.text(names), values)
    pasted = replace(flows.FLOWS[flow], quantizer=lambda: values["quantizer"])
    samples = [(call, {}) for call in calls]
    exported = flows.export(model, samples[0], None)
    subject = flows._from_flow(pasted, exported, None, samples, "forward")
    assert subject.opened is not None
    made: Any = subject.opened.source
    if flow == "openvino-int8":  # whose compiler makes other bytes of the same graph each time
        assert results(made, calls) == results(advised.data, calls) != results(whole.data, calls)
    else:
        assert made == advised.data != whole.data
    with torch.no_grad():
        graph = torch.cat([subject.quantized(*call) for call in calls])
    simulated = torch.cat([out for [out] in simulation.outputs(names, samples)])
    equal = torch.isclose(graph, simulated, rtol=1e-5, atol=1e-5)
    assert equal.float().mean() > 0.9, "more than ties, which round to another step"
