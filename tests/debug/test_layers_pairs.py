"""explain matches every value: recurrent networks and bare modules in delegates, decomposed and
fused operators, branches and loops, with planted faults."""

import copy
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge
from torch import Tensor, nn

from executorch_c.devtools import explain
from tests import exports
from tests.backends import xnnpack_flow
from tests.debug.deep import FLOWS, IMAGE, Net, explained
from tests.models.blocks import Fn, MBConv, with_statistics

Make = Callable[[], nn.Module]


def attention() -> nn.Module:
    run = lambda x, attention: attention(x, x, x, need_weights=False)[0]  # noqa: E731
    return Fn(run, attention=nn.MultiheadAttention(16, 2, batch_first=True))


def residual() -> nn.Module:
    """Build batch norm in a convolution, an addition with its activation, a gate."""

    def run(x: Tensor, body: Any, gate: Any) -> Tensor:
        x = torch.relu(x + body(x))
        return x * nn.functional.hardswish(gate(x.mean((2, 3))))[:, :, None, None]

    layers = [nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 1)]
    body = with_statistics(nn.Sequential(*layers, nn.BatchNorm2d(4)))
    return Fn(run, body=body, gate=nn.Linear(4, 4))


def bottlenecks() -> nn.Module:
    """Build nested residual additions: blocks of MobileNetV2."""
    blocks = [MBConv(4, 4, 1, 3, 3, nn.ReLU6, squeeze=False) for _ in range(3)]
    ends = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 1), nn.AdaptiveAvgPool2d(1)
    return nn.Sequential(ends[0], *blocks, *ends[1:])


def branches() -> nn.Module:
    """Build `p` or `q`, selected by the input."""

    def run(x: Tensor, a: Any, p: Any, q: Any, r: Any) -> Tensor:
        x = a(x)
        ways = lambda x: torch.relu(p(x)) + 1, lambda x: torch.tanh(q(x))
        return r(torch.cond(x.sum() > 0, *ways, (x,)))

    return Fn(run, **{name: nn.Linear(8, 8) for name in "apqr"})


