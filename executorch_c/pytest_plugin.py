"""The pytest plugin: fixtures and a marker for checks of programs, snapshots, reports of failures.

    @pytest.mark.pte(flow="xnnpack", atol=1e-4)
    def test_model(pte_check):
        pte_check(model, (x,))

Installed with the package (entry point of group pytest11); from a source tree it is
`-p executorch_c.pytest_plugin`. Every session of pytest loads it, so it imports nothing but pytest
before a fixture or a report is used.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from executorch_c.testing import CheckResult, Comparison

OPTIONS = {
    "flow": (str, "default flow of pte_check (portable)"),
    "rtol": (float, "relative tolerance of pte_check and pte_compare (by dtype)"),
    "atol": (float, "absolute tolerance of pte_check and pte_compare (by dtype)"),
    "n_random": (int, "random calls of pte_check (3)"),
    "seed": (int, "seed of the random inputs of pte_check (0)"),
    "search": (float, "seconds that pte_check searches for further inputs (0)"),
    "engines": (str, "engines of pte_check (here,official)"),
}
"""Options of the marker and, as pte_<name>, of the ini file."""
SHARED = ("rtol", "atol")
"""Options of pte_compare."""
FIGURES = {
    "program": "program",
    "cases": "cases",
    "failures": "failures",
    "max_abs": "max abs",
    "max_rel": "max rel",
    "snr_db": "SNR dB",
}
"""Columns of the index: names of properties, and titles."""
WRITTEN = "snapshot_written"
"""Property of a test with the path of a snapshot that it wrote."""
_CHECKS = pytest.StashKey[int]()
"""Key of the number of checks of a test. Properties of the second check are pte_1_max_abs, and so
on."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --pte-report and the ini options."""
    group = parser.getgroup("executorch_c", "ExecuTorch programs")
    group.addoption(
        "--pte-report",
        metavar="DIR",
        help="write an HTML report of each failing check to DIR, and an index.html of all checks",
    )
    group.addoption(
        "--pte-update",
        action="store_true",
        help="write the snapshots of pte_snapshot instead of comparing with them",
    )
    for name, (_, text) in OPTIONS.items():
        parser.addini(f"pte_{name}", text, default=None)


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker and, with --pte-report, the writer of reports."""
    names = ", ".join(f"{name}=" for name in OPTIONS)
    config.addinivalue_line("markers", f"pte({names}): options of pte_check and pte_compare")
    folder = config.getoption("pte_report")
    if config.getoption("pte_update"):
        config.pluginmanager.register(_Updates())
    if folder:
        # Workers of xdist read the options from here.
        config.option.pte_report = folder = os.path.abspath(folder)
        config.pluginmanager.register(_Reports(folder, hasattr(config, "workerinput")))


def _options(request: pytest.FixtureRequest, names: Any = OPTIONS) -> dict[str, Any]:
    """Return the options of the ini file, overridden by markers from the module to the test."""
    options: dict[str, Any] = {}
    for name, (kind, _) in OPTIONS.items():
        text = request.config.getini(f"pte_{name}")
        if text not in (None, ""):
            try:
                options[name] = kind(text)
            except ValueError:
                raise pytest.UsageError(
                    f"pte_{name} is {text!r}, expected {kind.__name__}"
                ) from None
    for marker in reversed(list(request.node.iter_markers("pte"))):
        unknown = sorted(set(marker.kwargs) - set(OPTIONS))
        if unknown or marker.args:
            what = ", ".join(unknown) or "positional arguments"
            raise pytest.UsageError(f"marker pte: {what} unknown, expected {', '.join(OPTIONS)}")
        options.update(marker.kwargs)
    return {name: value for name, value in options.items() if name in names}


class _CheckFixture:
    """A fixture's function that adds metrics to the properties of the test (JUnit, the index)."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request

    def _add(self, figures: dict[str, Any]) -> None:
        node = self._request.node
        number = node.stash.get(_CHECKS, 0)
        node.stash[_CHECKS] = number + 1
        prefix = f"pte_{number}_" if number else "pte_"
        node.user_properties += [(prefix + name, value) for name, value in figures.items()]


class PteCheck(_CheckFixture):
    """The fixture pte_check."""

    def __call__(
        self, model: object, inputs: object = None, flow: Any = None, **options: Any
    ) -> CheckResult:
        """Return the result of `check_model`, with the marker's options as defaults.

        Raises CheckError unless the verdict is "match", and exceptions of check_model.
        """
        __tracebackhide__ = True
        from executorch_c.testing import check_model

        merged = {**_options(self._request), **options}
        usual = merged.pop("flow", "portable")
        result = check_model(model, inputs, flow=usual if flow is None else flow, **merged)
        self._add(result.figures())
        return result.raise_if_wrong()


