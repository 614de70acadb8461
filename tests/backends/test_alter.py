"""Results that a trace changes on the way: of instructions, and of nodes inside delegates."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from executorch_c import Runtime
from executorch_c.check import flows
from executorch_c.inspect.events import named
from executorch_c.trace import Result, Trace
from tests import exports
from tests.backends.recorded import Recorded

FOLDER = Path(__file__).parent
PROGRAMS = [
    ("vulkan", "cnn_fp16"),
    ("vulkan", "mlp_8da8w"),
    ("coreml", "cnn_fp16"),
    ("tosa", "cnn_int8"),
    ("mlx", "mlp"),
]
XNNPACK = ["int8", "dynamic"]

Arrays = list[np.ndarray]
Case = tuple[bytes, Arrays]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.more = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = torch.relu(self.conv(x))
        return torch.softmax(self.head(self.more(a).sigmoid().mean((2, 3))), -1)


def xnnpack(scheme: str) -> Case:
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(1, 3, 12, 12)
    if scheme == "int8":
        model = exports.quantized(model, (x,))
    if scheme == "dynamic":
        model, x = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 4)), x[0, 0].clone()
        model = exports.quantized(model.eval(), (x,), is_per_channel=True, is_dynamic=True)
    flow = "xnnpack-dynamic" if scheme == "dynamic" else "xnnpack"
    partitioner = flows.FLOWS[flow].partitioners()
    return exports.lowered(model, x, partitioner=partitioner), [x.numpy()]


@pytest.fixture(scope="module", params=[*PROGRAMS, *XNNPACK], ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    if isinstance(request.param, str):
        return xnnpack(request.param)
    backend, name = request.param
    recorded = Recorded(FOLDER / f"{backend}_programs")
    return (recorded.folder / f"{name}.pte").read_bytes(), recorded.arrays(name)[0]


def run(
    case: Case, alter: Callable[[Result, Any], object] | None = None, **options: Any
) -> tuple[Arrays, Trace]:
    method = Runtime.get().load_program(case[0]).load_method("forward", delegate_at_load=False)
    with method.tracing(alter=alter, **options) as trace:
        outputs = method.execute(case[1])
    return outputs, trace


def results(case: Case) -> list[tuple[Result, Any]]:
    seen: list[tuple[Result, Any]] = []
    run(case, lambda result, array: seen.append((result, array.copy())))
    return seen


def test_results_that_stay_change_nothing(case: Case) -> None:
    expected, plain = run(case, values=True)
    outputs, trace = run(case, lambda result, array: None, values=True)
    for actual, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)
    values = [[v.data for e in one.events for v in e.outputs] for one in (plain, trace)]
    for actual, wanted in zip(*values, strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_each_result_is_seen_with_its_place(case: Case) -> None:
    seen = results(case)
    _, trace = run(case, lambda result, array: None, values=True)
    for kinds in (("node",), ("delegate",), ("kernel", "move")):
        events = [(e, v.data) for e in trace.events if e.kind in kinds for v in e.outputs]
        mine = [(r, array) for r, array in seen if r.kind in kinds]
        assert [(r.name, r.instruction, r.delegate, r.debug_handle) for r, _ in mine] == [
            (e.name, e.instruction, e.delegate, e.debug_handle) for e, _ in events
        ]
        for (_, array), (_, value) in zip(mine, events, strict=True):
            np.testing.assert_array_equal(array, value)
    named_nodes = [where for e, where in named(trace.events) if e.kind == "node" for _ in e.outputs]
    assert named_nodes == [
        f"delegate {r.delegate}, node {r.node}" for r, _ in seen if r.kind == "node"
    ]


def test_what_is_changed_reaches_the_nodes_after_it(case: Case) -> None:
    """The node's reader has another result, and nothing before the node has."""
    seen = results(case)
    nodes = [i for i, (result, _) in enumerate(seen) if result.kind == "node"]
    places = [i for i in nodes[:-1] if seen[i][1].dtype.kind == "f" and seen[i][1].any()]
    assert places or all(array.dtype.kind != "f" for _, array in (seen[i] for i in nodes[:-1]))
    for place in places:
        again: Arrays = []

        def alter(result: Result, array: Any) -> None:
            if len(again) == place:  # noqa: B023
                array *= np.float32(0.5)
            again.append(array.copy())  # noqa: B023

        run(case, alter)
        changed = [
            not np.array_equal(mine, array) for mine, (_, array) in zip(again, seen, strict=True)
        ]
        assert changed[place] and not any(changed[:place])
        assert any(changed[place + 1 :])


def test_outputs_are_those_of_the_changed_values(case: Case) -> None:
    """Integers of XNNPACK are seen as the numbers that they stand for."""

    def zeros(result: Result, array: Any) -> None:
        array[...] = 0

    outputs, _ = run(case, zeros)
    assert not any(output.any() for output in outputs)


def test_an_exception_ends_the_changes(case: Case) -> None:
    calls: list[Result] = []

    def alter(result: Result, array: Any) -> None:
        calls.append(result)
        raise KeyError("planted")

    with pytest.raises(KeyError, match="planted"):
        run(case, alter)
    assert len(calls) == 1


def test_alter_is_a_function() -> None:
    recorded = Recorded(FOLDER / "mlx_programs")
    method = recorded.method("mlp")
    with pytest.raises(TypeError, match="`alter` must be a function, not int"):
        method.tracing(alter=3)  # type: ignore[arg-type]
