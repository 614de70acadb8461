"""executorch_c.testing.check_model: correct models pass in each flow, planted faults are found."""

import copy
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from torch import Tensor, nn
from torch.export import Dim

import executorch_c
from executorch_c import Runtime, testing
from executorch_c.bundled import BundledProgram
from executorch_c.check.flows import FLOWS
from executorch_c.check.judge import Judge
from executorch_c.check.reference import Eager
from executorch_c.check.report import worst_elements
from executorch_c.compare.tolerance import CallerTolerances
from executorch_c.testing import CheckError, CheckResult, check_model, compare
from tests.exports import Decaying, Fn, export, flow_params, manager


class Net(nn.Module):
    """A convolution and a linear layer, for a batch of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.conv(x)).mean((2, 3)))


def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


IMAGE = (2, 3, 8, 9)


def kinds(result: CheckResult, verdict: str) -> set[str]:
    return {case.kind for case in result if case.verdict == verdict}


@pytest.fixture(scope="module")
def pte() -> bytes:
    """Return a program of `net()` for a batch of up to 7."""
    torch.manual_seed(0)
    shapes = {"x": {0: Dim("n", max=7)}}
    return bytes(manager(net(), torch.randn(IMAGE), dynamic_shapes=shapes).buffer)


# ---- healthy ----------------------------------------------------------------------------------


def test_a_missing_package_of_a_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra, before anything is exported."""
    monkeypatch.setitem(sys.modules, "tosa_serializer", None)
    message = r"flow 'cortex-m' needs the package tosa_serializer: .*'executorch_c\[arm\]'"
    with pytest.raises(ImportError, match=message):
        check_model(net(), (torch.randn(IMAGE),), flow="cortex-m")


STATIC = [name for name, flow in FLOWS.items() if flow.is_static]


@pytest.mark.parametrize("flow", flow_params(STATIC))
def test_flows_of_static_shapes(flow: str) -> None:
    """They refuse dynamic ones; test_check_explain.py has right programs of quantised ones."""
    with pytest.raises(ValueError, match=f"the flow '{flow}' lowers static shapes only"):
        shapes = {"x": {0: Dim("n", max=7)}}
        check_model(net(), (torch.randn(IMAGE),), flow=flow, dynamic_shapes=shapes)
    if FLOWS[flow].quantizer is None:
        assert check_model(net(), (torch.randn(IMAGE),), flow=flow, n_random=1)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("flow", flow_params(name for name in FLOWS if name not in STATIC))
def test_a_healthy_model_passes(flow: str) -> None:
    x = torch.randn(IMAGE)
    options = {"dynamic_shapes": {"x": {0: Dim("n", max=7)}}, "real_inputs": [(x[:1],), [x]]}
    result = check_model(net(), (x,), flow=flow, **options)
    assert result.ok and bool(result) and result.raise_if_wrong() is result
    kinds_of_cases = [case.kind for case in result]
    assert kinds_of_cases == ["example", *["random"] * 3, *["edge"] * 3, *["real"] * 2]
    batches = [case.inputs[0][0].shape[0] for case in result if case.kind == "edge"]
    assert sorted(batches) == [1, 3, 7]
    assert "edge x.shape[0]=7" in [case.name for case in result]
    assert f"9 cases match ({flow}, method 'forward')" in str(result)
    delegates = result.facts["delegates"]
    assert ("XnnpackBackend" in delegates) is flow.startswith("xnnpack")


def test_static_quantisation_reports_the_sqnr_to_float() -> None:
    model = nn.Linear(8, 5).eval()
    result = check_model(model, torch.randn(4, 8), flow="xnnpack-int8", n_random=1)
    for case in result:
        assert case.comparison is not None and case.to_float is not None
        [output] = case.comparison
        assert output.verdict == "match" and output.metrics is not None
        assert output.metrics.relative < 0.01
        to_float = case.to_float[0].metrics
        assert to_float is not None and 15 < to_float.snr_db < 60
    assert "SQNR dB" in str(result)
    assert any("calibrated on the example only" in note for note in result.notes)


@pytest.mark.parametrize("form", ["bytes", "path", "text", "file", "Program", "Method"])
def test_a_program_in_any_form(form: str, pte: bytes, tmp_path: Path) -> None:
    def program() -> Any:
        path, loaded = tmp_path / "model.pte", Runtime.get().load_program(pte)
        path.write_bytes(pte)
        forms = {"bytes": pte, "path": path, "text": str(path), "file": io.BytesIO(pte)}
        return {**forms, "Program": loaded, "Method": loaded.load_method("forward")}[form]

    wrong = net()
    with torch.no_grad():
        wrong.last.bias[3] += 0.1
    assert check_model(net(), torch.randn(IMAGE), program=program(), n_random=1)
    assert not check_model(wrong, torch.randn(IMAGE), program=program(), n_random=1)


