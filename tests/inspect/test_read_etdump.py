"""ETDumps and ETRecords that are read: their tables are those of the official Inspector, values and
times those of the trace; files that are damaged, of other kinds, or hostile."""

import json
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from executorch_c import InvalidExternalDataError, Runtime, _core, _flatbuffers, cli
from executorch_c.inspect import ETDump, read_etdump, read_etrecord
from executorch_c.inspect.etdump_events import AllocationEvent, DebugEvent, ProfileEvent, TensorSpec
from executorch_c.inspect.etrecord import _module
from executorch_c.trace import Event, Trace
from tests.exports import Fn
from tests.inspect.test_etdump import Net, X, dump, inspector, model, official_files, traced

pytest.importorskip("flatbuffers")

__all__ = ["model"]  # a fixture

# ---- files of both runtimes ---------------------------------------------------------------------


@pytest.fixture(scope="module", params=["official", "ours"])
def recorded(request: pytest.FixtureRequest, model: Path) -> tuple[ETDump, Any, Trace | None]:
    """Return what is read of two calls, the official Inspector of the files, and the trace."""
    trace = None
    if request.param == "official":
        files = official_files(model, 2)
    else:
        trace = traced(Runtime.get().load_program(model / "model.pte").load_method("forward"), X, X)
        files = dump(trace, model)
    read = read_etdump(*files, etrecord=model / "model.etrecord")
    return read, inspector(files, model), trace


def approx(milliseconds: Any) -> Any:
    """Return times as the Inspector has them: it rounds starts and ends to 53 bits."""
    return pytest.approx(milliseconds, rel=1e-12, abs=1e-7)


def tensors(values: Any) -> Any:
    """Return values as torch's."""
    if isinstance(values, np.ndarray):
        return torch.from_numpy(values.copy())
    return [*map(tensors, values)] if isinstance(values, (list, tuple)) else values


def handles(value: Any) -> tuple[int, ...] | None:
    return (value,) if isinstance(value, int) else value and tuple(value)


def test_tables_are_those_of_the_official_inspector(
    recorded: tuple[ETDump, Any, Trace | None],
) -> None:
    read, official, _ = recorded
    frame = official.to_dataframe()
    rows: list[dict[str, Any]] = read.rows_as_dicts()
    assert set(frame.columns) < set(rows[0]) and len(rows) == len(frame) > 15
    own = ("raw", "stack_traces", "module_hierarchy", "debug_data", "op_types", "start_time")
    for name in [column for column in frame.columns if column not in own]:
        numbers = "(ms)" in name
        for row, cell in zip(rows, frame[name], strict=True):
            assert row[name] == (approx(cell) if numbers else cell), name
    for row, cells in zip(rows, frame.to_dict("records"), strict=True):
        assert row["raw"] == approx(cells["raw"])
        assert row["start_time"] == cells["start_time"] and row["op_types"] == cells["op_types"]
        for name in ("module_hierarchy", "stack_traces"):  # the Inspector appends to names
            assert {f"{node}_": text for node, text in row[name].items()} == cells[name]


def test_events_and_values_are_those_of_the_official_inspector(
    recorded: tuple[ETDump, Any, Trace | None],
) -> None:
    read, official, _ = recorded
    compared = 0
    for block, expected in zip(read.blocks, official.event_blocks, strict=True):
        assert block.name == expected.name and len(block.runs) in (1, 2)
        torch.testing.assert_close(tensors(block.outputs), expected.run_output)
        for row, event in zip(block.rows, expected.events, strict=True):
            torch.testing.assert_close(tensors(row.values), event.debug_data)
            assert [*row.metadata] == (event._delegate_debug_metadatas or [b""] * len(row.ticks))
            compared += len(row.values)
            if row.chain >= 0:
                assert handles(event.debug_handles) == row.debug_handles
                assert row.num_outputs == event.num_outputs
    assert compared > 15


def test_own_files_are_the_trace(model: Path, tmp_path: Path) -> None:
    trace = traced(Runtime.get().load_program(model / "model.pte").load_method("forward"), X, -X)
    runs = read_etdump(*dump(trace, tmp_path)).runs
    assert [run.name for run in runs] == ["Default", "Execute", "Execute 2"]
    for number, run in enumerate(runs[1:]):
        events = [event for event in trace.events if event.run == number]
        calls = [event for event in events if event.kind in ("kernel", "delegate")]
        timed = [e for e in run.events if isinstance(e, ProfileEvent) and e.name.endswith("_CALL")]
        assert [(e.start, e.duration) for e in timed] == [
            (e.start_ns, e.duration_ns) for e in calls
        ]
        results = [e for e in run.events if isinstance(e, DebugEvent) and e.delegate_id is None]
        equal_values([e.value for e in results if not e.is_output], calls)
        equal_values(run.outputs, [event for event in events if event.kind == "execute"])


