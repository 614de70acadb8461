"""Probes: files for a device, what comes back from it, and rounds that halve."""

import json
from pathlib import Path

import numpy as np
import pytest

import executorch_c
from executorch_c import cli
from executorch_c.blame import probes
from executorch_c.blame.run import blame
from executorch_c.trace import Result
from tests import ROOT
from tests.blame.devices import place_of

GOLDEN = ROOT / "tests" / "release" / "golden" / "1.5.1"
Arrays = list[np.ndarray]


def case(name: str) -> tuple[Path, Arrays]:
    path = GOLDEN / f"{name}.pte"
    with np.load(path.with_suffix(".npz")) as file:
        return path, [file[key] for key in sorted(file) if key.startswith("in")]


def device(program: Path, inputs: Arrays) -> Arrays:
    """Return what a right device returns."""
    method = executorch_c.load(program).load_method("forward", delegate_at_load=False)
    return list(method.execute(inputs))


def raw(folder: Path, name: str, outputs: Arrays) -> None:
    """Write outputs as executor_runner does."""
    for number, output in enumerate(outputs):
        (folder / f"{name}-{number}.bin").write_bytes(np.ascontiguousarray(output).tobytes())


@pytest.mark.parametrize("name", ["xnnpack_int8", "mlp", "vulkan_mlp", "mlx_mlp"])
@pytest.mark.parametrize("is_raw", [False, True], ids=["npz", "raw"])
def test_one_file_returns_all_values(name: str, is_raw: bool, tmp_path: Path) -> None:
    path, inputs = case(name)
    written = probes.write_probes(path, inputs, tmp_path)
    back = [np.fromfile(file, x.dtype) for file, x in zip(written.inputs, inputs, strict=True)]
    assert all(np.array_equal(a, b.ravel()) for a, b in zip(back, inputs, strict=True))
    assert "--inputs=input-0.bin" in str(written)
    outputs = device(written.program, inputs)
    if is_raw:
        raw(tmp_path, "probes", outputs)
    else:
        np.savez(tmp_path / "probes.npz", *outputs)
    (run,) = probes.read_probes(tmp_path)
    assert [*run.values] == [*written.ids]
    expected = device(path, inputs)
    assert len(run.outputs) == len(expected)
    for ours, theirs in zip(run.outputs, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    source = probes._Source(path, inputs, "forward")
    for one, value in run.values.items():
        np.testing.assert_array_equal(value, source.values[one].data.astype(value.dtype))


def test_chosen_nodes_and_several_runs(tmp_path: Path) -> None:
    path, inputs = case("xnnpack_cnn")
    written = probes.write_probes(path, inputs, tmp_path, at=["d0.2", "d0.4"])
    assert written.ids == ("d0.2", "d0.4")
    outputs = device(written.program, inputs)
    for run in ("first", "second"):
        (tmp_path / run).mkdir()
        raw(tmp_path / run, "probes", outputs)
    runs = probes.read_probes(tmp_path)
    assert ["first" in run.source for run in runs] == [True, False]
    assert [[*run.values] for run in runs] == [["d0.2", "d0.4"]] * 2


@pytest.mark.parametrize("wrong", [0, 0.5, 1])
@pytest.mark.parametrize("name", ["xnnpack_block", "vulkan_mlp", "mlx_block"])
def test_rounds_find_each_node(name: str, wrong: float, tmp_path: Path) -> None:
    """A device whose result of one node is halved."""
    path, inputs = case(name)
    ids = [*probes._Source(path, inputs, "forward").values]
    place = ids[int(wrong * (len(ids) - 1))]
    method = executorch_c.load(path).load_method("forward", delegate_at_load=False)
    values = {}

    def alter(result: Result, array: np.ndarray) -> None:
        if result.kind in ("node", "kernel"):
            if place_of(result) == place:
                array *= 0.5
            values[place_of(result)] = array.copy()

    with method.tracing(alter=alter):
        method.execute(inputs)
    written: probes.Probes | None = probes.write_probes(path, inputs, tmp_path, rounds=True)
    rounds = 0
    while written is not None:
        rounds += 1
        (one,) = written.ids
        assert len(device(written.program, inputs)) == 1
        raw(tmp_path, written.program.stem, [values[one]])
        known = probes.next_probe(path, tmp_path)
        written = known.probes
    assert known.suspects == (place,)
    assert str(known) == f"the device leaves at {place}"
    assert rounds <= np.log2(len(ids)) + 2


def test_blame_reads_a_folder_of_probes(tmp_path: Path) -> None:
    path, inputs = case("xnnpack_cnn")
    written = probes.write_probes(path, inputs, tmp_path)
    outputs = device(written.program, inputs)
    np.savez(tmp_path / "probes.npz", *outputs)
    right = blame(None, inputs, program=path, device=[tmp_path], progress=False)
    assert right.fault == "match"
    wrong = [output.copy() for output in outputs]
    wrong[0] += 1
    wrong[1 + written.ids.index("d0.2")] *= 0.5
    np.savez(tmp_path / "probes.npz", *wrong)
    report = blame(None, inputs, program=path, device=[tmp_path], progress=False)
    assert report.fault == "device"
    assert report.first is not None
    assert report.first.startswith("d0.2 ")


def test_values_that_no_program_can_return_are_said(tmp_path: Path) -> None:
    path, inputs = case("xnnpack_8da4w")
    written = probes.write_probes(path, inputs, tmp_path)
    assert "d0.0" in written.refused
    assert "not observable: d0.0" in str(written)
    state = json.loads((tmp_path / "probes.json").read_text())
    assert state["refused"] == dict(written.refused)
    with pytest.raises(ValueError, match="'d0.0' is not observable"):
        probes.write_probes(path, inputs, tmp_path, at=["d0.0"])


def test_mistakes_are_named(tmp_path: Path) -> None:
    path, inputs = case("xnnpack_mlp")
    with pytest.raises(ValueError, match=r"no probes\.json"):
        probes.read_probes(tmp_path)
    with pytest.raises(ValueError, match=r"no value of the program is 'd7\.0'"):
        probes.write_probes(path, inputs, tmp_path, at=["d7.0"])
    probes.write_probes(path, inputs, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"probes\.npz or probes-0\.bin"):
        probes.read_probes(tmp_path)
    (tmp_path / "probes-0.bin").write_bytes(b"1234")
    with pytest.raises(ValueError, match=r"probes-0\.bin.*expected"):
        probes.read_probes(tmp_path)
    other, _ = case("mlp")
    with pytest.raises(ValueError, match="the probes are of another program"):
        probes.next_probe(other, tmp_path)
    (tmp_path / "probes.json").write_text("[]")
    with pytest.raises(ValueError, match="not a manifest of probes"):
        probes.read_probes(tmp_path)
    with pytest.raises(TypeError, match="probes need the path or the bytes"):
        probes.write_probes(executorch_c.load(path), inputs, tmp_path)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, inputs = case("xnnpack_cnn")
    np.savez(tmp_path / "x.npz", *inputs)
    folder = tmp_path / "rounds"
    command = ["blame", str(path), "--inputs", str(tmp_path / "x.npz"), "--probes", str(folder)]
    assert cli.main([*command, "--rounds"]) == 0
    assert "round1.pte: 1 value" in capsys.readouterr().out
    assert cli.main(command) == 1
    assert "expected round1.npz or round1-0.bin" in capsys.readouterr().err
    code = 0
    while code == 0:
        for program in folder.glob("*.pte"):
            raw(folder, program.stem, [-output for output in device(program, inputs)])
        code = cli.main(command)
    assert code == 3
    assert "the device leaves at d0.0" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main([*command[:4], "--rounds"])
    assert "options of --probes" in capsys.readouterr().err
