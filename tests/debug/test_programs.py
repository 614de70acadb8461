"""Two programs compared: correct pairs, and faults planted in one of them."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import executorch.kernels.quantized  # noqa: F401  out variants of quantised operators
import numpy as np
import pytest
import torch
from torch import nn

import executorch_c
from executorch_c import cli
from executorch_c.debug._graphs.names import kind
from executorch_c.devtools import ErrorReport, compare_kernels, compare_programs, explain
from tests import exports, kept
from tests.exports import Fn, export


class Convs(nn.Module):
    """Ten convolutions with batch norm (which XNNPACK's flow folds) and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(10))
        self.norms = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(10))
        for norm in self.norms:
            norm.running_var.uniform_(0.3, 0.5)
            norm.running_mean.uniform_(-0.1, 0.1)
        self.last = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(self.layers, self.norms):
            x = x + torch.relu(norm(layer(x)))
        return self.last(x.mean((2, 3)))


class Attention(nn.Module):
    """Two blocks of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv = nn.ModuleList(nn.Linear(16, 48) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        self.norm = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for qkv, out, norm in zip(self.qkv, self.out, self.norm):
            q, k, v = qkv(norm(x)).chunk(3, -1)
            scores = torch.softmax(q @ k.transpose(-1, -2) / 4, -1)
            x = x + torch.nn.functional.gelu(out(scores @ v))
        return x


class Quantized(Convs):
    """A model for PT2E, see `program`."""


class Halves(Convs):
    def __init__(self) -> None:
        super().__init__()
        self.half()


IMAGE = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(2))
INPUTS: dict[type[nn.Module], torch.Tensor] = {
    Convs: IMAGE,
    Halves: IMAGE.half(),
    Quantized: IMAGE,
    Attention: torch.randn(1, 6, 16, generator=torch.Generator().manual_seed(2)),
}


def change_nothing(model: Any) -> None:
    pass


@torch.no_grad()
def change_a_weight(model: Any) -> None:
    """Change one element of a layer's weight."""
    layer = model.layers[6] if hasattr(model, "layers") else model.out[1]
    layer.weight.view(-1)[3] += 0.5


@torch.no_grad()
def swap_channels(model: Any) -> None:
    model.layers[4].weight.copy_(model.layers[4].weight.flip(1))


Change = Callable[[Any], None]


def program(make: type[nn.Module], change: Change, delegated: bool) -> bytes:
    key = kept.digest(Path(__file__), packages=("torch", "executorch", "torchao"))
    name = f"pair-{make.__name__}-{change.__name__}-{delegated}-{key}.pte"
    return kept.data(name, lambda: lowered(make, change, delegated))


def lowered(make: type[nn.Module], change: Change, delegated: bool) -> bytes:
    model = make().eval()
    change(model)
    if make is Quantized:
        model = exports.quantized(model, (INPUTS[make],))
    return exports.lowered(model, INPUTS[make], delegated=delegated)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("make", [Convs, Halves, Quantized, Attention])
def test_a_healthy_pair(make: type[nn.Module]) -> None:
    a, b = (program(make, change_nothing, delegated) for delegated in (False, True))
    report = compare_programs(a, b, [INPUTS[make]])
    assert report and report.first is None and "every one is within tolerance" in str(report)
    inside = [row for row in report if "node" in row.where]
    assert len(inside) >= (10 if make is not Attention else 4)
    assert not any("left out" in note for note in report.notes)
    assert compare_programs(b, a, [INPUTS[make]])
    same = compare_programs(b, b, [INPUTS[make]])
    assert same and all(row.accumulated.max_abs == 0 for row in same)


