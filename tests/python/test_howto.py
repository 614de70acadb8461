"""Pages of questions: their commands are accepted and print what the pages show, their snippets
run, and the table of README.md leads to each of them.

A block "console" has commands after "$ " with their output, a line "..." stands for lines that the
page leaves out. Numbers, units and cells that a table has shortened depend on the machine: words
are compared without them. A block with a title is a file.
"""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from executorch_c import cli
from tests import ROOT

DOCS = ROOT / "executorch_c" / "docs"
QUESTIONS = DOCS / "howto" / "index.md"
BLOCK = re.compile(r'^```(\w+)(?: title="(\S+)")?\n(.*?)^```$', re.M | re.S)
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "```console" in page.read_text()]

ROW = re.compile(r"^\| \[(.+?)\]\((.+?)\) \|", re.M)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Return the language, title and text of each block."""
    return BLOCK.findall(page.read_text())


def commands(page: Path) -> list[str]:
    """Return the commands of a page without the program's name."""
    texts = [text for language, _, text in blocks(page) if language in ("console", "sh")]
    lines = [
        line.removeprefix("$ ") for text in texts for line in text.replace("\\\n", "").splitlines()
    ]
    found = [line for line in lines if line.startswith("executorch-c ")]
    return [line.partition(" ")[2].partition(" #")[0].partition(" > ")[0] for line in found]


def words(text: str) -> set[str]:
    """Return the words of a text, with one figure for all numbers and one unit for all units."""
    text = re.sub(r"\S*/executorch-c-\w+/|\S*\.\.\S*", "", text)
    text = re.sub(r"-?\d[\d,.]*(e[+-]?\d+)?", "0", text)
    return set(re.sub(r"\b0 ?(us|ms|s|[KM]iB|x)\b", "0", text).split())


ALL = [page for page in sorted(DOCS.rglob("*.md")) if commands(page)]


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.stem)
def test_commands_are_accepted(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The parser knows each command, with its options."""
    for line in commands(page):
        args, unknown = cli.parser().parse_known_args(shlex.split(line))
        assert not unknown and args.command, line
    assert capsys.readouterr().err == ""


def show(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the commands of a block, and compare what they print with what the block has."""
    _, *parts = re.split(r"^\$ ", text, flags=re.M)
    for part in parts:
        line, _, shown = part.replace("\\\n", "").partition("\n")
        assert line.startswith("executorch-c "), line
        capsys.readouterr()
        cli.main(shlex.split(line)[1:])
        printed = capsys.readouterr().out
        assert max(map(len, shown.splitlines()), default=0) <= 80 or "next: " in shown, line
        missing = words(shown) - words(printed) - {"..."}
        assert not missing, f"{line}\n{printed}"
        if "...\n" not in shown:
            assert words(shown) == words(printed), f"{line}\n{printed}"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of the page of questions."""
    pytest.importorskip("executorch.exir")
    folder = tmp_path_factory.mktemp("howto")
    for _, title, text in blocks(QUESTIONS):
        if title:
            (folder / title).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in commands(QUESTIONS):
            cli.main(shlex.split(line))
    return folder


@pytest.mark.heavy
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_show_what_commands_print(
    page: Path,
    prepared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("model", None)
    names: dict[str, object] = {}
    for language, title, text in blocks(page):
        if title:
            (tmp_path / title).write_text(text)
        elif language == "console":
            show(text, capsys)
        elif language == "python":
            exec(compile(text, page.name, "exec"), names)


def test_every_question_of_the_readme_has_a_page() -> None:
    """The table of README.md and that of the pages have the same questions, with links."""
    rows = [
        {
            question: (path.parent / link).resolve()
            for question, link in ROW.findall(path.read_text())
        }
        for path in (ROOT / "README.md", QUESTIONS)
    ]
    assert list(rows[0].items()) == list(rows[1].items()) and len(rows[0]) > 12
    assert all(page.exists() for page in rows[0].values())
