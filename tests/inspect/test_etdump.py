"""ETDumps in the official Inspector, with ETRecords, compared with those of the official
runtime."""

import io
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from executorch_c import Method, Program, Runtime
from executorch_c.devtools import write_etdump
from executorch_c.inspect import etdump
from executorch_c.trace import Trace
from tests import fbs
from tests.exports import Fn, export

official_devtools = pytest.importorskip("executorch.devtools")

Files = tuple[Path, Path]


class Net(nn.Module):
    """Operators with one and three results, a list of results, and a bool one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.LayerNorm(8)
        self.linear = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.norm(torch.relu(self.conv(x)))
        a, b = torch.split(y, 2, dim=1)
        z = self.linear((a + b).mean((1, 2)))
        return torch.softmax(z, -1), z > 0


X = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module", params=["portable", "xnnpack"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with model.pte and its ETRecord, with and without delegates."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    folder = tmp_path_factory.mktemp(request.param)
    partitioner = [XnnpackPartitioner()] if request.param == "xnnpack" else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(Net().eval(), (X,))
        edge = to_edge_transform_and_lower(
            exported, partitioner=partitioner, generate_etrecord=True
        )
        program = edge.to_executorch()
        record = program.get_etrecord()
        record.update_representative_inputs([X])
        record.save(str(folder / "model.etrecord"))
    (folder / "model.pte").write_bytes(program.buffer)
    return folder


def inspector(files: Files, folder: Path | None = None) -> Any:
    etrecord = str(folder / "model.etrecord") if folder else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it creates tensors from read-only bytes
        return official_devtools.Inspector(
            str(files[0]), debug_buffer_path=str(files[1]), etrecord=etrecord
        )


def dump(trace: Trace, folder: Path) -> Files:
    files = folder / "ours.etdp", folder / "ours.bin"
    trace.to_etdump(*files)
    return files


def traced(method: Method, *calls: Any, **options: Any) -> Trace:
    with method.tracing(values=True, **options) as trace:
        for inputs in calls:
            method.execute(inputs if isinstance(inputs, list) else [inputs])
    return trace


def official_files(folder: Path, runs: int, x: Tensor = X) -> Files:
    from executorch.runtime import Runtime as Official

    files = folder / "official.etdp", folder / "official.bin"
    program = Official.get().load_program(
        str(folder / "model.pte"), enable_etdump=True, debug_buffer_size=1_000_000
    )
    method = program.load_method("forward")
    for _ in range(runs):
        method.execute([x])
    program.write_etdump_result_to_file(*map(str, files))
    return files


@pytest.fixture(scope="module")
def both(model: Path) -> tuple[Any, Any]:
    """Return Inspectors of two calls in this runtime, and of two calls in the official one."""
    method = Runtime.get().load_program(model / "model.pte").load_method("forward")
    files = dump(traced(method, X, X), model)
    return inspector(files, model), inspector(official_files(model, 2), model)


def block(inspected: Any, name: str = "Execute") -> Any:
    [match] = [one for one in inspected.event_blocks if one.name == name]
    return match


def written(program: Program, folder: Path) -> Any:
    """Return an Inspector of what a program has recorded."""
    files = folder / "a.etdp", folder / "a.bin"
    program.write_etdump_result_to_file(*files)
    return inspector(files)


def values_of(inspected: Any, operator: str, run: str = "Execute") -> Any:
    """Return the values of the only call of an operator."""
    [event] = [e for e in block(inspected, run).events if e.name == f"native_call_{operator}"]
    return event.debug_data


def common_facts(event: Any) -> tuple[object, ...]:
    """Return the properties that both runtimes report, without the version-dependent names of
    XNNPACK's nodes."""
    name = "node" if event.is_delegated_op else event.name
    return (
        *(name, event.op_types, event.debug_handles, event.num_outputs),
        *(event.delegate_backend_name, event._instruction_id, sorted(event.module_hierarchy)),
        len(event.perf_data.raw),
    )


def test_same_events_as_the_official_runtime(both: tuple[Any, Any]) -> None:
    ours, theirs = both
    assert [*map(common_facts, block(ours).events)] == [*map(common_facts, block(theirs).events)]
    nodes = [[e.name for e in block(one).events if e.is_delegated_op] for one in both]
    assert [n[:3] for n in nodes[0] if "Elementwise" not in n] == [
        n[:3] for n in nodes[1] if "Add" not in n
    ]


