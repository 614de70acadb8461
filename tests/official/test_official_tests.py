"""A sample of the official flow's own tests, on this runtime. All of them: python -m
tests.official"""

from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests import process
from tests.official import __main__ as official


BINDINGS = "extension/pybindings/test/test_pybindings.py"
BINDINGS_AND_OPERATOR = {
    "backends/xnnpack/test/ops/test_add.py": 11,
    BINDINGS: official.RUNTIME[BINDINGS],
}
RUNTIME = {
    name: count
    for name, count in official.RUNTIME.items()
    if name.startswith(("runtime/", "extension/")) and name != BINDINGS
}
OTHERS = {
    name: count
    for name, count in official.RUNTIME.items()
    if name not in RUNTIME and name != BINDINGS
}
"""Tests of the emitter, the inspector and bundled programs."""


def passed(report: Path, names: Iterable[str]) -> dict[str, int]:
    """Return the number of passing tests of each file, by their classes, which may inherit them."""
    cases = ElementTree.parse(report).iter("testcase")
    places = [f"{case.get('classname')}." for case in cases if not len(case)]  # no failure, no skip
    modules = {name: name.removesuffix(".py").replace("/", ".") + "." for name in names}
    return {
        name: sum(place.startswith(module) for place in places) for name, module in modules.items()
    }


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(RUNTIME, id="runtime"),
        pytest.param(BINDINGS_AND_OPERATOR, id="bindings", marks=pytest.mark.heavy),
        pytest.param(OTHERS, id="others", marks=pytest.mark.heavy),
    ],
)
def test_the_official_tests_pass(tmp_path: Path, group: dict[str, int]) -> None:
    """Counts are exact: a test that is not found, or that skips itself, has not passed. Files are
    run by one process, since each would spend most of its time with imports."""
    wanted = dict(group)
    backends = pytest.importorskip("executorch_c").Runtime.get().backend_registry
    if not backends.is_available("XnnpackBackend"):
        wanted = {name: count for name, count in wanted.items() if "xnnpack" not in name}
    report = tmp_path / "report.xml"
    done = process.run(
        *official.command(list(wanted)),
        f"--junitxml={report}",
        env=official.environment(),
        cwd=tmp_path,
    )
    assert passed(report, wanted) == wanted, done.stdout[-1000:]
