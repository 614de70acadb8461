"""Notes of check_model: the stage of an error and the next step, inputs that change no output,
states that no output reads, and differences of the official runtime."""

import copy
import inspect
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("executorch.exir")

from executorch_c import cli
from executorch_c._stages import notes_of, stage_of
from executorch_c.check import facts
from executorch_c.check.unread import reason
from executorch_c.check.variation import input_names
from executorch_c.cli import main
from executorch_c.inspect.structure import View
from executorch_c.testing import check_model
from tests import exports
from tests.exports import Fn, export, manager, two_conditions


def scores(bias: float) -> nn.Module:
    """Build rounded scores, which a large bias decides unless `bias` is small."""
    torch.manual_seed(0)
    last = nn.Linear(16, 4)
    last.bias.data.copy_(torch.tensor([40.0, -40.0, 30.0, 25.0]) * bias)
    return Fn(lambda x, last: last(x).sigmoid().round(), last=last)


def residual(gamma: float) -> nn.Module:
    """Build a branch that a factor scales, beside a constant."""
    torch.manual_seed(0)
    parts = {"b": nn.Parameter(torch.randn(16)), "gamma": nn.Parameter(torch.tensor(gamma))}
    run = lambda x, branch, b, gamma: b + gamma * torch.relu(branch(x))  # noqa: E731
    return Fn(run, branch=nn.Linear(16, 16), **parts)


def classes(x: Tensor) -> Tensor:
    """Return the same classes for all inputs of a like size."""
    return (x + 100 * torch.eye(4)).argmax(-1)


X = (torch.randn(3, 16, generator=torch.Generator().manual_seed(0)),)

ROWS: dict[str, tuple[nn.Module, tuple[Tensor, ...], dict[str, Any], str]] = {
    "saturated scores": (scores(1.0), X, {}, "inconclusive"),
    "a branch below rounding": (residual(1e-9), X, {}, "inconclusive"),
    "a branch of zero": (residual(0.0), X, {}, "inconclusive"),
    "classes": (Fn(classes), (torch.randn(4, 4),), {}, "inconclusive"),
    "a clamp": (Fn(lambda x: (x * 1e-3).clamp(1, 2) + torch.arange(16)), X, {}, "inconclusive"),
    "scores": (scores(0.0), X, {}, "match"),
    "a branch": (residual(1e-4), X, {}, "match"),
    "a single call": (residual(0.0), X, {"n_random": 0}, "match"),
    "the caller's tolerances": (scores(1.0), X, {"rtol": 1e-3}, "match"),
    "real inputs": (scores(1.0), X, {"real_inputs": [(X[0] * 100,)]}, "match"),
    "a wrong program": (scores(1.0), X, {"program": scores(-1.0)}, "differ"),
}
"""Models, inputs and options, and the verdict: outputs that no input changes are inconclusive."""


@pytest.mark.parametrize("name", ROWS)
def test_outputs_that_no_input_changes(name: str) -> None:
    model, inputs, options, verdict = ROWS[name]
    if "program" in options:
        options = {"program": export(options["program"], *inputs)}
    result = check_model(model.eval(), inputs, progress=False, **options)
    assert result.verdict == verdict, str(result)
    if verdict == "inconclusive":
        assert [case.verdict for case in result] == ["match"] * 4 and not result
        assert "the same values, up to rounding, in all 4 calls" in str(result)
        assert result.summary().startswith("inconclusive")
        with pytest.raises(AssertionError, match="real_inputs"):
            result.raise_if_wrong()


def test_one_constant_output_of_two_is_a_note() -> None:
    model = Fn(lambda x: (x * 2, x * 0 + torch.arange(16)))
    result = check_model(model, X, progress=False)
    assert result.verdict == "match"
    assert any(note.startswith("output 1 has the same values") for note in result.notes)


def test_names_of_inputs() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor, cache: list[Tensor], *rest: Tensor, mask: object) -> Tensor:
            return x

    one = torch.ones(1)
    call = ((one, [one, one], one), {"mask": {"a": one, "b": (one,)}})
    names = ["x", "cache.0", "cache.1", "input 2", "mask.a", "mask.b.0"]
    assert input_names(Model(), call) == names


def test_names_of_inputs_of_an_exported_program() -> None:
    class Model(nn.Module):
        def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
            return ids + mask

    call = (torch.ones(1), torch.ones(1))
    assert input_names(torch.export.export(Model(), call).module(), (call, {})) == ["ids", "mask"]


SMALL = torch.linspace(-1, 1, 12).reshape(4, 3)


def note_of(error: type[Exception], *args: Any, **options: Any) -> str:
    """The note of the exception that a check raises."""
    with pytest.raises(error) as caught:
        check_model(*args, n_random=0, progress=False, **options)
    [note] = notes_of(caught.value)
    assert note.split()[1] == stage_of(caught.value)
    return note


def fails(exported: Any) -> Any:
    raise RuntimeError("the partitioner fails")


