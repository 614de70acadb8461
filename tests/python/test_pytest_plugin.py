"""The pytest plugin: fixtures, the marker, ini options, reports, JUnit, workers, start-up."""

import json
import re
import sys
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

import pytest

import executorch_c

# The fixture `pytester` unloads modules that a test imported; torch does not survive a second
# import.
try:
    import executorch.exir  # noqa: F401
    import torch  # noqa: F401
except ImportError:
    pass

from executorch_c.pytest_plugin import OPTIONS, file_name

pytest_plugins = ["pytester"]
ROOT = Path(executorch_c.__file__).parents[1]
CACHE = Path.home() / ".cache"
PLUGIN = "executorch_c.pytest_plugin"

COMPARISONS = """
    import numpy as np
    import pytest

    x = np.linspace(1, 2, 6, dtype=np.float32).reshape(2, 3)

    def test_same(pte_compare):
        assert pte_compare(x, x).ok

    def test_off(pte_compare):
        pte_compare([x, x + 0.5], [x, x])

    @pytest.mark.pte(atol=1)
    class TestMarked:
        def test_far(self, pte_compare):
            pte_compare(x + 0.5, x)

        @pytest.mark.pte(atol=0.1)
        @pytest.mark.parametrize("name", ["a/b", "a b"])
        def test_nearer(self, pte_compare, name):
            pte_compare(x + 0.5, x)

        def test_given(self, pte_compare):
            pte_compare(x, x, atol=0)
            pte_compare(x + 2, x, atol=3)
"""


def without_others() -> list[str]:
    """Return options that disable all other installed plugins, whose import takes seconds."""
    names = {point.name for point in entry_points(group="pytest11")} - {PLUGIN}
    return [option for name in sorted(names) for option in ("-p", f"no:{name}")]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> object:
    """Run pytest in a separate process, with the package of this one and only our plugin: by name,
    or (`installed`) through its entry point."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    # pytester sets another home directory, in which matplotlib would search all fonts again.
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE))

    def run_it(*args: str, plugin: bool = True, installed: bool = False) -> pytest.RunResult:
        asked = ["-p", PLUGIN] if plugin else []
        if installed:
            asked += without_others()
        else:
            monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        return pytester.runpytest_subprocess(*asked, *args, timeout=120)

    return run_it


@pytest.mark.parametrize(
    "workers", [(), ("-p", "xdist.plugin", "-n", "2")], ids=["one process", "workers"]
)
def test_fixtures_marker_and_reports(
    pytester: pytest.Pytester, run, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_it=COMPARISONS)
    if workers:
        pytest.importorskip("xdist")
    result = run("-v", "--pte-report", "out/reports", "--junitxml=junit.xml", *workers)
    result.assert_outcomes(passed=3, failed=3)
    if not workers:
        rows = (
            "*::test_same PASSED*",
            "*Marked::test_far PASSED*",
            "*Marked::test_nearer*a/b* FAILED*",
        )
        result.stdout.fnmatch_lines([*rows])
    result.stdout.fnmatch_lines(
        [
            ">       pte_compare([[]x, x + 0.5[]], [[]x, x[]])",  # the line of the test
            "E *MismatchError: outputs differ",
            "E *output 1: 6 of 6 elements (100.00%) differ by more than atol 1e-05 [*] scale +",
        ]
    )
    result.stdout.fnmatch_lines(["*differ by more than atol 0.1 *"])
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")
    folder = pytester.path / "out" / "reports"
    result.stdout.fnmatch_lines([f"reports of 3 failing checks: {folder / 'index.html'}"])
    rows = "test_off", "TestMarked::test_nearer[a/b]", "TestMarked::test_nearer[a b]"
    failing = [f"test_it.py::{row}" for row in rows]
    names = {file_name(test) for test in failing}
    assert {path.name for path in folder.iterdir()} == names | {"index.html"} and len(names) == 3
    index = (folder / "index.html").read_text()
    assert all(f'<a href="{name}">' in index for name in names)
    assert "6 tests, 3 failed" in index and "TestMarked::test_far" in index
    page = (folder / file_name(failing[0])).read_text()
    parts = "the first difference and the largest ones", "(0, 0)", "<td>1.5</td>"
    for part in ("test_it.py::test_off", "output 1: 6 of 6 elements", *parts):
        assert part in page

    values = {}
    for case in ElementTree.parse(pytester.path / "junit.xml").iter("testcase"):
        values[case.get("name")] = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert values["test_off"]["pte_max_abs"] == "0.5"
    assert values["test_off"]["pte_report"] == file_name(failing[0])
    assert float(values["test_off"]["pte_snr_db"]) == pytest.approx(9.76, abs=0.01)
    assert values["test_same"]["pte_snr_db"] == "inf"
    assert values["test_given"]["pte_max_abs"] == "0.0"
    assert float(values["test_given"]["pte_1_max_abs"]) == pytest.approx(2)


def test_asserts_without_fixtures_have_reports_too(pytester: pytest.Pytester, run) -> None:
    pytester.makepyfile("""
        from pathlib import Path
        import executorch_c, numpy as np
        from executorch_c.testing import assert_matches

        def test_digits():
            folder = Path(executorch_c.__file__).parent / "examples"
            with np.load(folder / "digits.npz") as data:
                images, expected = data["inputs"], data["expected"].copy()
            expected[3, 7] += 1
            try:
                assert_matches([images], expected, program=folder / "digits.pte", atol=1e-4)
            except AssertionError as error:
                raise RuntimeError("the classifier") from error

        def test_other():
            assert False
    """)
    result = run("--pte-report=reports")
    result.assert_outcomes(failed=2)
    pages = [p for p in (pytester.path / "reports").iterdir() if p.name != "index.html"]
    assert len(pages) == 1 and "(3, 7)" in pages[0].read_text()


def test_nothing_is_written_without_checks(pytester: pytest.Pytester, run) -> None:
    pytester.makepyfile("def test_it(): assert False")
    result = run("--pte-report=reports")
    result.assert_outcomes(failed=1)
    assert not (pytester.path / "reports").exists()


def test_models_by_ini_and_marker(pytester: pytest.Pytester, run) -> None:
    pytest.importorskip("executorch.exir")
    pytester.makeini("[pytest]\npte_n_random = 1\npte_flow = nonsense\n")
    pytester.makepyfile("""
        import executorch_c, pytest, torch

        @pytest.mark.pte(flow="portable", seed=3, search=0.5)
        def test_model(pte_check):
            result = pte_check(torch.nn.Linear(3, 2).eval(), (torch.randn(4, 3),))
            assert [case.kind for case in result][:2] == ["example", "random"]
            assert any(note.startswith("search: ") for note in result.notes)

        def test_flow_of_the_ini_file(pte_check):
            with pytest.raises(ValueError, match="`flow` is 'nonsense', expected one of"):
                pte_check(torch.tanh, torch.randn(3))

        @pytest.mark.pte(flow="portable")
        def test_fault(pte_check):
            schema = str(torch.ops.aten.tanh.out._schema)
            executorch_c.register_operator(schema, lambda x: x * 0, override=True)
            pte_check(torch.tanh, torch.randn(3))
    """)
    result = run("--pte-report=reports")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            ">*pte_check(torch.tanh, torch.randn(3))",
            "E *CheckError: 2 of 2 cases differ (portable, method 'forward')",
            "E *example: output 0: 3 of 3 elements*",
            "E *The first divergence: *",
        ]
    )
    pages = {p.name.partition("-")[0]: p.read_text() for p in (pytester.path / "reports").iterdir()}
    fault = next(text for name, text in pages.items() if name.endswith("test_fault"))
    assert "2 of 2 cases differ" in fault and "random 0" in fault
    assert "2 tests, 1 failed" in pages["index.html"]


def test_wrong_options_are_said(pytester: pytest.Pytester, run) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.pte(tolerance=1)
        def test_it(pte_compare):
            pte_compare(1.0, 1.0)
    """)
    run().stdout.fnmatch_lines([f"E *marker pte: tolerance unknown, expected {', '.join(OPTIONS)}"])
    pytester.makeini("[pytest]\npte_rtol = small\n")
    pytester.makepyfile("def test_it(pte_compare): pte_compare(1.0, 1.0)")
    run().stdout.fnmatch_lines(["E *pte_rtol is 'small', expected float"])


