"""Traces of calls: events, values, the memory limit, the table, files for Chrome."""

import gc
import json
import re
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import executorch_c
from executorch_c import Method
from executorch_c.trace import Trace
from tests.at_once import run_all
from tests.exports import export
from tests.plans import Plan, build
from tests.resident import resident_bytes

X = torch.linspace(-2, 2, 12).reshape(3, 4)


def load(fn: Callable[..., object], *inputs: torch.Tensor) -> Method:
    return executorch_c.Runtime.get().load_program(export(fn, *inputs)).load_method("forward")


def steps(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.relu(x) @ x.T, -1)


@pytest.fixture
def method() -> Method:
    return load(steps, X)


def kernels(trace: Trace) -> list[str]:
    return [event.name for event in trace.events if event.kind == "kernel"]


def test_events(method: Method) -> None:
    before = time.monotonic_ns()
    with method.tracing() as trace:
        assert trace.events == () and trace.runs == 0
        y = method(X.numpy())
    after = time.monotonic_ns()
    np.testing.assert_allclose(y, steps(X), rtol=1e-5)
    call, *inner = trace.events
    assert (call.kind, call.name, call.instruction) == ("execute", "forward", None)
    assert not any(event.failed for event in trace.events)
    assert [event.instruction for event in inner] == list(range(len(inner)))
    assert {"aten::relu.out", "aten::mm.out", "aten::_softmax.out"} <= set(kernels(trace))
    times = [(e.start_ns, e.start_ns + e.duration_ns) for e in inner]
    assert times == sorted(times) and all(a[1] <= b[0] for a, b in zip(times, times[1:]))
    assert before < call.start_ns < times[0][0] < times[-1][1] <= call.start_ns + call.duration_ns
    assert call.start_ns + call.duration_ns < after
    relu = next(e for e in inner if e.name == "aten::relu.out")
    assert [(v.name, v.dtype, v.shape, v.dim_order) for v in relu.values] == [
        ("self", "float32", (3, 4), (0, 1)),
        ("out", "float32", (3, 4), (0, 1)),
    ]


def test_nothing_is_recorded_outside(method: Method) -> None:
    method(X.numpy())
    with method.tracing() as first:
        method(X.numpy())
        method.execute([X.numpy()])
    method(X.numpy())
    with method.tracing() as second:
        pass
    assert (first.runs, second.runs) == (2, 0)
    assert [event.run for event in first.events if event.kind == "execute"] == [0, 1]
    assert "0 calls of 'forward'" in str(second)


def test_values_are_those_of_eager(method: Method) -> None:
    with method.tracing(values=True) as trace:
        method(X.numpy())
        method(-X.numpy())
    for run, x in enumerate((X, -X)):
        results = {e.name: e.outputs[0].data for e in trace.events if e.run == run and e.outputs}
        np.testing.assert_array_equal(results["aten::relu.out"], torch.relu(x))
        np.testing.assert_allclose(results["aten::mm.out"], torch.relu(x) @ x.T, rtol=1e-5)
        np.testing.assert_allclose(results["aten::_softmax.out"], steps(x), rtol=1e-5)
        assert not any(array.flags.writeable for array in results.values())


def test_values_outlive_everything(method: Method) -> None:
    with method.tracing(values=True) as trace:
        method(X.numpy())
    relu = next(e.outputs[0].data for e in trace.events if e.name == "aten::relu.out")
    del trace, method
    gc.collect()
    np.testing.assert_array_equal(relu, torch.relu(X))


@pytest.mark.parametrize("memory_format", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, torch.complex64, torch.bool])
def test_dtypes_and_layouts(dtype: torch.dtype, memory_format: torch.memory_format) -> None:
    x = (torch.arange(2 * 3 * 4 * 5) % 7).reshape(2, 3, 4, 5).to(dtype)
    x = x.to(memory_format=memory_format)
    method = load(lambda x: x.clone(), x)
    with method.tracing(values=True) as trace:
        method(x.numpy())
    [value] = trace.events[-1].outputs
    np.testing.assert_array_equal(value.data, x)
    assert value.data.dtype == x.numpy().dtype and value.data.strides == x.numpy().strides
    last = memory_format is torch.channels_last
    assert value.dim_order == ((0, 2, 3, 1) if last else (0, 1, 2, 3))


