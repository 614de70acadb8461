"""A sample of the proof (`python -m tests.verdicts` runs all of it): no false alarm, no accepted
fault, named layers; the proof itself can fail."""

from typing import Any

import numpy as np
import pytest
from executorch.extension.llm.cache.update_and_attend import REGISTRY

from executorch_c.check import flows
from executorch_c.compare import tolerance
from tests.models import nets
from tests.verdicts import proof, quantized, rates

FLOWS = ("portable", "xnnpack")
DELEGATED = ("vulkan", "coreml", "openvino", "tosa", "vgf", "native")
QUANTISED = ("xnnpack-int8", "xnnpack-dynamic", "ethos-u55", "cortex-m", "cadence")
SAMPLE = [("mlp", "fresh"), ("unet", "trained"), ("gpt_masked_logit", "trained")]


@pytest.fixture(scope="module", params=SAMPLE, ids=lambda pair: "-".join(pair))
def subject(request: pytest.FixtureRequest) -> proof.Subject:
    return proof.Subject(*request.param)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("flow", FLOWS)
def test_right_outputs_match(subject: proof.Subject, flow: str) -> None:
    rows = list(proof.right_programs(subject, flow, 3))
    assert [row.verdict for row in rows] == ["match"] * (len(proof.VARIANTS) + 2)


@pytest.mark.parametrize("flow", FLOWS)
def test_faults_in_outputs_are_found(subject: proof.Subject, flow: str) -> None:
    counted = [row for row in proof.output_faults(subject, flow, 1) if row.counts]
    assert len(counted) > 20
    assert not [row for row in counted if row.verdict == "match"]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("flow", FLOWS)
def test_faults_in_programs_are_found_and_named(subject: proof.Subject, flow: str) -> None:
    rows = [*proof.weight_faults(subject, flow, 1, 1), *proof.graph_faults(subject, flow, 1, 1)]
    counted = [row for row in rows if row.counts]
    assert counted and not [row for row in counted if row.verdict == "match"]
    assert not [row for row in rows if row.named is False]


def _require(flow: str) -> None:
    if not flows.FLOWS[flow].is_installed:
        pytest.skip(f"no {', '.join(flows.FLOWS[flow].packages)}")


@pytest.mark.sweep(len(DELEGATED))
@pytest.mark.parametrize("flow", DELEGATED)
def test_verdicts_on_delegates(flow: str) -> None:
    """Right outputs match; faults in outputs and weights are found, and their layers named."""
    _require(flow)
    subject = proof.Subject("mlp", "trained")
    rows = list(proof.right_programs(subject, flow, 3))
    assert [row.verdict for row in rows] == ["match"] * (len(proof.VARIANTS) + 2)
    wrong = [*proof.output_faults(subject, flow, 1), *proof.weight_faults(subject, flow, 1, 1)]
    assert sum(row.counts for row in wrong) > 20 and not any(row.is_accepted for row in wrong)
    assert any(row.named for row in wrong) and not any(row.named is False for row in wrong)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("net", "flow"), [key for key, why in proof.CHANGED.items() if why == proof.HALVES_AWAY]
)
def test_a_flow_that_changes_the_model(net: str, flow: str) -> None:
    """The verdict on such a program is right: its outputs differ at halves alone."""
    _require(flow)
    subject = proof.Subject(net, "trained")
    row = next(proof.right_programs(subject, flow, 1))
    [_, ours, _] = proof.run_program(subject.program(flow), subject.inputs)
    steps = np.round(subject.inputs[0].numpy() * 4) / 8
    halves = np.abs(steps - np.trunc(steps)) == 0.5
    assert row.verdict == "differ"
    assert np.array_equal(ours, np.trunc(steps + np.copysign(0.5, steps)))
    assert ((ours != np.round(steps)) <= halves).all() and (ours != np.round(steps)).any()


def test_stale_state_is_found() -> None:
    """Also after the other faults, which run the model too."""
    subject = proof.Subject("kv_cache", "trained")
    assert not list(proof.stride_faults(subject, "portable", 0))
    rows = list(proof.state_faults(subject, "portable"))
    assert [(row.fault, row.verdict) for row in rows] == [("not reset", "differ")]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("flow", ["portable", "mlx"])
