"""Verdicts on programs of which a backend computes operators since they were loaded: planted faults
of the backend are found and named, and right results are accepted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from exports import export
from fake_claims import OPERATORS, Claims
from torch import Tensor, nn

import executorch_c
from executorch_c import Method, Runtime
from executorch_c.check import flows
from executorch_c.debug.programs import compare_kernels
from executorch_c.devtools import explain
from executorch_c.testing import check_model

VARIABLE = "EXECUTORCH_C_DELEGATE_AT_LOAD"


class Net(nn.Module):
    """Two layers; the operators before and after the exponential are two runs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.exp(-torch.relu(self.first(x)))
        return self.second(y * 2 + y) + torch.sigmoid(y[:, :4])


MODEL = Net().eval()
X = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def pte() -> bytes:
    return export(MODEL, X)


@pytest.fixture(scope="session")  # registered once, however tests are shared out
def backend() -> Iterator[Claims]:
    # XnnpackBackend is registered before it, so that this one is asked first.
    executorch_c.load(export(torch.sin, torch.ones(1))).load_method(
        "forward", delegate_at_load="always"
    )
    yield Claims("FakeClaims")


def load(pte: bytes) -> Method:
    return Runtime.get().load_program(pte).load_method("forward", delegate_at_load="always")


def test_right_results_are_accepted(pte: bytes, backend: Claims) -> None:
    with backend.active():
        method = load(pte)
        rows = method.backend_report()
        assert len(rows) > 1 and sum(len(row["claimed"]) for row in rows) > 3
        assert check_model(MODEL, (X,), program=method).verdict == "match"
        report = explain(method, MODEL, [X])
        assert report.ok and "FakeClaims" in report.notes[0]
        assert compare_kernels(method, [X.numpy()]).ok


WRONG = {
    "aten::sigmoid.out": lambda x: 1 / (1 + np.exp(-x)) + np.float32(0.01),
    "aten::relu.out": lambda x: np.maximum(x, 0.03125),
    "aten::mul.out": lambda x, y: x * y * np.float32(1.001),
}  # fmt: skip


@pytest.mark.parametrize("operator", WRONG)
def test_a_wrong_operator_is_named(operator: str, pte: bytes, backend: Claims) -> None:
    with backend.active({operator: WRONG[operator]}):
        method = load(pte)
        result = check_model(MODEL, (X,), program=method)
        assert result.verdict == "differ"
        for report in (explain(method, MODEL, [X]), result.explain()):
            first = report.first
            assert report.verdict == "differ" and first is not None
            assert first.name == operator and first.verdict == "source"
            assert any("FakeClaims differs from them here" in note for note in report.notes)
        compared = compare_kernels(method, [X.numpy()])
        assert compared.first is not None and operator in compared.first.name


def test_a_fault_of_several_calls_together(pte: bytes, backend: Claims) -> None:
    """Each operator is right by itself: the outputs of an ordinary call are not."""

    def fault(calls: int, result: np.ndarray) -> np.ndarray:
        return result * np.float32(1.01) if calls > 1 else result

    with backend.active(fault=fault):
        method = load(pte)
        assert check_model(MODEL, (X,), program=method).verdict == "differ"
        report = explain(method, MODEL, [X])
        assert report.verdict == "differ" and report.first is not None
        assert report.first.where == "output 0" and "delegated together" in report.first.name
        assert any("FakeClaims differs from them here" in note for note in report.notes)
        given = explain(method, MODEL, [X], rtol=1e-4, atol=1e-4)
        assert given.verdict == "differ" and explain(method, MODEL, [X], rtol=1, atol=1).ok
        compared = compare_kernels(method, [X.numpy()])
        assert compared.first is not None and compared.first.where == "output 0"


def test_the_environment_counts(
    pte: bytes, backend: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program is loaded as the variable says, by each function."""
    monkeypatch.setenv(VARIABLE, "always")
    with backend.active({"aten::relu.out": WRONG["aten::relu.out"]}):
        assert check_model(MODEL, (X,), program=pte).verdict == "differ"
        report = explain(pte, MODEL, [X])
        assert report.first is not None and report.first.name == "aten::relu.out"
    monkeypatch.setenv(VARIABLE, "0")
    assert check_model(MODEL, (X,), program=pte).verdict == "match"


def test_state_goes_on_from_the_same_values(backend: Claims) -> None:
    """The calls of an explanation start from the method's state, and change it once."""

    class Sum(nn.Module):
        total: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            self.total.add_(x)
            return torch.sigmoid(self.total * 2)

    with backend.active():
        x = torch.linspace(-1, 1, 4)
        method = load(export(Sum(), x))
        assert explain(method, Sum(), [x]).ok
        found = method.execute([x.numpy()])[0]
    np.testing.assert_allclose(found, torch.sigmoid(4 * x).numpy(), rtol=1e-6)


def test_operators_are_real() -> None:
    names = {row["name"] for row in executorch_c.operators()}
    assert names.issuperset(OPERATORS)


def test_xnnpack(pte: bytes) -> None:
    method = load(pte)
    assert {row["backend"] for row in method.backend_report()} == {"XnnpackBackend"}
    assert explain(method, MODEL, [X]).ok
    assert check_model(MODEL, (X,), program=method).verdict == "match"
    assert compare_kernels(method, [X.numpy()]).ok


# ---- programs inside payloads -------------------------------------------------------------------


@pytest.fixture(scope="module")
def interpreted() -> bytes:
    """Return the model delegated to Vulkan: its payload is a graph, which runs as a program."""
    lowered = flows._lower(torch.export.export(MODEL, (X,)), flows.FLOWS["vulkan"], "forward")
    return bytes(lowered.buffer)


def test_right_results_inside_a_payload(interpreted: bytes, backend: Claims) -> None:
    with backend.active():
        method = load(interpreted)
        (row,) = method.backend_report()
        assert row["backend"] == "VulkanBackend" and row["nested_claims"]["FakeClaims"] > 3
        assert check_model(MODEL, (X,), program=method).verdict == "match"
        report = explain(method, MODEL, [X])
        assert report.ok and "FakeClaims" in report.notes[0]
        assert compare_kernels(method, [X.numpy()]).ok


@pytest.mark.parametrize("operator", WRONG)
def test_a_wrong_operator_inside_a_payload_is_named(
    operator: str, interpreted: bytes, backend: Claims
) -> None:
    """The trace has the payload's own nodes."""
    with backend.active({operator: WRONG[operator]}):
        method = load(interpreted)
        assert check_model(MODEL, (X,), program=method).verdict == "differ"
        report = explain(method, MODEL, [X])
        first = report.first
        assert report.verdict == "differ" and first is not None, str(report)
        assert first.name.split(".")[1] in operator and first.verdict == "source", str(report)
        assert any("FakeClaims differs from them here" in note for note in report.notes)
        compared = compare_kernels(method, [X.numpy()])
        assert compared.first is not None, str(compared)


@pytest.mark.parametrize("options", [{"delegate_at_load": False}, {"kernels": "reference"}])
def test_no_claims_inside_a_payload(
    options: dict[str, Any], interpreted: bytes, backend: Claims
) -> None:
    with backend.active({"aten::relu.out": WRONG["aten::relu.out"]}):
        method = Runtime.get().load_program(interpreted).load_method("forward", **options)
        assert method.backend_report()[0]["nested_claims"] == {}
        assert check_model(MODEL, (X,), program=method).ok