def test_lists_and_numbers() -> None:
    method = load(lambda a, b: torch.cat([a, b]) * a.shape[0], X, X + 1)
    with method.tracing(values=True) as trace:
        method(X.numpy(), X.numpy() + 1)
    cat = next(e for e in trace.events if e.name == "aten::cat.out")
    assert [value.name for value in cat.inputs] == ["tensors[0]", "tensors[1]"]


def test_ranges_are_those_of_the_values() -> None:
    """For every dtype and layout, NumPy computes the same."""
    x = np.array([[3, np.nan, -2, 7], [np.inf, 1, -np.inf, np.nan]])
    for dtype in ("float16", "float32", "float64", "complex64", "int16", "uint8", "bool"):
        array = np.nan_to_num(x, posinf=5, neginf=2).astype(dtype)
        if array.dtype.kind in "fc":
            array = x.astype(dtype)
        array = np.ascontiguousarray(array.reshape(1, 2, 2, 2).transpose(0, 2, 3, 1))
        array = array.transpose(0, 3, 1, 2)  # channels last
        method = load(lambda x: x.clone(), torch.from_numpy(array))
        with method.tracing(ranges=True) as trace:
            method(array)
        call, clone = trace.events
        [taken], [arguments] = clone.inputs, clone.outputs
        numbers = array.astype(np.complex128) if array.dtype.kind == "c" else array.astype(float)
        parts = np.stack([numbers.real, numbers.imag]) if array.dtype.kind == "c" else numbers
        finite = parts[np.isfinite(parts)]
        for value in (taken, arguments, *call.outputs):
            result = value.range
            assert result is not None and value.data is None
            assert (result.low, result.high) == (finite.min(), finite.max())
            counts = np.isnan(parts).sum(), np.isposinf(parts).sum(), np.isneginf(parts).sum()
            assert (result.nan, result.positive, result.negative) == counts
            assert result.finite is not bool(sum(counts))
        memory = np.isfinite(numbers.transpose(0, 2, 3, 1))
        if memory.all():
            assert arguments.range.first is None
        else:
            n, h, w, c = np.unravel_index(np.argmin(memory), memory.shape)
            assert arguments.range.first == (n, c, h, w)
        assert call.inputs[0].slot == taken.slot and call.outputs[0].slot == arguments.slot


def test_ranges_of_empty_tensors() -> None:
    method = load(lambda x: torch.relu(x), torch.zeros(0, 3))
    with method.tracing(ranges=True) as trace:
        method(np.zeros((0, 3), np.float32))
    result = trace.events[1].outputs[0].range
    assert result is not None and result.finite and np.isnan(result.low) and np.isnan(result.high)
    with method.tracing() as trace:
        method(np.zeros((0, 3), np.float32))
    assert {v.range for event in trace.events for v in event.values} == {None}


@pytest.mark.parametrize("positive", [True, False])
def test_jumps_and_moves(positive: bool) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, [x])

    method = load(fn, X)
    x = X.abs() if positive else -X.abs()
    with method.tracing() as trace:
        method(x.numpy())
    kinds = {event.kind for event in trace.events}
    assert {"execute", "kernel", "jump", "move"} <= kinds
    assert ("aten::sin.out" in kernels(trace)) is positive
    assert ("aten::cos.out" in kernels(trace)) is not positive


