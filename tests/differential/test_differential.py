"""A few random programs (`python -m tests.differential` runs thousands); planted faults are found,
and no row explains them."""

import contextlib
import dataclasses

import pytest
import torch

from tests.differential import causes, graphs, programs, results, ways
from tests.differential.graphs import Graph
from tests.differential.programs import Report, Trial

SEEDS = (1003, 1005)
LINES = [
    *("v0 = torch.maximum(x0, x1)", "v1 = torch.sin(v0)", "v2 = torch.tril(v1)"),
    *("v3 = v2 @ self.c0", "v4 = v3.amax(0)", "v5 = (v3 * 4).long()"),
]
WRONG_KERNELS = [
    (b"aten::maximum", b"aten::minimum"),
    (b"aten::sin", b"aten::cos"),
    (b"aten::amax", b"aten::amin"),
]

FAILS = torch.tensor([[4.0, 2, 2, 1], [2, 3, 1, 2], [2, 1, -1, 5], [1, 2, 5, 6]])
"""Not positive definite from the third row on."""
NHWC = torch.arange(20.0).reshape(1, 4, 5, 1).contiguous(memory_format=torch.channels_last)


def graph(scale: float = 1.0) -> Graph:
    generator = torch.Generator().manual_seed(0)
    x, y, weight = (torch.randn(4, 4, generator=generator) for _ in range(3))
    weight[1, 2] *= scale
    return Graph(0, list(LINES), [x, y], {"c0": weight}, ["v1", "v3", "v4", "v5"])


@pytest.fixture(scope="module")
def trial() -> Trial:
    return programs.made(graph(), "edge")


def explained(trial: Trial, pte: bytes) -> list[str]:
    """Return the cause of each difference of the first way of loading, with another program."""
    differences = programs.run_here(dataclasses.replace(trial, pte=pte), tuple(ways.WAYS))
    return [causes.cause(trial, d) for d in differences if d.way == "default"]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_are_right(seed: int) -> None:
    report, trial, differences = programs.of_seed(seed)
    assert trial is not None and report.calls >= graphs.MIN_CALLS, report.about
    assert not [d for d in differences if not causes.cause(trial, d)], report.source


@pytest.mark.parametrize(
    ("seed", "cause"),
    [
        (7436, causes.nearer_than_eager),
        (17955, causes.carried_by_state),
        (20207, causes.nearer_than_eager),
    ],
)
def test_a_difference_has_a_cause(seed: int, cause: object) -> None:
    """Variances of equal numbers, which eager's mean misses; sums of 1 / x in a state."""
    _, trial, differences = programs.of_seed(seed)
    assert trial is not None and differences
    (row,) = (row for row in causes.CAUSES if row.proof is cause)
    assert {causes.cause(trial, d) for d in differences} == {row.name}


def test_what_xnnpack_refuses_here_it_refuses_there() -> None:
    """A transposition of a number."""
    with contextlib.closing(ways.Official()) as process:
        report, trial, differences = programs.of_seed(17517, process=process)
        assert trial is not None and report.official == "refused" and differences
        names = {causes.cause(trial, d) for d in differences}
    assert names == {"XNNPACK refuses it, in both runtimes"}


def test_a_right_program_has_no_difference(trial: Trial) -> None:
    assert not explained(trial, trial.pte)


@pytest.mark.parametrize(("right", "wrong"), WRONG_KERNELS, ids=lambda name: name.decode())
def test_a_wrong_kernel_is_found(trial: Trial, right: bytes, wrong: bytes) -> None:
    assert trial.pte.count(right + b"\0") == 1
    damaged = trial.pte.replace(right + b"\0", wrong + b"\0")
    result = explained(trial, damaged)
    assert result and not any(result)


def test_a_wrong_constant_is_found(trial: Trial) -> None:
    """One element of a weight, 1e-4 of it."""
    weight = graph().constants["c0"][1, 2].numpy()
    assert trial.pte.count(weight.tobytes()) == 1
    damaged = trial.pte.replace(weight.tobytes(), (weight * (1 + 1e-4)).tobytes())
    result = explained(trial, damaged)
    assert result and not any(result)