def test_same_values_as_the_official_runtime(both: tuple[Any, Any]) -> None:
    compared = 0
    for a, b in zip(block(both[0]).events, block(both[1]).events, strict=True):
        if a.is_delegated_op:
            continue  # the official delegate reports times only
        wanted = b.debug_data[-len(a.debug_data) :]  # it reports inputs of delegates, too
        assert len(a.debug_data) == (a.num_outputs if a.name == "DELEGATE_CALL" else len(wanted))
        torch.testing.assert_close(a.debug_data, wanted)
        compared += len(wanted)
    assert compared >= 10


def test_same_numeric_gaps_as_the_official_runtime(both: tuple[Any, Any]) -> None:
    ours, theirs = (one.calculate_numeric_gap("MSE") for one in both)
    columns = ["aot_ops", "runtime_ops"]
    assert len(ours) >= 7 and ours[columns].equals(theirs[columns])
    gaps = [np.concatenate(table["gap"].to_list()) for table in (ours, theirs)]
    np.testing.assert_allclose(gaps[0], gaps[1], rtol=0, atol=1e-10)


def test_tables_and_totals(both: tuple[Any, Any]) -> None:
    ours, theirs = both
    frame = ours.to_dataframe()
    assert list(frame.columns) == list(theirs.to_dataframe().columns)
    run = frame[frame["event_block_name"] == "Execute"]
    call = run[run["event_name"] == "Method::execute"]["avg (ms)"].item()
    inner = run[~run["event_name"].isin(["Method::execute", "OPERATOR_CALL"])]
    outer = inner[~inner["is_delegated_op"].astype(bool)]["avg (ms)"].sum()
    assert 0 < outer < call < 1000
    for module in ("conv", "norm", "linear"):
        assert 0 < ours.find_total_for_module(module) <= outer
    assert ours.find_total_for_module("no such module") == 0
    text = io.StringIO()
    ours.print_data_tabular(file=text)
    assert "native_call_native_layer_norm.out" in text.getvalue()


def test_nodes_have_debug_handles(both: tuple[Any, Any], model: Path) -> None:
    nodes = [e for e in block(both[0]).events if e.is_delegated_op]
    assert bool(nodes) == (model.name.startswith("xnnpack"))
    metadata = {e.name.split("(")[0]: e.raw_delegate_debug_metadatas[0] for e in nodes}
    if nodes:
        assert re.fullmatch(rb'\{"debug_handle": \d+\}', metadata["Softmax "])


def test_outputs_of_the_run_and_loading(both: tuple[Any, Any]) -> None:
    ours, theirs = both
    torch.testing.assert_close(block(ours).run_output, [*Net().eval()(X)])
    assert len(block(theirs).run_output) == 2
    names = [[event.name for event in block(one, "Default").events] for one in both]
    assert names[0] == names[1] == ["Method::init", "Program::load_method"]
    assert all(e.perf_data.avg > 0 for e in block(ours, "Default").events)


def test_sizes_that_are_computed(tmp_path: Path) -> None:
    def fn(x: Tensor) -> tuple[Tensor, int]:
        return torch.relu(x.reshape(x.shape[0] * x.shape[1], -1)), x.shape[0] + 1

    x = torch.randn(3, 2, 4)
    dim = torch.export.Dim("rows", min=2, max=8)
    (tmp_path / "model.pte").write_bytes(export(fn, x, dynamic_shapes=(({0: dim},),)))
    method = Runtime.get().load_program(tmp_path / "model.pte").load_method("forward")
    both = [inspector(dump(traced(method, x), tmp_path)), inspector(official_files(tmp_path, 1, x))]
    # The official runtime writes a number among the run's outputs without its type.
    ours, theirs = ([common_facts(e) for e in block(one).events if e.perf_data] for one in both)
    assert ours == theirs and sum(event[0] == "OPERATOR_CALL" for event in ours) > 3
    tensor, rows = block(both[0]).run_output
    torch.testing.assert_close(tensor, torch.relu(x.reshape(6, 4)))
    assert rows == 4