def equal_values(entries: list[Any], events: Sequence[Event]) -> None:
    """Compare values of a file with the outputs of events in a trace."""
    flat = [part for one in entries for part in (one if isinstance(one, list) else [one])]
    for value, output in zip(flat, [o for e in events for o in e.outputs], strict=True):
        np.testing.assert_array_equal(value, output.data)  # type: ignore[arg-type]


def test_nodes_of_a_delegate_that_an_etrecord_knows(tmp_path: Path) -> None:
    from executorch.exir import to_edge_transform_and_lower
    from executorch.exir.backend.test.op_partitioner_demo import AddMulPartitionerDemo

    inputs = tuple(torch.randn(2, 2) for _ in range(3))
    exported = torch.export.export(Fn(lambda a, x, b: torch.sin(a) - (a @ x + b)), inputs)
    program = to_edge_transform_and_lower(
        exported, partitioner=[AddMulPartitionerDemo()], generate_etrecord=True
    ).to_executorch()
    program.get_etrecord().save(str(tmp_path / "model.etrecord"))
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    trace = traced(method, [*inputs])
    files = dump(trace, tmp_path)
    read = read_etdump(*files, etrecord=tmp_path / "model.etrecord")
    rows = [row for row in read.blocks[-1].rows if row.delegate_id is not None]
    assert [[node.operator for node in row.nodes] for row in rows] == [
        ["aten.mm.default"],
        ["aten.add.Tensor"],
    ]
    assert {row.backend for row in rows} == {"BackendWithCompilerDemo"}
    assert [(row.delegate_id,) for row in rows] == [row.debug_handles for row in rows]
    text = read.table()
    assert "aten.sub.Tensor" in text and max(map(len, text.splitlines())) <= 80


# ---- files of devices ---------------------------------------------------------------------------

ARRAYS = [
    *(np.array([[0, 1], [2, 3]], dtype) for dtype in "u1 i1 i2 i4 i8 u2 u4 u8".split()),
    *(np.array([[0, 1.5], [-2, np.inf]], dtype) for dtype in "f2 f4 f8 c8 c16".split()),
    np.array([True, False]),
    np.array([1.5, -2], ml_dtypes.bfloat16),
]


def tensor(array: np.ndarray, offset: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "scalar_type": _core._scalar_types()[array.dtype.name],
        "sizes": array.shape,
        "strides": [stride // array.itemsize for stride in array.strides],
        "offset": offset,
        **more,
    }


def logged(kind: int, **entry: Any) -> dict[str, Any]:
    return {"debug_event": {"instruction_id": 3, "debug_entry": {"val": kind, **entry}}}


def of_tensor(array: np.ndarray, **more: Any) -> dict[str, Any]:
    return logged(5, tensor=tensor(array, **more))


def timed(start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"profile_event": {"start_time": start, "end_time": end, **more}}


def flatbuffer(runs: list[Any], is_prefixed: bool = True, version: int = 0) -> bytes:
    return _flatbuffers.write(
        {"version": version, "run_data": runs},
        *(_core._file_tables("etdump"), "ETDump", "ETDumps"),
        identifier=b"ED00",
        is_prefixed=is_prefixed,
    )


def written(path: Path, events: list[Any], **options: Any) -> Path:
    path.write_bytes(flatbuffer([{"name": "Execute", "events": events}], **options))
    return path


def values(path: Path, buffer: bytes, *events: Any) -> list[Any]:
    """Return the values that are read of debug events."""
    (path / "a.bin").write_bytes(buffer)
    [run] = read_etdump(written(path / "a.etdp", [*events]), path / "a.bin").runs
    return [event.value for event in run.events if isinstance(event, DebugEvent)]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: array.dtype.name)
def test_dtypes(array: np.ndarray, tmp_path: Path) -> None:
    [value] = values(tmp_path, b"12" + array.tobytes(), of_tensor(array, offset=2))
    assert value.dtype == array.dtype and value.tobytes() == array.tobytes()
    assert not value.flags.writeable


