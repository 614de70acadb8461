"""pte_snapshot: outputs, figures, latency against stored ones; only --pte-update writes them."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from executorch_c import _snapshots
from tests.python.test_pytest_plugin import without_others

pytest_plugins = ["pytester"]

SUITE = """
    import json, os
    import numpy as np
    import pytest

    x = np.linspace(1, 2, 6, dtype=np.float32).reshape(2, 3)
    SHIFT = float(os.environ.get("SHIFT", 0))

    def test_outputs(pte_snapshot):
        pte_snapshot([x + np.float32(SHIFT), np.arange(3)])
        pte_snapshot(x, name="plain")
        pte_snapshot(x * 2)

    @pytest.mark.parametrize("kind", ["a/b", "a b"])
    def test_kinds(pte_snapshot, kind):
        pte_snapshot(x * len(kind) + (kind == "a b") + np.float32(SHIFT))

    def test_figures(pte_snapshot):
        figures = {"sqnr_db": 31.25 - SHIFT, "cosine": 0.9, "bytes": 1000, "layers": 7}
        pte_snapshot.figures(figures)

    def test_loose(pte_snapshot):
        pte_snapshot(x + np.float32(SHIFT), atol=2, rtol=0)
        pte_snapshot.figures({"sqnr_db": 20 - SHIFT}, allow={"sqnr_db": 2})
"""


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    args = ["-p", "executorch_c.pytest_plugin", "-p", "no:cacheprovider", *without_others()]
    return pytester.runpytest_inprocess(*args, *options)


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """Return a folder with a suite and its snapshots."""
    pytester.makepyfile(test_it=SUITE)
    result = run(pytester, "--pte-update")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["snapshots written: 8", "*test_it*test_figures.json"])
    return pytester


def snapshots(folder: Path) -> dict[str, bytes]:
    place = folder / "__pte_snapshots__" / "test_it"
    return {path.name: path.read_bytes() for path in place.iterdir()}


def test_without_a_snapshot_a_test_fails_and_writes_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=SUITE)
    result = run(pytester)
    result.assert_outcomes(failed=5)
    result.stdout.fnmatch_lines(["*no snapshot *test_outputs.npz: write it with*--pte-update*"])
    assert not (pytester.path / "__pte_snapshots__").exists()


def test_equal_outputs_pass_and_leave_the_files(suite: pytest.Pytester) -> None:
    before = snapshots(suite.path)
    assert len(before) == 8 and not [name for name in before if name.startswith(".")]
    run(suite).assert_outcomes(passed=5)
    result = run(suite, "--pte-update")
    result.stdout.fnmatch_lines(["snapshots written: 0"])
    assert snapshots(suite.path) == before


def test_other_outputs_and_worse_figures_fail(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIFT", "1")
    before = snapshots(suite.path)
    result = run(suite)
    result.assert_outcomes(failed=4, passed=1)
    result.stdout.fnmatch_lines(
        ["*outputs differ from *test_outputs.npz", "*output 0: 6 of 6 elements*"]
    )
    result.stdout.fnmatch_lines(
        ["*figures differ from *", "*sqnr_db: 30.25, stored 31.25, at least 30.75 is allowed"]
    )
    assert snapshots(suite.path) == before
    run(suite, "--pte-update").assert_outcomes(passed=5)
    run(suite).assert_outcomes(passed=5)


def test_figures_are_text_with_a_line_for_each(suite: pytest.Pytester) -> None:
    text = snapshots(suite.path)["test_figures.json"].decode()
    assert text.splitlines() == [
        "{",
        '  "bytes": 1000.0,',
        '  "cosine": 0.9,',
        '  "layers": 7.0,',
        '  "sqnr_db": 31.25',
        "}",
    ]


def test_a_damaged_snapshot_is_named(suite: pytest.Pytester) -> None:
    place = suite.path / "__pte_snapshots__" / "test_it"
    (place / "test_outputs.npz").write_bytes(b"PK")
    (place / "test_figures.json").write_text("[1]")
    result = run(suite)
    result.assert_outcomes(failed=2, passed=3)
    result.stdout.fnmatch_lines(["*test_outputs.npz: not an .npz or .npy file*"])
    result.stdout.fnmatch_lines(["*test_figures.json: not a snapshot of figures*"])


def test_workers_write_and_read(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(test_it=SUITE)
    args = ["-p", "executorch_c.pytest_plugin", "-p", "no:cacheprovider", "-n", "2"]
    result = pytester.runpytest_subprocess(*args, "--pte-update")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["snapshots written: 8"])
    pytester.runpytest_subprocess(*args).assert_outcomes(passed=5)


LATENCY = """
    import warnings
    import pytest
    from executorch_c import _snapshots

    @pytest.fixture(autouse=True)
    def ratio(monkeypatch):
        monkeypatch.setattr(_snapshots, "relative_latency", lambda call, repeat: RATIO)

    def test_warns(pte_snapshot):
        assert pte_snapshot.latency(lambda: None) == RATIO

    def test_fails(pte_snapshot):
        pte_snapshot.latency(lambda: None, allow=1.2)