def test_managers_bring_their_dynamic_shapes() -> None:
    shapes = {"x": {0: Dim("n", max=7)}}
    exported = torch.export.export(net(), (torch.randn(IMAGE),), dynamic_shapes=shapes)
    edge = to_edge(exported)
    sources = [lambda: edge, lambda: edge, edge.to_executorch]  # it is unchanged
    for source in sources:
        result = check_model(net(), torch.randn(IMAGE), program=source(), n_random=0)
        assert result.ok and "edge" in kinds(result, "match")
    with pytest.raises(KeyError, match="no method 'backward'; its methods: forward"):
        check_model(net(), torch.randn(IMAGE), program=to_edge(exported), method="backward")


def test_external_weights_of_a_manager_are_found() -> None:
    edge = to_edge(torch.export.export(net(), (torch.randn(IMAGE),)))
    lowered = edge.to_executorch(ExecutorchBackendConfig(external_constants=True))
    assert check_model(net(), torch.randn(IMAGE), program=lowered, n_random=1)


def test_an_exported_program_brings_its_example() -> None:
    x = torch.randn(IMAGE)
    exported = torch.export.export(net(), (x,), dynamic_shapes={"x": {0: Dim("n", max=7)}})
    result = check_model(exported)
    assert result and kinds(result, "match") == {"example", "random", "edge"}
    np.testing.assert_array_equal(result.cases[0].inputs[0][0], x.numpy())


def test_bundled_cases_are_run(pte: bytes, tmp_path: Path) -> None:
    x = torch.randn(IMAGE)
    with torch.no_grad():
        y = net()(x)
    wrong = y.clone()
    wrong[0, 0] += 1
    path = tmp_path / "model.bpte"
    BundledProgram(pte, {"forward": [([x], [y]), ([x], [wrong])]}).save(path)
    for source in (path, path.read_bytes(), BundledProgram.load(path)):
        result = check_model(net(), (x,), program=source, n_random=0)
        verdicts = {"example": True, "bundled 0": True, "bundled 1": False}
        assert {case.name: case.ok for case in result} == verdicts and len(result) == 3


def test_keyword_arguments_and_structured_outputs() -> None:
    class Structured(nn.Module):
        def forward(self, a: Tensor, *, pair: Any, flag: Any = None) -> Any:
            return {"sum": a + pair["x"], "rest": (None, [a.argmax(), pair["y"] * 2])}

    example = {"a": torch.randn(3), "pair": {"x": torch.randn(3), "y": torch.ones(2)}}
    turned = {"pair": {"x": torch.randn(3), "y": torch.ones(2)}, "a": torch.randn(3)}
    result = check_model(Structured().eval(), example, real_inputs=[turned])
    assert result, result
    assert [
        [o.dtype for o in case.comparison] for case in result if case.comparison is not None
    ] == [["float32", "NoneType", "int64", "float32"]] * 5


def test_state_starts_anew_in_each_case_and_lasts_within_one() -> None:
    model = Decaying(0.5).eval()
    result = check_model(model, (torch.randn(3),))
    assert result and kinds(result, "match") == {"example", "random", "state"}
    assert not model.total.any()  # the caller's model is unchanged


# ---- planted faults ---------------------------------------------------------------------------


def counting(step: int) -> nn.Module:
    """Build a sum that is read by the next call; a counter, and half of a cache, that no call
    reads."""

    def run(x: Tensor, total: Tensor, cache: Tensor, count: Tensor) -> Tensor:
        y = torch.sin(x + total)
        total.add_(x)
        cache[1:].add_(x * step)
        count.add_(step)
        return y

    zeros = {"total": torch.zeros(3), "cache": torch.zeros(2, 3), "count": torch.tensor([0])}
    return Fn(run, **{name: nn.Buffer(value) for name, value in zeros.items()})


def test_state_that_no_output_reads() -> None:
    """A wrong update is found where the program names its buffers; else a note says that they
    were not compared."""
    x = torch.randn(3)
    for names in (False, True):
        programs = [export(counting(step), x, emit_mutable_buffer_names=names) for step in (1, 2)]
        right, wrong = (check_model(counting(1), x, program=pte, n_random=0) for pte in programs)
        notes = [note for note in wrong.notes if note.startswith("state 'cache' and 1 more")]
        assert right.ok and wrong.ok is not names and len(notes) == (not names)
    assert "example: output 2 ('buffer cache'): 3 of 6 elements" in str(wrong)
    assert "example: output 3 ('buffer count'): 1 of 1 element" in str(wrong)


