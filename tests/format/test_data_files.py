""".ptd files: weights outside the program, in one or several files, and invalid ones."""

import os
import gc
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir._serialize.data_serializer import DataEntry, DataPayload
from executorch.exir.schema import ScalarType
from executorch.exir.tensor_layout import TensorLayout
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer

import executorch_c
from executorch_c import InvalidArgumentError, InvalidExternalDataError, Runtime
from tests.exports import manager
from tests.plans import Plan, build, load, reference

ONES = np.ones(4, np.float32)
WEIGHT = np.arange(4, dtype=np.float32)


def external(planned: bool = False, name: str | None = "weight") -> bytes:
    """Export x + weight; with planned memory, the weight is the initial value of a state."""
    plan = Plan()
    x, y = plan.input((4,)), plan.output((4,))
    place = {} if planned else {"at": None}
    weight = plan.tensor((4,), name=name, external=True, **place)
    plan.call("aten::add.out", x, weight, 1, y)
    if planned:
        plan.call("aten::copy_", weight, y, False, returns=[weight])
    return build(plan)


def data_file(**tensors: Any) -> bytes:
    """Return a .ptd with arrays, or with bytes without a layout."""
    kinds = {np.dtype(np.float32): ScalarType.FLOAT, np.dtype(np.float64): ScalarType.DOUBLE}
    buffers, rows = [], {}
    for i, (name, value) in enumerate(tensors.items()):
        layout = None
        if isinstance(value, np.ndarray):
            order = list(range(value.ndim))
            layout = TensorLayout(kinds[value.dtype], list(value.shape), order)
        elif isinstance(value, tuple):
            value, layout = value
        buffers.append(value if isinstance(value, bytes) else value.tobytes())
        rows[name] = DataEntry(i, 16, layout)
    return bytes(FlatTensorSerializer().serialize(DataPayload(buffers, rows)))


def run(data: Any, pte: bytes | None = None) -> Any:
    return load(pte or external(), data_path=data)(ONES)


# ---- from the exporter -----------------------------------------------------------------------


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 5)
        self.second = torch.nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


def exported(tag: Any) -> tuple[bytes, list[bytes], torch.nn.Module]:
    net = Net()
    done = manager(net, torch.ones(2, 4), external_constants=tag)
    return done.buffer, [bytes(data) for data in done._tensor_data.values()], net


def check(pte: Any, data: Any, net: torch.nn.Module) -> None:
    method = load(pte, data_path=data)
    x = torch.randn(2, 4)
    with torch.no_grad():
        np.testing.assert_allclose(method(x.numpy()), net(x).numpy(), rtol=1e-5, atol=1e-6)


def test_all_constants_in_one_file(tmp_path: Path) -> None:
    pte, files, net = exported(True)
    assert len(files) == 1
    program_path, data_path = tmp_path / "m.pte", tmp_path / "m.ptd"
    program_path.write_bytes(pte)
    data_path.write_bytes(files[0])
    for data in (
        *(data_path, str(data_path), files[0], bytearray(files[0]), [data_path], (files[0],)),
        memoryview(files[0]),
    ):
        check(program_path, data, net)
        check(pte, data, net)
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    outcome = reference(program_path, x, data_path=data_path)
    assert outcome.outputs is not None
    np.testing.assert_allclose(load(pte, data_path=files)(x), outcome.outputs[0], rtol=1e-5)


def test_constants_in_several_files() -> None:
    """A callable assigns a file to some of the constants."""

    def tag(node: torch.fx.Node) -> str | None:
        if "bias" in node.name:
            return None
        return "first" if "first" in node.name else "second"

    pte, files, net = exported(tag)
    assert len(files) == 2
    check(pte, files, net)
    check(pte, files[::-1], net)
    for alone in files:
        with pytest.raises(InvalidExternalDataError, match=r"weight.*1 data file"):
            load(pte, data_path=alone)
    info = Runtime.get().load_program(pte, data_path=files).info()
    assert sorted(row["source"] for row in info["named_data"]) == [0, 1]
    assert all("weight" in row["key"] for row in info["named_data"])


def test_missing_data_file() -> None:
    """Metadata can be read without the file; a method needs its weights."""
    pte, files, net = exported(True)
    loaded = Runtime.get().load_program(pte)
    assert loaded.metadata("forward").num_inputs() == 1
    with pytest.raises(InvalidExternalDataError, match="data_path="):
        loaded.load_method("forward")
    assert reference(pte, np.ones((2, 4), np.float32)).outputs is None
    check(pte, files, net)


# ---- by hand ---------------------------------------------------------------------------------


