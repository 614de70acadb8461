"""Origins of NaN and infinity: planted overflows, and masks, which are not faults."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from torch import nn

import executorch_c
from executorch_c import cli
from executorch_c.debug._graphs import layouts
from executorch_c.devtools import NonFiniteReport, check_nan
from tests.exports import Fn, export

X = torch.linspace(-2, 2, 12).reshape(3, 4)


def watch(fn: Any, *inputs: torch.Tensor, like: Any = None, **options: Any) -> NonFiniteReport:
    """Return the report of a function on `inputs`; `like` are other inputs for the export."""
    return check_nan(export(fn, *(like or inputs), **options), list(inputs))


class Deep(nn.Module):
    """Twelve layers in half precision; the eighth overflows."""

    def __init__(self, bad: int | None, activation: Any = lambda x: x) -> None:
        super().__init__()
        self.activation = activation
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(12))
        for i, layer in enumerate(self.layers):
            nn.init.orthogonal_(layer.weight)
            if i == bad:
                layer.weight.data *= 40000
        self.half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.activation(layer(x))
        return x


HALVES = 100 * torch.rand(2, 16, generator=torch.Generator().manual_seed(1)).half()


def test_finite_values_and_a_mask_in_a_buffer() -> None:
    report = watch(lambda x: torch.softmax(torch.relu(x) @ x.T, -1), X)
    assert report and not report.sources and report.first is None and report.outputs == ()
    assert "all finite" in str(report) and report.events >= 3
    buffer = nn.Buffer(torch.full((3, 3), -torch.inf).triu(1))
    report = watch(Fn(lambda x, mask: torch.softmax(x @ x.T + mask, -1) @ x, mask=buffer), X)
    [mask] = report.sources
    assert report and mask.origin == "constant" and mask.range.negative == 3
    assert "aten::add.out" in mask.where


@pytest.mark.parametrize("delegated", [False, True])
def test_an_overflowing_half(delegated: bool) -> None:
    partitioner = XnnpackPartitioner() if delegated else None
    good = watch(Deep(None), HALVES, partitioner=partitioner)
    report = watch(Deep(7), HALVES, partitioner=partitioner)
    assert good and not good.sources
    first = report.first
    assert not report and first is not None and report.outputs == (0,)
    assert first.origin == "computed" and first.dtype == "float16" and first.range.positive
    assert ("Fully Connected" if delegated else "aten::") in first.name
    assert first.where.startswith("delegate 0" if delegated else "instruction")
    # The report identifies the layer by its weights.
    wanted = Deep(7).layers[7].weight
    assert any(value.range and value.range.high == wanted.max().item() for value in first.inputs)
    assert first.outputs == [0] and first.carriers >= 4
    assert report.sources[0] is first
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 80 and ".." not in lines[-1].split("  ")[-1]
    text = " ".join(str(report).split())
    assert "float16 ends at 65504" in text and "reaches output 0" in text
    row = f"{first.range.positive} infinite"
    assert any(row in line and first.dtype in line for line in lines if line.startswith("  "))
    # Eager has the same number of infinities in this layer.
    with torch.no_grad():
        x = HALVES
        for layer in Deep(7).layers[:7]:
            x = layer(x)
        y = Deep(7).layers[7](x)
    bad = ~torch.isfinite(y)
    assert first.range.positive + first.range.negative == int(bad.sum())
    assert first.range.first == tuple(np.argwhere(bad.numpy())[0])


def test_infinity_that_xnnpack_swallows() -> None:
    """Its ReLU maps NaN to 0: outputs are finite and wrong. The report still names the place."""
    report = watch(Deep(7, torch.relu), HALVES, partitioner=XnnpackPartitioner())
    [source] = report.sources
    assert report and source.is_fault and source.where == "delegate 0, node 7"
    assert source.gone == "Fully Connected (NC, F16) GEMM, delegate 0, node 9"
    assert "no output has what comes about at Fully Connected" in report.summary()


def attention(x: torch.Tensor) -> torch.Tensor:
    """Return attention with a causal mask as in common models."""
    scores = x @ x.transpose(-1, -2)
    allowed = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril()
    mask = torch.full_like(scores, float("-inf"))
    scores = torch.where(allowed, scores, mask)
    return torch.softmax(scores, -1) @ x


def test_a_mask_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    report = watch(attention, X)
    assert report and report.first is None and report.outputs == ()
    [mask] = report.sources
    assert mask.origin in ("written", "constant") and mask.range.negative == 9
    assert not mask.is_fault and mask.outputs == [] and "softmax" in (mask.gone or "")
    assert "no fault" in str(report) and "ends at aten::_softmax.out" in str(report)


def test_a_row_that_is_masked_altogether() -> None:
    """A mask of -inf is intended, the NaN computed from it is not."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.masked_fill(x < 0, -torch.inf), -1)

    report = watch(fn, X)
    first = report.first
    assert first is not None and first.name == "aten::_softmax.out" and first.origin == "computed"
    assert first.range.nan == 4 and first.range.first == (0, 0)
    assert "NaN out of infinities" in report.summary()
    assert [s.origin for s in report.sources][-1] == "computed"


