"""Verdicts of `blame`: planted faults of the export, the lowering and the device, and devices that
are right."""

import copy
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import executorch_c
from executorch_c import cli
from executorch_c.blame.arithmetic import Allowance
from executorch_c.blame.places import Place
from executorch_c.blame.replay import Replay
from executorch_c.devtools import blame
from executorch_c.inspect.scales import scales_of_outputs
from tests import exports
from tests.blame.test_locating import recorded
from tests.blame.units import LOWER

MODEL = """
import torch
from tests.blame import test_verdicts

def make():
    return test_verdicts.model()
"""


class Net(nn.Module):
    """Two layers, and a resize whose decomposition differs from eager for some factors."""

    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.a, self.b, self.factor = nn.Linear(13, 13), nn.Linear(13, 5), factor

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x))
        y = nn.functional.interpolate(y[:, None], scale_factor=self.factor, mode="linear")[:, 0]
        return self.b(y[:, :13])


def model(factor: float = 2.0) -> nn.Module:
    torch.manual_seed(0)
    return Net(factor).eval()


X = torch.linspace(-2, 2, 52).sin().reshape(4, 13)


@pytest.fixture(scope="module")
def pte() -> bytes:
    return exports.lowered(model(), X)


@pytest.fixture(scope="module")
def outputs(pte: bytes) -> list[Any]:
    return Replay(pte, [X.numpy()]).run()[0]


def test_a_right_device_matches(pte: bytes, outputs: list[Any]) -> None:
    report = blame(model(), [X.numpy()], program=pte, device=[outputs, outputs], progress=False)
    assert report and report.fault == "match" and report.first is None, str(report)
    row = report.rows[0]
    assert row.here is not None and row.here.relative < 1e-5 and row.seconds


def test_a_fault_of_the_device(pte: bytes, outputs: list[Any]) -> None:
    wrong = [outputs[0] * np.float32(1.01)]
    report = blame(model(), [X.numpy()], program=pte, device=[wrong], progress=False)
    assert report.fault == "device" and report.verdict == "differ", str(report)
    assert report.summary().startswith("device: the payload computes what the model does; output 0")
    [row] = report.rows
    assert row.verdict == "leaves" and row.device.limit is not None
    assert row.device.relative == pytest.approx(0.01, rel=1e-3) and row.device.limit < 1e-4


def test_nan_of_the_device(pte: bytes, outputs: list[Any]) -> None:
    wrong = outputs[0].copy()
    wrong[0, 0] = np.nan
    report = blame(None, [X.numpy()], program=pte, device=[[wrong]], progress=False)
    assert report.fault == "device" and "1 NaN (expected 0)" in report.summary(), str(report)


def test_one_run_of_three_is_wrong(pte: bytes, outputs: list[Any]) -> None:
    wrong = [outputs[0].copy()]
    wrong[0][1:] = 0
    runs = [outputs, wrong, outputs]
    report = blame(None, [X.numpy()], program=pte, device=runs, progress=False)
    assert report.fault == "nondeterministic", str(report)
    assert "1 of 3 runs on equal inputs are wrong (1)" in report.summary()


def test_all_runs_are_wrong(pte: bytes, outputs: list[Any]) -> None:
    """Equal wrong runs are a fault of the device; runs that differ are not deterministic."""
    one, other = outputs[0] * np.float32(1.1), outputs[0] * np.float32(1.2)
    report = blame(None, [X.numpy()], program=pte, device=[[one], [one]], progress=False)
    assert report.fault == "device", str(report)
    report = blame(None, [X.numpy()], program=pte, device=[[one], [other]], progress=False)
    assert report.fault == "nondeterministic", str(report)
    assert "2 of 2 runs on equal inputs are wrong; 2 results, of 1 and 1 runs" in report.summary()


def test_most_runs_are_wrong_alike(pte: bytes, outputs: list[Any]) -> None:
    """Runs that agree with each other, and not with the others, are not the device's result."""
    wrong = [outputs[0] * np.float32(0.5)]
    runs = [wrong, outputs, wrong, wrong, outputs]
    report = blame(None, [X.numpy()], program=pte, device=runs, progress=False)
    assert report.fault == "nondeterministic", str(report)
    text = "3 of 5 runs on equal inputs are wrong (0, 2, 3); 2 results, of 3 and 2 runs; output 0 "
    assert text + "of run 0 is off by 0.5 (relative)" in report.summary(), report.summary()
    assert "wrong: the expected values times 0.5; output 0 of run 1 is off by 0" in report.finding
    assert [(row.name, row.ok) for row in report] == [("runs 0, 2, 3", False), ("runs 1, 4", True)]