def test_external_constant() -> None:
    np.testing.assert_array_equal(run(data_file(weight=WEIGHT)), ONES + WEIGHT)
    weight = load(external(), data_path=data_file(weight=WEIGHT)).get_attribute("weight")
    assert not weight.flags.writeable
    np.testing.assert_array_equal(weight, WEIGHT)


def test_external_initial_state() -> None:
    method = load(external(planned=True), data_path=data_file(weight=WEIGHT))
    for _ in range(2):
        np.testing.assert_array_equal(method(ONES), ONES + WEIGHT)
        np.testing.assert_array_equal(method(ONES), 2 * ONES + WEIGHT)
        method.reset()
    method.set_attribute("weight", 5 * ONES)
    np.testing.assert_array_equal(method(ONES), 6 * ONES)


def test_constants_of_a_file_are_used_in_place() -> None:
    data = data_file(other=np.zeros(7, np.float32), weight=WEIGHT)
    method = load(external(), data_path=data)
    begin = np.frombuffer(data, np.uint8).ctypes.data
    address = method.get_attribute("weight").ctypes.data
    assert begin <= address < begin + len(data)
    del data
    gc.collect()
    np.testing.assert_array_equal(method(ONES), ONES + WEIGHT)


def test_unused_data_files() -> None:
    files = [data_file(weight=WEIGHT), data_file(a=ONES, b=b"raw bytes"), data_file(c=b"")]
    np.testing.assert_array_equal(run(files), ONES + WEIGHT)
    np.testing.assert_array_equal(run(files[::-1]), ONES + WEIGHT)
    loaded = Runtime.get().load_program(external(), data_path=files)
    rows = {(r["key"], r["size"], r["source"]) for r in loaded.info()["named_data"]}
    assert rows == {("weight", 16, 0), ("a", 16, 1), ("b", 9, 1), ("c", 0, 2)}


WRONG_LAYOUTS: dict[str, Any] = {
    "another dtype": WEIGHT.astype(np.float64),
    "another size": np.zeros(5, np.float32),
    "another rank": WEIGHT.reshape(2, 2),
    "no layout": WEIGHT.tobytes(),
    "unknown dtype": (WEIGHT.tobytes(), TensorLayout(ScalarType.QINT8, [4], [0])),
}


@pytest.mark.parametrize("case", WRONG_LAYOUTS)
def test_wrong_layout(case: str) -> None:
    data = data_file(weight=WRONG_LAYOUTS[case])
    sentence = r"'weight' is .*, the program expects float32 \(4,\)"
    with pytest.raises(InvalidExternalDataError, match=sentence):
        run(data)


def test_wrong_dim_order() -> None:
    plan = Plan()
    weight = plan.tensor((2, 3), name="weight", external=True, at=None, order=[1, 0])
    plan.take(weight)
    value = np.arange(6, dtype=np.float32)
    right = TensorLayout(ScalarType.FLOAT, [2, 3], [1, 0])
    wrong = TensorLayout(ScalarType.FLOAT, [2, 3], [0, 1])
    outputs = load(build(plan), data_path=data_file(weight=(value.tobytes(), right))).execute([])
    np.testing.assert_array_equal(outputs, [value.reshape(3, 2).T])
    with pytest.raises(InvalidExternalDataError, match="dim_order"):
        load(build(plan), data_path=data_file(weight=(value.tobytes(), wrong)))


@pytest.mark.parametrize(
    "layout",
    [
        *(([5], [0]), ([4, 2**31 - 1], [0, 1]), ([-4], [0]), ([4], [1]), ([4], [0, 1])),
        ([2, 2], [0, 0]),
    ],
)
def test_impossible_layouts(layout: tuple[list[int], list[int]]) -> None:
    """Rejected when the file is opened: more elements than bytes, or not a permutation."""
    entry = (WEIGHT.tobytes(), TensorLayout(ScalarType.FLOAT, *layout))
    with pytest.raises(InvalidExternalDataError, match=r"data file 0: named_data\[0\]"):
        Runtime.get().load_program(external(), data_path=data_file(weight=entry))


def test_duplicates() -> None:
    data = data_file(weight=WEIGHT)
    with pytest.raises(InvalidArgumentError, match="'weight' is in data file 0 and in data file 1"):
        run([data, data])