def test_the_bound(method: Method) -> None:
    with method.tracing(values=True) as whole:
        method(X.numpy())
    sizes = set()
    for max_bytes in [*range(0, 4000, 37), 1 << 20]:
        with method.tracing(values=True, max_bytes=max_bytes) as trace:
            y = method(X.numpy())
        np.testing.assert_allclose(y, steps(X), rtol=1e-5)
        sizes.add(len(trace.events))
        assert len(trace.events) + trace.dropped_events == len(whole.events)
        values = sum(v.data is not None for e in trace.events for v in e.values)
        assert 8 * len(trace.events) + 4 * values <= max_bytes
        assert ("did not fit" in str(trace)) == bool(trace.dropped_events + trace.dropped_values)
    assert {0, len(whole.events)} < sizes
    assert whole.dropped_events == whole.dropped_values == 0
    with pytest.raises(ValueError, match="negative"):
        method.tracing(max_bytes=-1)


@pytest.mark.parametrize("ranges", [False, True])
def test_the_bound_includes_python_objects(ranges: bool) -> None:
    """An endless loop fills a trace, whose objects were six times as large."""
    plan = Plan()
    x, y, limit = plan.input((1, 1, 300, 400)), plan.output((1, 1, 300, 400)), 4 << 20
    plan.call("aten::view_copy.out", x, [1, 1, 300, 400], y)
    plan.jump_false(False, 1)
    plan.call("executorch_prim::add.Scalar", 2, 3, 5)
    plan.jump_false(False, 1)
    program = executorch_c.load(build(plan))
    array = np.ones((1, 1, 300, 400), np.float32)
    method = program.load_method("forward", max_steps=100_000)
    tracemalloc.start()
    try:
        with pytest.raises(executorch_c.Error, match="max_steps"):
            with method.tracing(ranges=ranges, max_bytes=limit) as trace:
                method(array)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert limit / 2 < used < limit and trace.dropped_events > 50_000
    assert f"{trace.dropped_events} events" in str(trace)


def test_one_trace_at_a_time(method: Method) -> None:
    with method.tracing() as outer:
        with pytest.raises(executorch_c.InvalidStateError, match="is being traced already"):
            method.tracing().__enter__()
        method(X.numpy())
    assert outer.runs == 1
    with pytest.raises(executorch_c.InvalidStateError, match="not being traced"):
        method._trace_stop()
    method._trace_start(True, 1000)  # never stopped: the method frees it


def test_errors_end_the_block_and_are_in_the_trace() -> None:
    method = load(lambda x, i: x[i], X, torch.tensor([0, 2]))
    with pytest.raises(executorch_c.Error), method.tracing(values=True) as trace:
        method(X.numpy(), np.array([0, 9]))
    assert trace.events[0].failed and trace.events[-1].failed
    assert trace.events[-1].name == "aten::index.Tensor_out" and not trace.events[-1].outputs
    assert "aten::index.Tensor_out (failed)" in trace.table()
    method(X.numpy(), np.array([0, 1]))
    assert trace.runs == 1


def test_calls_of_other_threads(method: Method) -> None:
    def work() -> None:
        for _ in range(20):
            method(X.numpy())

    with method.tracing() as trace:
        run_all(*[work] * 4)
    assert trace.runs == 80 and len(trace.events) % 80 == 0


def test_the_table(method: Method) -> None:
    with method.tracing() as trace:
        method(X.numpy())
    assert str(trace).startswith("1 call of 'forward'; loading took ")
    lines = trace.table().splitlines()
    assert lines[0].split() == ["id", "name", "shapes", "bytes", "us", "share"]
    [product] = [line for line in lines if "aten::mm.out" in line]
    assert "(3, 4), (4, 3) -> (3, 3)" in product and product.split()[-4] == str((12 + 12 + 9) * 4)
    assert lines[-1].split()[:3] == ["the", "whole", "call"] and lines[-1].endswith("100.0 %")
    shares = [float(line.split()[-2]) for line in lines[1:-1]]
    assert sum(shares) == pytest.approx(100, abs=0.1 * len(shares))
    assert f"Trace of 'forward': 1 call, {len(trace.events)} events>" in repr(trace)
    html = trace._repr_html_()
    assert "<table>" in html and "aten::mm.out" in html and "-&gt; (3, 3)" in html
    assert " %<" in html and "xa0" not in html