def test_nodes_that_an_etrecord_knows(tmp_path: Path) -> None:
    from executorch.exir import to_edge_transform_and_lower
    from executorch.exir.backend.test.op_partitioner_demo import AddMulPartitionerDemo

    inputs = tuple(torch.randn(2, 2) for _ in range(3))
    exported = torch.export.export(Fn(lambda a, x, b: torch.sin(a) - (a @ x + b)), inputs)
    program = to_edge_transform_and_lower(
        exported, partitioner=[AddMulPartitionerDemo()], generate_etrecord=True
    ).to_executorch()
    record = program.get_etrecord()
    record.update_representative_inputs([*inputs])
    record.save(str(tmp_path / "model.etrecord"))
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    seen = inspector(dump(traced(method, [*inputs]), tmp_path), tmp_path)
    nodes = [e for e in block(seen).events if e.is_delegated_op]
    assert [node.op_types for node in nodes] == [["aten.mm.default"], ["aten.add.Tensor"]]
    for node in nodes:
        assert [*node.debug_handles] == [node.delegate_debug_identifier]
        assert node.delegate_backend_name == "BackendWithCompilerDemo"
    gaps = seen.calculate_numeric_gap("L1")
    assert [ops for ops in gaps["aot_ops"]] == [["sin"], ["matmul"], ["add"], ["sub"]]
    assert max(np.concatenate(gaps["gap"].to_list())) < 1e-5


# ---- programs that record ---------------------------------------------------------------------


def test_programs_record_as_in_the_official_runtime(model: Path, both: tuple[Any, Any]) -> None:
    program = Runtime.get().load_program(
        model / "model.pte", enable_etdump=True, debug_buffer_size=100_000
    )
    assert program.has_etdump
    assert not program.load_method("forward")._program.has_etdump
    method = program.load_method("forward")
    method.execute([X]), method(X)
    files = model / "program.etdp", model / "program.bin"
    program.write_etdump_result_to_file(*files)
    seen = inspector(files, model)
    assert [b.name for b in seen.event_blocks] == ["Default", "Execute"]
    for name in ("Default", "Execute"):
        assert [*map(common_facts, block(seen, name).events)] == [
            *map(common_facts, block(both[1], name).events)
        ]
    torch.testing.assert_close(block(seen).run_output, block(both[1]).run_output)
    assert files[1].stat().st_size <= 100_000
    method.execute([X])
    program.write_etdump_result_to_file(*files)
    assert {len(e.perf_data.raw) for b in inspector(files).event_blocks for e in b.events} == {1}


def test_the_module_of_the_official_name_records(tmp_path: Path) -> None:
    from executorch_c import portable_lib

    (tmp_path / "m.pte").write_bytes(export(step, V))
    files = [str(tmp_path / name) for name in ("a.etdp", "a.bin")]
    module = portable_lib._load_for_executorch(
        str(tmp_path / "m.pte"), enable_etdump=True, debug_buffer_size=1000
    )
    assert module.has_etdump()
    module.forward([V])
    module.write_etdump_result_to_file(*files)
    seen = inspector((Path(files[0]), Path(files[1])))
    torch.testing.assert_close(block(seen).run_output, [step(V)])
    module.forward([V])
    module.write_etdump_result_to_file(files[0])
    with pytest.warns(UserWarning, match="Output Buffer not found"):
        assert not block(official_devtools.Inspector(files[0])).run_output


def recording(debug_buffer_size: int = 0, **methods: tuple[Any, Any]) -> Program:
    pte = export(methods or {"forward": (step, (V,))})
    return Runtime.get().load_program(pte, enable_etdump=True, debug_buffer_size=debug_buffer_size)


def test_values_are_bounded_by_the_debug_buffer(tmp_path: Path) -> None:
    program = recording()
    program.load_method("forward")(V)
    program.write_etdump_result_to_file(tmp_path / "a.etdp", tmp_path / "a.bin")
    assert not (tmp_path / "a.bin").exists()
    program = recording(2 * V.nbytes)
    program.load_method("forward")(V)
    seen = written(program, tmp_path)
    assert [bool(e.debug_data) for e in block(seen).events] == [True, True, True, True, False]
    assert block(seen).run_output == []
    assert (tmp_path / "a.bin").stat().st_size <= 2 * V.nbytes + 16


def test_methods_of_a_program_are_recorded_together(tmp_path: Path) -> None:
    program = recording(1000, forward=(step, (V,)), other=(torch.sigmoid, (V,)))
    forward, other = program.load_method("forward"), program.load_method("other", seed=1)
    assert program.load_method("forward") is forward
    other(V), forward(V), other(V)
    del other  # its effect stays
    seen = written(program, tmp_path)
    runs = [(b.name, len(b.events), len(b.events[0].perf_data.raw)) for b in seen.event_blocks]
    assert runs == [("Default", 2, 2), ("Execute", 3, 2), ("Execute", 5, 1)]