def test_each_stage(tmp_path: Path) -> None:
    model, broken = nn.Linear(3, 2).eval(), tmp_path / "broken.pte"
    broken.write_bytes(b"no program")
    for stage, note in {
        "eager": note_of(TypeError, model, (SMALL, SMALL)),
        "export": note_of(Exception, lambda x: x if x.sum().item() > 100 else -x, (SMALL,)),
        "lower": note_of(RuntimeError, model, (SMALL,), flow=fails),
        "load": note_of(Exception, model, (SMALL,), program=broken),
        "compare": note_of(ValueError, model, (SMALL,), rtol={"logits": 1e-3}),
    }.items():
        assert note.startswith(f"stage: {stage} (")
        assert stage != "eager" or "call model(*inputs)" in note


def test_a_flow_whose_package_is_missing() -> None:
    def imports(exported: Any) -> Any:
        raise ImportError("flow 'mine' needs the package mine")

    note = note_of(ImportError, nn.Linear(3, 2).eval(), (SMALL,), flow=imports)
    assert note.startswith("stage: lower (") and "install its package" in note


def test_a_program_that_fails() -> None:
    """It is a case of the result, whose text has the stage."""
    tokens = torch.tensor([1, 7])
    pte = bytes(manager(nn.Embedding(4, 2), tokens % 4).buffer)
    result = check_model(
        nn.Embedding(10, 2).eval(), (tokens,), program=pte, n_random=0, engines=("here",)
    )
    case = result.cases[0]
    assert case.verdict == "error" and case.error is not None and stage_of(case.error) == "run"
    assert "stage: run (the program raises: see executorch-c explain)" in " ".join(
        str(result).split()
    )


def test_training_mode() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    note = note_of(ValueError, model, (SMALL,))
    assert note == (
        "stage: eager (BatchNorm1d '1' and 1 more in training mode: call model.eval() first)"
    )
    note = note_of(ValueError, nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), (SMALL[:1],))
    assert "call model.eval() first" in note


def test_a_graph_has_no_mode() -> None:
    """PT2E's converted module is one: it says that it trains, and its eval() raises."""
    graph = torch.export.export(nn.Linear(3, 4).eval(), (torch.ones(1, 3),)).module()
    assert graph.training and facts._is_graph(graph)
    assert not facts._is_graph(nn.Linear(3, 4))
    assert not facts._is_graph(torch.fx.symbolic_trace(nn.Sequential(nn.Dropout(0.5))))


def test_a_model_that_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pte = tmp_path / "m.pte"
    pte.write_bytes(manager(nn.Linear(3, 2), SMALL).buffer)
    y = torch.linspace(-1, 1, 20).reshape(4, 5)
    for x in (y, SMALL[0], SMALL.double(), SMALL[:2]):
        with pytest.raises(ValueError, match=r"the model does not fit the program: input 0") as got:
            check_model(nn.LazyLinear(2).eval() if x is y else lambda x: x + 1, (x,), program=pte)
        assert stage_of(got.value) == "load"
    (tmp_path / "make.py").write_text(
        "import torch\n\n\ndef make():\n    return torch.nn.Linear(5, 2), (torch.ones(4, 5),)\n"
        "\n\ndef bad():\n    raise OSError('no weights')\n"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "m.pte", "--model", "make.py:make"]) == 1
    assert "the model does not fit the program" in capsys.readouterr().err
    assert cli.main(["check", "m.pte", "--model", "make.py:bad"]) == 1
    assert "no weights; stage: make (" in capsys.readouterr().err


def test_a_model_that_fits() -> None:
    """Static and dynamic shapes, bfloat16 and integers are no misfit."""
    rows = torch.export.Dim("rows", max=8)
    pte = bytes(manager(nn.Linear(3, 2), SMALL, dynamic_shapes=({0: rows},)).buffer)
    torch.manual_seed(0)
    for x in (SMALL, SMALL[:3]):
        result = check_model(nn.Linear(3, 2).eval(), (x,), program=pte, n_random=0)
        assert {case.verdict for case in result} <= {"match", "differ"}
    half, tokens = SMALL.bfloat16(), torch.arange(4)
    for x in (half, tokens):
        pte = bytes(manager(lambda x: x * 2, x).buffer)
        assert check_model(lambda x: x * 2, (x,), program=pte, n_random=0)


