"""Reading of a device's runs: names, numbers, raw files, ETDumps, and what is wrong with files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_c.blame.device import Expected, read_dump, read_runs
from executorch_c.blame.replay import Replay
from executorch_c.trace import Result
from tests.blame.test_locating import recorded

FIRST, SECOND = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(4, dtype=np.int64)
EXPECTED = Expected(("logits", "output_1", "ids"), (FIRST, 3, SECOND))
"""A number among the outputs, which a run does not have."""


@pytest.mark.parametrize(
    "arrays",
    [
        {"ids": SECOND, "logits": FIRST},
        {"output_2": SECOND, "output_0": FIRST},
        {"out1": SECOND, "out0": FIRST},
        {"arr_0": FIRST, "arr_1": SECOND},
        {"a": FIRST, "b": SECOND},
        {"logits": FIRST.astype(np.float16), "ids": SECOND},
        {"logits": FIRST[None], "ids": SECOND},
    ],
)
def test_outputs_by_name_number_and_order(arrays: dict[str, Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "run.npz", **arrays)
    [run] = read_runs([tmp_path / "run.npz"], EXPECTED)
    first, number, second = run.outputs
    assert number is None and first is not None and second is not None
    np.testing.assert_array_equal(first, FIRST)
    np.testing.assert_array_equal(second, SECOND)


def test_values_of_nodes_have_ids(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "run.npz", **{"d0.3": FIRST, "logits": FIRST, "ids": SECOND, "i7:1": SECOND}
    )
    np.savez(tmp_path / "only.npz", **{"c1.i7@2": FIRST})
    run, only = read_runs([tmp_path / "run.npz", str(tmp_path / "only.npz")], EXPECTED)
    assert set(run.values) == {"d0.3", "i7:1"} and run.outputs[0] is not None
    assert set(only.values) == {"c1.i7@2"} and only.outputs == (None, None, None)


def test_raw_files_are_one_run(tmp_path: Path) -> None:
    for name, array in (("a-0", FIRST), ("a-1", SECOND), ("b-0", FIRST + 1), ("b-1", SECOND)):
        (tmp_path / f"{name}.bin").write_bytes(array.tobytes())
    (tmp_path / "all.bin").write_bytes(FIRST.tobytes() + SECOND.tobytes())
    names = ["a-1", "b-0", "a-0", "b-1", "all"]
    a, b, both = read_runs([tmp_path / f"{name}.bin" for name in names], EXPECTED)
    for run, first in ((a, FIRST), (b, FIRST + 1), (both, FIRST)):
        np.testing.assert_array_equal(run.outputs[0], first)  # type: ignore[arg-type]
        np.testing.assert_array_equal(run.outputs[2], SECOND)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"logits": FIRST}, "1 output (logits), expected 2: logits, ids"),
        ({"a": FIRST, "b": SECOND, "c": FIRST}, "3 outputs (a, b, c), expected 2: logits, ids"),
        ({"logits": FIRST.T, "ids": SECOND}, "output 0 has shape [3, 2], expected [2, 3]"),
        ({"logits": FIRST[:1], "ids": SECOND}, "output 0 has shape [1, 3], expected [2, 3]"),
        ({"logits": FIRST, "ids": FIRST[0]}, "output 2 has dtype float32, expected int64"),
    ],
)
def test_wrong_outputs(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "run.npz", **arrays)
    with pytest.raises(ValueError) as caught:
        read_runs([tmp_path / "run.npz"], EXPECTED)
    assert str(caught.value) == f"{tmp_path / 'run.npz'}: {message}"


def test_wrong_files(tmp_path: Path) -> None:
    (tmp_path / "run.npz").write_bytes(b"PK\3\4 cut off")
    with pytest.raises(ValueError, match=r"run.npz: not an .npz or .npy file of arrays"):
        read_runs([tmp_path / "run.npz"], EXPECTED)
    with pytest.raises(FileNotFoundError):
        read_runs([tmp_path / "none.npz"], EXPECTED)
    (tmp_path / "a-0.bin").write_bytes(FIRST.tobytes())
    with pytest.raises(ValueError, match=r"a-0.bin: 1 file, expected 2 outputs"):
        read_runs([tmp_path / "a-0.bin"], EXPECTED)
    (tmp_path / "a-1.bin").write_bytes(b"abc")
    with pytest.raises(ValueError, match=r"a-1.bin: 3 bytes, expected 32 of output 1, int64 \[4\]"):
        read_runs([tmp_path / "a-0.bin", tmp_path / "a-1.bin"], EXPECTED)


@pytest.mark.parametrize(
    "name", [("coreml", "cnn_fp16"), ("vulkan", "cnn_fp16"), ("tosa", "mlp_int8")]
)
def test_an_etdump_of_a_device(name: tuple[str, str], tmp_path: Path) -> None:
    """Its values are found by debug handle, its outputs and times, too."""
    program, inputs = recorded(*name)
    replay = Replay(program, inputs)
    values: dict[str, Any] = {}
    places = replay.places()
    outputs, _ = replay.run(lambda place, array: values.setdefault(place.id, array.copy()))
    with replay.method.tracing(values=True) as trace:
        replay.method.execute(inputs)
    trace.to_etdump(tmp_path / "d.etdp", tmp_path / "d.bin")
    info = replay.method._program.info()["methods"][0]
    dump = tmp_path / "d.etdp", tmp_path / "d.bin"
    [run] = read_dump(*dump, Expected.of(info, outputs), places)
    for actual, wanted in zip(run.outputs, outputs, strict=True):
        np.testing.assert_array_equal(actual, wanted)  # type: ignore[arg-type]
    nodes = {place.id for place in places.values() if place.kind == "node"}
    assert nodes <= set(run.values)
    for place, value in run.values.items():
        np.testing.assert_array_equal(value.reshape(values[place].shape), values[place])
    assert run.seconds is not None and run.seconds > 0 and run.node_seconds


def test_an_etdump_without_runs(tmp_path: Path) -> None:
    program, inputs = recorded("mlx", "mlp")
    replay = Replay(program, inputs)
    with replay.method.tracing() as trace:
        pass
    trace.to_etdump(tmp_path / "d.etdp")
    with pytest.raises(ValueError, match="d.etdp: no run of a method, expected one or more"):
        read_dump(tmp_path / "d.etdp", None, EXPECTED, replay.places())


def test_results_have_places() -> None:
    from executorch_c.blame.places import Numbering

    numbering, array = Numbering(), np.zeros(2)
    rows = [
        (("node", "conv", 0, 0, 2, 1, 7, 3, 0), "d1.3"),
        (("node", "conv", 0, 0, 2, 1, 7, 3, 1), "d1.3:1"),
        (("kernel", "add", 0, 0, 5, None, None, 0, 0), "i5"),
        (("kernel", "add", 0, 1, 5, None, None, 0, 0), "c1.i5"),
        (("kernel", "add", 0, 0, 5, None, None, 0, 0), "i5@1"),
        (("kernel", "add", 1, 0, 5, None, None, 0, 0), "in.i5"),
    ]
    for row, name in rows:
        assert numbering.place(Result(*row), array).id == name  # type: ignore[arg-type]
