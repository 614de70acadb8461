"""Tables of commands: drawn by rich on a terminal, plain text anywhere else."""

import io
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

import executorch_c
from executorch_c import cli
from executorch_c._render import terminal, text
from tests.python import digits

pytest.importorskip("rich")

DIGITS = str(digits.DIGITS)
COMPARE = ("compare", DIGITS, "--kernels", "reference")
CODE = re.compile(r"\x1b\[[0-9;]*m")

ROWS = [
    ["0", "instruction 3", "aten::convolution.out of a name that is long", "ok", "1.2e-07"],
    ["1", "delegate 0, node 5", "Fully Connected (NC, F32) GEMM", "source", "0.53"],
    ["2", "instruction 7", "aten::view_copy.out", "inconclusive", "0.061"],
]
HEAD = ("", "where", "operator", "verdict", "error")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 80 columns."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal()


def printed(file: io.StringIO, *args: str) -> str:
    """Return the text that a command prints to a file."""
    with redirect_stdout(file):
        assert cli.main(args) == 0
    return file.getvalue()


def undrawn(text: str) -> str:
    return "\n".join(line.rstrip() for line in CODE.sub("", text).split("\n"))


def test_columns_and_verdicts(screen: Terminal) -> None:
    plain = text.table(ROWS, HEAD, width=80)
    with terminal.tables(screen):
        shown = text.table(ROWS, HEAD)  # default: the terminal's width
    assert undrawn(shown) == plain
    assert max(map(len, undrawn(shown).split("\n"))) <= 80 and "aten::convolu" in plain
    for cell, code in (("ok", "32"), ("source", "1;31"), ("inconclusive", "33")):
        assert re.search(rf"\x1b\[{code}m{cell} *\x1b\[0m", shown), (cell, shown)
    assert "\x1b" not in text.table(ROWS, HEAD)


def test_a_command_on_a_terminal(screen: Terminal) -> None:
    shown = printed(screen, *COMPARE)
    assert re.search(r"\x1b\[32mok *\x1b\[0m", shown), shown
    assert max(map(len, undrawn(shown).splitlines())) <= 80
    piped = printed(io.StringIO(), *COMPARE)
    assert "\x1b" not in piped and undrawn(shown) == piped


def test_without_rich(screen: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    shown = printed(screen, *COMPARE)
    assert "\x1b" not in shown and " ok " in shown


@pytest.mark.parametrize("columns, used", [("40", 80), ("80", 80), ("120", 120)])
def test_width(screen: Terminal, monkeypatch: pytest.MonkeyPatch, columns: str, used: int) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with terminal.tables(screen):
        lines = undrawn(text.table([["a" * 300, "skipped"]], ("name", "verdict"))).split("\n")
    assert len(lines[1]) == used and "aa..aa" in lines[1] and lines[1].endswith("  skipped")


def test_tables_that_cannot_be_cut_are_whole(screen: Terminal) -> None:
    row = ["1" * 60, "2" * 60]
    with terminal.tables(screen):
        assert undrawn(text.table([row])).split() == row


def test_sentences_that_begin_with_a_number_are_shortened() -> None:
    rows = [["1 -infinite of 1 element of float32, first at ()" * 2, "12.5 %"]]
    (line,) = text.table(rows, width=60).splitlines()
    assert len(line) <= 60 and line.endswith("  12.5 %")


def test_files_are_plain(screen: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    shown = printed(screen, *COMPARE, "--output", str(path))
    written = path.read_text()
    assert "\x1b" in shown and "\x1b" not in written and written == undrawn(shown)
    dump = tmp_path / "dump.txt"
    printed(screen, "dump", DIGITS, "--output", str(dump))
    assert "\x1b" not in dump.read_text()


# ---- names that a terminal obeys ---------------------------------------------------------------

TITLE, CLEAR, HIDE = "\x1b]0;owned\x07", "\x1b[2J", "\x1b[8m"


def hostile() -> bytes:
    """A program whose names hold a terminal's codes and line breaks."""
    plans = pytest.importorskip("tests.plans")
    plan = plans.Plan(name=f"forward{TITLE}\nmethod other: nothing is missing")
    x, y = plan.input((4,)), plan.output((4,))
    constants = plans.Constants()
    ones = np.ones(4, np.float32)
    weight = plan.constant(constants, ones, name=f"weight{CLEAR}\rname\u202e\x9b1A")
    plan.give(plan.value(f"text{HIDE}"))
    plan.call("aten::add.out", x, weight, 1, y)
    plan.call(f"a::b{CLEAR}.out", x, weight, y)
    plan.delegate(f"Backend{TITLE}", 0)
    plan.append(plans.schema.DelegateCall(0, [int(x), int(y)]))
    pte: bytes = plans.build(plan, constants=constants, payloads=[b"x"])
    return pte


@pytest.mark.parametrize("command", ["info", "dump", "graph", "memory", "run", "trace"])
@pytest.mark.parametrize("drawn", [False, True])
def test_names_are_no_codes(
    command: str, drawn: bool, screen: Terminal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.pte").write_bytes(hostile())
    file = screen if drawn else io.StringIO()
    with redirect_stdout(file):
        cli.main([command, str(tmp_path / "m.pte")])
    shown = CODE.sub("", file.getvalue()) + capsys.readouterr().err
    assert not set(shown) & set("\x1b\x07\r\x9b\u202e") and shown
    assert not any(line.startswith("method other") for line in shown.splitlines())


def test_messages_and_reprs_have_no_codes() -> None:
    program = executorch_c.Runtime.get().load_program(hostile())
    (name,) = program.method_names
    assert TITLE in name  # names themselves are the file's
    with pytest.raises(executorch_c.Error, match=r"x1b\]0;owned") as caught:
        program.load_method(name)
    for shown in (str(caught.value), repr(program), repr(program.metadata(name))):
        assert "owned" in shown and not set(shown) & set("\x1b\x07")


def test_a_terminal_gets_no_codes_but_colours(screen: Terminal) -> None:
    with terminal.tables(screen):
        print(f"a\tb\n\x1b[1;31mred\x1b[0m {CLEAR}{TITLE}")
    assert screen.getvalue() == ("a\tb\n\x1b[1;31mred\x1b[0m \\x1b[2J\\x1b]0;owned\\x07\n")


def test_times_have_three_digits_and_the_unit_of_the_rounded_value() -> None:
    values = [0.0009996, 0.0009994, 1e-6, 9.996e-7, 0.9996, 999.4, 1234.5, 2e-9]
    texts = ["1 ms", "999 us", "1 us", "1 us", "1 s", "999 s", "1,234 s", "2 ns"]
    assert [text.seconds(value) for value in values] == texts


def test_whole_columns_shrink_last() -> None:
    rows = [("Convolution (NHWC, QC8) GEMM", f"blocks.{i}.pointwise", "35.8") for i in range(3)]
    lines = text.table(rows, ("operator", "module", "cost"), width=40, whole=("module",)).split(
        "\n"
    )
    assert all(row[1] in line and len(line) <= 40 for row, line in zip(rows, lines[1:]))
    narrow = text.table(rows, ("operator", "module", "cost"), width=28, whole=("module",))
    assert all(len(line) <= 28 for line in narrow.split("\n"))