def test_a_thousand_runs_that_all_differ(pte: bytes, outputs: list[Any]) -> None:
    """Each result is compared with a few, and what is printed is short."""
    runs = [[outputs[0] * np.float32(1 + i / 100)] for i in range(1, 1001)]
    started = time.process_time()
    report = blame(None, [X.numpy()], program=pte, device=[outputs, *runs], progress=False)
    assert time.process_time() - started < 30
    assert report.fault == "nondeterministic", str(report)
    text = "1,000 of 1,001 runs on equal inputs are wrong (1, 2, 3, 4, 5, 6, 7, 8 and 992 more); "
    text += f"17 results or more, of {'1, ' * 15}1 and 985 runs"
    assert text in report.summary(), report.summary()
    assert [row.name for row in report][-1] == "runs 16, 17, 18, 19, 20, 21, 22, 23 and 977 more"
    assert len(report.summary()) < 1000 and len(report.rows) == 17


def test_a_thousand_outputs_in_one_run(pte: bytes, outputs: list[Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **{f"run{i}": outputs[0] for i in range(1000)}, **{"n" * 9999: X})
    with pytest.raises(
        ValueError, match=r"1,001 outputs \(run0, run1, .* and 993 more\)"
    ) as raised:
        blame(None, [X.numpy()], program=pte, device=[tmp_path / "x.npz"], progress=False)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize("run", [None, 3, b"x"])
def test_a_run_that_is_none(pte: bytes, run: Any) -> None:
    text = f"device run 0: {type(run).__name__}, expected a path, or arrays in order or by name"
    with pytest.raises(TypeError, match=text):
        blame(None, [X.numpy()], program=pte, device=[run], progress=False)


def test_the_extent_of_the_upper_bound(tmp_path: Path) -> None:
    """A device that keeps the extents of the upper bound is at fault, at the first such node."""
    program, (x, *_) = recorded("vulkan", "mlp_dyn")
    large = np.resize(x, (16, *x.shape[1:]))
    small = large[:5]
    outputs: tuple[dict[str, Any], ...] = ({}, {})
    values: tuple[dict[str, Any], ...] = ({}, {})
    for number, one in enumerate((small, large)):
        seen = values[number]
        replay = Replay(program, [one])
        results, _ = replay.run(lambda place, array: seen.setdefault(place.id, array.copy()))
        outputs[number]["output_0"] = results[0]
    np.savez(tmp_path / "run.npz", **outputs[1])
    outputs[1]["output_0"].tofile(tmp_path / "raw-0.bin")
    for path in ("run.npz", "raw-0.bin"):
        options: dict[str, Any] = {"program": program, "device": [tmp_path / path]}
        report = blame(None, [small], progress=False, **options)
        assert report.fault == "device", str(report)
        assert "expected [5," in report.summary() and "the upper bound" in report.summary()
    names = [*values[0]]
    run = values[0] | {name: values[1][name] for name in names[2:]} | outputs[1]
    report = blame(None, [small], program=program, device=[run], progress=False)
    assert report.fault == "device" and report.first is not None, str(report)
    assert report.first.startswith(f"{names[2]} ") and len(report.suspects) == 1
    assert "the upper bound" in report.finding.partition("It leaves at")[2], report.finding


def test_suspects_are_of_one_branch() -> None:
    """Nodes of another branch, which run between, are no suspects."""

    def branches(x: Tensor) -> Tensor:
        left = torch.exp(x)
        right = torch.tanh(torch.sigmoid(x))
        return left * 2 + right

    pte = exports.export(branches, X)
    replay = Replay(pte, [X.numpy()])
    values: dict[str, Any] = {}
    replay.run(lambda place, array: values.setdefault(place.id, array.copy()))
    left = next(p.id for p in replay.places().values() if p.name.startswith("aten::mul"))
    wrong = {left: values[left] * np.float32(2)}
    report = blame(None, [X.numpy()], program=pte, device=[wrong], progress=False)
    assert "exp" in report.suspects[0] and "mul" in report.suspects[-1], str(report)
    assert not any("tanh" in text or "sigmoid" in text for text in report.suspects)
    assert "the expected values times 2" in report.finding


def test_a_fault_of_the_lowering(outputs: list[Any]) -> None:
    wrong = copy.deepcopy(model())
    with torch.no_grad():
        wrong.b.weight[2] *= 1.5
    pte = exports.lowered(wrong, X)
    run = Replay(pte, [X.numpy()]).run()[0]
    report = blame(model(), [X.numpy()], program=pte, device=[run], progress=False)
    assert report.fault == "lowering", str(report)
    assert report.first is not None and "'b'" in report.first
    assert "the device computes what the payload does" in report.summary()
    report = blame(model(), [X.numpy()], program=pte, device=[outputs], progress=False)
    assert report.fault == "lowering" and "does not compute what the payload" in report.summary()


def test_a_fault_of_the_export() -> None:
    pte = exports.lowered(model(1.04), X)
    run = Replay(pte, [X.numpy()]).run()[0]
    report = blame(model(1.04), [X.numpy()], program=pte, device=[run], progress=False)
    assert report.fault == "export", str(report)
    assert report.first is not None and report.first.endswith(", export")


def test_without_a_model_it_says_so(outputs: list[Any]) -> None:
    pte = exports.lowered(model(1.04), X)
    run = Replay(pte, [X.numpy()]).run()[0]
    report = blame(None, [X.numpy()], program=pte, device=[run], progress=False)
    assert report.fault == "match" and any("without a model" in note for note in report.notes)


# ---- arithmetic of devices ----------------------------------------------------------------------


def rounded(program: str, inputs: list[Any], at: str | None = None) -> tuple[list[Any], Any]:
    """Return outputs and values of a device that rounds as ours may, with a fault at a place."""
    replay, values = Replay(program, inputs), {}
    change = Allowance(replay).rounder(1001)

    def alter(place: Place, array: Any) -> None:
        change(place, array)
        if place.id == at:
            array.reshape(-1)[::2] = 0
        values[place.id] = array.copy()

    outputs, _ = replay.run(alter)
    return outputs, values


@pytest.mark.parametrize(
    "name", [("vulkan", "cnn_fp16"), ("tosa", "cnn_int8"), ("vulkan", "lin_8da4w")]
)
def test_precision_explains_a_healthy_device(name: tuple[str, str]) -> None:
    program, inputs = recorded(*name)
    outputs, values = rounded(program, inputs)
    report = blame(None, inputs, program=program, device=[outputs, values], progress=False)
    assert report.fault == "precision", str(report)
    assert report.rows[0].device.relative > 1e-4


def test_a_fault_at_a_node_of_an_etdump(tmp_path: Path) -> None:
    """The ETDump has the device's values: those of a run here with a fault."""
    program, inputs = recorded("coreml", "cnn_fp16")
    replay = Replay(program, inputs)

    def alter(result: Any, array: Any) -> None:
        if (result.kind, result.node, result.output) == ("node", 5, 0):
            array[:, 8:] = 0

    with replay.method.tracing(values=True, alter=alter) as trace:
        replay.method.execute(inputs)
    dump = tmp_path / "d.etdp", tmp_path / "d.bin"
    trace.to_etdump(*dump)
    options: dict[str, Any] = {"program": program, "etdump": dump[0], "progress": False}
    report = blame(None, inputs, debug_buffer=dump[1], **options)
    assert report.fault == "device" and report.first == "d0.5 (relu)", str(report)
    assert report.suspects == ("d0.5 (relu)",) and "It leaves at d0.5" in report.summary()
    times = {row.where: (row.device_seconds, row.seconds) for row in report}
    assert all(times["output 0"]) and all(times["d0.5"])
    report = blame(None, inputs, **options)
    assert report.fault == "inconclusive" and "no output" in report.summary()


def test_noise_as_large_as_the_output() -> None:
    """Halves whose sum cancels: no device can be accused, and none is cleared."""

    def cancel(x: Tensor) -> Tensor:
        return ((x.half() * 3.1 + 1000.0) - 1000.0).float()

    pte = exports.export(cancel, X / 100)
    inputs = [(X / 100).numpy()]
    outputs = Replay(pte, inputs).run()[0]
    other = [outputs[0] + np.float32(0.25)]
    report = blame(None, inputs, program=pte, device=[other], progress=False)
    assert report.fault == "inconclusive" and report.verdict == "inconclusive", str(report)


# ---- the command ------------------------------------------------------------------------------


def test_command(
    pte: bytes, outputs: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.pte").write_bytes(pte)
    (tmp_path / "m.py").write_text(MODEL)
    np.savez(tmp_path / "x.npz", x=X.numpy())
    np.savez(tmp_path / "good.npz", *outputs)
    np.savez(tmp_path / "bad.npz", outputs[0] + 1)
    pte_, x, make = (str(tmp_path / name) for name in ("m.pte", "x.npz", "m.py:make"))
    line = [pte_, "--inputs", x, "--device"]
    assert cli.main(["blame", *line, str(tmp_path / "good.npz")]) == 0
    assert "match: every output is within a few roundings" in capsys.readouterr().out
    page = str(tmp_path / "b.html")
    bad = [*line, str(tmp_path / "bad.npz"), "--model", make, "--json", "--html", page]
    for command in ("blame", "explain"):
        assert cli.main([command, *bad]) == 3
        answer = json.loads(capsys.readouterr().out)
        assert answer["fault"] == "device" and answer["rows"][0]["limit"] < 1e-3
    assert "outputs and nodes of the device" in Path(page).read_text()
    assert cli.main(["blame", *line, str(tmp_path / "x.npz")]) == 1
    assert "x.npz: output 0 has shape [4, 13], expected [4, 5]" in capsys.readouterr().err
    device = ["explain", *bad[:5], "--model", make]
    for words, message in (
        (["blame", pte_, "--inputs", x], "--device or --etdump"),
        (["blame", pte_, "--device", "x.npz"], "--inputs X.npz"),
        ([*device, "--rtol", "1"], "without --rtol"),
        ([*device, "--delegate-at-load"], "without --delegate-at-load"),
        ([*device, "--kernels", "reference"], "without --kernels"),
    ):
        with pytest.raises(SystemExit) as caught:
            cli.main(words)
        assert caught.value.code == 2 and message in capsys.readouterr().err


def test_reports(pte: bytes, outputs: list[Any]) -> None:
    wrong = [outputs[0] + np.float32(1)]
    report = blame(None, [X.numpy()], program=pte, device=[wrong, wrong], progress=False)
    assert all(len(line) <= 80 for line in str(report).splitlines())
    assert "device error" in report._repr_html_() and "leaves" in report._repr_html_()
    row = report.rows_as_dicts()[0]
    assert row["verdict"] == "leaves" and row["pattern"] == "the expected values plus 1"
    assert len(report) == 1 and str(row["pattern"]) in report._repr_html_()


def test_plots(pte: bytes, outputs: list[Any]) -> None:
    pytest.importorskip("matplotlib")
    wrong = [outputs[0].copy()]
    wrong[0][1:] = 0
    report = blame(None, [X.numpy()], program=pte, device=[outputs, wrong], progress=False)
    [bar, *_] = report.plot("error_map").axes
    shown = bar.images[0].get_array()
    assert shown.mask[0].all() and not shown.mask[1:].any(), "the first row is right"
    title = report.plot("output").get_suptitle()
    assert title == "output 0 of run 1 on the device, beside the payload's here"
    drawn = zip(report.plot().axes[0].lines[0].get_ydata(), report.rows)
    assert all(at == row.device.relative for at, row in drawn if row.device.relative)
    assert report.to_html().count("<img") == 2


def test_wrong_calls(pte: bytes, outputs: list[Any]) -> None:
    for options, kind, text in (
        ({}, ValueError, "no run of a device: pass `device` or `etdump`"),
        ({"device": "run.npz"}, TypeError, "`device` is a str, expected a list of runs"),
        ({"device": [outputs], "debug_buffer": "d.bin"}, ValueError, "pass `etdump`, too"),
    ):
        with pytest.raises(kind, match=text):
            blame(
                None,
                [X.numpy()],
                program=pte,
                progress=False,
                **options,  # type: ignore[arg-type]
            )


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_few_quantized_outputs(classes: int) -> None:
    """Outputs too few to show their grid have a step, too: the program's own scale."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, classes)).eval()
    samples = [torch.randn(1, 8) for _ in range(8)]
    program = executorch_c.load(LOWER["xnnpack-int8"](net, samples).pte)
    [output] = program.load_method("forward").execute([samples[0].numpy()])
    [step] = scales_of_outputs(program, "forward")
    assert step

    def verdict(steps: int) -> str:
        device = output.copy()
        device[0, -1] += np.float32(steps * step)
        return blame(
            None, [samples[0].numpy()], program=program, device=[[device]], progress=False
        ).fault

    assert [verdict(steps) for steps in (0, 1, -1, 8)] == ["match", *["precision"] * 2, "device"]


def test_a_node_that_leaves_is_named_where_the_outputs_do_not_show_it(
    pte: bytes, outputs: list[Any]
) -> None:
    values: dict[str, Any] = {}
    Replay(pte, [X.numpy()]).run(lambda place, array: values.setdefault(place.id, array.copy()))
    first = next(iter(values))
    run = {**values, first: values[first] + np.float32(0.01), "output_0": outputs[0]}
    report = blame(None, [X.numpy()], program=pte, device=[run], progress=False)
    assert report.fault == "match" and (report.first or "").startswith(f"{first} "), str(report)
    assert report.suspects == (report.first,)