def test_file_names_are_safe_and_differ() -> None:
    tests = "a/b.py::test[x/y]", "a/b.py::test[x y]", "a/b.py::test[..]", "\u00e4" * 300, "../../x"
    names = [file_name(test) for test in tests]
    assert len(set(names)) == len(names)
    for name in names:
        assert len(name) < 130 and re.fullmatch(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]*", name)


# ---- start-up ---------------------------------------------------------------------------------


def test_an_unused_plugin_costs_nothing(pytester: pytest.Pytester, run) -> None:
    pytester.makeconftest("""
        import json, sys

        def pytest_sessionfinish():
            with open("modules.json", "w") as file:
                json.dump(sorted(sys.modules), file)
    """)
    pytester.makepyfile("def test_it(): pass")
    run().assert_outcomes(passed=1)
    modules = json.loads((pytester.path / "modules.json").read_text())
    assert PLUGIN in modules
    ours = {name for name in modules if name.partition(".")[0] == "executorch_c"}
    assert ours == {"executorch_c", PLUGIN}
    assert not {"numpy", "torch"} & set(modules)


@pytest.mark.parametrize("asked", [False, True], ids=["installed", "installed and asked for"])
@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_as_an_installed_plugin(
    pytester: pytest.Pytester, run, monkeypatch: pytest.MonkeyPatch, asked: bool, mode: str
) -> None:
    """Through the entry point of pyproject.toml; with -p as well, it is loaded once."""
    tomllib = pytest.importorskip("tomllib")
    pyproject = Path(__file__).resolve().parents[2] / "pyproject.toml"
    points = tomllib.loads(pyproject.read_text())["project"]["entry-points"]["pytest11"]
    info = pytester.mkdir("site") / "plugin_of_executorch_c-1.0.dist-info"
    info.mkdir()
    lines = "\n".join(f"{name} = {value}" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[pytest11]\n{lines}\n")
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: plugin-of-executorch-c\nVersion: 1.0\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{info.parent}:{ROOT}")
    pytester.makepyfile(COMPARISONS)
    args = (f"--import-mode={mode}", "--pte-report=reports", "-k", "same or given")
    result = run(*args, plugin=asked, installed=True)
    result.assert_outcomes(passed=2, deselected=4)
    result.stdout.fnmatch_lines(["reports of 0 failing checks: *"])


def test_python_is_this_one() -> None:
    """The processes above import the modules of this one."""
    assert Path(sys.modules[PLUGIN].__file__ or "").parents[1] == ROOT