class Clamped(nn.Module):
    """The index of what is written stays at the end of the cache from the first call on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("other", torch.zeros(3))
        self.register_buffer("state", torch.full((1,), 3, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        at = self.state.clamp(max=2)
        self.state.add_(1)
        return x * self.other.index_copy(0, at, torch.ones(1)) + x


def of_state(function: Callable[[Tensor, Tensor, Tensor], Any]) -> Callable[[], nn.Module]:
    """Return a maker of a model of an input, a state and another one: the last result of a tuple is
    the output."""
    buffers = {name: nn.Buffer(torch.zeros(3)) for name in ("state", "other")}
    return lambda: Fn(lambda *values: function(*values)[-1], **copy.deepcopy(buffers))


LINE = inspect.getsourcelines(Clamped.forward)[1] + 1
OVERWRITTEN = " (each call overwrites it before it is read)"
REASONS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "overwritten": (of_state(lambda x, s, _: (s.copy_(x), s * 2)), OVERWRITTEN),
    "filled": (of_state(lambda x, s, _: (s.zero_(), s.add_(x), s * 2)), OVERWRITTEN),
    "counted": (
        of_state(lambda x, s, _: (s.add_(1), x * 2)),
        " (only its own next value is computed from it)",
    ),
    "copied": (
        of_state(lambda x, s, other: (other.add_(s), s.add_(x), x * 2)),
        " (only state 'other' is computed from it)",
    ),
    "clamped": (Clamped, f" (clamp in test_check_notes.py:{LINE} limits it before it is read)"),
    "read": (of_state(lambda x, s, _: (s.add_(x), s * 2)), ""),
}


@pytest.mark.parametrize("name", REASONS)
def test_reasons(name: str) -> None:
    model, expected = REASONS[name]
    text = reason(torch.export.export(model(), (torch.ones(3),)), "state")
    assert text.endswith(expected) and bool(text) is bool(expected)


@pytest.mark.parametrize("name", ["counted", "clamped", "read"])
def test_the_note_has_the_reason(name: str) -> None:
    model, expected = REASONS[name]
    result = check_model(model(), (torch.ones(3),), engines=("here",), progress=False)
    notes = [note for note in result.notes if "read by no output" in note]
    assert len(notes) == bool(expected) and all(expected in note for note in notes)
    assert name != "clamped" or "read by no output of later calls (" in notes[0]


ADVICE = "Clone the result of each torch.cond"


def scanned(xs: Any, carry: Any, layer: Any) -> Any:
    """Compute with a carry that the export loses: nothing writes what the linear layer reads."""
    from torch._higher_order_ops.scan import scan

    def step(c: Any, x: Any) -> tuple[Any, Any]:
        new = torch.tanh(layer(c) + x)
        return new, new * 2

    return tuple(scan(step, carry, xs, dim=0))


def checked_here(function: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    options = {"n_random": 1, "engines": "here", "progress": False, **options}
    return check_model(Fn(function), inputs, **options)


def test_a_match_by_chance_is_inconclusive() -> None:
    """The example's carry is zeros, like memory that nothing has written."""
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3), torch.zeros(3))
    model = Fn(scanned, layer=nn.Linear(3, 3))
    result = check_model(model, inputs, n_random=0, engines="here", progress=False)
    assert result.cases[0].verdict == "match" and result.is_undefined
    assert result.verdict == "inconclusive" and not result.ok
    assert "match by chance" in result.summary()
    assert "nothing writes %" in str(result).replace("\n  ", " ")


def test_conditions_in_a_row_are_noted(tmp_path: Path, capsys: Any) -> None:
    x = torch.arange(1.0, 9.0)
    pte = exports.lowered(Fn(two_conditions), x)
    result = checked_here(two_conditions, x, program=pte)
    (note,) = [note for note in result.notes if "#21490" in note]
    assert result.ok and ADVICE in note
    path = tmp_path / "m.pte"
    path.write_bytes(pte)
    assert main(["info", str(path)]) == 0
    assert "#21490" in capsys.readouterr().out
    assert main(["info", "--json", str(path)]) == 0
    (method,) = json.loads(capsys.readouterr().out)["methods"]
    (row,) = [row for row in method["remarks"] if row["kind"] == "moved"]
    assert row["instruction"] is None and row["text"] == note
    result = checked_here(partial(two_conditions, clone=True), x)  # the advice
    assert result.ok and not [note for note in result.notes if "official" in note]


def test_operators_that_the_official_runtime_lacks_or_rejects() -> None:
    def operators(x: Any, bounds: Any) -> Any:
        return torch.bucketize(torch.nn.functional.pad(x, (0, 0, -1, 2)), bounds)

    x = torch.linspace(-2, 2, 6).reshape(3, 2)
    result = checked_here(operators, x, torch.tensor([-1.0, 0.0, 1.0]))
    kinds = {one.operator: one.kind for one in result.findings}
    assert not result.failures
    assert kinds["aten::bucketize.Tensor_out"] == "lacks"
    assert kinds["aten::constant_pad_nd.out"] == "rejects"
    text = str(result).replace("\n  ", " ")
    assert "has no such operator" in text and "pad: negative" in text


def test_each_delegate_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the search for quantised values and by the remarks."""
    read, read_inside = list[int](), View._read_inside

    def counted(self: View, delegate: int) -> Any:
        read.append(delegate)
        return read_inside(self, delegate)

    monkeypatch.setattr(View, "_read_inside", counted)
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Softmax(0), torch.nn.Linear(3, 3))
    torch.manual_seed(0)
    result = check_model(net.eval(), (torch.randn(3),), flow="xnnpack", n_random=1, progress=False)
    assert result.ok and read == [*range(len(read))] and read
