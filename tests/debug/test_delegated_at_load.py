"""Checks of programs of which a backend computes operators since they were loaded: they run the
program as written, unless the option asks for the backend; then its planted faults are found and
named, and right results are accepted."""

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import executorch_c
from executorch_c import Method, Runtime
from executorch_c.bundled import BundledProgram
from executorch_c.check import flows
from executorch_c.cli import main
from executorch_c.debug.programs import compare_kernels, compare_programs
from executorch_c.devtools import check_nan, explain, quantization_error
from executorch_c.testing import MismatchError, assert_matches, check_model
from tests.backends.fake_delegate import OPERATORS, FakeDelegate
from tests.exports import Fn, export


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
EXPECTED = MODEL(X).detach()


@pytest.fixture(scope="module")
def pte() -> bytes:
    return export(MODEL, X)


@pytest.fixture(scope="module")
def interpreted() -> bytes:
    """Return the model delegated to Vulkan: its payload is a graph, which runs as a program."""
    lowered = flows._lower(torch.export.export(MODEL, (X,)), flows.FLOWS["vulkan"], "forward")
    return bytes(lowered.buffer)


@pytest.fixture(scope="session")  # registered once, however tests are shared out
def backend() -> Iterator[FakeDelegate]:
    # XnnpackBackend is registered before it, so that this one is asked first.
    executorch_c.load(export(torch.sin, torch.ones(1))).load_method(
        "forward", delegate_at_load="always"
    )
    yield FakeDelegate("FakeBackend")


def load(pte: bytes) -> Method:
    return Runtime.get().load_program(pte).load_method("forward", delegate_at_load="always")


WRONG = {
    "aten::sigmoid.out": lambda x: 1 / (1 + np.exp(-x)) + np.float32(0.01),
    "aten::relu.out": lambda x: np.maximum(x, 0.03125),
    "aten::mul.out": lambda x, y: x * y * np.float32(1.001),
}

WRONG_RELU = {"aten::relu.out": WRONG["aten::relu.out"]}

# ---- by default: the program as written ---------------------------------------------------------

CHECKS: dict[str, Callable[..., object]] = {
    "check_model": lambda pte, **o: check_model(MODEL, (X,), program=pte, **o).raise_if_wrong(),
    "assert_matches": lambda pte, **o: assert_matches([X], EXPECTED, program=pte, **o),
    "explain": lambda pte, **o: _require(explain(MODEL, [X], program=pte, **o)),
    "compare_kernels": lambda pte, **o: _require(compare_kernels(pte, [X.numpy()], **o)),
    "bundled": lambda pte, **o: _require(
        *BundledProgram(pte, {"forward": [([X.numpy()], [EXPECTED.numpy()])]}).verify(**o)
    ),
}


def _require(report: Any) -> None:
    assert report.ok, str(report)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("kind", ["pte", "interpreted"])
