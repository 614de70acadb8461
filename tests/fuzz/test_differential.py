"""The loops that compare ways to run mutants: they agree, and a planted difference is a finding."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_c import Runtime
from tests.differential import ways
from tests.fuzz import campaign, differential
from tests.fuzz.seeds import TARGETS
from tests.plans import Plan, build

OURS = tuple(differential.WAYS)


def run(numbers: Iterable[int], against: tuple[str, ...] = OURS) -> differential.Run:
    result, process = differential.Run(), ways.Official()
    for number in numbers:
        differential.run_case(result, number, against, process, None)
    process.close()
    return result


@pytest.mark.parametrize("cases", [24, pytest.param(2000, marks=pytest.mark.heavy)])
def test_ways_agree(cases: int) -> None:
    result = run(range(0, 7 * cases, 7))  # of many seeds
    assert not result.findings
    assert result.counts["compared"] > cases, result.counts


@pytest.mark.heavy
def test_the_official_runtime_agrees() -> None:
    pytest.importorskip("executorch.runtime")
    result = run(range(100_000, 100_600), (differential.OFFICIAL,))
    assert not result.findings
    assert result.counts["in the official runtime"] > 60, result.counts


def test_a_changed_element_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    real = differential.run

    def changed(program: Any, way: differential.Way, calls: Any) -> differential.Results:
        results = real(program, way, calls)
        for output in results[-1] if way.is_traced else ():
            if isinstance(output, np.ndarray) and output.size and output.dtype.kind != "b":
                output.reshape(-1)[-1] += 1
        return results

    monkeypatch.setattr(differential, "run", changed)
    # Programs without mutations
    assert {way for _, way, _ in run(range(0, 96, 16)).findings} == {"traced"}


@pytest.mark.parametrize("at, ordered", [(32, True), (16, False), (0, False)])
def test_calls_that_write_their_operands(at: int, ordered: bool) -> None:
    plan = Plan()
    x = plan.input((8,), at=0)
    plan.call("aten::neg.out", x, plan.output((8,), at=at))
    program = Runtime.get().load_program(build(plan))
    assert differential.depends_on_order(program) is not ordered


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for fuzz_replay, which writes its arguments to this file; rounds of one file."""
    fuzzer = tmp_path / "fuzz_replay"
    fuzzer.write_text(
        '#!/bin/sh\necho "$@" >> "$0.log"\n'
        "echo '7 cases: 6 opened, 5 of 6 methods loaded, 4 calls ran, 0 were not made'\n"
        "echo '3 calls compared: 1 differ, 2 by rounding'\necho 'FAILED: x'\nexit 1\n"
    )
    fuzzer.chmod(0o755)
    monkeypatch.setattr(campaign, "kept_build", lambda flags: tmp_path)
    monkeypatch.setattr(campaign, "with_xnnpack", lambda folder: {"XNNPACK": ""})
    monkeypatch.setattr(campaign, "FILES", 1)
    return Path(f"{fuzzer}.log")


def test_a_campaign_goes_on(told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of runs add up, rounds take other files, and a finding is the exit code."""
    seeds = tmp_path / "c/seeds"
    (seeds / "pte").mkdir(parents=True)
    for name in ("pte/a", "pte/b", "pte.done"):
        (seeds / name).touch()
    monkeypatch.setattr(campaign, "kept_files", lambda target: [Path("kept")])
    options = argparse.Namespace(campaign=tmp_path / "c", seconds=0, target=["pte"])
    for rounds in (1, 2, 3, 4):
        assert campaign.run(options) == 1
        counts = campaign.read(tmp_path / "c")["pte"]
        assert (counts.rounds, counts.executions) == (rounds, 7 * rounds)
    assert (counts.compared, counts.rounding, counts.findings) == (12, 8, 4)
    assert [line[-1] for line in told.read_text().splitlines()] == ["t", "b", "a", "b"]


def test_a_campaign_begins_with_all_targets(
    told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each target has a round before the first one waits for an export of its seeds."""
    monkeypatch.setattr(campaign, "write_seeds", lambda target, folder: pytest.fail("an export"))
    options = argparse.Namespace(campaign=tmp_path / "c", seconds=0, target=None)
    for _ in TARGETS:
        campaign.run(options)
    targets = [line.split()[0] for line in told.read_text().splitlines()]
    assert targets == [f"--target={name}" for name in TARGETS]
