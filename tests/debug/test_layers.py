"""explain: faults planted in programs are found in their layer, delegated or not."""

import copy
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge, to_edge_transform_and_lower
from torch import Tensor, nn

import executorch_c
from executorch_c import cli
from executorch_c.check import by_flow
from executorch_c.debug import _judge
from executorch_c.debug._matching import assignment, values
from executorch_c.devtools import explain
from tests.backends import xnnpack_flow
from tests.debug import cuts, deep
from tests.debug.deep import FLOWS, IMAGE, Merge, Net, explained, lower
from tests.exports import Fn, export


def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


# ---- programs that are right ------------------------------------------------------------------


@pytest.mark.parametrize("flow", FLOWS)
def test_references(flow: str, tmp_path: Path) -> None:
    """A module, an exported program, an edge program, a manager, an ETRecord, its file."""
    model = net()
    manager = lower(model, IMAGE, flow, generate_etrecord=True)
    record = manager.get_etrecord()
    record.save(str(tmp_path / "e.bin"))
    exported = torch.export.export(model, IMAGE)
    edge = to_edge(torch.export.export(model, IMAGE))
    (tmp_path / "m.pte").write_bytes(manager.buffer)
    for reference in (model, exported, edge, manager, record, tmp_path / "e.bin"):
        report = explain(reference, IMAGE, program=tmp_path / "m.pte")
        assert report, str(report)
        assert any(row.module == "blocks.1" for row in report), str(report)
        assert str(report).startswith("m.pte, method 'forward', compared with PyTorch")
    programs = [manager.buffer, executorch_c.Runtime.get().load_program(manager.buffer), manager]
    for program in programs:
        assert explain(record, [IMAGE[0].numpy()], program=program)


class Attention(nn.Module):
    """Causal attention of two heads of keys and values, each for two heads of queries."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(2, (-1, 4)).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).flatten(2)


def test_attention_of_grouped_heads() -> None:
    """MLX's node of attention reads keys and values before they are repeated."""
    torch.manual_seed(0)
    x = torch.randn(1, 7, 16)
    made = by_flow.make(Attention().eval(), (x,), "mlx", progress=False)
    report = explain(made.reference, (x,), program=made.subject.opened)
    assert report.verdict == "match", str(report)
    assert any(row.name.startswith("Sdpa") and not row.instead for row in report), str(report)