@pytest.mark.parametrize("check", CHECKS)
def test_programs_are_checked_as_written(
    check: str, kind: str, request: Any, backend: FakeDelegate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong backend is no fault of the program, whatever the variable says; with the option it
    is found, and a right one accepted."""
    monkeypatch.setenv("EXECUTORCH_C_DELEGATE_AT_LOAD", "always")
    program = request.getfixturevalue(kind)
    with backend.active(WRONG_RELU):
        CHECKS[check](program)
        with pytest.raises(AssertionError):
            CHECKS[check](program, delegate_at_load="always")
    with backend.active():
        CHECKS[check](program, delegate_at_load="always")


def test_other_tools(pte: bytes, backend: FakeDelegate) -> None:
    def infinite(x: np.ndarray) -> np.ndarray:
        return np.full_like(x, np.inf)

    with backend.active({"aten::sigmoid.out": infinite}):
        assert check_nan(pte, [X])
        assert not check_nan(pte, [X], delegate_at_load="always")
        same = compare_programs(pte, pte, [X])
        assert same.ok and all(row.accumulated.relative == 0 for row in same)
        written, delegated = (
            quantization_error(MODEL, [X], program=pte, delegate_at_load=choice).worst(1)[0]
            for choice in (False, "always")
        )
        assert written.local is not None and written.local.relative < 1e-5
        assert delegated.local is not None and delegated.local.relative == np.inf


MAKE = """\
import torch
from torch import Tensor, nn

{net}
def make():
    return Net().eval(), (torch.linspace(-2, 2, 3600).reshape(600, 6),)
"""


def test_commands(backend: FakeDelegate, tmp_path: Path) -> None:
    x = torch.linspace(-2, 2, 3600).reshape(600, 6)
    inputs, expected, path, model = (tmp_path / n for n in ("x.npy", "y.npy", "net.pte", "m.py"))
    np.save(inputs, x.numpy())
    np.save(expected, MODEL(x).detach().numpy())
    path.write_bytes(export(MODEL, x))
    model.write_text(MAKE.format(net=inspect.getsource(Net)))
    at, to = [str(path), "--inputs", str(inputs)], ["--model", f"{model}:make"]
    commands = [
        ["validate", *at, "--expect", str(expected)],
        ["check", str(path), *to],
        ["explain", *at, *to],
        ["compare", str(path), *at],
    ]
    with backend.active(WRONG_RELU):
        for command in commands:
            assert main(command) == 0, command
            wrong = command[0] != "compare"  # two programs with the same fault
            assert main([*command, "--delegate-at-load"]) == (3 if wrong else 0), command
        assert main(["compare", *at, "--delegate-at-load"]) == 3


# ---- with the option -----------------------------------------------------------------------------


def test_right_results_are_accepted(pte: bytes, backend: FakeDelegate) -> None:
    with backend.active():
        rows = load(pte).backend_report()
        assert len(rows) > 1 and sum(len(row["delegated_at_load"]) for row in rows) > 3
        result = check_model(MODEL, (X,), program=pte, delegate_at_load="always")
        assert result.verdict == "match"
        report = explain(MODEL, [X], program=pte, delegate_at_load="always")
        for notes in (result.notes, report.notes):
            [note] = [note for note in notes if "FakeBackend" in note]
            assert "7 operator calls delegated at load" in note
        assert report.ok


@pytest.mark.parametrize("kind", ["pte", "interpreted"])
@pytest.mark.parametrize("operator", WRONG)
def test_a_wrong_operator_is_named(
    operator: str, kind: str, request: pytest.FixtureRequest, backend: FakeDelegate
) -> None:
    """In a payload by the name of its node."""
    program = request.getfixturevalue(kind)
    with backend.active({operator: WRONG[operator]}):
        result = check_model(MODEL, (X,), program=program, delegate_at_load="always")
        assert result.verdict == "differ"
        explanation = explain(MODEL, [X], program=program, delegate_at_load="always")
        for report in (explanation, result.explain()):
            first = report.first
            assert report.verdict == "differ" and first is not None, str(report)
            assert first.verdict == "source" and first.name.split(".")[0] in operator, str(report)
        assert result.explain(delegate_at_load=False).ok
        compared = compare_kernels(program, [X.numpy()], delegate_at_load="always")
        assert compared.first is not None and not compared.ok


def test_a_fault_of_several_calls_together(pte: bytes, backend: FakeDelegate) -> None:
    """Each operator is right by itself: the outputs of an ordinary call are not, and `explain` says
    where to see them."""

    def fault(calls: int, result: np.ndarray) -> np.ndarray:
        return result * np.float32(1.01) if calls > 1 else result

    with backend.active(fault=fault):
        result = check_model(MODEL, (X,), program=pte, delegate_at_load="always")
        assert result.verdict == "differ"
        report = result.explain()
        assert report.ok and any("each separately" in note for note in report.notes)
        compared = compare_kernels(pte, [X.numpy()], delegate_at_load="always")
        assert compared.first is not None and compared.first.where == "output 0"


def test_an_option_without_effect_is_an_error(pte: bytes) -> None:
    with pytest.raises(ValueError, match="no effect on a Method"):
        check_model(MODEL, (X,), program=load(pte), delegate_at_load=True)
    with pytest.raises(ValueError, match="kernels='reference'"):
        explain(MODEL, [X], program=pte, delegate_at_load=True, kernels="reference")


def test_xnnpack(pte: bytes) -> None:
    method = load(pte)
    assert {row["backend"] for row in method.backend_report()} == {"XnnpackBackend"}
    for check in CHECKS.values():
        check(pte, delegate_at_load="always")


# ---- loaded methods ------------------------------------------------------------------------------


def test_a_method_is_used_as_it_was_loaded(pte: bytes, backend: FakeDelegate) -> None:
    """Where it runs; a report on its traced values examines what is written. Both say so."""
    with backend.active(WRONG_RELU):
        method = load(pte)
        result = check_model(MODEL, (X,), program=method)
        assert result.verdict == "differ"
        assert any("FakeBackend computes 7 operator calls" in note for note in result.notes)
        with pytest.raises(MismatchError):
            assert_matches([X], EXPECTED, program=method)
        named = result.explain().first
        assert named is not None and named.name == "aten::relu.out"
        report = explain(MODEL, [X], program=method)
        assert report.ok
        assert any("as written" in note and "FakeBackend" in note for note in report.notes)
        assert any("as written" in note for note in check_nan(method, [X]).notes)
        separate = method._program.load_method("forward", delegate_at_load="each")
        first = explain(MODEL, [X], program=separate).first
        assert first is not None and first.name == "aten::relu.out"
        assert compare_kernels(method, [X.numpy()]).ok


def test_nothing_is_said_where_nothing_was_delegated(pte: bytes, backend: FakeDelegate) -> None:
    method = Runtime.get().load_program(pte).load_method("forward", delegate_at_load=False)
    for report in (
        check_model(MODEL, (X,), program=method),
        explain(MODEL, [X], program=method),
        check_model(MODEL, (X,), program=pte),
    ):
        assert report.ok and "at load" not in str(report)
        assert "at load" not in json.dumps(report.as_dict())


def test_state_goes_on_from_the_same_values(backend: FakeDelegate) -> None:
    """An explanation starts from the method's state, and changes it once."""

    def sums() -> nn.Module:
        total = nn.Buffer(torch.zeros(4))
        return Fn(lambda x, total: torch.sigmoid(total.add_(x) * 2), total=total)

    with backend.active():
        x = torch.linspace(-1, 1, 4)
        method = load(export(sums(), x))
        assert explain(sums(), [x], program=method).ok
        outputs = method.execute([x.numpy()])[0]
    np.testing.assert_allclose(outputs, torch.sigmoid(4 * x).numpy(), rtol=1e-6)


def test_operators_are_real() -> None:
    names = {row["name"] for row in executorch_c.operators()}
    assert names.issuperset(OPERATORS)


@pytest.mark.parametrize("options", [{"delegate_at_load": False}, {"kernels": "reference"}])
def test_nothing_inside_a_payload(
    options: dict[str, Any], interpreted: bytes, backend: FakeDelegate
) -> None:
    with backend.active(WRONG_RELU):
        method = Runtime.get().load_program(interpreted).load_method("forward", **options)
        assert method.backend_report()[0]["nested_delegated_at_load"] == {}
        assert check_model(MODEL, (X,), program=method).ok