def test_the_timeline(method: Method) -> None:
    pytest.importorskip("matplotlib")
    with method.tracing() as trace:
        for _ in range(3):
            method(X.numpy())
    times = [event.duration_ns for event in trace.events if event.kind == "execute"]
    [axes] = trace.plot().axes
    assert (
        axes.get_title("left") == f"call {times.index(sorted(times)[1]) + 1} of 3, of median time"
    )
    [axes] = trace.plot(run=2).axes
    assert axes.get_title("left") == "call 3 of 3"
    last = [event for event in trace.events if event.run == 2]
    begin = last[0].start_ns
    rows = {event.name for event in last[1:]}
    assert len(axes.collections) == len(axes.get_yticks()) == len(rows)
    starts = sorted(
        path.vertices[:, 0].min() for row in axes.collections for path in row.get_paths()
    )
    assert starts == pytest.approx(sorted((event.start_ns - begin) / 1e3 for event in last[1:]))
    with pytest.raises(IndexError, match="run 3: the trace has 3 calls"):
        trace.plot(run=3)
    Trace("nothing").plot()


def with_times(method: Method, seconds: dict[str, list[int]]) -> Trace:
    """Return the trace of two calls, in which instructions take the nanoseconds of their names."""
    with method.tracing() as trace:
        method(X.numpy()), method(X.numpy())
    trace.events = tuple(
        replace(e, duration_ns=seconds.get(e.name, [0, 0])[e.run]) for e in trace.events
    )
    return trace


def test_the_slowest_lines_come_first(method: Method) -> None:
    trace = with_times(method, {"forward": [9000, 11000], "aten::mm.out": [1000, 3000]})
    first, *rest, outside, whole = trace.table(sort="time").splitlines()[1:]
    assert first.split()[1] == "aten::mm.out" and first.split()[-4:] == ["2.0", "2.8", "20.0", "%"]
    assert outside.split()[-4:] == ["8.0", "8.0", "80.0", "%"] and whole.endswith("100.0 %")
    cells = [line.split() for line in trace.table(1, "time").splitlines()[1:]]
    assert cells == [line.split() for line in (first, outside, whole)]
    biggest = max(trace.as_dict()["lines"], key=lambda line: line["bytes"])
    assert trace.table(1, "bytes").splitlines()[1].split()[0] == biggest["id"]


def test_totals(method: Method) -> None:
    trace = with_times(method, {"forward": [9000, 11000], "aten::mm.out": [1000, 3000]})
    [product, *_] = trace.totals("operator")
    assert (product.name, product.lines, product.calls) == ("aten::mm.out", 1, 2)
    assert product.nanoseconds == 4000 and not trace.totals("module")
    id_ = next(one["id"] for one in trace.as_dict()["lines"] if one["name"] == "aten::mm.out")
    trace.name_nodes(modules={id_: "head"})
    [head] = trace.totals("module")
    assert (head.name, head.nanoseconds) == ("head", 4000)
    assert any(line.split()[:3] == [id_, "aten::mm.out", "head"] for line in str(trace).split("\n"))


def test_json_has_numbers_with_units(method: Method) -> None:
    trace = with_times(method, {"forward": [9000, 11000], "aten::mm.out": [1000, 3000]})
    read = json.loads(trace.to_json())
    assert (read["calls"], read["call_us"]["mean"], read["call_us"]["max"]) == (2, 10.0, 11.0)
    [product] = [line for line in read["lines"] if line["name"] == "aten::mm.out"]
    times = {"mean": 2.0, "min": 1.0, "p50": 2.0, "p90": pytest.approx(2.8), "max": 3.0}
    assert product["us"] == times and product["share"] == pytest.approx(0.2)
    assert [value["shape"] for value in product["inputs"]] == [[3, 4], [4, 3]]
    assert product["outputs"] == [{"dtype": "float32", "shape": [3, 3]}]
    assert read["totals"]["operator"][0] == {
        "name": "aten::mm.out",
        "lines": 1,
        "calls": 1.0,
        "us": 2.0,
    }