@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("scale", [1e-3, 1e-7, 1e-12])
def test_a_small_head_has_its_own_noise(scale: float, batch: int) -> None:
    """The large head, of two in one output, hides no fault of the small one."""

    def heads(x: Tensor, fault: float, first: Any, second: Any) -> Tensor:
        return torch.cat([first(x), second(x) * (scale * fault)], -1)

    torch.manual_seed(0)
    x = torch.randn(batch, 16)
    eager = Eager(Fn(heads, first=nn.Linear(16, 8), second=nn.Linear(16, 8)))
    judge, call = Judge(CallerTolerances(), equal_nan=True, check_dtype=True), ((x, 1.0), {})
    [expected] = eager([call])

    def verdict(fault: float) -> str:
        [actual] = eager([((x, fault), {})])
        actual[0][:, :8] *= np.float32(1 + 2e-7)
        noise = lambda e, _: [run[0] for run in eager.noise([call], e)]  # noqa: E731
        return judge(actual, expected, noise).verdict

    assert [verdict(fault) for fault in (1, 1 + 2e-7, 1.01, 2, 0)] == ["match"] * 2 + ["differ"] * 3


def test_a_wrong_weight(pte: bytes) -> None:
    model = net()
    with torch.no_grad():
        model.conv.weight[5, 1, 2, 0] *= -4
    with pytest.raises(CheckError, match=r"(?s)4 of 4 cases differ .*result\.explain") as info:
        check_model(model, torch.randn(IMAGE), program=pte).raise_if_wrong()
    assert isinstance(info.value, AssertionError)
    assert type(info.value).__module__ == type(info.value.result).__module__ == testing.__name__
    assert info.value.result.failures[0].name == "example"
    assert info.value.result.figures()["max_abs"] > 1e-3


def test_swapped_channels_of_a_black_picture() -> None:
    """A black picture is invariant: random pictures have all numbers of a uint8, real inputs
    their own."""

    def scores(image: Tensor) -> Tensor:
        weights = torch.tensor([0.3, 0.6, 0.1])
        return (image.float() * weights).sum((0, 1))

    black = torch.zeros(4, 5, 3, dtype=torch.uint8)
    picture = torch.arange(60, dtype=torch.uint8).reshape(4, 5, 3)
    pte = bytes(manager(Fn(lambda x: scores(x.flip(2)).flip(0)), black).buffer)
    result = check_model(scores, (black,), program=pte, n_random=0)
    assert not result and result.verdict == "inconclusive"
    assert result.hint().startswith("Add `real_inputs`"), str(result)
    result = check_model(scores, (black,), program=pte)
    assert kinds(result, "differ") == {"random"} and len(result.failures) == 3
    result = check_model(scores, (black,), program=pte, real_inputs=[(picture.numpy(),)])
    assert kinds(result, "differ") == {"random", "real"} and len(result.failures) == 4


def test_a_size_specialised_to_a_constant() -> None:
    """Only an edge shape shows that the mean always divides by four."""

    def exported_wrongly(exported: Any) -> Any:
        wrong = Fn(lambda x: x.sum(0) / 4)
        return to_edge(torch.export.export(wrong, (torch.randn(4, 3),), dynamic_shapes=shapes))

    model, shapes = Fn(lambda x: x.mean(0)), (({0: Dim("n", max=9)},),)
    x = torch.randn(4, 3)
    result = check_model(model, (x,), flow=exported_wrongly, dynamic_shapes=shapes)
    assert kinds(result, "differ") == {"edge"}
    assert kinds(result, "match") == {"example", "random"}


def test_a_static_program_fails_at_edges() -> None:
    x = torch.randn(IMAGE)
    pte = bytes(manager(net(), x).buffer)
    result = check_model(net(), (x,), program=pte, dynamic_shapes={"x": {0: Dim("n", max=7)}})
    assert kinds(result, "error") == {"edge"} and kinds(result, "match") == {"example", "random"}
    assert "Error: " in result.failures[0].problems()[0]


@pytest.fixture
def wrong_tanh() -> Iterator[None]:
    """Compute tanh, wrong for large numbers."""
    schema = str(torch.ops.aten.tanh.out._schema)
    executorch_c.register_operator(schema, lambda self: np.clip(self, -1, 1), override=True)
    yield
    executorch_c.unregister_operator("aten::tanh.out")


def test_a_wrong_operator(wrong_tanh: None) -> None:
    result = check_model(torch.tanh, torch.randn(40))
    assert kinds(result, "differ") == {"example", "random"}


def test_initial_state_that_the_exporter_does_not_write_is_explained() -> None:
    model = Decaying(0.5).eval()
    model.total.fill_(3)
    result = check_model(model, (torch.randn(3),))
    assert not result
    assert "InitializedMutableBufferPass" in str(result)