class PteCompare(_CheckFixture):
    """The fixture pte_compare."""

    def __call__(self, actual: object, expected: object, **options: Any) -> Comparison:
        """Return the result of `compare`, with the marker's tolerances as defaults.

        Raises MismatchError unless the verdict is "match", and exceptions of compare.
        """
        __tracebackhide__ = True
        from executorch_c.testing import MismatchError, compare

        comparison = compare(actual, expected, **{**_options(self._request, SHARED), **options})
        self._add(dict(comparison.figures()))
        if not comparison:
            raise MismatchError(comparison, actual, expected)
        comparison.warn(stacklevel=3)
        return comparison


class PteSnapshot(_CheckFixture):
    """The fixture pte_snapshot: each call is a snapshot of its own."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        super().__init__(request)
        self._numbers = dict[str, int]()
        self._updates = bool(request.config.getoption("pte_update"))

    def __call__(self, outputs: object, name: str = "", **options: Any) -> None:
        """Compare outputs with the stored ones, by tolerance, or the marker's rtol and atol.

        Args:
            outputs: Arrays, tensors and numbers, as for `compare`.
            name: Name of the snapshot. Default: its number in the test.
            options: As for `compare`: rtol, atol, require, metrics.

        Raises MismatchError unless the verdict is "match", SnapshotError without a snapshot.
        """
        __tracebackhide__ = True
        from executorch_c import _snapshots
        from executorch_c.compare.arrays import flatten
        from executorch_c.testing import MismatchError, compare

        path, flat = self._path(name, ".npz"), flatten(outputs)
        if self._updates:
            self._write(path, _snapshots.packed(path, flat))
            return
        stored = _snapshots.stored_outputs(path)
        merged = {**_options(self._request, SHARED), **options}
        comparison = compare(flat, stored, **merged)
        if comparison.verdict == "inconclusive" and not merged:
            merged = {"rtol": 0.0, "atol": 0.0}  # outputs that show nothing must be equal
            comparison = compare(flat, stored, **merged)
        if not comparison:
            error = MismatchError(comparison, flat, stored)
            error.args = (f"outputs differ from {path}\n{error}",)
            raise error

    def figures(self, figures: Any, name: str = "", allow: dict[str, float] | None = None) -> None:
        """Compare figures with the stored ones: none may be worse than allowed.

        Args:
            figures: Numbers by name, or a result of `check_model`, of which snr_db and cosine are
                taken. Ratios (names that end with "_db") and metrics of requirements have a
                direction; "bytes" has, too; others may change in neither.
            allow: How much worse a figure may be, by name. Default: 0.5 dB; 0.001 for cosines and
                shares; else 5 %. Ratios above 100 dB are equal.

        Raises SnapshotError for a figure that is worse, missing or new, and without a snapshot,
        ValueError without figures.
        """
        __tracebackhide__ = True
        from executorch_c import _snapshots

        if hasattr(figures, "figures"):
            known = figures.figures()
            figures = {key: known[key] for key in ("snr_db", "cosine") if key in known}
        if not figures:
            raise ValueError("no figures to compare: the outputs have no floats that tell")
        _snapshots.check_names(allow or {}, figures)
        path = self._path(name, ".json")
        if self._updates:
            self._write(path, _snapshots.figures_text(figures))
            return
        if problems := _snapshots.compare_figures(path, figures, allow or {}):
            raise _snapshots.SnapshotError("\n".join([f"figures differ from {path}", *problems]))

    def latency(
        self, call: Any, name: str = "latency", *, repeat: int = 20, allow: float | None = None
    ) -> float:
        """Return the time of a call relative to a reference load, and compare it with the stored
        one: a warning if it is 1.5 times as long.

        Args:
            call: Function without arguments.
            allow: Ratio to the stored time from which the test fails. Default: it never does, as
                machines and their load differ.

        Raises SnapshotError beyond `allow`, and without a snapshot, ValueError for a `repeat` below
        1.
        """
        __tracebackhide__ = True
        from executorch_c import _snapshots

        path, ratio = self._path(name, ".json"), _snapshots.relative_latency(call, repeat)
        if self._updates:
            self._write(path, _snapshots.figures_text({_snapshots.LATENCY: ratio}))
            return ratio
        stored = _snapshots.stored_latency(path)
        text = f"{path}: {ratio:.3g} times the reference load, stored {stored:.3g}"
        if allow is not None and ratio > allow * stored:
            raise _snapshots.SnapshotError(f"{text}, at most {allow:g} times that is allowed")
        if ratio > _snapshots.SLOWER * stored:
            warnings.warn(f"slower: {text}", stacklevel=2)
        return ratio

    def _path(self, name: str, ending: str) -> Any:
        """Return the file of the next snapshot of the test. Raises ValueError for a name that it
        has used."""
        from executorch_c import _snapshots

        key = f"{name}{ending}"
        number = self._numbers.get(key, 0)
        self._numbers[key] = number + 1
        if name and number:
            raise ValueError(f"the test has two snapshots with the name {name!r}")
        node = self._request.node
        test = node.nodeid.partition("::")[2]
        return _snapshots.path_of(node.path, test, name, number, ending)

    def _write(self, path: Any, data: bytes) -> None:
        from executorch_c import _snapshots

        if _snapshots.write(path, data):
            self._request.node.user_properties.append((WRITTEN, str(path)))


@pytest.fixture
def pte_snapshot(request: pytest.FixtureRequest) -> PteSnapshot:
    """Compare outputs and figures with stored ones: `pte_snapshot(outputs)`,
    `pte_snapshot.figures({"sqnr_db": x})`; --pte-update stores them."""
    return PteSnapshot(request)


@pytest.fixture
def pte_check(request: pytest.FixtureRequest) -> PteCheck:
    """Check a model: `pte_check(model, example_inputs, flow=..., **options)`."""
    return PteCheck(request)


@pytest.fixture
def pte_compare(request: pytest.FixtureRequest) -> PteCompare:
    """Compare outputs: `pte_compare(actual, expected, **options)`."""
    return PteCompare(request)


# ---- reports ----------------------------------------------------------------------------------


def file_name(nodeid: str) -> str:
    """Return a file name that is unique for a test."""
    text = re.sub(r"[^A-Za-z0-9.]+", "_", nodeid).strip("_.")[-100:]
    return f"{text}-{hashlib.sha256(nodeid.encode()).hexdigest()[:8]}.html"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        yield error
        seen.append(error)
        error = error.__cause__ or error.__context__


def _page(error: BaseException | None, title: str) -> str | None:
    """Return the report of a failed check; None for other exceptions."""
    ours = [one for one in _chain(error) if type(one).__module__.startswith("executorch_c.")]
    if not ours:
        return None
    from executorch_c.check import report
    from executorch_c.testing import CheckError, MismatchError

    for one in ours:
        if isinstance(one, CheckError):
            return one.result.to_html(title=title)
        if isinstance(one, MismatchError):
            part = ("", one.comparison, one.actual, one.expected)
            return report.comparisons_page(title, part)
    return None


class _Updates:
    """Counts the snapshots that --pte-update writes, those of workers, too."""

    def __init__(self) -> None:
        self.paths: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the snapshots of a test."""
        self.paths |= {str(path) for name, path in report.user_properties if name == WRITTEN}

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the number of snapshots, and their files."""
        terminalreporter.write_line(f"snapshots written: {len(self.paths)}")
        for path in sorted(self.paths):
            terminalreporter.write_line(f"  {path}")


class _Reports:
    """Reports of --pte-report: each process writes the reports of its tests, the main one the
    index."""

    def __init__(self, folder: str, is_worker: bool) -> None:
        self.folder, self.is_worker = folder, is_worker
        self.rows: dict[str, tuple[str, dict[str, Any]]] = {}
        """(outcome, properties) by test."""

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        """Write the report of a failed check."""
        if not isinstance(node, pytest.Item) or call.excinfo is None:
            return
        name = file_name(node.nodeid)
        try:
            text = _page(call.excinfo.value, node.nodeid)
            if text is None:
                return
            self._write(name, text)
        except Exception as error:  # an error of the report must not end the session
            warnings.warn(
                f"no report of {node.nodeid}: {type(error).__name__}: {error}", stacklevel=1
            )
            return
        node.user_properties.append(("pte_report", name))

    def _write(self, name: str, text: str) -> None:
        from executorch_c._paths import write_text

        os.makedirs(self.folder, exist_ok=True)
        write_text(os.path.join(self.folder, name), text)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the metrics of a test; for tests of workers, in the main process."""
        figures = {name: value for name, value in report.user_properties if name.startswith("pte_")}
        before = self.rows.get(report.nodeid, ("", {}))[0]
        outcome = before if before == "failed" or report.when == "teardown" else report.outcome
        self.rows[report.nodeid] = (outcome, figures)

    def pytest_sessionfinish(self) -> None:
        """Write the index."""
        rows = {test: row for test, row in self.rows.items() if row[1]}
        if rows and not self.is_worker:
            self._write("index.html", _index(rows))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the place of the reports."""
        pages = sum("pte_report" in figures for _, figures in self.rows.values())
        if any(figures for _, figures in self.rows.values()):
            index = os.path.join(self.folder, "index.html")
            terminalreporter.write_line(f"reports of {pages} failing checks: {index}")


def _index(rows: dict[str, tuple[str, dict[str, Any]]]) -> str:
    """Return a page with a row for each test, failing tests first."""
    from executorch_c._render.html import page, table, tag, verdict

    def text(value: Any) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    lines = []
    for test, (outcome, figures) in sorted(rows.items(), key=lambda row: row[1][0] != "failed"):
        report = figures.get("pte_report")
        name = tag("a", test, href=report) if report else test
        colour = verdict("error" if outcome == "failed" else "ok", outcome)
        lines.append(
            [name, colour, *(text(figures.get(f"pte_{figure}", "")) for figure in FIGURES)]
        )
    failed = sum(outcome == "failed" for outcome, _ in rows.values())
    summary = verdict("error" if failed else "ok", f"{len(rows)} tests, {failed} failed")
    return page(
        "Checks of ExecuTorch programs",
        tag("p", summary),
        table("", ["test", "", *FIGURES.values()], lines, 1),
    )