def test_the_page(method: Method, tmp_path: Path) -> None:
    with method.tracing() as trace:
        method(X.numpy()), method(X.numpy())
    trace.to_html(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and "<title>Trace of &#x27;forward&#x27;" in page
    kernels_run = sum(e.kind == "kernel" for e in trace.events if e.run == 0)
    starts = [float(x) for x in re.findall(r"margin-left: ([\d.]+)%", page)]
    widths = [float(x) for x in re.findall(r"; width: ([\d.]+)%", page)]
    assert len(starts) == len(widths) == kernels_run and starts == sorted(starts)
    assert 0 < sum(widths) < 110 and all(s + w < 100.1 for s, w in zip(starts, widths))
    assert "://" not in page and "2 calls" in page and "By operator" in page


def test_an_empty_trace_can_be_shown(method: Method, tmp_path: Path) -> None:
    with method.tracing() as trace:
        pass
    trace.to_html(tmp_path / "run.html")
    trace.to_chrome(tmp_path / "run.json")
    assert len(trace.to_dataframe()) == 0 and "the whole call" in str(trace)


def test_data_frame(method: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas

    with method.tracing() as trace:
        method(X.numpy()), method(X.numpy())
    frame = trace.to_dataframe()
    assert list(frame["name"]) == [event.name for event in trace.events]
    call = frame[(frame["kind"] == "execute") & (frame["run"] == 1)].iloc[0]
    assert call["start_us"] > 0 and pandas.isna(call["instruction"])
    assert (call["shapes"], call["dtypes"]) == ("(3, 4) -> (3, 3)", "float32 -> float32")
    [product] = frame[(frame["name"] == "aten::mm.out") & (frame["run"] == 0)].to_dict("records")
    assert (product["dtypes"], product["bytes"]) == ("float32, float32 -> float32", 132)
    assert (product["chain"], product["depth"], product["failed"]) == (0, 0, False)
    times = frame[frame["run"] == 1].groupby("kind")["duration_us"].sum()
    assert 0 < times["kernel"] < times["execute"]
    trace.to_csv(tmp_path / "run.csv")
    read = pandas.read_csv(tmp_path / "run.csv", dtype={"debug_handle": "Int64"})
    assert list(read.columns) == list(frame.columns) and len(read) == len(frame)
    assert list(read["shapes"]) == list(frame["shapes"])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"executorch_c\[view\]"):
        trace.to_dataframe()


def test_chrome(method: Method, tmp_path: Path) -> None:
    with method.tracing() as trace:
        method(X.numpy())
    trace.to_chrome(tmp_path / "run.json")
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert [event["name"] for event in events] == [event.name for event in trace.events]
    assert {event["ph"] for event in events} == {"X"}
    call = events[0]
    assert all(
        call["ts"] <= e["ts"] and e["ts"] + e["dur"] <= call["ts"] + call["dur"] + 0.001
        for e in events
    )
    assert events[1]["args"]["instruction"] == 0


def test_a_finished_trace_costs_nothing() -> None:
    """The memory of a trace is freed with it."""
    big = load(lambda x: torch.relu(x) + 1, torch.zeros(256, 1024))
    x = np.ones((256, 1024), np.float32)
    start = 0
    for i in range(60):
        with big.tracing(values=True) as trace:
            big(x)
        assert trace.events[-1].outputs[0].data[0, 0] == 2
        if i == 10:
            start = resident_bytes("VmRSS")
    assert resident_bytes("VmRSS") - start < 20_000 << 10
