"""Tests of a release's wheel, on its own runtime and on this one."""

import tempfile
from collections.abc import Iterable, Iterator

from tests import ROOT
from tests.release.environment import HERE, SILENCE_SECONDS, Environment, Say, ended, streamed

SUITES = (
    "runtime/test",
    "extension/pybindings/test",
    "exir/emit/test",
    "backends/xnnpack/test/ops",
)
"""Folders of the wheel whose tests run programs."""
Outcomes = dict[str, str]
"""Outcomes of tests: passed, failed, skipped, error, or how the process ended in them."""
OPTIONS = ("-q", "--tb=no", "--import-mode=importlib", "--continue-on-collection-errors")
NO_TESTS = 5
"""pytest's exit code if all tests are deselected."""


def command(other: Environment, name: str, ours: bool, done: Outcomes) -> list[str]:
    """Return the command that runs those tests of a folder that have no outcome yet."""
    root = other.folder()
    plugins = ["no:cacheprovider", "pytest_outcomes", *(["official_swap"] if ours else [])]
    options = [*OPTIONS, f"--rootdir={root}", *(f"-p{plugin}" for plugin in plugins)]
    left_out = [f"--deselect={test}" for test in done]
    return [other.python, "-m", "pytest", *options, *left_out, str(root / name)]


def run(other: Environment, name: str, ours: bool, done: Outcomes, say: Say) -> tuple[str, int]:
    """Add the outcomes of tests to `done`, and return the test in which the process ended, or
    nothing, and its exit code."""
    rows = streamed(
        command(other, name, ours, done),
        SILENCE_SECONDS,
        env=other.variables(ROOT / "tests" / "official", HERE, ROOT),
        cwd=tempfile.gettempdir(),
    )
    running = ""
    try:
        while True:
            word, tab, test = next(rows).partition("\t")
            if tab and word == "start":
                running = test
                say(test)
            elif tab and test == running:
                done[test], running = word, ""
    except StopIteration as end:
        return running, end.value


def suite(
    other: Environment, name: str, ours: bool, say: Say, done: Iterable[str] = ()
) -> tuple[Outcomes, str]:
    """Return the outcome of each test of a folder of the wheel that is not done, on this runtime or
    its own, and why tests are missing.

    Where a test ends the process, another one runs the rest.
    """
    results: Outcomes = dict.fromkeys(done, "passed")
    while True:
        running, code = run(other, name, ours, results, say)
        if results and code in (0, 1, NO_TESTS):  # 1: tests failed
            return results, ""
        if not running:
            return results, f"pytest {ended(code)} after {len(results)} tests"
        results[running] = ended(code)


def differences(other: Environment, say: Say) -> Iterator[tuple[str, str]]:
    """Yield tests that pass on the release's own runtime only, with their outcomes here, and
    folders whose tests did not all run.

    Its own runtime runs those that do not pass here.
    """
    for name in SUITES:
        if not (other.folder() / name).is_dir():
            continue
        ours, fault = suite(other, name, True, say)
        if fault:
            yield name, fault
        passed = [test for test, outcome in ours.items() if outcome == "passed"]
        theirs, fault = suite(other, name, False, say, passed)
        if fault:
            yield name, f"on its own runtime, {fault}"
        for test, outcome in theirs.items():
            if outcome == "passed" and test not in passed:
                yield test, ours.get(test, "not run")
