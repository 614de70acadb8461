"""Documents: Python snippets of pages, of README.md and of notebooks run; the files, links,
commands and functions that they name exist. Commands have the names of the corresponding functions,
modules have unique names."""

import ast
import importlib
import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import executorch_c
from executorch_c import _snapshots
from executorch_c import cli, devtools, llm, testing
from executorch_c.check.ladder import compare_steps
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


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """Run the snippets of a page in order, in an empty folder, and call functions named test_* with
    their fixtures; return the page's names."""
    pytest.importorskip("torch")
    pytest.importorskip("executorch.exir")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(request.config.option, "pte_update", True)  # snapshots of the pages
    monkeypatch.setattr(_snapshots, "FOLDER", str(tmp_path / "snapshots"))

    def run_page(page: Path) -> dict[str, Any]:
        names: dict[str, Any] = {}
        for snippet in PYTHON.findall(page.read_text()):
            exec(compile(snippet, page.name, "exec"), names)
        for title, test in list(names.items()):
            if title.startswith("test_"):
                test(*map(request.getfixturevalue, inspect.signature(test).parameters))
        return names

    return run_page


SNIPPETS = [p for p in PAGES if PYTHON.search(text := p.read_text()) and "```console" not in text]
"""Pages with snippets, but for those that test_howto.py runs with their files."""


@pytest.mark.parametrize("page", SNIPPETS, ids=name)
def test_snippets_run(page: Path, run: Any) -> None:
    run(page)


# ---- README.md ---------------------------------------------------------------------------------

README = ROOT / "README.md"
TEXT = README.read_text()
COMMANDS = {*re.findall(r"`([a-z-]+) (?:[A-Z]\.pte|model\.py)", TEXT), "demo"}