@pytest.mark.heavy
def test_outputs_refute_a_parting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where attention is not found, the steps after it are matched wrongly: right outputs show that
    no step parts from the model."""
    monkeypatch.setattr(assignment, "ANY", {""})
    model, inputs, _ = cuts.made("llama")
    made = by_flow.make(model, (inputs[0],), "mlx", progress=False)
    report = explain(made.reference, (inputs[0],), program=made.subject.opened)
    assert report.verdict == "match", str(report)


def test_where_it_is_in_the_model() -> None:
    report = explained(net(), net(), IMAGE)
    assert [int(row.where.split()[1]) for row in report] == list(range(len(report)))
    row = next(row for row in report if row.module == "side")
    lines = Path(deep.__file__).read_text().splitlines()
    path, _, line = str(row.source).rpartition(":")
    assert path == deep.__file__ and "self.side(x)" in lines[int(line) - 1]
    assert row.name == "aten::convolution.out" and row.shape == (2, 8, 6, 6)
    assert row.dtype == "float32"


# ---- faults -----------------------------------------------------------------------------------


def assert_found(report: Any, module: str) -> None:
    """Assert that one layer is the source and later layers propagate the error."""
    assert not report and report.first is not None, str(report)
    assert report.first.module == module, str(report)
    assert report.first.verdict == "source"
    assert sum(row.verdict == "source" for row in report) == 1, str(report)
    before, after = report.rows[: report.first.index], report.rows[report.first.index + 1 :]
    assert all(row.ok for row in before), str(report)
    assert after[-1].verdict == "propagated", str(report)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("layer", ["stem.0", "merge"])
def test_swapped_channels(flow: str, layer: str) -> None:
    """Colour channels in another order, or swapped halves of the channels."""
    model, damaged = net(), Net(swap=layer == "merge").eval()
    damaged.load_state_dict(model.state_dict())
    if layer == "stem.0":
        damaged.stem[0].weight.data = model.stem[0].weight.data.flip(1)
    assert_found(explained(model, damaged, IMAGE, flow), layer)


@pytest.fixture
def wrong_gelu() -> Iterator[None]:
    schema = str(torch.ops.aten.gelu.out._schema)

    @executorch_c.register_operator(schema, override=True)
    def gelu(self: Any, *, approximate: str) -> Any:
        return self * (self > 0)  # a relu

    yield
    executorch_c.unregister_operator("aten::gelu.out")


def test_wrong_operator(wrong_gelu: None) -> None:
    model = net()
    report = explained(model, model, IMAGE)
    assert_found(report, "head.1")
    assert report.first is not None and report.first.name == "aten::gelu.out"


@pytest.mark.parametrize("flow", FLOWS)
def test_overflowing_half(flow: str) -> None:
    """Finite in float32, infinite in float16 from one layer on."""

    torch.manual_seed(0)
    layers = [nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 8)]
    model = nn.Sequential(*layers, nn.LayerNorm(8), nn.Linear(8, 4)).eval()
    with torch.no_grad():
        model[3].weight *= 3e5
    half = copy.deepcopy(model).half()
    half[3].weight.data.clamp_(-6e4, 6e4)
    model[3].weight.data.clamp_(-6e4, 6e4)
    inputs = (torch.linspace(1, 8, 24).reshape(3, 8).half(),)
    report = explained(model, half, inputs, flow)
    assert report.first is not None and report.first.module == "3", str(report)
    assert report.first.local is not None and report.first.local.inf[0] > 0
    assert report.first.local.inf[1] == 0 and "infinite, expected 0" in str(report)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("flow", FLOWS)
def test_bad_scale(flow: str) -> None:
    good, bad = deep.programs(flow)
    report = explain(deep.edge(), deep.INPUTS, program=bad)
    assert report.first is not None, str(report)
    assert report.first.module == f"{deep.BAD}.0" and report.first.verdict == "source"
    assert sum(row.verdict == "source" for row in report) == 1, str(report)
    assert explain(deep.edge(), deep.INPUTS, program=good)


@pytest.mark.parametrize(
    "where",
    [(values.Pairing, "_place_step"), (_judge.Walk, "_judge")],
    ids=["matching", "comparing"],
)
def test_an_interrupt_gives_the_report_so_far(
    where: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name = where
    original, calls = getattr(owner, name), []

    def interrupted(self: Any, step: Any) -> Any:
        calls.append(step)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(self, step)

    monkeypatch.setattr(owner, name, interrupted)
    report = explained(net(), net(), (torch.randn(1, 3, 8, 8),))
    assert report.verdict == "inconclusive" and "interrupted" in str(report), str(report)
    assert 1 <= len(report) <= 4 and all(row.ok for row in report)


# ---- arguments --------------------------------------------------------------------------------


def test_dynamic_quantisation() -> None:
    """XNNPACK takes a scale per row, the graph one per tensor: not a fault, but a wrong weight
    is."""
    torch.manual_seed(0)
    layers = [nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)]
    model, x = nn.Sequential(*layers).eval(), (torch.randn(3, 32),)
    quantized = xnnpack_flow.SCHEMES["dynamic_channel"](model, x, None)
    report = explained(quantized, quantized, x, "xnnpack")
    assert report.ok and [row.module for row in report] == ["0", "2", "4"], str(report)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[2].weight[7] *= 1.5
    other = xnnpack_flow.SCHEMES["dynamic_channel"](other, x, None)
    assert_found(explained(other, quantized, x, "xnnpack"), "2")


def large(more: int) -> Callable[[Tensor], Tensor]:
    return lambda x: (x > 0).long() * (2**62 + more)


OUTPUTS: dict[str, tuple[Callable[[Tensor], Any], Callable[[Tensor], Any], str]] = {
    "one is missing": (lambda x: (x + 1,), lambda x: (x + 1, x * 2), "1 output, expected 2"),
    "one more": (lambda x: (x + 1, x * 2), lambda x: (x + 1,), "2 outputs, expected 1"),
    "a shape that broadcasts": (
        lambda x: x.sum(1, keepdim=True),
        lambda x: x.sum(1),
        "shape (2, 1)",
    ),
    "an integer's dtype": (lambda x: (x * 8).int(), lambda x: (x * 8).long(), "expected int64"),
    "a large integer": (large(1), large(0), "out of tolerance"),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_wrong_outputs_of_right_nodes(name: str) -> None:
    wrong, right, says = OUTPUTS[name]
    x = torch.randn(2, 4)
    assert explain(Fn(right), (x,), program=export(Fn(right), x)).verdict == "match"
    report = explain(Fn(right), (x,), program=export(Fn(wrong), x))
    assert report.verdict == "differ"
    assert says in " ".join(report.summary().split())


@pytest.mark.parametrize(
    "x",
    [torch.zeros(2, 4), torch.ones(0, 4), torch.full((2, 4), math.nan)],
    ids=["zeros", "empty", "NaN"],
)
def test_values_that_can_show_no_error(x: Tensor) -> None:
    """Any wrong factor would look the same."""
    scaled = Fn(lambda x: x * 3)
    pte = export(scaled, x)
    report = explain(scaled, (x,), program=pte)
    assert report.verdict == "inconclusive" and "pass other inputs" in report.reason
    assert explain(scaled, (x,), program=pte, rtol=0, atol=0).verdict == "match"  # as given
    if x.numel():
        assert explain(scaled, (torch.randn(2, 4),), program=pte).verdict == "match"


def test_inputs_that_the_model_changes() -> None:
    def doubled(x: Tensor) -> Tensor:
        return x.mul_(2) + 1

    x = torch.randn(2, 4)
    assert explain(Fn(doubled), (x.clone(),), program=export(Fn(doubled), x.clone())).ok
    assert not explain(Fn(doubled), (x,), program=export(Fn(lambda x: x * 2 + 1), x)).ok


def test_a_node_that_eager_cannot_compute() -> None:
    """torch exports arange of uint16, for which it has no kernel."""

    def positions(dtype: torch.dtype) -> nn.Module:
        return Fn(lambda x: x + torch.arange(4, dtype=dtype).to(torch.int32))

    x = torch.randn(4)
    pte = lower(positions(torch.int32), (x,), "portable")
    sentence = r"cannot compute node '\w*arange\w*' .*: .*UInt16"
    with pytest.raises(NotImplementedError, match=sentence):
        explain(positions(torch.uint16), (x,), program=pte)


def test_tolerances() -> None:
    model, damaged = net(), net()
    with torch.no_grad():
        damaged.side.weight[0] *= 1.001
    pte = lower(damaged, IMAGE, "portable").buffer
    assert not explain(model, IMAGE, program=pte)
    assert explain(model, IMAGE, program=pte, rtol=1e-2, atol=1e-2)
    assert not explained(model, model, IMAGE, rtol=0, atol=0)
    with pytest.raises(ValueError, match="`rtol` is -1, expected 0 or more"):
        explain(model, IMAGE, program=pte, rtol=-1)


def test_bad_arguments() -> None:
    model = net()
    manager, exported = lower(model, IMAGE, "xnnpack"), torch.export.export(model, IMAGE)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    for reference, error, message in (
        (manager, ValueError, "has no ETRecord"),
        (3, TypeError, "expected an nn.Module, .* found int"),
        (lowered, ValueError, "handed to a backend"),
    ):
        with pytest.raises(error, match=message):
            explain(reference, IMAGE, program=manager.buffer)
    with pytest.raises(ValueError, match="2 inputs .* the reference takes 1"):
        explained(exported, Merge(False), (*IMAGE, *IMAGE))


def test_values_that_do_not_fit() -> None:
    model = net()
    report = explained(model, model, IMAGE, max_bytes=20_000)
    assert any("pass a larger `max_bytes`" in note for note in report.notes)


# ---- the command ------------------------------------------------------------------------------


def test_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, damaged = net(), net()
    with torch.no_grad():
        damaged.side.weight[0] *= 2
    manager = lower(model, IMAGE, "portable", generate_etrecord=True)
    manager.get_etrecord().save(str(tmp_path / "e.bin"))
    (tmp_path / "good.pte").write_bytes(manager.buffer)
    (tmp_path / "bad.pte").write_bytes(lower(damaged, IMAGE, "portable").buffer)
    np.savez(tmp_path / "x.npz", x=IMAGE[0].numpy())
    torch.save(model, tmp_path / "model.pt")
    torch.save(IMAGE, tmp_path / "image.pt")
    (tmp_path / "my_model.py").write_text(
        "import torch\ndef load(name):\n    return torch.load(name, weights_only=False)\n"
        "def make():\n    return load('model.pt'), load('image.pt')\n"
    )
    monkeypatch.chdir(tmp_path)
    inputs = ["--inputs", "x.npz"]
    assert cli.main(["explain", "good.pte", "--etrecord", "e.bin", *inputs]) == 0
    assert "every one is within tolerance" in capsys.readouterr().out
    assert (
        cli.main(["explain", "bad.pte", "--model", "my_model:make", "--json", "--html", "r.html"])
        == 3
    )
    figures = json.loads(capsys.readouterr().out)
    assert figures["rows"][figures["first"]]["module"] == "side"
    assert "first divergence" in (tmp_path / "r.html").read_text()
    with pytest.raises(SystemExit):
        cli.main(["explain", "bad.pte", "--model", "my_model", *inputs])
    assert "is not module:function" in capsys.readouterr().err
    for name, message in (("no_such:f", "no module"), ("my_model:g", "has no function 'g'")):
        assert cli.main(["explain", "bad.pte", "--model", name, *inputs]) == 1
        assert message in capsys.readouterr().err


def average(decay: float) -> nn.Module:
    """Build a state that decays."""
    mean = nn.Buffer(torch.zeros(2, 6))
    return Fn(lambda x, mean: torch.tanh(mean.mul_(decay).add_(x)), mean=mean)


def test_a_state_of_zeros_is_noted() -> None:
    """A wrong decay does not show in the first call, and shows after one."""
    model, x = average(0.9), torch.linspace(-1, 1, 12).reshape(2, 6)
    pte = bytes(lower(average(0.8), (x,), "portable").buffer)
    method = executorch_c.Runtime.get().load_program(pte).load_method("forward")
    report = explain(model, (x,), program=method)
    notes = " ".join(report.notes)
    assert report.ok and "an error of aten::mul.out, instruction 0 may not show" in notes
    method.reset()
    method.execute([x.numpy()])
    model(x)
    report = explain(model, (x,), program=method)
    assert report.first is not None and report.first.name == "aten::mul.out", str(report)
    assert "may not show" not in " ".join(report.notes)
