"""Large sweeps: a sample by default, every row with -m "" or by name."""

import shutil
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
CONFTEST = (Path(__file__).parent / "conftest.py").read_text()
TEST = """
import pytest

@pytest.mark.sweep(4)
@pytest.mark.parametrize("row", range(10))
def test_rows(row):
    pass

def test_other():
    pass

@pytest.mark.heavy
def test_heavy():
    pass
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"passed": 4, "deselected": 8}),
        (["-m", ""], {"passed": 12}),
        (["--rotation", "1"], {"passed": 5, "deselected": 7}),  # rows 1, 5, 9, and the heavy test
        (["--rotation", "3"], {"passed": 3, "deselected": 9}),  # rows 3, 7
        (["test_it.py::test_rows[5]"], {"passed": 1}),
        (["test_it.py::test_heavy"], {"passed": 1}),
    ],
)
def test_which_rows_run(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    expected: dict[str, int],
) -> None:
    monkeypatch.delenv("EXECUTORCH_C_TEST_ROTATION", raising=False)
    pytester.makeconftest(CONFTEST)
    folder = pytester.mkpydir("tests")
    for name in ("openers.py", "exporter_speed.py"):
        shutil.copy(Path(__file__).with_name(name), folder)
    pytester.makepyfile(test_it=TEST)
    pytester.makeini('[pytest]\naddopts = -m "not full"\npythonpath = .\n')
    ran = pytester.runpytest_subprocess(*arguments)
    ran.assert_outcomes(**expected)