def test_errors_name_the_path(tmp_path: Path) -> None:
    """Of the file among several: damaged, with an impossible layout, with another tensor."""
    good, bad = (str(tmp_path / f"{name}.ptd") for name in ("good", "bad"))
    Path(good).write_bytes(data_file(weight=WEIGHT))

    def message(data: bytes, *files: str) -> str:
        Path(bad).write_bytes(data)
        with pytest.raises(executorch_c.Error) as caught:
            run([*files, bad])
        return str(caught.value)

    impossible = data_file(other=(WEIGHT.tobytes(), TensorLayout(ScalarType.FLOAT, [5], [0])))
    assert f"data file '{bad}': named_data[0]" in message(impossible, good)
    assert f"data file '{bad}': " in message(b"no data" * 100, good)
    assert f"in data file '{good}' and in data file '{bad}'" in message(
        Path(good).read_bytes(), good
    )
    assert f"data file '{bad}': external tensor 'weight' is" in message(
        data_file(weight=WEIGHT[:1])
    )
    deep = str(tmp_path.joinpath(*["folder" * 20] * 4, "last.ptd"))
    os.makedirs(os.path.dirname(deep))
    Path(deep).write_bytes(b"no data" * 100)
    with pytest.raises(InvalidExternalDataError, match=r"data file '\.\.\..*last.ptd': "):
        run([good, deep])


def test_tensor_without_a_name() -> None:
    with pytest.raises(InvalidExternalDataError, match=r"'\(no name\)'"):
        run(data_file(weight=WEIGHT), external(name=None))
    with pytest.raises(InvalidExternalDataError, match="'other'.*1 data file"):
        run(data_file(weight=WEIGHT), external(name="other"))


def test_mixed_up_files(tmp_path: Path) -> None:
    """A program as data, or data as a program: both errors name the kind of the file."""
    pte, data = external(), data_file(weight=WEIGHT)
    with pytest.raises(InvalidExternalDataError, match="data file 0: .* but a .pte program"):
        run(pte)
    with pytest.raises(executorch_c.InvalidProgramError, match="a .ptd file.*data_path"):
        run(data, data)
    with pytest.raises(executorch_c.AccessFailedError, match="none.ptd"):
        run(tmp_path / "none.ptd")
    for wrong in (3, [3], [None]):
        with pytest.raises(TypeError):
            run(wrong)
    with pytest.raises(ValueError, match="64 files"):
        run([data] * 65)


def test_truncation_and_trailing_bytes() -> None:
    data = data_file(weight=WEIGHT, other=ONES)
    np.testing.assert_array_equal(run(data + bytes(100)), ONES + WEIGHT)
    for length in [*range(0, 128), *range(128, len(data), 5), len(data) - 1]:
        with pytest.raises((InvalidExternalDataError, InvalidArgumentError)):
            run(data[:length])
    with pytest.raises(InvalidExternalDataError, match="cut off"):
        run(data[:-1])


def test_identifiers_and_headers() -> None:
    data = data_file(weight=WEIGHT)
    with pytest.raises(InvalidExternalDataError, match="'FT02', expected 'FT01'"):
        run(data[:4] + b"FT02" + data[8:])
    with pytest.raises(InvalidExternalDataError, match="no FH01 header"):
        run(data[:8] + b"FH02" + data[12:])
    with pytest.raises(InvalidExternalDataError, match="header has 39 bytes, expected at least 40"):
        run(data[:12] + struct.pack("<I", 39) + data[16:])


@pytest.mark.parametrize("field", range(4))
@pytest.mark.parametrize("value", [2**31, 2**63, 2**64 - 1, 2**64 - 64])
def test_numbers_of_the_header(field: int, value: int) -> None:
    """The reference adds two of the numbers without an overflow check."""
    data = bytearray(data_file(weight=WEIGHT))
    struct.pack_into("<Q", data, 16 + 8 * field, value)
    with pytest.raises(InvalidExternalDataError, match="the file has"):
        run(bytes(data))


def test_every_byte() -> None:
    """Any changed byte gives a result or an error."""
    data = data_file(weight=WEIGHT)
    pte = external()
    for at in range(len(data)):
        for value in (0, 0x7F, 0xFF):
            changed = bytearray(data)
            changed[at] = value
            try:
                run(bytes(changed), pte)
            except executorch_c.Error:
                continue


def test_misaligned_data() -> None:
    data = data_file(weight=WEIGHT)
    np.testing.assert_array_equal(run(memoryview(b"x" + data)[1:]), ONES + WEIGHT)


def test_data_for_a_program_that_needs_none() -> None:
    plan = Plan()
    plan.take(plan.input((4,)))
    np.testing.assert_array_equal(run(data_file(weight=WEIGHT), build(plan)), ONES)
    np.testing.assert_array_equal(run([], build(plan)), ONES)
    np.testing.assert_array_equal(run(None, build(plan)), ONES)