def test_verdicts_on_caches_of_the_runner(flow: str) -> None:
    """Right outputs match; another window of the cache is found."""
    subject = proof.Subject("appending", "trained")
    try:
        right = list(proof.right_programs(subject, flow, 3))
        wrong = list(proof.cache_faults(subject, flow, 2))
    finally:
        REGISTRY.uninstall(nets.CACHE)
    assert [row.verdict for row in right] == ["match"] * (len(proof.VARIANTS) + 2)
    assert sum(row.counts for row in wrong) >= 6
    assert all(row.verdict == "differ" for row in wrong if row.counts)


@pytest.mark.sweep(len(QUANTISED))
@pytest.mark.parametrize("flow", QUANTISED)
def test_faults_in_quantised_programs_are_found(flow: str) -> None:
    _require(flow)
    subject = quantized.Subject("mlp", "trained", flow)
    assert [row.verdict for row in quantized.right_programs(subject, 3)] == ["match"] * 3
    rows = [
        *quantized.weight_faults(subject, 0, 1, named=4),
        *quantized.graph_faults(subject, 0, 2),
    ]
    counted = [row for row in rows if row.counts]
    assert counted and not [row for row in counted if row.verdict == "match"]
    assert any(row.named for row in rows) and not [row for row in rows if row.named is False]


ONCE_REFUSED = [
    ("llama", "xnnpack-dynamic"),
    ("mobilenet_v2", "xnnpack-int8"),
    ("unet", "xnnpack-int8"),
    ("detector", "xnnpack-int8"),
]
"""A mask of -inf; integer biases in a delegate; one tie; nearly equal scores of classes."""


@pytest.mark.heavy
@pytest.mark.parametrize(("net", "flow"), ONCE_REFUSED)
def test_right_quantised_programs_match(net: str, flow: str) -> None:
    subject = quantized.Subject(net, "trained", flow)
    assert [row.verdict for row in quantized.right_programs(subject, 6)] == ["match"] * 6


def test_a_filter_of_a_dynamically_quantised_layer() -> None:
    """One filter's scale is wrong by 1 %, or its integers by a step: small compared with rounding
    ties. A kernel of one element, reversed, is the same: no fault."""
    subject = quantized.Subject("detector", "trained", "xnnpack-dynamic")
    rows = list(quantized.weight_faults(subject, 0, 1))
    assert len(rows) == 11 and all(row.verdict == "differ" for row in rows)
    assert not [row for row in rows if row.named is False]


def test_bounds() -> None:
    """The interval of Clopper and Pearson; SciPy's beta quantiles are the same."""
    wanted = {(0, 1000): 0.003682, (1, 10): 0.445016, (3, 50): 0.165482, (10, 10): 1.0}
    assert {case: round(rates.upper(*case), 6) for case in wanted} == wanted
    assert round(rates.lower(9, 10), 6) == round(1 - 0.445016, 6) and rates.lower(0, 5) == 0


@pytest.mark.parametrize("weights", proof.HALVES)
def test_halves(weights: str) -> None:
    """Right outputs of halves match, and faults are found."""
    subject = proof.Subject("mlp", weights)
    rows = [
        *proof.right_programs(subject, "portable", 3),
        *proof.output_faults(subject, "portable", 1),
        *proof.weight_faults(subject, "portable", 1, 1),
    ]
    assert not [row for row in rows if row.is_alarm or row.is_accepted or row.named is False]
    assert sum(row.counts for row in rows) > 10
    assert [row.verdict for row in rows[:3]] == ["match"] * 3


def test_the_proof_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table shows a judge that is too lenient or too strict."""
    subject = proof.Subject("mlp", "fresh")

    def generous(actual: Any, expected: Any, *rest: Any) -> tolerance.Tolerance:
        return tolerance.of_caller(actual, expected, 1.0, 1.0)

    monkeypatch.setattr(tolerance, "measured", generous)
    monkeypatch.setattr(tolerance, "rounding", generous)
    rows = list(proof.output_faults(subject, "portable", 1))
    assert any(row.counts and row.verdict == "match" for row in rows)
    last = proof.table(rows).splitlines()[-3]
    assert last.startswith("| **all** |") and "| 0 |" not in last

    def strict(actual: Any, expected: Any, *rest: Any) -> tolerance.Tolerance:
        return tolerance.of_caller(actual, expected, 0.0, 0.0)

    monkeypatch.setattr(tolerance, "measured", strict)
    monkeypatch.setattr(tolerance, "rounding", strict)
    assert any(row.verdict == "differ" for row in proof.right_programs(subject, "portable", 3))
