"""The command bench: turns, intervals, engines that fail, verdicts."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from executorch_c import cli
from executorch_c.bench import child, engines, turns
from executorch_c.bench.report import BenchReport, Measured, ratio_interval, share_of
from executorch_c.devtools import bench
from tests.python.digits import DIGITS, IMAGES

X = IMAGES[:1]


def test_two_programs_in_turns(tmp_path: Path) -> None:
    other = tmp_path / "other.pte"
    other.write_bytes(DIGITS.read_bytes())
    report = bench([DIGITS, other], [X], threads=(1, 2), min_time=0.02, concurrency=2)
    assert report.ok and [(row.name, row.threads) for row in report] == [
        *(("digits.pte", 1), ("other.pte", 1), ("digits.pte", 2), ("other.pte", 2))
    ]
    for row in report:
        assert len(row.turns) == turns.ROUNDS and row.times.min() > 0
        assert row.load_seconds > 0 and row.first_seconds > 0 and row.peak_bytes > 1 << 20
        assert row.calls_per_second is not None and row.calls_per_second > 0
    assert report.rows[1].difference == 0 and report.rows[0].ratio is None
    read = json.loads(report.to_json())["rows"][1]
    assert read["seconds"]["min"] <= read["seconds"]["p50"] <= read["seconds"]["p90"]
    assert read["ratio_interval"][0] <= read["ratio_interval"][1] and read["file"] == str(other)
    assert max(map(len, str(report).splitlines())) <= 80 and "2 threads" not in report.summary()


def test_files_of_one_name_have_their_folders() -> None:
    assert turns._titles(["a/m.pte", "b/m.pte", "c/n.pte"]) == ["a/m.pte", "b/m.pte", "n.pte"]


def test_intervals_hold_the_ratio() -> None:
    """Turns of another load have times of their own; medians are those of all calls."""
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(12):
        load = rng.uniform(1, 2, 10)
        first = [list(rng.uniform(0.9, 1.1, 30) * one) for one in load]
        other = [list(1.5 * rng.uniform(0.9, 1.1, 300) * one) for one in load]
        ratio, low, high = ratio_interval(other, first)
        assert low <= ratio <= high
        inside += low <= 1.5 <= high
    assert inside >= 10
    assert ratio_interval([[2.0], [2.0]], [[1.0], [1.0]]) == (2, 2, 2)


def with_ratio(engine: str, ratio: tuple[float, float, float]) -> BenchReport:
    rows = (Measured("a.pte", "here", "a.pte", 1), Measured("b", engine, "b", 1, ratio=ratio))
    return BenchReport(rows, 1.0)


@pytest.mark.parametrize(
    ("engine", "ratio", "is_slower"),
    [
        ("here", (1.2, 1.15, 1.25), True),
        ("here", (1.2, 1.05, 1.25), False),  # the interval has less than 10 %
        ("here", (0.8, 0.7, 0.9), False),
        ("official", (0.8, 0.7, 0.9), True),
        ("official", (0.93, 0.92, 0.94), False),
        ("official", (1.2, 1.15, 1.25), False),
    ],
)
def test_slower(engine: str, ratio: tuple[float, float, float], is_slower: bool) -> None:
    report = with_ratio(engine, ratio)
    assert bool(report.slower_than(0.1)) == is_slower and report.verdict == "match"
    assert replace(report, allowed=0.1).verdict == ("differ" if is_slower else "match")


def test_shares() -> None:
    assert share_of("10%") == pytest.approx(0.1) and share_of("0.25") == 0.25
    for text in ("ten", "-5%", "", "1e999", "nan"):
        with pytest.raises(ValueError, match="expected a share"):
            share_of(text)


def test_outputs_that_differ_are_shown(tmp_path: Path) -> None:
    row = turns._difference([np.ones(4), np.zeros(2)], [np.ones(4), np.zeros(2)])
    assert row == 0
    assert turns._difference([np.full(4, 1.1)], [np.ones(4)]) == pytest.approx(0.1)
    assert turns._difference([np.ones(3)], [np.ones(4)]) is None
    assert turns._difference([], [np.ones(4)]) is None


def test_an_engine_that_fails_is_a_row(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pte"
    bad.write_bytes(DIGITS.read_bytes()[:100])
    report = bench([DIGITS, bad], [X], threads=1, min_time=0.01)
    assert report.verdict == "error" and not report.rows[0].error
    assert "bad.pte" in report.problems()[0] and "bad.pte" in report.summary()
    assert report.rows_as_dicts()[1]["seconds"] is None


def test_a_process_that_dies_is_told() -> None:
    one = child.Child()
    with pytest.raises(child.Failed, match="AttributeError"):
        one.ask("no such request")
    one._process.kill()
    with pytest.raises(child.Failed, match="SIGKILL"):
        one.ask("turn", 1.0)
    one.close()


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'official'"):
        engines.rival_of("oficial")
    with pytest.raises(ValueError, match="onnxruntime needs a file: onnxruntime:model.onnx"):
        engines.rival_of("onnxruntime")
    with pytest.raises(ValueError, match="takes no file"):
        engines.rival_of("eager:x")
    with pytest.raises(ValueError, match="needs `model`"):
        bench(DIGITS, [X], rivals=["eager"])
    with pytest.raises(ValueError, match="expected positive"):
        bench(DIGITS, [X], threads=0)
    with pytest.raises(ValueError, match="`programs` is empty"):
        bench([], [X])


def test_a_missing_rival_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    with pytest.raises(ImportError, match="pip install 'ai-edge-litert'"):
        engines.rival_of("litert:m.tflite")


@pytest.mark.heavy
def test_the_official_runtime_and_eager(tmp_path: Path) -> None:
    pytest.importorskip("executorch.exir")
    model = tmp_path / "model.py"
    model.write_text(
        "import torch\ndef make():\n    return torch.nn.Flatten().eval(), (torch.ones(1, 1, 8, 8),)"
    )
    options = {"model": f"{model}:make", "rivals": ["official", "eager"]}
    report = bench(DIGITS, [X], threads=1, min_time=0.01, **options)  # type: ignore[arg-type]
    assert [row.name for row in report] == ["digits.pte", "official", "eager"]
    official, eager = report.rows[1:]
    assert report.verdict == "match" and official.difference is not None
    assert official.difference < 1e-6 and official.import_seconds > 0
    assert eager.difference is None  # another shape


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["bench", str(DIGITS), "--min-time", "0.01", "--threads", "1", "--fail-if-slower", "5%"]
    assert cli.main([*args, "--json", "--html", str(tmp_path / "b.html")]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["threads"] == 1
    assert "digits.pte" in (tmp_path / "b.html").read_text()
    for wrong in (["--threads", "0"], ["--min-time", "0"], ["--fail-if-slower", "much"]):
        with pytest.raises(SystemExit):
            cli.main(["bench", str(DIGITS), *wrong])
    assert cli.main(["bench", "no.pte"]) == 1
    assert "no.pte" in capsys.readouterr().err
