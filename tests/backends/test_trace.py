"""Traces inside delegates: nodes, their values, programs inside payloads."""

from typing import Any

import numpy as np
import pytest
import torch

import executorch_c
from executorch_c._trace_lines import lines as lines_of
from executorch_c.trace import Trace
from tests.backends.demo_programs import COMPILER, EXECUTOR, SIN_INPUTS, THREE, lowered, nested
from tests.backends.demo_programs import partitioned, seeded, sin, taylor_sin


def traced(pte: bytes, inputs: Any, runs: int = 1, **options: Any) -> Trace:
    method = executorch_c.Runtime.get().load_program(pte).load_method("forward")
    with method.tracing(**options) as trace:
        for _ in range(runs):
            method.execute([x.numpy() for x in inputs])
    return trace


@pytest.fixture(scope="module")
def pte() -> bytes:
    return partitioned().to_executorch().buffer


def test_nodes_follow_their_delegate(pte: bytes) -> None:
    trace = traced(pte, seeded(*THREE))
    items = [(e.kind, e.name, e.instruction, e.delegate) for e in trace.events]
    two = ("aten.mm.default", "aten.add.Tensor")
    assert items == [
        ("execute", "forward", None, None),
        ("delegate", COMPILER, 0, 0),
        *[("node", name, 0, 0) for name in two],
        ("kernel", "aten::sub.out", 1, None),
        ("delegate", COMPILER, 2, 1),
        *[("node", name, 2, 1) for name in two],
    ]
    handles = [e.debug_handle for e in trace.events if e.kind == "node"]
    assert None not in handles and len(set(handles)) == 4
    for delegate, first, second in (trace.events[1:4], trace.events[5:8]):
        assert delegate.start_ns == first.start_ns
        assert second.start_ns == first.start_ns + first.duration_ns
        assert 0 < first.duration_ns < delegate.duration_ns


def test_values_inside_and_outside(pte: bytes) -> None:
    a, x, b = inputs = seeded(*THREE)
    trace = traced(pte, inputs, values=True)
    y = a @ x
    z = y + b
    steps = [y, z, z - a, (z - a) @ x, (z - a) @ x + b]
    inner = [e for e in trace.events if e.kind in ("node", "kernel")]
    for event, expected in zip(inner, steps, strict=True):
        [value] = event.outputs
        np.testing.assert_allclose(value.data, expected, rtol=1e-5, atol=1e-6)
        assert (value.dtype, value.shape, value.nbytes) == ("float32", (2, 2), 16)
    last = trace.events[5]
    assert len(last.inputs) == 3 and all(value.data is None for value in last.inputs)
    np.testing.assert_array_equal(last.outputs[0].data, trace.events[-1].outputs[0].data)


def test_values_without_being_asked_are_shapes(pte: bytes) -> None:
    trace = traced(pte, seeded(*THREE))
    assert all(value.data is None for event in trace.events for value in event.values)
    assert [len(e.outputs) for e in trace.events if e.kind == "delegate"] == [1, 1]


def test_programs_inside_payloads() -> None:
    inputs = seeded(*THREE)
    pte, fn = nested(inputs)
    trace = traced(pte, inputs, values=True, runs=2)
    first = [e for e in trace.events if e.run == 0]
    assert [(e.kind, e.depth) for e in first] == [
        *(("execute", 0), ("delegate", 0), ("execute", 1), ("kernel", 1), ("delegate", 1)),
        *(("node", 1), ("node", 1)),
    ]
    assert [e.name for e in first[1:3]] == [EXECUTOR, "forward"]
    np.testing.assert_allclose(first[-1].outputs[0].data, fn(*inputs), rtol=1e-5, atol=1e-6)
    assert trace.runs == 2 and len(trace.events) == 2 * len(first)
    head = "2 calls of 'forward', times are means of a call; loading took "
    assert trace.summary().startswith(head) and str(trace).startswith(head)
    lines = trace.table().splitlines()
    assert [line.split()[0] for line in lines[1:6]] == [
        "i0",
        "d0/i0",
        "d0/i1",
        "d0/d0.0",
        "d0/d0.1",
    ]
    names = [EXECUTOR, "aten::sub.out", COMPILER, "aten.mm.default", "aten.add.Tensor"]
    assert [line.name for line in lines_of(trace).inner[:5]] == names


def test_lines_by_time_do_not_overlap(pte: bytes) -> None:
    trace = traced(pte, seeded(*THREE), runs=3)
    lines = lines_of(trace)
    leaves = lines.leaves()
    ids = [line.id for line in leaves]
    assert ids == ["d0.0", "d0.1", "i0", "i1", "d1.0", "d1.1", "i2"]
    assert [leaves[i].name for i in (2, 6)] == [f"{COMPILER}, the rest"] * 2
    known = sum(line.nanoseconds for line in [*leaves, lines.rest])
    assert known == lines.whole.nanoseconds > 0
    totals = {total.name: total.lines for total in trace.totals("delegate")}
    assert totals == {f"d0 {COMPILER}": 1, f"d1 {COMPILER}": 1, "not delegated": 1}


def test_payloads_have_the_shapes_of_nodes(pte: bytes) -> None:
    trace = traced(pte, seeded(*THREE))
    program = executorch_c.Runtime.get().load_program(pte)
    trace.name_nodes(program, modules={"delegate 1, node 0": "head"})
    nodes = [line for line in lines_of(trace).inner if line.kind == "node"]
    assert [line.module for line in nodes] == ["", "", "head", ""]
    assert nodes[0].shapes == "(?), (?) -> (?)"  # these payloads have no shapes


def test_a_rejected_call_leaves_no_event() -> None:
    pte = lowered(lambda a, b: torch.sin(a + b), seeded((2, 3), (2, 3))).buffer()
    method = executorch_c.Runtime.get().load_program(pte).load_method("forward")
    other = [np.zeros((2, 3), np.float64), np.zeros((2, 3), np.float32)]
    with method.tracing() as trace, pytest.raises(executorch_c.InvalidArgumentError):
        method.execute(other)  # rejected before it runs
    assert trace.events == ()


def test_the_sine_as_a_node() -> None:
    (x,) = SIN_INPUTS
    trace = traced(sin(), SIN_INPUTS, values=True)
    [node] = [e for e in trace.events if e.kind == "node"]
    assert (node.name, node.debug_handle) == ("aten.sin.default", 1)
    np.testing.assert_allclose(node.outputs[0].data, taylor_sin(x), rtol=1e-6)