def test_a_wrong_constant_is_found_in_a_state() -> None:
    """The state's rounding explains no wrong weight."""
    right = graph()
    lines = [*right.lines, "self.state.add_(v3.sum().to(self.state.dtype)); v6 = self.state * 1"]
    trial = programs.made(dataclasses.replace(right, lines=lines, outputs=["v6"]), "edge")
    weight = right.constants["c0"][1, 2].numpy()
    damaged = trial.pte.replace(weight.tobytes(), (weight * (1 + 1e-4)).tobytes())
    assert not explained(trial, trial.pte)
    result = explained(trial, damaged)
    assert result and not any(result)


@pytest.mark.parametrize(
    ("line", "value", "cause"),
    [
        ("v0 = torch.special.bessel_y1(x0)", torch.tensor([5]), causes.nearer_than_eager),
        ("v0 = torch.log_softmax(x0, 0)", torch.ones(0, 3).long(), causes.computes_nothing),
        ("v0 = torch.masked_select(x0[:, None], x0 > 0)", torch.ones(3), causes.eager_refuses),
        ("v0 = torch.linalg.cholesky_ex(x0)[0]", FAILS, causes.result_is_undefined),
        ("v0 = torch.rsub(x0, 2, alpha=2)", torch.tensor(1).byte(), causes.flow_changed_it),
        ("v0 = torch.copysign(x0, -0.0)", torch.ones(3), causes.zero_is_positive),
        (
            "v0 = torch.ops.aten.hardshrink_backward(x0, (-x0).log(), 0.5)",
            torch.ones(3),
            causes.depends_on_place,
        ),
        ("v0 = F.pixel_shuffle(x0, 2)", NHWC, causes.layout_is_lost),
    ],
    ids=(
        "bessel_y1 log_softmax masked_select cholesky_ex rsub copysign hardshrink pixel_shuffle"
    ).split(),
)
def test_a_cause_is_proved(line: str, value: torch.Tensor, cause: object) -> None:
    """Eager has 20 units in the last place in float32; it ignores the dtype of nothing; the
    exporter bounds a selection by the input, without broadcasting; a factor that fails has any
    numbers after that; a 0-d rsub becomes int64; a file has no -0.0; eager's vectors clear a
    gradient at NaN, its rest of a tensor does not; a view of channels-last is one of the memory."""
    trial = programs.made(Graph(0, [line], [value], {}, ["v0"]), "edge")
    (row,) = (row for row in causes.CAUSES if row.proof is cause)
    names = explained(trial, trial.pte)
    assert names and set(names) == {row.name}


def test_a_changed_input_is_the_first_output() -> None:
    line = "v0 = torch.ops.aten.copy_.default(x0, x0 * 2) + 1"
    trial = programs.made(Graph(0, [line], [torch.ones(3)], {}, ["v0"]), "edge")
    assert [w.tolist() for w in trial.calls[0].wanted] == [[2, 2, 2], [3, 3, 3]]
    assert not programs.run_here(trial, tuple(ways.WAYS))


def test_a_seed_makes_the_same_graph() -> None:
    first, second = graphs.make(1001), graphs.make(1001)
    assert first.source() == second.source()
    assert all(map(torch.equal, first.inputs, second.inputs))


def test_a_graph_loses_a_call_and_those_that_read_it() -> None:
    smaller = graphs.without_call(graph(), 3)
    assert smaller.lines == LINES[:3]
    assert smaller.outputs == ["v1", "v2"] and not smaller.constants


def test_the_table_counts_causes() -> None:
    """A crash, and a difference with a cause."""
    difference = {"way": "default", "call": 0, "output": 0, "text": "", "cause": "a row"}
    reports = [
        Report(0),
        Report(1, "crashed", about="SIGSEGV"),
        Report(2, "differ", differences=[difference]),
    ]
    table = results.table(reports)
    assert "| differences explained | 1 |" in table and "| a row | 1 | 0 |" in table
    assert "| differences not explained | 1 |" in table
    assert [bool(results.unexplained(r)) for r in reports] == [False, True, False]
