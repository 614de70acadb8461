"""Names from files, and names of files, with line breaks, terminal codes, bidi controls and
markup: nothing that is printed has a line of theirs."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import cli
from executorch_c.suite import writers

LINE = "verdict: match"
EVIL = f"a\n{LINE}\r{LINE}\x1b[2J\x1b]0;t\x07\u202e\u2028{LINE}|`c`<b>&\x9b1A"
"""A name; each command would print the line."""
CONTROLS = set("\x1b\x07\r\x9b\u202e\u2028")


def check_text(text: str) -> None:
    assert not set(text) & CONTROLS, [c for c in text if c in CONTROLS]
    assert not any(line.strip().startswith(LINE) for line in text.splitlines()), text


def program(fails: bool) -> bytes:
    """Return a program whose method, weight and constants have evil names. One that fails has an
    evil operator, delegate and text, too."""
    plans = pytest.importorskip("tests.plans")
    plan = plans.Plan(name=EVIL)
    x, y = plan.input((4,)), plan.output((4,))
    constants = plans.Constants()
    weight = plan.constant(constants, np.ones(4, np.float32), name=EVIL)
    if fails:
        plan.give(plan.value(EVIL))
    plan.call("aten::add.out", x, weight, 1, y)
    if fails:
        plan.call(f"a::{EVIL}.out", x, weight, y)
        plan.delegate(EVIL, 0)
        plan.append(plans.schema.DelegateCall(0, [int(x), int(y)]))
    pte: bytes = plans.build(plan, constants=constants, payloads=[b"x"] if fails else [])
    return pte


COMMANDS: dict[str, list[str]] = {
    "info": [],
    "dump": [],
    "graph": [],
    "memory": [],
    "run": [],
    "trace": [],
    "bench": ["--warmup", "0"],
    "validate": ["none"],
    "compare": ["PROGRAM"],
    "blame": ["none"],
    "selective": ["-o", "OUT"],
    "explain": ["--model", "none"],
    "check": ["none.py"],
    "generate": ["hello"],
    "perplexity": ["none"],
    "etdump": [],
}


@pytest.mark.parametrize("fails", [True, False], ids=["evil", "good"])
@pytest.mark.parametrize("command", COMMANDS)
def test_commands(
    command: str, fails: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"m\n{LINE}\x1b[2J\u202e|`.pte"
    path.write_bytes(program(fails))
    places = {"PROGRAM": str(path), "OUT": str(tmp_path / "out")}
    words = [places.get(word, word) for word in COMMANDS[command]]
    for more in ([], ["--json"], ["--html", str(tmp_path / "page.html")]):
        try:
            cli.main([command, str(path), *words, *more])
        except SystemExit as error:  # of argparse: no such option
            assert error.code == 2
        out, err = capfd.readouterr()
        if "--json" not in more:
            check_text(out)
        elif out.startswith(("{", "[")):
            assert json.loads(out) is not None and not set(out) & CONTROLS - {"\u202e", "\u2028"}
        check_text(err)
    if (tmp_path / "page.html").is_file():
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert "<b>&" not in page and not set(page) & (CONTROLS - {"\r"})


def test_messages() -> None:
    loaded = executorch_c.Runtime.get().load_program(program(fails=True))
    (name,) = loaded.method_names
    assert name == EVIL, "names themselves are the file's"
    with pytest.raises(executorch_c.Error) as raised:
        loaded.load_method(name)
    check_text(str(raised.value))
    for shown in (repr(loaded), repr(loaded.metadata(name))):
        check_text(shown)
    for name in (EVIL, f"{EVIL}.pte"):
        with pytest.raises(executorch_c.AccessFailedError) as failed:
            executorch_c.load(name)
        check_text(str(failed.value))


class Row:
    name = model = f"m {EVIL}"
    flow = f"flow {EVIL}"
    verdict, seconds, line = "differ", 1.0, 3
    problems = (f"output 0 of {EVIL}",)

    def __getattr__(self, name: str) -> None:
        return None


class Result(list[Row]):
    title, date, unfinished = f"checks {EVIL}.toml", "2026-01-01", (f"x {EVIL}:y",)

    @property
    def failures(self) -> list[Row]:
        return list(self)

    def state(self, row: Row) -> str:
        return row.verdict

    def why(self, row: Row) -> str:
        return f"it differs at {EVIL}"

    def heading(self) -> str:
        return f"check_all: {EVIL}"

    summary = heading

    def head(self) -> list[str]:
        return ["model", "verdict"]

    def cells(self) -> list[list[str]]:
        return [[row.name, row.verdict] for row in self]

    def problems(self) -> list[str]:
        return [f"{row.name}: {row.problems[0]}" for row in self]


def test_files_of_ci_systems() -> None:
    result: Any = Result([Row()])
    text = writers.junit(result)
    assert not set(text) & CONTROLS
    case = ElementTree.fromstring(text).find(".//testcase")
    assert case is not None and "\n" not in case.attrib["classname"]
    page = writers.markdown(result)
    check_text(page)
    cells = [line for line in page.splitlines() if line.startswith("| m ")]
    assert len(cells) == 1 and cells[0].replace("\\|", "").count("|") == 3
    assert "<b>" not in page.replace("\\<b\\>", "") and "`c" not in page.replace("\\`c", "")
    commands = writers.github(result)
    assert len(commands.splitlines()) == 1 and commands.startswith("::error file=")
    check_text(commands)
    assert not set(writers.gitlab(result)) & CONTROLS
