"""Formats of CI systems."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from executorch_c.suite import run, writers
from tests.suite.rows import result, row

HOSTILE = "100 % wrong,\nat a|b <x> ::error::\x00 `c`"


@pytest.fixture
def mixed():
    rows = [
        row(),
        row("bad:native", "differ", about=HOSTILE, problems=("first", "second")),
        row("ill:native", "error", sqnr_db=None, size_bytes=None),
        row("odd:program", "inconclusive", line=None),
        row("slow:native", call_ms=9.0),
    ]
    old = [row(), row("slow:native", call_ms=1.0), *rows[1:4]]
    return run.against(result(*rows), result(*old))


def test_junit(mixed) -> None:
    suite = ElementTree.fromstring(writers.junit(mixed))[0]
    counts = [suite.get(name) for name in ("tests", "failures", "errors")]
    assert counts == ["5", "3", "1"]
    kinds = [[child.tag for child in case][1:] for case in suite]
    assert kinds == [[], ["failure"], ["error"], ["failure"], ["failure"]]
    figures = {one.get("name"): one.get("value") for one in suite[0][0]}
    assert figures["size_bytes"] == "10000" and figures["sqnr_db"] == "40"
    assert "size_bytes" not in {one.get("name") for one in suite[2][0]}
    assert suite[1][1].text == HOSTILE.replace("\x00", "\\x00") + "\nfirst\nsecond"
    assert suite[4][1].get("message") == "ms 9, was 1" and suite[4][1].get("type") == "worse"


def test_markdown(mixed) -> None:
    lines = writers.markdown(mixed).splitlines()
    table = [line for line in lines if line.startswith("|")]
    bars = {line.replace("\\|", "").count("|") for line in table}
    assert len(table) == 7 and len(bars) == 1
    assert any(r"a\|b \<x\>" in line for line in lines)


def test_gitlab(mixed) -> None:
    issues = json.loads(writers.gitlab(mixed))
    assert [issue["severity"] for issue in issues] == ["critical", "critical", "minor", "major"]
    assert issues[0]["location"] == {"path": "ci/checks.toml", "lines": {"begin": 4}}
    assert len({issue["fingerprint"] for issue in issues}) == 4
    assert json.loads(writers.gitlab(result(row()))) == []


def test_github(mixed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = writers.github(mixed).splitlines()
    assert [line.split()[0] for line in lines] == ["::error", "::error", "::warning", "::error"]
    assert lines[0].startswith(
        "::error file=ci/checks.toml,line=4,title=bad%3Anative%3A differ::100 %25 wrong,%0Aat"
    )
    assert lines[3].endswith("title=slow%3Anative%3A worse::ms 9, was 1")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    (tmp_path / "summary.md").write_text("before\n")
    assert writers.on_github(mixed) == ""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    assert writers.on_github(mixed) == writers.github(mixed)
    assert (tmp_path / "summary.md").read_text() == "before\n" + writers.markdown(mixed)
