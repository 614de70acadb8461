"""The comparison of releases: each kind of change is found, and what is known has a reason."""

import copy
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from executorch_c import OperatorMissingError
from tests.plans import Plan, build, load
from tests.release import __main__ as command
from tests.release import changes, suites
from tests.release.changes import Change, Known
from tests.release.environment import TIMED_OUT, Environment, streamed

BASE: dict[str, Any] = {
    "versions": {"executorch": "9.9.9"},
    "schemas": {
        "schema/program.fbs": {"table Program": ["version: uint", "segments: [DataSegment]"]},
        "backends/other/schema.fbs": {"enum Kind": ["A = 0", "B"]},
    },
    "operators": {"et::one.out": "et::one.out(Tensor x) -> Tensor", "kernel aten::add.out": ""},
    "backends": {"XnnpackBackend": "a.py"},
    "passes": {"FuseAll": "b.py"},
    "dialects": {"dialect EDGE": "c.py"},
    "api": {"executorch.runtime.Method.execute": "(self, inputs)"},
    "uses": {"executorch.runtime:Runtime": ""},
    "errors": {},
}


def compared(edit: Any) -> list[Change]:
    new = copy.deepcopy(BASE)
    edit(new)
    known = Known.here()
    return [known.judged(row, "9.9.9") for row in changes.all_differences(BASE, new)]


def test_equal_releases_have_no_changes() -> None:
    assert compared(lambda new: None) == []


def append(part: str, *path: str, value: str) -> Any:
    def edit(new: dict[str, Any]) -> None:
        at = new[part]
        for name in path[:-1]:
            at = at[name]
        if isinstance(at.get(path[-1]), list):
            at[path[-1]].append(value)
        else:
            at[path[-1]] = value

    return edit