def loop(rows: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Compute the same operation for each row of the input."""
    from torch._higher_order_ops.map import map as torch_map

    each = torch_map(lambda row, y: torch.sigmoid(row * y).sum(0) + y, rows, y)
    return each * weight  # the exporter rejects a view of a loop's result


def wave(*shape: int) -> Tensor:
    return (torch.linspace(-20, 20, torch.Size(shape).numel()).sin() * 1.3).reshape(shape)


CASES: dict[str, tuple[Make, tuple[Tensor, ...]]] = {
    "lstm": (lambda: nn.LSTM(6, 5, num_layers=2, batch_first=True), (wave(2, 3, 6),)),
    "bidirectional": (lambda: nn.LSTM(6, 5, bidirectional=True), (wave(3, 2, 6),)),
    "gru": (lambda: nn.GRU(6, 5, batch_first=True), (wave(2, 3, 6),)),
    "linear": (lambda: nn.Linear(6, 5), (wave(2, 4, 6),)),
    "conv": (lambda: nn.Conv2d(3, 4, 3), (wave(1, 3, 8, 8),)),
    "classifier": (Net, IMAGE),
    "attention": (attention, (wave(2, 5, 16),)),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(16, 2, 32, activation="gelu"),
        (wave(5, 2, 16),),
    ),
    "residual": (residual, (wave(1, 4, 6, 6),)),
    "bottlenecks": (bottlenecks, (wave(1, 3, 8, 8),)),
    "branches": (branches, (wave(2, 8),)),
    "loop": (
        lambda: Fn(loop, weight=nn.Parameter(torch.rand(3))),
        (wave(4, 2, 3), wave(2, 3)),
    ),
}


def module(name: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return CASES[name][0]().eval()


CONTROL = ("branches", "loop")
"""The newer XNNPACK flow cannot lower linear layers inside these, the older one can."""


def lower(name: str, model: nn.Module, flow: str) -> bytes:
    inputs = CASES[name][1]
    if flow == "portable" or name in CONTROL:
        backend = XnnpackPartitioner() if flow == "xnnpack" else None
        return exports.export(model, *inputs, partitioner=backend)
    with torch.no_grad():
        return bytes(xnnpack_flow.lower(torch.export.export(model, inputs)).buffer)


def program(name: str, flow: str) -> bytes:
    pte: bytes = xnnpack_flow.cached(
        f"pairs-{name}-{flow}", __file__, lambda: lower(name, module(name), flow)
    )
    return pte


@cache
def reference(name: str) -> Any:
    """Return another export of the module, in the edge dialect."""
    with torch.no_grad():
        exported = torch.export.export(module(name), CASES[name][1])
        return to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))


def counts(report: Any) -> list[tuple[int, int]]:
    """Return (matched, all) of instructions and of nodes."""
    return [(int(a), int(b)) for a, b in re.findall(r"([\d]+) of ([\d]+)", report.notes[-1])]


@pytest.mark.sweep(7)
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("name", CASES)
def test_all_is_matched(name: str, flow: str) -> None:
    """The reference is an export with other debug handles."""
    report = explain(reference(name), CASES[name][1], program=program(name, flow))
    assert report.ok and report.rows, str(report)
    assert all(matched == count for matched, count in counts(report)), str(report)
    assert all("took at load" in note for note in report.notes[:-1]), str(report)
    assert any(row.where.startswith("delegate") for row in report) == (flow == "xnnpack")


FAULTS = [
    ("lstm", "weight_hh_l1", slice(5, 10)),
    ("lstm", "weight_ih_l0", slice(10, 15)),
    ("bidirectional", "weight_hh_l0_reverse", slice(0, 5)),
    ("gru", "weight_hh_l0", slice(10, 15)),
    ("attention", "attention.out_proj.weight", slice(3, 4)),
    ("encoder", "linear1.weight", slice(3, 4)),
    *(("classifier", f"{x}.weight", slice(3, 4)) for x in ("stem.0", "blocks.2", "side", "head.2")),
    ("residual", "body.0.weight", slice(1, 2)),
    ("residual", "body.4.bias", slice(0, 4)),
    ("branches", "p.weight", slice(2, 3)),
]


@pytest.mark.sweep(7)
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize(
    ("name", "weight", "rows"), FAULTS, ids=[f"{row[0]}-{row[1]}" for row in FAULTS]
)
def test_wrong_weight(name: str, weight: str, rows: slice, flow: str) -> None:
    """A gate of a recurrent layer, a projection, a branch: only the reader of the weight is
    wrong."""
    model = module(name)
    damaged = copy.deepcopy(model)
    with torch.no_grad():
        damaged.get_parameter(weight)[rows] *= 1.5
        damaged.get_parameter(weight)[rows] += 0.1
    pte = xnnpack_flow.cached(
        f"pairs-{name}-{weight}-{flow}", __file__, lambda: lower(name, damaged, flow)
    )
    report = explain(reference(name), CASES[name][1], program=pte)
    wrong = [row for row in report if row.verdict == "source"]
    assert wrong and report.first is wrong[0], str(report)
    assert all(matched == count for matched, count in counts(report)), str(report)
    assert all(weight in row.parameters for row in wrong), str(report)
    assert all(row.ok for row in report.rows[: report.first.index]), str(report)


@pytest.mark.sweep(7)
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize(
    ("name", "seed"),
    [*((name, 1) for name in CASES), *(("bottlenecks", seed) for seed in range(2, 6))],
)
def test_other_weights(name: str, seed: int, flow: str) -> None:
    """Compared with a module without equal weights, the first layer with weights is the source."""
    report = explain(module(name, seed), CASES[name][1], program=program(name, flow))
    assert report.first is not None and report.first.verdict == "source", str(report)
    assert report.first.parameters, str(report)


def blocks(is_whole: bool) -> nn.Module:
    """Build two blocks of a branch and a sum each; the last sum is optional."""

    def run(x: Tensor, norms: Any, layers: Any, head: Any) -> Tensor:
        for i, (norm, layer) in enumerate(zip(norms, layers)):
            branch = torch.tanh(layer(norm(x)))
            x = branch if i and not is_whole else x + branch
        return head(torch.relu(norms[2](x)))

    norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(3))
    layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
    return Fn(run, norms=norms, layers=layers, head=nn.Linear(8, 4))


@pytest.mark.parametrize("flow", FLOWS)
def test_missing_sum(flow: str) -> None:
    """Only the operator that reads the value without the sum is wrong."""
    torch.manual_seed(0)
    whole, missing = blocks(True), blocks(False)
    missing.load_state_dict(whole.state_dict())
    x = torch.linspace(-2, 3, 40).cos().reshape(1, 5, 8)
    report = explained(torch.export.export(whole, (x,)), missing, (x,), flow)
    assert report.first is not None and report.first.verdict == "source", str(report)
    assert report.first.module == "norms.2", str(report)
    assert sum(row.verdict == "source" for row in report) == 1, str(report)
    assert report.rows[-1].verdict == "propagated", str(report)


def slices(x: Tensor, layer: Any) -> Tensor:
    """Compute with slices of equal shape, cut from the last axis."""
    q, k, v = layer(x).chunk(3, -1)
    return torch.softmax(q * k, -1).transpose(1, 2) @ torch.sinh(v)


def moved_slices(x: Tensor, layer: Any) -> Tensor:
    """Compute the same with the last axis moved to the front, as Cadence's passes do."""
    moved = layer(x).transpose(0, 2)
    q, k, v = moved[:4], moved[4:8], torch.sinh(moved[8:])
    return torch.softmax(q * k, 0).permute(2, 0, 1) @ v.transpose(0, 2)


@pytest.mark.parametrize("size", [5, 4])
@pytest.mark.parametrize("scale", [1.0, 1.01])
def test_slices_with_axes_in_another_order(size: int, scale: float) -> None:
    """Slices are matched by their numbers, in the order of axes that the program has; a fault in
    the layer before them is not theirs."""
    torch.manual_seed(0)
    model = Fn(slices, layer=nn.Linear(4, 12))
    moved = Fn(moved_slices, layer=copy.deepcopy(model.layer))
    moved.get_parameter("layer.weight").data[8:] *= scale
    x = torch.linspace(-2, 3, size * 4).cos().reshape(1, size, 4)
    report = explained(torch.export.export(model, (x,)), moved, (x,))
    assert not any(row.missing or row.instead for row in report), str(report)
    wrong = [row for row in report if row.local is not None and row.local.mismatched]
    assert [row.module for row in wrong] == ["layer"] * (scale != 1), str(report)
    assert any("sinh" in row.name for row in report), str(report)


class Strides(nn.Sequential):
    """Convolutions, pooling, and a mean that gives equal shapes for all strides."""

    def __init__(self, **strides: int) -> None:
        self.names = ("conv1", "norm1", "act1", "pool", "conv2", "act2", "mean", "flat", "head")
        conv1, pool, conv2 = ({"conv1": 1, "pool": 2, "conv2": 2} | strides).values()
        first = nn.Conv2d(3, 8, 3, conv1, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, pool, 1)
        second = nn.Conv2d(8, 8, 3, conv2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        super().__init__(*first, *second, nn.Linear(8, 4))


@pytest.mark.sweep(3)
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize(("layer", "stride"), [("conv1", 2), ("pool", 1), ("conv2", 1)])
def test_wrong_stride(flow: str, layer: str, stride: int) -> None:
    """The first node with the wrong shape is named, with both shapes, although only the output
    after it can be compared."""
    torch.manual_seed(0)
    right, wrong = Strides().eval(), Strides(**{layer: stride}).eval()
    wrong.load_state_dict(right.state_dict())
    x = torch.linspace(-2, 3, 2 * 3 * 16 * 16).cos().reshape(2, 3, 16, 16)
    report = explained(torch.export.export(right, (x,)), wrong, (x,), flow)
    first = report.first
    assert first is not None and first.module == str(right.names.index(layer)), str(report)
    assert first.expected_shape is not None and "), expected (" in report.summary(), str(report)
    assert all(row.verdict == "ok" for row in report.rows[: first.index]), str(report)
    assert explained(torch.export.export(wrong, (x,)), wrong, (x,), flow).ok