def test_dtypes_that_numpy_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small, raw = np.zeros(2, np.uint8), b"\x38\xb8"
    kinds = (24, 15, 12, 22)
    events = [of_tensor(small, scalar_type=kind, sizes=[1], strides=[1]) for kind in kinds]
    names = [value.dtype.name for value in values(tmp_path, raw, *events)]
    assert names == ["float8_e4m3fn", "bfloat16", "int8", "uint16"]
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    names = [value.dtype.name for value in values(tmp_path, raw, *events)]
    assert names == ["uint8", "uint16", "int8", "uint16"]


def test_strides_lists_and_numbers(tmp_path: Path) -> None:
    base = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    last = base.transpose(0, 3, 1, 2)  # channels innermost in memory
    listed = logged(6, tensor_list={"tensors": [tensor(base), tensor(last[:, 1:], offset=4)]})
    numbers = [
        logged(1, int_value={"int_val": -(1 << 40)}),
        logged(2, bool_value={"bool_val": 1}),
        logged(3, float_value={"float_val": 0.1}),
        logged(4, double_value={"double_val": 0.1}),
        *(logged(1, int_value={}), logged(0), logged(7)),
    ]
    one, two, *rest = values(tmp_path, base.tobytes(), of_tensor(last), listed, *numbers)
    np.testing.assert_array_equal(one, last)
    np.testing.assert_array_equal(two[0], base)
    np.testing.assert_array_equal(two[1], last[:, 1:])
    assert rest == [-(1 << 40), True, float(np.float32(0.1)), 0.1, 0, None, None]
    empty = of_tensor(np.zeros((0, 3), np.int64), offset=-1)
    assert [value.shape for value in values(tmp_path, b"", empty)] == [(0, 3)]


def test_events_of_devices(tmp_path: Path) -> None:
    events = [
        {"allocation_event": {"allocator_id": 1, "allocation_size": -1}},
        {"allocation_event": {"allocator_id": 7}},
        timed(5, 9, name="native_call_add.out", chain_index=1, instruction_id=2),
        timed(5, 7, delegate_debug_id_int=0, delegate_debug_metadata=b"\0x", instruction_id=4),
        timed(2**32 - 5, 20, delegate_debug_id_str="n\x1b[2J", instruction_id=4),
        timed(1, 2**64 - 1 - 2**64, name="long"),
        logged(1, int_value={"int_val": 4}, output={"bool_val": True}),
        {"debug_event": {"chain_index": -1, "debug_entry": {"val": 1, "int_value": {}}}},
        {},
    ]
    for prefixed in (True, False):
        run = {"bundled_input_index": 2, "allocators": [{"name": "planned"}], "events": events}
        file = tmp_path / "a.etdp"
        file.write_bytes(flatbuffer([run], prefixed))
        read = read_etdump(file, time_scale="cycles")
        [run] = read.runs
        assert run.bundled_input_index == 2 and run.outputs == [4, 0] and len(run.events) == 8
        assert run.events[:2] == (
            AllocationEvent("planned", 1, 2**64 - 1),
            AllocationEvent("", 7, 0),
        )
        add, node, other, long = run.events[2:6]
        assert add == ProfileEvent("native_call_add.out", 1, 2, None, b"", 5, 9)
        assert node == ProfileEvent("", 0, 4, 0, b"\0x", 5, 7)
        assert isinstance(other, ProfileEvent) and other.duration == 24  # as the Inspector counts
        assert isinstance(long, ProfileEvent) and long.duration == 2**64 - 2
        assert [row.name for row in read.blocks[0].rows] == [
            "native_call_add.out",
            *("0", "n\x1b[2J", "long"),
        ]
        assert "\x1b" not in str(read) + read.to_html() and "bundled input 2" in read.table()
        assert "min cycles" in read.table() and read.rows_as_dicts()[0]["avg (cycles)"] == 4.0


def test_without_a_debug_buffer_values_have_shapes(tmp_path: Path) -> None:
    file = written(tmp_path / "a.etdp", [of_tensor(np.zeros((2, 3), np.float32), offset=8)])
    [event] = read_etdump(file).runs[0].events
    assert isinstance(event, DebugEvent)
    assert event.value == TensorSpec("float32", (2, 3), (3, 1), 8)
    assert read_etdump(file).rows_as_dicts()[0]["debug_data"] == ["(2, 3)"]


