"""Verdicts, JSON, parts and baselines of results."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from executorch_c.suite import run
from executorch_c.suite.result import SuiteError, read
from tests.suite.rows import result, row


def test_many_notes_are_one() -> None:
    """As of parts of a selection that are merged, beside a baseline of all."""
    old = result(*(row(f"m{i}:portable") for i in range(60)))
    lines = run.against(result(row("m0:portable")), old).problems()
    assert lines == [
        "note: 59 checks are in the baseline only: 'm1:portable', 'm2:portable', 'm3:portable', "
        "'m4:portable', .."
    ]


def test_verdict_is_the_worst() -> None:
    verdicts = ["match", "inconclusive", "error", "differ"]
    for i, worst in enumerate(verdicts):
        rows = [row(f"n{k}:native", verdict) for k, verdict in enumerate(verdicts[: i + 1])]
        assert result(*rows).verdict == worst
    assert result().verdict == "inconclusive" and not result().ok
    assert result(row()).raise_if_wrong().ok
    with pytest.raises(SuiteError, match="n:native: error: 1 of 5"):
        result(row("n:native", "error")).raise_if_wrong()


def test_json(tmp_path: Path) -> None:
    first = result(row(sqnr_db=math.inf, problems=("a",)), row("b:native", "error", sqnr_db=None))
    first.save(tmp_path / "a.json")
    data = json.loads((tmp_path / "a.json").read_text())
    assert data["units"]["call_ms"] == "ms" and data["rows"][0]["call_ms"] == 2.0
    assert read(tmp_path / "a.json") == first


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": 1}',
        '{"format": 1, "rows": [3], "title": "", "names": [], "shard": "", "date": ""}',
        '{"format": 1, "rows": [{"name": "a", "model": "a", "flow": null, "about": "", '
        '"verdict": "good"}], "title": "", "names": [], "shard": "", "date": ""}',
    ],
)
def test_wrong_json(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match="a.json: not a result of check-all"):
        read(tmp_path / "a.json")


def test_merge() -> None:
    rows = [row(f"n{k}:native") for k in range(5)]
    names = tuple(one.name for one in rows)
    one = result(*rows[0::2], names=names, shard="1/2")
    two = result(*rows[1::2], names=names, shard="2/2")
    merged = run.merged([("b", two), ("a", one)])
    assert merged.rows == tuple(rows) and merged.ok and not merged.shard
    with pytest.raises(ValueError, match="2 of 5 checks are in none of the files, 'n1:native'"):
        run.merged([("a", one)])
    with pytest.raises(ValueError, match="c: 'n0:native' is in a, too"):
        run.merged([("a", one), ("c", one)])
    with pytest.raises(ValueError, match="c: other checks than those of a"):
        run.merged([("a", one), ("c", result(rows[0]))])


WORSE: dict[str, tuple[dict[str, Any], str]] = {
    "verdict": ({"verdict": "error"}, "error, was match"),
    "sqnr": ({"sqnr_db": 38.9}, "SQNR dB 38.9, was 40.0"),
    "size": ({"size_bytes": 10_101}, "size 9.9 KiB, was 9.8 KiB"),
    "delegated": ({"delegated": 0.79}, "delegated 79 %, was 80 %"),
    "ms": ({"call_ms": 3.01}, "ms 3.01, was 2"),
}
"""Changes beyond the default allowances."""
ALLOWED: list[dict[str, Any]] = [
    {"sqnr_db": 39.1},
    {"sqnr_db": 60.0},
    {"size_bytes": 10_099},
    {"delegated": 0.7995},
    {"call_ms": 2.99},
    {"call_ms": 0.1},
    {"call_ms": None},
    {"power": 0.1},
    {"seconds": 100.0},
]


@pytest.mark.parametrize("name", WORSE)
def test_worse(name: str) -> None:
    change, phrase = WORSE[name]
    compared = run.against(result(row(**change)), result(row()))
    assert compared.worse == {"net:xnnpack": (phrase,)}
    assert compared.verdict == "differ" and phrase in str(compared)
    if name != "verdict":
        more = {"sqnr": 10.0, "size": 1.0, "delegated": 1.0, "ms": 9.0}
        assert run.against(result(row(**change)), result(row()), more).ok


@pytest.mark.parametrize("change", ALLOWED)
def test_not_worse(change: dict[str, Any]) -> None:
    assert run.against(result(row(**change)), result(row())).worse == {}


def test_times_below_a_twentieth_of_a_millisecond_are_no_regression() -> None:
    old, new = row(call_ms=0.001), row(call_ms=0.01)
    assert not run.against(result(new), result(old)).worse


def test_new_and_gone() -> None:
    compared = run.against(result(row("a:native")), result(row("b:native")))
    assert compared.ok and (compared.new, compared.gone) == (("a:native",), ("b:native",))
    assert "note: 'b:native' is in the baseline only" in str(compared)


def test_unknown_allowance() -> None:
    with pytest.raises(ValueError, match="allowance of 'sqnrr', did you mean 'sqnr'?"):
        run.against(result(row()), result(row()), {"sqnrr": 1.0})
    with pytest.raises(ValueError, match="'ms' is -1"):
        run.against(result(row()), result(row()), {"ms": -1.0})


def test_rounding_is_not_worse_than_the_baseline() -> None:
    """Of programs in floats, the ratio is that of rounding, which weights and processors change."""

    def worse(was: float, now: float) -> bool:
        old, new = (result(row(sqnr_db=value)) for value in (was, now))
        return bool(run.against(new, old).worse)

    assert not worse(142.0, 128.0) and not worse(math.inf, 120.0)
    assert worse(142.0, 98.0) and worse(40.0, 38.9) and not worse(40.0, 39.1)


def test_names_of_checks_are_whole_in_a_narrow_table() -> None:
    names = [f"conv_{kind}:xnnpack-int8" for kind in ("depthwise", "hardswish")]
    rows = [row(name, sqnr_db=31.2, power=0.5, size_bytes=9999, delegated=0.5) for name in names]
    lines = result(*rows).table().splitlines()
    assert [line.split()[0] for line in lines[1:]] == names
    assert all(len(line) <= 80 for line in lines)
