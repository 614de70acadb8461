"""A sample of the official flow's own tests, on this runtime. All of them: python -m
tests.official"""

import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests import process
from tests.official import __main__ as official


GROUPS = {
    "runtime": r"runtime/|extension/pybindings/test/test_backend",
    "bindings": r"extension/pybindings/test/test_pybindings|backends/xnnpack/",
    "others": r"exir/|devtools/",  # the emitter, the inspector and bundled programs
}
"""Patterns of the files that one process runs."""
COUNTS = {**official.RUNTIME, "backends/xnnpack/test/ops/test_add.py": 11}


def passed(report: Path, names: Iterable[str]) -> dict[str, int]:
    """Return the number of passing tests of each file, by their classes, which may inherit them."""
    cases = ElementTree.parse(report).iter("testcase")
    places = [f"{case.get('classname')}." for case in cases if not len(case)]  # no failure, no skip
    modules = {name: name.removesuffix(".py").replace("/", ".") + "." for name in names}
    return {
        name: sum(place.startswith(module) for place in places) for name, module in modules.items()
    }


@pytest.mark.heavy
@pytest.mark.parametrize("group", GROUPS)
def test_the_official_tests_pass(tmp_path: Path, group: str) -> None:
    """Counts are exact: a test that is not found, or that skips itself, has not passed. Files are
    run by one process, since each would spend most of its time with imports."""
    wanted = {name: count for name, count in COUNTS.items() if re.match(GROUPS[group], name)}
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