def test_repeated_events_count_and_other_runs_are_other_blocks(tmp_path: Path) -> None:
    step = timed(0, 3, name="native_call_add.out", instruction_id=1)
    runs = [[step], [step, step], [step], [timed(0, 1, name="other")]]
    data = flatbuffer([{"name": "Execute", "events": events} for events in runs])
    (tmp_path / "a.etdp").write_bytes(data)
    blocks = read_etdump(tmp_path / "a.etdp").blocks
    assert [[(row.name, row.ticks) for row in block.rows] for block in blocks] == [
        [("native_call_add.out", (3,) * 4)],
        [("other", (1,))],
    ]


# ---- hostile files ------------------------------------------------------------------------------

F4 = np.zeros((2, 3), np.float32)
HOSTILE: dict[str, tuple[list[Any], str]] = {
    "after the buffer": ([of_tensor(F4, offset=9)], "24 bytes at 9 of the debug buffer"),
    "before the buffer": ([of_tensor(F4, offset=-4)], "bytes at -4"),
    "overflow": ([of_tensor(F4, offset=2**63 - 4)], "debug buffer"),
    "huge sizes": ([of_tensor(F4, sizes=[2**40, 2**40])], "too large"),
    "huge and empty": ([of_tensor(F4, sizes=[0, 2**62])], "too large"),
    "huge strides": ([of_tensor(F4, strides=[2**62, 1])], "debug buffer"),
    "overlap": ([of_tensor(F4, sizes=[2, 2**40], strides=[0, 0])], "overlap"),
    "negative sizes": ([of_tensor(F4, sizes=[-1, 3])], "negative"),
    "negative strides": ([of_tensor(F4, strides=[-3, 1])], "negative"),
    "strides of another rank": ([of_tensor(F4, strides=[1])], "2 sizes and 1 strides"),
    "rank": ([of_tensor(F4, sizes=[1] * 40, strides=[1] * 40)], "40 sizes"),
    "dtype": ([of_tensor(F4, scalar_type=99)], "dtype 99 is unknown"),
    "kind": ([logged(8)], "value of kind 8"),
    "kind without value": ([logged(1)], "kind Int without int_value"),
    "no entry": ([{"debug_event": {}}], r"events\[0\].debug_event: it has no debug_entry"),
    "backwards": ([timed(2**40, 5)], f"ends at 5, before its start at {2**40}"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_meanings_of_hostile_files(name: str, tmp_path: Path) -> None:
    events, message = HOSTILE[name]
    with pytest.raises(InvalidExternalDataError, match=message) as error:
        values(tmp_path, bytes(32), *events)
    text = str(error.value)
    assert text.count(str(tmp_path / "a.etdp")) == 1 and "run_data[0].events[0]" in text


def test_other_and_damaged_files(tmp_path: Path) -> None:
    file = written(tmp_path / "a.etdp", [timed(1, 2, name="add")])
    data, pte = file.read_bytes(), b"\0\0\0\0ET12" + bytes(100)
    for content, message in [
        (b"", "0 bytes are too few"),
        (pte, "not an ETDump but a .pte program"),
        (data[:-1], "the file has .*: it was cut off"),
        (data[:8] + b"ED01" + data[12:], "this is not an ETDump"),
        (data[:4] + b"\xff\xff\xff\x7f" + data[8:], "ETDump: .* points outside"),
    ]:
        file.write_bytes(content)
        with pytest.raises(InvalidExternalDataError, match=message) as error:
            read_etdump(file)
        assert str(error.value).startswith(str(file))
    file.write_bytes(data + b"padding of a static buffer")
    assert read_etdump(file).runs[0].events
    with pytest.raises(InvalidExternalDataError, match="version 3, known are those up to 0"):
        read_etdump(written(file, [], version=3))
    with pytest.raises(FileNotFoundError):
        read_etdump(tmp_path / "no")
    with pytest.raises(ValueError, match="time_scale is 'h'"):
        read_etdump(file, time_scale="h")


def damaged(seed: int, data: bytes) -> bytes:
    """Return data with a few bytes changed, or cut off, or with a part repeated."""
    rng = random.Random(seed)
    copy = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(copy))
        if rng.random() < 0.5:
            copy[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        else:
            copy[at : at + 4] = rng.choice((0, 4, 2**31, 2**32 - 1, at)).to_bytes(4, "little")
    return bytes(copy[: rng.randrange(len(copy))] if rng.random() < 0.1 else copy)


def refused(read: Callable[[], object], path: Path) -> bool:
    try:
        read()
    except InvalidExternalDataError as error:
        assert str(error).startswith(str(path))
        return True
    return False


def test_5000_damaged_files(tmp_path: Path) -> None:
    events = [
        timed(5, 9, name="native_call_add.out", instruction_id=2),
        timed(6, 7, delegate_debug_id_str="node", delegate_debug_metadata=b"abc", instruction_id=2),
        of_tensor(F4),
        logged(6, tensor_list={"tensors": [tensor(F4), tensor(F4.T)]}),
        logged(4, double_value={"double_val": 2.5}, output={"bool_val": True}),
        {"allocation_event": {"allocator_id": 1, "allocation_size": 8}},
    ]
    file, buffer = written(tmp_path / "a.etdp", events), tmp_path / "a.bin"
    buffer.write_bytes(bytes(F4.nbytes))
    data, count = file.read_bytes(), 0
    for seed in range(5000):
        file.write_bytes(damaged(seed, data))
        count += refused(lambda: read_etdump(file, buffer).rows_as_dicts(), file)
    assert 1000 < count < 4900


# ---- ETRecords ----------------------------------------------------------------------------------


EDGE = "edge_dialect_exported_program/forward"


def record(path: Path, **entries: Any) -> Path:
    """Write an ETRecord; None leaves an entry out."""
    node = {"name": "add", "target": "torch.ops.aten.add.Tensor", "metadata": {"debug_handle": "4"}}
    content = {
        "ETRECORD_V0": "",
        "debug_handle_map": {"forward": {"2": [4]}},
        EDGE: {"graph_module": {"graph": {"nodes": [node]}}},
        **entries,
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, entry in content.items():
            if entry is not None:
                is_raw = isinstance(entry, (str, bytes))
                archive.writestr(name, entry if is_raw else json.dumps(entry))
    return path


def test_the_contents_of_an_etrecord(model: Path) -> None:
    read = read_etrecord(model / "model.etrecord")
    assert [*read.nodes] == [*read.debug_handles] == ["forward"]
    conv = read.nodes["forward"][0]
    assert conv.operator == "aten.convolution.default"
    assert (conv.debug_handle, conv.module) == (1, "conv")
    assert "self.conv(x)" in conv.stack_trace and "method forward: " in str(read)
    [inputs] = read.representative_inputs()
    torch.testing.assert_close(inputs, X)
    assert read.reference_outputs() is None
    for entry in ("exported_program", EDGE):
        actual = read.exported_program(entry).module()(X)
        torch.testing.assert_close(actual, Net().eval()(X), rtol=1e-4, atol=1e-5)
    with pytest.raises(KeyError, match="no entry 'other'"):
        read.exported_program("other")


def test_older_records_control_flow_and_node_names(tmp_path: Path) -> None:
    inner = {"name": "mul", "target": "aten.mul", "metadata": {}}
    arguments = [{"arg": {"as_graph": {"graph": {"nodes": [inner]}}}}, {"arg": None}]
    outer = {"name": "cond", "target": "torch.ops.higher_order.cond", "inputs": arguments}
    old = {"graph_module": {"graph": {"nodes": [outer]}}}
    entries = {EDGE: None, "edge_dialect_exported_program": old}
    npu_map = {"name": "Npu", "delegate_map": {"add": [4], "add_1": 5, "3": None}}
    delegates = {"forward": {"2": npu_map}}
    read = read_etrecord(record(tmp_path / "e", **entries, delegate_map=delegates))
    assert [node.operator for node in read.nodes["forward"]] == ["higher_order.cond", "aten.mul"]
    npu = read.delegates["forward"][2]
    assert npu.handles_of("a:add_1:OpId_7 (cycles)") == (5,) and npu.handles_of("add") == (4,)
    assert npu.handles_of(3) is npu.handles_of("sub") is None
    assert _module("L,slice_indices(0, [1,2]),torch.nn.ReLU") == (
        "L",
        ("slice_indices(0, [1,2])", "torch.nn.ReLU"),
    )


@pytest.mark.parametrize(
    "entries, message",
    [
        ({"ETRECORD_V0": None}, "this is not an ETRecord: the zip has no entry ETRECORD_V0"),
        ({"debug_handle_map": "{"}, "debug_handle_map: the ETRecord is damaged: JSONDecodeError"),
        ({"debug_handle_map": {"forward": {"x": 1}}}, "debug_handle_map: the ETRecord is damaged"),
        ({"debug_handle_map": {"forward": {"1": {}}}}, "debug_handle_map: the ETRecord is damaged"),
        ({"debug_handle_map": [1]}, "debug_handle_map: the ETRecord is damaged"),
        ({"delegate_map": {"forward": {"1": 2}}}, "delegate_map: the ETRecord is damaged"),
        ({"delegate_map": "[" * 100_000}, "delegate_map: the ETRecord is damaged: RecursionError"),
        ({EDGE: {}}, "forward: the ETRecord is damaged: KeyError"),
        ({EDGE: b"\xff"}, "forward: the ETRecord is damaged"),
    ],
)
def test_damaged_etrecords(entries: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidExternalDataError, match=message) as error:
        read_etrecord(record(tmp_path / "e", **entries))
    assert str(error.value).startswith(str(tmp_path / "e"))


def test_hostile_etrecords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = record(tmp_path / "e", representative_inputs=b"\x80\x04}q.", exported_program=b"{}")
    read = read_etrecord(file)
    with pytest.raises(InvalidExternalDataError, match="representative_inputs cannot be read"):
        read.representative_inputs()
    with pytest.raises(InvalidExternalDataError, match="exported_program_state_dict: "):
        read.exported_program()
    data = file.read_bytes()
    for seed in range(500):
        file.write_bytes(damaged(seed, data))
        refused(lambda: read_etrecord(file), file)
    monkeypatch.setattr("executorch_c.inspect.etrecord.MAX_JSON_BYTES", 20)
    file.write_bytes(data)
    with pytest.raises(InvalidExternalDataError, match="bytes, at most 20 are read"):
        read_etrecord(file)
    file.write_bytes(b"no zip")
    with pytest.raises(InvalidExternalDataError, match="this is not an ETRecord: File is"):
        read_etrecord(file)


def test_the_method_of_an_etrecord(tmp_path: Path) -> None:
    maps = {"encode": {"2": 1}, "decode": {"2": 4}}
    file = written(tmp_path / "a.etdp", [timed(1, 2, name="native_call_add.out", instruction_id=2)])
    two = record(tmp_path / "two", debug_handle_map=maps)
    with pytest.raises(ValueError, match="no method 'forward', but encode, decode: pass `method`"):
        read_etdump(file, etrecord=two)
    [row] = read_etdump(file, etrecord=read_etrecord(two), method="decode").blocks[0].rows
    assert row.debug_handles == (4,) and not row.nodes
    [row] = read_etdump(file, etrecord=record(tmp_path / "one")).blocks[0].rows
    assert [node.operator for node in row.nodes] == ["aten.add.Tensor"]


# ---- the package --------------------------------------------------------------------------------


def test_reading_needs_numpy_only(tmp_path: Path) -> None:
    file = written(tmp_path / "a.etdp", [of_tensor(F4), timed(1, 2, name="add", instruction_id=2)])
    (tmp_path / "a.bin").write_bytes(bytes(24))
    record(tmp_path / "e", representative_inputs=b"")
    code = """if True:
        import sys
        sys.modules |= dict.fromkeys(("torch", "flatbuffers", "pandas", "ml_dtypes", "executorch"))
        from executorch_c.inspect import read_etdump, read_etrecord
        print(read_etdump("a.etdp", "a.bin", etrecord="e"))
        try:
            read_etrecord("e").representative_inputs()
        except ImportError as error:
            print(error)
    """
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=True)
    assert "add" in done.stdout and "executorch_c[check]" in done.stdout


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(written(tmp_path / "a.etdp", [timed(1000, 3000, name="native_call_add.out")]))
    assert cli.main(["etdump", file]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{file}: 1 run with 1 event",
        "",
        "Execute: 1 run",
        "  name     calls  min us  avg us  max us",
        "  add.out      1     2.0     2.0     2.0",
    ]
    etrecord = str(record(tmp_path / "e"))
    page = tmp_path / "page.html"
    assert cli.main(["etdump", file, "--etrecord", etrecord, "--json", "--html", str(page)]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["avg (ms)"] == 0.002
    assert "By operator" in page.read_text()
    assert cli.main(["etdump", etrecord]) == 1
    assert "this is not an ETDump but an ETRecord" in capsys.readouterr().err