@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    ("make", "change", "number"),
    [
        (Convs, change_a_weight, 6),
        (Convs, swap_channels, 4),
        (Halves, swap_channels, 4),
        (Attention, change_a_weight, 3),
    ],
)
@pytest.mark.parametrize("sides", [(False, False), (False, True), (True, False), (True, True)])
def test_a_wrong_layer(
    make: type[nn.Module], change: Change, number: int, sides: tuple[bool, bool]
) -> None:
    """The planted convolution (or linear layer) is named, independently of the lowering."""
    a, b = program(make, change_nothing, sides[0]), program(make, change, sides[1])
    report = compare_programs(a, b, [INPUTS[make]])
    first = report.first
    assert not report and first is not None
    wanted = "convolution" if make is not Attention else "linear"
    names = first.name.split(" / ")
    assert any(kind(name) == wanted for name in names), str(report)
    layers = [row for row in report if any(kind(n) == wanted for n in row.name.split(" / "))]
    if make is Attention:
        before = [row for row in report if row.index < first.index]
        assert all(row.ok for row in before)
        assert sum(kind(row.name.split(" / ")[0]) == "softmax" for row in before) == 2
    else:
        assert layers.index(first) == number, str(report)
        assert first.shape in ((2, 4, 8, 8), (2, 8, 8, 4))
    assert not report[len(report) - 1].ok and report[len(report) - 1].name == "result"
    assert "it is that node" in str(report)
    if change is change_a_weight:
        assert_stands_out(report)


def assert_stands_out(report: ErrorReport) -> None:
    """Assert that later values have errors of the same size and only propagate them."""
    off = [row for row in report if not row.ok]
    assert off[0] is report.first and off[0].verdict == "first" and len(off) >= 4
    assert {row.verdict for row in off[1:]} == {"propagated"}, str(report)
    assert off[0].gain is not None and off[0].gain > 1e5
    gains = [row.gain for row in off[1:]]
    assert all(gain is not None and 0.05 < gain < 3 for gain in gains), gains
    assert "propagated" in str(report) and "gain" in report.head()
    figures = report.as_dict()["rows"][off[0].index]  # type: ignore[index]
    assert figures["inputs_error"] < 1e-5 and figures["gain"] == off[0].gain


class Inside(nn.Module):
    """A model in half precision with float32 inputs and outputs."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self.dtype = model.to(dtype), dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x.to(self.dtype)).float()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_beside_float32(dtype: torch.dtype) -> None:
    """Outputs of float32 have the rounding of what they are computed in; a layer stands out."""
    floats = program(Convs, change_nothing, False)
    good, bad = Convs().eval(), Convs().eval()
    swap_channels(bad)
    halves, wrong = (export(Inside(model, dtype), IMAGE) for model in (good, bad))
    for pair in ((floats, halves), (halves, floats)):
        report = compare_programs(*pair, [IMAGE])
        assert report and len(report) > 50, str(report)
    for pair in ((floats, wrong), (wrong, floats)):
        report = compare_programs(*pair, [IMAGE])
        layers = [row for row in report if kind(row.name.split(" / ")[0]) == "convolution"]
        assert report.first is layers[4], str(report)


def test_a_branch_in_half_precision() -> None:
    """Limits are wider after it, and of no other branch."""

    def fn(dtype: torch.dtype, factor: float) -> Callable[[torch.Tensor], Any]:
        def run(x: torch.Tensor) -> Any:
            y = torch.sin(x.to(dtype)).float()
            return y.mean(), torch.cos(x) * factor

        return run

    floats = export(fn(torch.float32, 1), IMAGE)
    assert compare_programs(floats, export(fn(torch.float16, 1), IMAGE), [IMAGE])
    report = compare_programs(floats, export(fn(torch.float16, 1.001), IMAGE), [IMAGE])
    assert [row.name.partition(".")[0] for row in report if not row.ok] == ["aten::mul", "result"]
    assert "it is that node" in str(report)


def test_branches_and_a_second_fault() -> None:
    """A fault on an independent branch is a new divergence; a larger fault later amplifies the
    error."""

    def fn(first: float, second: float, other: float) -> Callable[[torch.Tensor], Any]:
        def run(x: torch.Tensor) -> Any:
            y = torch.sin(x * first).exp()
            return torch.cos(y * 1.5) * second, torch.tanh(x - other).abs()

        return run

    good, bad = export(fn(1, 2, 0.5), IMAGE), export(fn(1.01, 4, 0.6), IMAGE)
    report = compare_programs(good, bad, [IMAGE])
    # cos amplifies errors, by less than the wrong factor
    verdicts: dict[str, list[str]] = defaultdict(list)
    for row in report:
        verdicts[row.name.partition("::")[2].partition(".")[0]].append(row.verdict)
    assert verdicts["mul"] == ["first", "propagated", "amplified"], str(report)
    assert verdicts["sin"] == verdicts["exp"] == verdicts["abs"] == ["propagated"]
    assert verdicts["sub"] == ["first"] and verdicts["tanh"] == ["propagated"]
    assert [row.verdict for row in report if row.name == "result"] == ["propagated"] * 2


@pytest.mark.sweep(3)
@pytest.mark.parametrize("sides", [(False, False), (False, True), (True, True)])
def test_a_wrong_layer_of_a_quantized_model(sides: tuple[bool, bool]) -> None:
    """Quantised values are compared dequantised; the layer or its successor is named."""
    a = program(Quantized, change_nothing, sides[0])
    report = compare_programs(a, program(Quantized, swap_channels, sides[1]), [IMAGE])
    assert not report and report.first is not None, str(report)
    before = [row for row in report if row.index < report.first.index]
    assert all(row.ok for row in before)
    named = [name for row in before for name in row.name.split(" / ")[-1:]]
    # The four layers before it, and their sums, agree.
    assert sum(kind(name) in ("convolution", "add", "binaryelementwise") for name in named) >= 8
    last = report[len(report) - 1]
    assert last.name == "result"


@pytest.fixture
def wrong_softmax() -> Iterator[None]:
    schema = (
        "aten::_softmax.out(Tensor self, int dim, bool half_to_float, *, Tensor(a!) out) -> "
        "Tensor(a!)"
    )

    def softmax(x: Any, dim: int, half_to_float: bool) -> Any:
        e = np.exp(x - x.max(dim, keepdims=True))
        return (e / e.sum(dim, keepdims=True) + 0.01).astype(np.float32)

    executorch_c.register_operator(schema, softmax, override=True)
    yield
    executorch_c.unregister_operator("aten::_softmax.out")


def test_a_wrong_operator(wrong_softmax: None) -> None:
    """Only in the portable program: the delegated one has XNNPACK's operator."""
    a, b = (program(Attention, change_nothing, delegated) for delegated in (True, False))
    report = compare_programs(a, b, [INPUTS[Attention]])
    assert report.first is not None and kind(report.first.name.split(" / ")[-1]) == "softmax"
    off = [row for row in report if not row.ok]
    assert sum(kind(row.name.split(" / ")[-1]) == "softmax" for row in off) == 2