# ---- inputs -----------------------------------------------------------------------------------


def test_shapes_that_eager_or_the_exporter_rejects_are_skipped() -> None:
    def f(x: Tensor) -> Tensor:
        return x.view(2, -1).sum(0)

    shapes = (({0: Dim.DYNAMIC(max=9)},),)
    result = check_model(Fn(f), (torch.randn(4),), dynamic_shapes=shapes, n_random=0)
    assert result.ok and "skipped" in str(result)
    assert kinds(result, "skipped") == {"edge"} and "match" in {c.verdict for c in result}


# ---- reports ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def failed(pte: bytes) -> CheckResult:
    """Return a failed check with an error at one place of the output."""
    model = copy.deepcopy(net())
    with torch.no_grad():
        model.last.bias[3] += 0.5
    return check_model(model, torch.randn(IMAGE), program=pte, n_random=1)


def test_the_page_names_the_place(failed: CheckResult, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    failed.to_html(tmp_path / "report.html", title="One <bias>")
    text = (tmp_path / "report.html").read_text()
    for part in (
        *("<title>One &lt;bias&gt;</title>", "2 of 2 cases differ", "random 0"),
        *("the first difference and the largest ones", "<td>0.5</td>", "(0, 3)", "(1, 3)"),
        *("data:image/png;base64,", "result.explain()", "(2, 3, 8, 9)"),
    ):
        assert part in text, part
    assert "://" not in text.replace("http://www.w3.org", "")


def test_notebooks_get_the_table(failed: CheckResult) -> None:
    text = failed._repr_html_()
    assert "2 of 2 cases differ" in text and "worst at" in text and 'class="bad"' in text
    assert "2 of 2 cases differ" in repr(failed)


def test_the_worst_elements_are_listed_first_difference_first() -> None:
    expected = np.zeros((3, 4), np.float32)
    actual = expected.copy()
    actual[0, 1], actual[2, 3], actual[1, 0] = 0.1, 7, np.nan
    [output] = compare(actual, expected)
    elements = worst_elements(actual, expected, output)
    assert [index for index, _, _ in elements] == [(0, 1), (1, 0), (2, 3)]


def test_progress_goes_to_stderr_on_request(pte: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    check_model(net(), torch.randn(IMAGE), program=pte, n_random=1, progress=True)
    out, err = capfd.readouterr()
    assert out == "" and "check: random 0" in err and err.endswith("\r")
    check_model(net(), torch.randn(IMAGE), program=pte, n_random=1)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "flow", ["portable", pytest.param("xnnpack-int8", marks=pytest.mark.heavy)]
)
def test_tolerances_by_output(flow: str) -> None:
    def two(error: float) -> nn.Module:
        run = lambda x, layer: {"wrong": layer(x) + error, "right": layer(x).relu()}  # noqa: E731
        torch.manual_seed(0)
        return Fn(run, layer=nn.Linear(8, 8))

    model, off, x = two(0.0), two(0.5), torch.randn(4, 8)

    def lowered(exported: Any) -> Any:
        return manager(off, x)

    way: Any = lowered if flow == "portable" else flow
    loose = check_model(model, (x,), flow=way, n_random=1, atol={"wrong": 1.0})
    assert loose.ok and [o.name for o in loose.cases[0].comparison or ()] == ["wrong", "right"]
    assert "wrong: 1, others" in loose.facts["atol"]
    tight = check_model(model, (x,), flow=way, n_random=1, atol={"wrong": 0.0, "right": 1.0})
    if flow == "portable":  # int8 uses the quantised graph's own numbers
        assert tight.verdict == "differ" and "('wrong')" in str(tight)
    assert "('right')" not in str(tight)
    with pytest.raises(ValueError, match="'left'"):
        check_model(model, (x,), flow=way, n_random=0, atol={"left": 1.0})


def branches(factor: float) -> nn.Module:
    """Build two branches, of which positive inputs take the first."""
    return Fn(lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * factor, (x,)))


def test_a_branch_that_no_case_takes_is_noted() -> None:
    """A wrong branch matches as long as no input takes it."""
    x = torch.rand(8)
    pte = export(branches(3.0), x)
    result = check_model(branches(2.0), (x,), program=pte)
    assert result.verdict == "match"
    [note] = [one for one in result.notes if "ran in no case" in one]
    assert "aten::mul" in note and note.startswith("1 of 5 instructions")
    assert note in " ".join(str(result).split())
    result = check_model(branches(2.0), (x,), program=pte, real_inputs=[(-x,)])
    assert result.verdict == "differ" and not [n for n in result.notes if "in no case" in n]