def test_snippets_of_the_readme(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    names = run(README)
    assert names["result"].verdict == "match" and names["report"].verdict == "match"
    assert names["report"].first is None and names["y"].shape == (2, 3)
    assert "test_model" in names
    out = capsys.readouterr().out
    assert (
        "4 cases match, on the example and random inputs only (xnnpack, method 'forward')" in out
        and "compared with PyTorch" in out
    )


def test_the_readme_is_short() -> None:
    assert len(TEXT.splitlines()) <= 120 and len(PYTHON.findall(TEXT)) >= 4


def test_commands_and_functions_of_the_questions_exist() -> None:
    assert COMMANDS <= set(map(cli.name_of, cli.COMMANDS))
    questions = (DOCS / "howto" / "index.md").read_text()
    rows = [line.split("|")[3] for line in questions.splitlines() if line.startswith("| ")]
    names = re.findall(r"`(testing|devtools)\.(\w+)`", "".join(rows))
    assert len(names) > 5
    for module, function in names:
        assert callable(getattr(importlib.import_module(f"executorch_c.{module}"), function))


# ---- notebooks ---------------------------------------------------------------------------------

NOTEBOOKS = ROOT / "executorch_c" / "examples"
RESULTS = {  # the result that each notebook demonstrates
    "validate": ["10 cases match", "Outputs match"],
    "chat": ["nats per byte", "A list is", "match: 9 cases", "bits per byte"],
    "blame_device": ["[:, :, :, 4:6] of [1, 8, 8, 8], zeros", "3 of 5 runs on equal inputs"],
    "find_divergence": ["blocks.7.up", "blocks.0", "reaches output 0"],
}


def shown(notebook: Any) -> str:
    """Return all text outputs, without the bytes of pictures."""
    parts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            parts += [data.get("text/plain", ""), data.get("text/html", ""), output.get("text", "")]
    return re.sub(r"base64,[^\"]*", "", "\n".join("".join(part) for part in parts))


def notebook_of(name: str) -> Any:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    return notebook


def test_every_notebook_is_known() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(RESULTS)


@pytest.mark.parametrize("name", RESULTS)
def test_kept_outputs(name: str) -> None:
    kept = shown(notebook_of(name))
    assert all(text in kept for text in RESULTS[name])
    assert not re.search(r"/(root|home|tmp|work)/", kept), "paths of a machine"


@pytest.mark.heavy
@pytest.mark.parametrize("name", RESULTS)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    paths = [str(Path(executorch_c.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    notebook, where = notebook_of(name), {"metadata": {"path": tmp_path}}
    options = {"timeout": 600, "kernel_name": "python3", "resources": where}
    nbclient.NotebookClient(notebook, **options).execute()  # raises if a cell does
    assert all(text in shown(notebook) for text in RESULTS[name])


# ---- names of files ----------------------------------------------------------------------------


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


PUBLIC = ("", ".testing", ".devtools", ".llm")
"""Modules whose names the reference arranges by question."""
WHOLE = ("bundled", "llm.official", "plotting", "portable_lib", "report", "trace")
"""Modules that the reference shows whole."""

ELSEWHERE = {f"executorch_c.devtools.{name}" for name in ("Report", "ETDump", "ETRecord")}
ELSEWHERE |= {"executorch_c.llm.KVCache"}
"""Second names of classes of other modules."""


def test_every_public_name_is_in_the_reference_once() -> None:
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    shown = re.findall(r"^::: (\S+)", text, re.M)
    modules = [f"executorch_c{name}" for name in PUBLIC]
    expected = {*modules, "executorch_c.inspect", *(f"executorch_c.{name}" for name in WHOLE)}
    for module in modules:
        expected |= {f"{module}.{name}" for name in importlib.import_module(module).__all__}
    assert sorted(shown) == sorted(expected - ELSEWHERE)


def test_public_modules_are_known() -> None:
    """Public modules are those without an underscore, except for the inner ones."""
    inner = {"cli", "pytest_plugin", "progress"}  # the first two have their own pages
    modules = {path.stem for path in (ROOT / "executorch_c").glob("[a-z]*.py")} - inner
    packages = {"llm", "plotting"}
    known = {*WHOLE, *(name[1:] for name in PUBLIC if name)}
    assert modules | {"llm.official"} == known - packages


# ---- names of commands, functions and modules ----------------------------------------------------

PACKAGE = Path(executorch_c.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

FUNCTIONS = {
    "bench": "bench",
    "check": "check_model",
    "compare": "compare_programs",
    "memory": "memory_plan",
    "operators": "operators",
    "dump": "dump",
    "graph": "graph",
    "explain": "explain",
    "blame": "blame",
    "check-nan": "check_nan",
    "quantization-error": "quantization_error",
    "advise": "advise",
}
"""Commands, with the corresponding public functions."""


@pytest.mark.parametrize("command", FUNCTIONS)
def test_a_command_is_called_as_its_function(command: str) -> None:
    function = FUNCTIONS[command]
    assert any(hasattr(place, function) for place in (devtools, testing, executorch_c))
    long = function.replace("_", "-")
    assert cli.ALIASES.get(long, long) == command
    assert command in map(cli.name_of, cli.COMMANDS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_function_is_called_as_its_module(path: Path) -> None:
    names = {path.stem} | {p.stem for p in path.parent.glob("*.py") if path.stem == "__init__"}
    body = ast.parse(path.read_text()).body
    definitions = [node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    assert not names & set(definitions)


MODEL_FIRST = (
    testing.check_model,
    devtools.explain,
    testing.assert_matches,
    llm.check_llm,
    llm.quantization_cost,
    compare_steps,
)


@pytest.mark.parametrize("function", MODEL_FIRST)
def test_the_program_is_last(function: Callable[..., object]) -> None:
    message = rf"`program` by its name: {function.__name__}\(\w+, \w+, program=program\)"
    with pytest.raises(TypeError, match=message):
        function("model.pte", abs, [1.0])
    if function is not testing.check_model:  # whose program may come from a flow
        with pytest.raises(TypeError, match=message):
            function("model.pte", abs)


@pytest.mark.parametrize("name", cli.ALIASES)
def test_names_of_functions_are_commands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    out, err = capsys.readouterr()
    assert stop.value.code == 0 and out.startswith(f"usage: executorch-c {cli.ALIASES[name]}")
    assert not err