"""


def test_latency_warns_or_has_an_allowance(pytester: pytest.Pytester) -> None:
    path = pytester.makepyfile(test_it=LATENCY + "\n    RATIO = 2.0\n")
    run(pytester, "--pte-update").assert_outcomes(passed=2)
    run(pytester).assert_outcomes(passed=2, warnings=0)
    path.write_text(path.read_text().replace("RATIO = 2.0", "RATIO = 3.5"))
    result = run(pytester)
    result.assert_outcomes(passed=1, failed=1, warnings=1)
    result.stdout.fnmatch_lines(["*3.5 times the reference load, stored 2, at most 1.2 times*"])
    result.stdout.fnmatch_lines(["*slower: *3.5 times the reference load, stored 2*"])


USELESS = """
    class Result:
        def figures(self):
            return {"cases": 3}

    def test_nothing(pte_snapshot):
        pte_snapshot.figures(Result())

    def test_empty(pte_snapshot):
        pte_snapshot.figures({})

    def test_never(pte_snapshot):
        pte_snapshot.latency(lambda: None, repeat=0)

    def test_other(pte_snapshot):
        pte_snapshot.figures({"bytes": 7}, name="latency")
"""


def test_what_can_never_fail_is_refused(pytester: pytest.Pytester) -> None:
    """Figures of nothing, a latency of no calls, and another snapshot in the place of a latency."""
    pytester.makepyfile(test_it=USELESS)
    result = run(pytester, "--pte-update")
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(["*no figures to compare*", "*`repeat` is 0, expected 1 or more*"])
    path = pytester.path / "test_it.py"
    path.write_text(
        path.read_text().replace('.figures({"bytes": 7}, name="latency")', ".latency(int)")
    )
    result = run(pytester, "-k", "other")
    result.stdout.fnmatch_lines(
        ["*test_other-latency.json: not a snapshot of a latency, but of bytes"]
    )


def test_latency_is_relative_to_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of the test: turns of the call take 6 and 8, of the load 2, 2 and 4."""
    now, calls, loads = [0.0], iter([100.0, 6.0, 6.0, 8.0]), iter([1.0, 2.0, 2.0, 4.0])
    monkeypatch.setattr(_snapshots, "perf_counter", lambda: now[0])

    def sort(values: np.ndarray) -> None:
        now[0] += next(loads)

    def call() -> None:
        now[0] += next(calls)

    monkeypatch.setattr(_snapshots.np, "sort", sort)
    assert _snapshots.relative_latency(call, 3) == 3.0  # the median of 3, 3 and 2


# ---- figures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "stored", "allowed", "ok"),
    [
        ("sqnr_db", 30.6, 31.0, None, True),
        ("sqnr_db", 30.4, 31.0, None, False),
        ("sqnr_db", 50.0, 31.0, None, True),
        ("sqnr_db", 101.0, 140.0, None, True),
        ("cosine", 0.9985, 0.9995, None, True),
        ("cosine", 0.998, 0.9995, None, False),
        ("top5", 0.95, 0.99, 0.05, True),
        ("max_abs", 0.104, 0.1, None, True),
        ("max_abs", 0.106, 0.1, None, False),
        ("max_abs", 0.01, 0.1, None, True),
        ("bytes", 1100, 1000, None, False),
        ("bytes", 10, 1000, None, True),
        ("layers", 7, 7, None, True),
        ("layers", 5, 7, None, False),
        ("layers", 9, 7, None, False),
        ("sqnr_db", math.nan, 31.0, None, False),
        ("max_abs", math.nan, 0.1, None, False),
    ],
)
def test_a_figure_may_not_be_worse(
    tmp_path: Path, name: str, value: float, stored: float, allowed: float | None, ok: bool
) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({name: _snapshots.rounded(name, stored)}))
    allow = {} if allowed is None else {name: allowed}
    assert (_snapshots.compare_figures(path, {name: value}, allow) == []) is ok


def test_missing_and_new_figures_are_said(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a": 1, "b": 2}')
    assert _snapshots.compare_figures(path, {"b": 2, "c": 3}, {}) == [
        "a: missing, stored 1",
        "c: 3, not stored",
    ]
    with pytest.raises(ValueError, match="no figure 'd'"):
        _snapshots.check_names({"d": 1}, {"b": 2})
    with pytest.raises(ValueError, match="a is nan: no figure to store"):
        _snapshots.figures_text({"a": math.nan})


def test_dtypes_and_shapes_are_kept(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = [
        np.arange(6, dtype=np.float16).reshape(2, 3),
        np.array(2.5),
        np.zeros((0, 3), np.int64),
        np.arange(4).astype(ml_dtypes.bfloat16),
        np.array([True, False]),
    ]
    path = tmp_path / "x.npz"
    data = _snapshots.packed(path, values)
    assert _snapshots.write(path, data) and not _snapshots.write(path, data)
    for one, stored in zip(values, _snapshots.stored_outputs(path), strict=True):
        assert one.dtype == stored.dtype and one.shape == stored.shape
        np.testing.assert_array_equal(one, stored)
    with pytest.raises(TypeError, match="output 0 is a str"):
        _snapshots.packed(path, ["x"])


def test_names_of_files_are_of_one_test() -> None:
    tests = ["test_a[x/y]", "test_a[x y]", "test_a", "test_a" * 40, "test_a" * 40 + "b"]
    paths = [_snapshots.path_of(Path("t.py"), test, "", 0, ".npz") for test in tests]
    assert len(set(paths)) == len(tests) and all(len(path.name) < 110 for path in paths)