@pytest.mark.parametrize("make", [Convs, Halves, Attention])
def test_kernels(make: type[nn.Module]) -> None:
    report = compare_kernels(program(make, change_nothing, False), [INPUTS[make]])
    assert report and len(report) > 20
    assert "default kernels compared with reference kernels, method 'forward'" in report.title
    assert any(row.accumulated.max_abs > 0 for row in report)  # their loops differ


def test_outputs_that_agree() -> None:
    """Differences that no output shows are not a divergence of differently built programs."""
    a = export(lambda x: (x * 3).argmax(-1) + 0 * x.sum().long(), IMAGE)
    b = export(lambda x: (x * 5 + 1).argmax(-1), IMAGE)
    report = compare_programs(a, b, [IMAGE])
    assert report and any("left out" in note for note in report.notes)


def test_random_numbers_and_tolerances() -> None:
    a, b = export(lambda x: x * 2, IMAGE), export(lambda x: x * 2.0001, IMAGE)
    assert not compare_programs(a, b, [IMAGE])
    assert compare_programs(a, b, [IMAGE], rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="`rtol` is -1"):
        compare_programs(a, b, [IMAGE], rtol=-1)
    a, b = (export(lambda x: torch.rand_like(x) * x + i, IMAGE) for i in (1, 1))
    assert compare_programs(a, b, [IMAGE])


def test_outputs_that_cannot_be_measured() -> None:
    """A different number, shape or dtype of outputs is a difference."""
    one = export(lambda x: x * 2, IMAGE)
    for fn, text in (
        (lambda x: (x * 2, x + 1), "candidate has 2 outputs, baseline 1"),
        (lambda x: x.sum((2, 3)), "float32 (2, 4), in baseline float32 (2, 4, 8, 8)"),
        (lambda x: (x * 2).double(), "float64 (2, 4, 8, 8), in baseline float32"),
    ):
        report = compare_programs(one, export(fn, IMAGE), [IMAGE])
        assert report.verdict == "differ" and text in " ".join(report.summary().split()), report