def test_tracing_while_recording(tmp_path: Path) -> None:
    program = recording(1000)
    method = program.load_method("forward")
    method(V)
    with method.tracing() as trace:
        method(V)
    method(V)
    assert trace.runs == 1
    seen = written(program, tmp_path)
    assert {len(e.perf_data.raw) for e in block(seen).events} == {2}


def test_a_file_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    program = recording(1000)
    program.load_method("forward")(V)
    with pytest.raises(FileNotFoundError):
        program.write_etdump_result_to_file(tmp_path / "no" / "a.etdp", tmp_path / "a.bin")
    with pytest.raises(TypeError):
        program.write_etdump_result_to_file(tmp_path / "a.etdp", 3.5)  # type: ignore[arg-type]
    assert block(written(program, tmp_path)).run_output


# ---- other values, other calls ----------------------------------------------------------------


def method_of(fn: Callable[..., object], *inputs: Tensor) -> Method:
    return Runtime.get().load_program(export(fn, *inputs)).load_method("forward")


def step(x: Tensor) -> Tensor:
    return torch.relu(x) * x


V = torch.linspace(-1, 1, 6).reshape(2, 3)


def test_runs_with_different_values_are_separate_blocks(tmp_path: Path) -> None:
    method = method_of(step, V)
    seen = inspector(dump(traced(method, V, -V, V, V * torch.nan, V), tmp_path))
    runs = [(b.name, len(b.events[0].perf_data.raw)) for b in seen.event_blocks]
    assert runs[-3:] == [("Execute", 3), ("Execute 2", 1), ("Execute 3", 1)]
    for name, x in (("Execute", V), ("Execute 2", -V), ("Execute 3", V * torch.nan)):
        values = values_of(seen, "relu.out", name)
        torch.testing.assert_close(values, [torch.relu(x)], equal_nan=True)


def test_without_values_runs_are_one_block(tmp_path: Path) -> None:
    method = method_of(step, V)
    with method.tracing() as trace:
        pass
    assert not [b for b in inspector(dump(trace, tmp_path)).event_blocks if b.name == "Execute"]
    with method.tracing() as trace:
        method(V), method(-V)
    seen = inspector(dump(trace, tmp_path))
    assert [len(e.perf_data.raw) for e in block(seen).events] == [2] * 5
    assert not any(e.debug_data for e in block(seen).events)
    assert (tmp_path / "ours.bin").read_bytes() == b""


def test_without_debug_buffer_there_are_times(tmp_path: Path) -> None:
    trace = traced(method_of(step, V), V)
    trace.to_etdump(tmp_path / "a.etdp")
    with pytest.warns(UserWarning, match="Output Buffer not found"):
        seen = official_devtools.Inspector(str(tmp_path / "a.etdp"))
    assert len(block(seen).events) == 5 and not any(e.debug_data for e in block(seen).events)