def test_infinity_that_disappears() -> None:
    report = watch(lambda x: torch.exp(-torch.log(x.abs() * 0)).reciprocal() + x, X)
    log = report.sources[0]
    assert report and log.name == "aten::log.out" and log.is_fault and log.range.negative == 12
    assert log.carriers >= 2 and "reciprocal" in (log.gone or "")
    assert "no output has what comes about at aten::log.out" in report.summary()


def test_inputs_that_are_not_finite() -> None:
    x = X.clone()
    x[1, 2] = torch.nan
    report = watch(lambda x: (x * 2, torch.zeros(2)), x)
    [source] = report.sources
    assert source.origin == "input" and source.where == "input 0" and source.range.first == (1, 2)
    assert not report and report.outputs == (0,) and source.outputs == [0]
    report = watch(lambda x: x * 2, X * torch.inf)
    assert report and report.outputs == (0,) and "reaches outputs" in report.summary()


def test_constants_that_are_not_numbers() -> None:
    weight = nn.Parameter(torch.tensor([1.0, torch.nan, 2, 3]))
    report = watch(Fn(lambda x, weight: torch.relu(x) * weight, weight=weight), X)
    assert report.first is not None and report.first.origin == "constant"
    assert "aten::mul.out" in report.first.where and report.first.range.nan == 1


@pytest.mark.parametrize("delegated", [False, True])
def test_two_branches(delegated: bool) -> None:
    """Only the branch that reaches the output is reported."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.sigmoid(torch.exp(x) * 2), torch.exp(y) * 3

    partitioner = XnnpackPartitioner() if delegated else None
    report = watch(fn, X + 100, X + 200, like=(X, X + 1), partitioner=partitioner)
    assert [source.name for source in report] == [report.sources[0].name] * 2
    first, second = sorted(report, key=lambda source: source.inputs[0].range.high)
    assert report.outputs == (1,) and report.first is second
    assert (first.outputs, second.outputs) == ([], [1])
    assert [source.inputs[0].range.high for source in (first, second)] == [102, 202]


def test_loops_and_state_are_followed() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x / 0 * x, lambda x: x + 1, [x])

    assert watch(fn, -X.abs() - 1, like=(X,))
    report = watch(fn, X.abs() + 1, like=(X,))
    assert report.first is not None and report.first.name.startswith("aten::div")


def test_a_long_program_in_little_memory() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        for i in range(60):
            x = torch.sin(x) + 0.5
            if i == 40:
                x = x / (x - x)
        return x

    big = torch.rand(512, 256)
    pte = export(fn, big)
    method = executorch_c.Runtime.get().load_program(pte).load_method("forward")
    report = check_nan(method, [big], max_bytes=400_000)  # less than the size of one value
    assert report.first is not None and report.first.name == "aten::div.out"
    assert all("examined as written" in note for note in report.notes), "nothing was dropped"
    dropped = check_nan(method, [big], max_bytes=2000).notes
    assert any("did not fit" in note for note in dropped)


def test_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.pte").write_bytes(export(lambda x: torch.exp(x) + 1, X))
    model, good, bad = (str(tmp_path / name) for name in ("m.pte", "good.npz", "bad.npz"))
    np.savez(good, x=X.numpy())
    np.savez(bad, x=X.numpy() * 1000)
    assert cli.main(["check-nan", model, "--inputs", good]) == cli.main(["check-nan", model]) == 0
    assert "all finite" in capsys.readouterr().out
    assert cli.main(["check-nan", model, "--inputs", bad, "--json"]) == 3
    figures = json.loads(capsys.readouterr().out)
    source = figures["sources"][figures["first"]]
    assert source["name"] == "aten::exp.out" and source["range"]["positive"] == 6
    assert source["inputs"][0]["range"]["high"] == 2000
    html = check_nan(model, [X * 1000])._repr_html_()
    assert 'class="bad"' in html and "aten::exp.out" in html


def test_an_element_beyond_measure_does_not_hide_the_layout(rng: np.random.Generator) -> None:
    expected = torch.from_numpy(rng.standard_normal((1, 4, 4, 4)))
    array = np.moveaxis(expected.numpy(), 1, -1).copy()
    array[0, 1, 2, 3] = 1e37
    layout = layouts.closest(array, expected)
    assert layout is not None
    assert int((layout[1] != expected).sum()) == 1