def test_values_that_cannot_be_paired() -> None:
    """The outputs differ, and nothing leads there: no place is delegated, and what to run is."""

    def chain(fns: Sequence[Callable[[torch.Tensor], torch.Tensor]]) -> Callable[..., torch.Tensor]:
        def fn(x: torch.Tensor) -> torch.Tensor:
            for one in fns:
                x = one(x)
            return x

        return fn

    a = export(chain([torch.sin, torch.exp, torch.tanh, torch.abs, torch.sigmoid] * 2), IMAGE)
    b = export(chain([torch.cos, torch.atan, torch.erf, torch.neg, torch.relu] * 2), IMAGE)
    report = compare_programs(a, b, [IMAGE])
    assert report.verdict == "differ" and report.unlocated, str(report)
    assert re.match(
        r"cannot locate: \d+% of the values are paired; result, output 0: ", report.summary()
    )
    assert "run explain on the candidate with its PyTorch model" in report.summary()
    assert "first divergence" not in report.summary()


def test_errors_that_grow() -> None:
    """Accumulated rounding is distinguished from a wrong operator."""

    def slowly(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
        def fn(x: torch.Tensor) -> torch.Tensor:
            for _ in range(30):
                x = x * factor
            return x

        return fn

    pair = export(slowly(1.0), IMAGE), export(slowly(1.00003), IMAGE)
    report = compare_programs(*pair, [IMAGE], rtol=1e-4, atol=1e-6)
    assert not report and "have grown on the way" in str(report)
    report = compare_programs(*pair, [IMAGE])  # rounding does not explain the first one either
    assert report.first is not None and report.first.where == "instruction 0"


def test_values_that_do_not_fit() -> None:
    pte = program(Convs, change_nothing, False)
    report = compare_programs(pte, pte, [IMAGE], max_bytes=20_000)
    assert report and any("did not fit" in note for note in report.notes)
    assert report[len(report) - 1].where == "output 0"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = {}
    for name, change in (("good", change_nothing), ("bad", change_a_weight)):
        for flow, delegated in (("portable", False), ("xnnpack", True)):
            path = paths[name, flow] = str(tmp_path / f"{name}-{flow}.pte")
            Path(path).write_bytes(program(Convs, change, delegated))
    good, other = paths["good", "portable"], paths["good", "xnnpack"]
    assert cli.main(["compare", good, other]) == 0
    assert "good-xnnpack.pte compared with good-portable.pte" in capsys.readouterr().out
    page = tmp_path / "report.html"
    np.savez(tmp_path / "x.npz", x=IMAGE.numpy())
    arguments = ["--inputs", str(tmp_path / "x.npz"), "--html", str(page), "--json"]
    assert cli.main(["compare", good, paths["bad", "xnnpack"], *arguments]) == 3
    figures = json.loads(capsys.readouterr().out)
    assert "convolution" in figures["rows"][figures["first"]]["name"].lower()
    assert "bad-xnnpack.pte" in page.read_text()
    assert cli.main(["compare", good, "--kernels", "reference"]) == 0
    for wrong in ([good], [good, "--kernels", "default"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(["compare", *wrong])
        assert stop.value.code == 2
    assert "two programs, or one and --kernels" in capsys.readouterr().err


def test_values_that_can_show_no_error() -> None:
    """Zero times any weight is zero: another weight would be a match."""
    x = torch.zeros(2, 4)
    a, b = (export(nn.Linear(4, 3, bias=False), x) for _ in range(2))
    report = compare_programs(a, b, [x])
    assert report.verdict == "inconclusive" and "pass other inputs" in report.reason
    assert compare_programs(a, b, [torch.randn(2, 4)]).verdict == "differ"
    assert compare_programs(a, a, [torch.randn(2, 4)]).verdict == "match"


def test_outputs_of_nan_are_no_match() -> None:
    """NaN after values that are right: whatever the program computes there, it could not differ."""
    x, lost = torch.randn(2, 4), Fn(lambda x: torch.sin(x) * float("nan"))
    pte = export(lost, x)
    for report in (compare_programs(pte, pte, [x]), explain(lost, (x,), program=pte)):
        assert report.verdict == "inconclusive" and len(report) > 1
        assert "every output is NaN everywhere" in str(report)
