"""executorch_c/docs: its Python snippets run; files and links that it names exist."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT

DOCS = ROOT / "executorch_c" / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\[[^\]\n]+\]\((?!\w+://)([^)#\s]+)(?:#[^)\s]*)?\)")
CHANGES = DOCS / "where_to_change_what.md"
TYPICAL = 12


def name(path: Path) -> str:
    return path.relative_to(DOCS).as_posix()


@pytest.mark.parametrize("page", [p for p in PAGES if PYTHON.search(p.read_text())], ids=name)
def test_snippets_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Snippets run in order; functions named test_* are called with their fixtures."""
    pytest.importorskip("torch")
    pytest.importorskip("executorch.exir")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for snippet in PYTHON.findall(page.read_text()):
        exec(compile(snippet, name(page), "exec"), names)
    for title, test in list(names.items()):
        if title.startswith("test_"):
            test(*map(request.getfixturevalue, inspect.signature(test).parameters))


def test_the_files_to_change_exist() -> None:
    """Every change names a path, each exists, and the typical ones are bold."""
    changes = re.findall(r"^\* (?:.+\n)(?:  .+\n)*", CHANGES.read_text(), re.M)
    top = {path.name for path in ROOT.iterdir()}
    missing = []
    for change in changes:
        paths = [p for p in re.findall(r"`([^`*<]+)`", change) if p.split("/")[0] in top]
        assert paths, change
        missing += [path for path in paths if not (ROOT / path).exists()]
    assert not missing
    assert sum(change.startswith("* **") for change in changes) >= TYPICAL


NAME = re.compile(r"`(?:[\w./-]*/)?([\w-]+\.(?:py|c|h|def|tsv))`")
NOT_IN_THE_TREE = {"Python.h", "dtypes.h"}


def test_files_that_readmes_name_exist() -> None:
    """READMEs of csrc, executorch_c, tests and benchmarks name files of the tree."""
    folders = [ROOT / name for name in ("csrc", "executorch_c", "tests", "benchmarks")]
    names = {path.name for folder in folders for path in folder.rglob("*.*")} | NOT_IN_THE_TREE
    names |= {path.name for path in (ROOT / "backends").rglob("*.*")} | {"setup.py"}
    missing = []
    for readme in (readme for folder in folders for readme in folder.rglob("README.md")):
        stale = {*NAME.findall(BLOCK.sub("", readme.read_text()))} - names
        missing += [f"{readme.relative_to(ROOT)}: {name}" for name in sorted(stale)]
    assert not missing


def test_links_of_all_pages_lead_somewhere() -> None:
    broken = []
    folders = [path for path in ROOT.iterdir() if path.name not in ("build", "dist")]
    pages = [*ROOT.glob("*.md"), *(p for folder in folders for p in folder.rglob("*.md"))]
    for page in pages:
        if not {".venv", ".cache", "node_modules"} & set(page.parts):
            links = LINK.findall(BLOCK.sub("", page.read_text()))
            broken += [
                f"{page.relative_to(ROOT)}: {link}"
                for link in links
                if not (page.parent / link).exists()
            ]
    assert not broken


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+)$", BLOCK.sub("", page.read_text()), re.M)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def test_anchors_of_readmes_are_headings() -> None:
    broken = []
    for page in sorted(p for p in ROOT.rglob("README.md") if "build" not in p.parts):
        for link, anchor in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", page.read_text()):
            target = page.parent / link if link else page
            if anchor not in anchors(target):
                broken.append(f"{page.relative_to(ROOT)}: {link}#{anchor}")
    assert not broken


def test_every_public_module_is_in_the_reference() -> None:
    """Public modules are those without an underscore, except for the inner ones."""
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    shown = set(re.findall(r"^::: (\S+)", text, re.M))
    inner = {"cli", "pytest_plugin", "progress"}  # the first two have their own pages
    modules = {path.stem for path in (ROOT / "executorch_c").glob("[a-z]*.py")} - inner
    modules |= {"llm", "llm.official"}
    assert {f"executorch_c.{module}" for module in modules} | {"executorch_c"} == shown