PROGRAM = ("schemas", "schema/program.fbs", "table Program")
UNKNOWN = {
    "a field": append(*PROGRAM, value="newest: int"),
    "an operator": append("operators", "et::two.out", value="et::two.out(Tensor x) -> Tensor"),
    "a schema": append("operators", "et::one.out", value="et::one.out(Tensor y) -> Tensor"),
    "a kernel": append("operators", "kernel aten::newest.out", value=""),
    "a backend": append("backends", "runtime NewestBackend", value=""),
    "a pass": append("passes", "FuseMore", value="d.py"),
    "a dialect": append("dialects", "dialect NEWEST", value="d.py"),
    "a signature": append("api", "executorch.runtime.Method.execute", value="(self, inputs, out)"),
    "a part that cannot be read": append("errors", "backends of the runtime", value="OSError: no"),
    "a used name": lambda new: new["uses"].clear(),
}
KNOWN = {
    "a field of a table here": append(*PROGRAM, value="named_data: [NamedData]"),
    "a schema that nothing reads": append(
        "schemas", "backends/other/schema.fbs", "enum Kind", value="C"
    ),
    "an operator here": append(
        "operators", "kernel aten::mul.out", value="aten::mul.out(Tensor self) -> Tensor"
    ),
    "an operator of torch": append("operators", "aten::newest", value="aten::newest() -> int"),
    "a backend of known.def": append("backends", "QnnBackend", value="e.py"),
    "a pass less": lambda new: new["passes"].clear(),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_change_is_unknown(kind: str) -> None:
    (change,) = compared(UNKNOWN[kind])
    assert not change.reason
    assert all(len(line) <= 80 for line in command.lines(change).splitlines())


@pytest.mark.parametrize("kind", KNOWN)
def test_a_known_change_has_a_reason(kind: str) -> None:
    assert [bool(change.reason) for change in compared(KNOWN[kind])] == [True]


def script(folder: Path, text: str) -> Environment:
    """Return an environment whose python is a shell script."""
    path = folder / "bin" / "python"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return Environment(str(path))


def test_a_script_that_ends_early_is_said(tmp_path: Path) -> None:
    texts: list[str] = []
    results, missing = script(tmp_path, "printf 'flow a\\tok\\n'").examples(texts.append)
    assert (results, texts, missing) == ({"flow a": "ok"}, ["flow a"], "")
    killed = script(tmp_path, "printf 'flow a\\tok\\n'; kill -KILL $$")
    results, missing = killed.examples(texts.append)
    assert results == {"flow a": "ok"} and missing.startswith("examples.py ended with ")
    assert "reached its time limit" in script(tmp_path, "exit 124").export(tmp_path, texts.append)


def test_examples_run_here_where_they_do_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of both, of which the second runs here, and one that neither has."""
    rows = {"flow a": "ok", "flow b": "no", "flow c": "no", "example D": "no"}
    printed = "".join(rf"{name}\t{result}\n" for name, result in rows.items())
    there = script(tmp_path, f"printf '{printed}'")
    asked: list[list[str]] = []

    class Here:
        def examples(self, say: Any, names: list[str]) -> tuple[dict[str, str], str]:
            asked.append(names)
            return {"flow b": "ok", "flow c": "no"}, ""

    monkeypatch.setattr(command.environment, "here", Here)
    found = [(row.name, row.what) for row in command.changed_examples(there, ())]
    assert found == [
        ("flow b", "fault"),
        ("flow c", "not run by either"),
        ("example D", "fault"),
    ]
    assert asked == [["flow b", "flow c", "example D"]]
    [row] = list(command.changed_examples(script(tmp_path, "true"), ["flow x"]))
    assert (row.name, row.what, row.detail) == ("flow x", "fault", "no such row")
    runs = script(tmp_path, "printf 'flow a\\tok\\n'")
    assert not list(command.changed_examples(runs, ()))


def test_a_silent_process_is_ended(tmp_path: Path) -> None:
    """The processes that it started, too."""
    rows = streamed(["sh", "-c", f"echo one; (sleep 3; touch {tmp_path}/late) & wait"], 0.5)
    lines = []
    with pytest.raises(StopIteration) as end:
        while True:
            lines.append(next(rows))
    assert (lines, end.value.value) == (["one"], TIMED_OUT)
    time.sleep(3)
    assert not (tmp_path / "late").exists()


def suites_of(folder: Path, tests: str) -> list[tuple[str, str]]:
    """Return the differences of a wheel with one file of tests; `ours` is True on this runtime."""
    root = folder / "executorch"
    place = root / suites.SUITES[0]
    place.mkdir(parents=True)
    (root / "__init__.py").touch()
    body = "import os, sys\n\nours = 'official_swap' in sys.modules\n\n\n"
    (place / "test_a.py").write_text(body + tests)
    swap = folder / "official_swap.py"
    swap.touch()
    return list(suites.differences(Environment(sys.executable, (str(folder),)), lambda text: None))


def test_tests_that_pass_there_only_are_found(tmp_path: Path) -> None:
    """A test that ends the process does not take the other ones with it."""
    tests = (
        "def test_one():\n    assert not ours",
        "def test_two():\n    assert ours",
        "def test_three():\n    ours and os._exit(7)",
        "def test_four():\n    ours or os._exit(7)",
        "def test_five():\n    print('start', flush=True)",
        "def test_six():\n    assert not ours",
    )
    name = f"{suites.SUITES[0]}/test_a.py"
    assert suites_of(tmp_path, "\n\n\n".join(tests)) == [
        (f"{name}::test_one", "failed"),
        (f"{name}::test_three", "ended with 7"),
        (f"{name}::test_six", "failed"),
    ]


@pytest.mark.parametrize(
    ("tests", "faults"),
    [
        ("ours and os._exit(7)", ["pytest ended with 7 after 0 tests"]),
        ("", ["pytest ended with 5 after 0 tests", "on its own runtime, pytest ended with 5"]),
    ],
)
def test_tests_that_did_not_run_are_said(tmp_path: Path, tests: str, faults: list[str]) -> None:
    rows = [
        text
        for _, text in suites_of(tmp_path, f"{tests}\n\n\n" + "def test_one(): pass" * bool(tests))
    ]
    assert len(rows) == len(faults) + bool(tests)
    assert all(map(str.startswith, rows, faults)), rows


def test_unknown_changes_are_printed_as_they_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script(tmp_path, "echo 9.9.9")

    def found(*_: Any) -> Iterator[Change]:
        yield Change("api", "executorch.exir.new", "new")
        assert "executorch.exir.new" in capsys.readouterr().out
        yield Change("passes", "OldPass", "gone")

    monkeypatch.setattr(command, "found", found)
    monkeypatch.setattr(sys, "argv", ["release", "--wheel", str(tmp_path)])
    assert command.main() == 1
    assert "executorch 9.9.9: 1 of 2 changes are unknown" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--json"])
    monkeypatch.setattr(command, "found", lambda *_: [Change("passes", "OldPass", "gone")])
    assert command.main() == 0
    assert json.loads(capsys.readouterr().out)["unknown"] == 0


def test_a_moved_field_is_unknown() -> None:
    """A format only grows at the ends of its tables."""
    moved = compared(lambda new: new["schemas"]["schema/program.fbs"]["table Program"].reverse())
    assert [(change.what, change.reason) for change in moved] == [("changed", "")] * 2


def test_reviewed_rows_have_four_cells_and_a_reason() -> None:
    parts = {*changes.PARTS, "errors", "programs", "examples", "suites"}
    for part, name, release, reason in Known.here().rows:
        assert part in parts and name and release and reason


def test_all_formats_have_tables() -> None:
    assert all(changes.fields_here(schema) for schema in changes.FORMATS)


def test_a_snapshot_needs_no_package_of_this_repository() -> None:
    text = (changes.REVIEWED.with_name("snapshot.py")).read_text()
    assert "executorch_c" not in text and "from tests" not in text
    assert json.loads(json.dumps(BASE)) == BASE


def test_an_operator_of_an_older_release_is_named() -> None:
    plan = Plan()
    plan.call("cadence::quantized_conv_nchw.per_tensor_out", plan.input((2,)), plan.output((2,)))
    with pytest.raises(OperatorMissingError, match="of ExecuTorch 1.0; .*: export the model again"):
        load(build(plan))