@pytest.mark.parametrize(
    "dtype",
    [
        *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8),
        *(torch.int16, torch.int32, torch.int64, torch.bool),
    ],
    ids=str,
)
def test_dtypes(dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.tensor([[1, 0, 3], [4, 5, 0]]).to(dtype)
    seen = inspector(dump(traced(method_of(lambda x: (x.T.clone(), x == 0), x), x), tmp_path))
    [zero] = values_of(seen, "eq.Scalar_out")
    [copy] = values_of(seen, "permute_copy.out")
    torch.testing.assert_close(zero, x == 0)
    torch.testing.assert_close(copy, x.T.float() if dtype == torch.bfloat16 else x.T)


def test_what_the_inspector_cannot_read_is_left_out(tmp_path: Path) -> None:
    x = torch.tensor([1 + 2j, 3 - 1j])
    trace = traced(method_of(lambda x: (x + x, torch.abs(x)), x), x.numpy())
    seen = inspector(dump(trace, tmp_path))
    assert values_of(seen, "add.out") == []
    torch.testing.assert_close(values_of(seen, "abs.out"), [x.abs()])


@pytest.mark.parametrize(
    "x",
    [torch.tensor(2.5), torch.zeros(0, 3), torch.zeros(3, 0, 2)],
    ids=["0-d", "empty", "empty inside"],
)
def test_odd_shapes(x: Tensor, tmp_path: Path) -> None:
    seen = inspector(dump(traced(method_of(step, x), x), tmp_path))
    torch.testing.assert_close(values_of(seen, "relu.out"), [torch.relu(x)])


def test_channels_last(tmp_path: Path) -> None:
    conv = nn.Conv2d(3, 2, 1).eval()
    x = torch.randn(1, 3, 4, 5).to(memory_format=torch.channels_last)
    trace = traced(method_of(conv, x), x)
    assert {v.dim_order for e in trace.events for v in e.outputs} == {(0, 2, 3, 1)}
    seen = inspector(dump(trace, tmp_path))
    convolved = conv(x).detach().contiguous()
    torch.testing.assert_close(values_of(seen, "convolution.out"), [convolved])


def test_control_flow_and_shapes_that_are_computed(tmp_path: Path) -> None:
    def fn(p: Tensor, x: Tensor) -> Tensor:
        return torch.cond(p, lambda x: x + 1, lambda x: x * 2, (x,))  # type: ignore[no-any-return]

    method = method_of(fn, torch.tensor(True), V)
    trace = traced(method, [torch.tensor(True), V], [torch.tensor(False), V])
    seen = inspector(dump(trace, tmp_path))
    names = [{e.name for e in b.events} for b in seen.event_blocks if b.name == "Execute"]
    assert len(names) == 2
    assert "native_call_add.out" in names[0] and "native_call_mul.out" in names[1]
    assert {"JF_CALL", "MOVE_CALL", "Method::execute"} <= names[0]


# ---- traces that lack something ---------------------------------------------------------------


def test_a_run_that_failed(tmp_path: Path) -> None:
    table = nn.Embedding(4, 3).eval()
    method = method_of(lambda i: table(i + 1), torch.tensor([1]))
    with method.tracing(values=True) as trace:
        with pytest.raises(RuntimeError):
            method(np.array([9]))
        method(np.array([0]))
    seen = inspector(dump(trace, tmp_path))
    failed, fine = [b for b in seen.event_blocks if b.name == "Execute"]
    names = [e.name for e in failed.events]
    assert names[-1] == "OPERATOR_CALL" and "Method::execute" not in names
    assert [e.debug_data for e in failed.events if "embedding" in e.name] == [[]]
    [result] = [e.debug_data for e in fine.events if "embedding" in e.name]
    torch.testing.assert_close(result, [table(torch.tensor([1])).detach()])


def test_values_that_did_not_fit(tmp_path: Path) -> None:
    method = method_of(lambda x: torch.relu(torch.split(x, 60)[1]).sum(), torch.ones(80, 100))
    trace = traced(method, torch.ones(80, 100), max_bytes=34_000)
    assert trace.dropped_values and not trace.dropped_events
    seen = inspector(dump(trace, tmp_path))
    assert values_of(seen, "split_with_sizes_copy.out") == values_of(seen, "relu.out") == []
    assert len(values_of(seen, "sum.IntList_out")) == 1


def test_traces_of_two_methods_in_one_file(tmp_path: Path) -> None:
    traces = [traced(method_of(fn, V), V) for fn in (step, torch.sigmoid)]
    write_etdump(traces, tmp_path / "a.etdp", tmp_path / "a.bin")
    runs = inspector((tmp_path / "a.etdp", tmp_path / "a.bin")).event_blocks[1:]
    for run, fn in zip(runs, (step, torch.sigmoid), strict=True):
        torch.testing.assert_close(run.run_output, [fn(V)])


def test_missing_flatbuffers_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = traced(method_of(step, V), V)
    with pytest.raises(FileNotFoundError):
        trace.to_etdump(tmp_path / "no" / "a.etdp")
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    with pytest.raises(ImportError, match=r"executorch_c\[devtools\]"):
        trace.to_etdump(tmp_path / "a.etdp")


def test_kinds_of_values_are_those_of_the_schema() -> None:
    text = fbs.texts("executorch.devtools.etdump", "etdump_schema_flatcc.fbs")
    [kinds] = re.findall(r"enum ValueType : byte \{(.*?)\}", text)
    assert tuple(re.findall(r"\w+", kinds)) == etdump.KINDS
