"""Results of check_all in the formats of CI systems."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from executorch_c._names import visible
from executorch_c.suite.figures import FIGURES
from executorch_c._paths import write_text

if TYPE_CHECKING:
    from executorch_c._types import FilePath
    from executorch_c.suite.result import CheckRow, SuiteResult

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot have."""


def _lines(text: str) -> str:
    """Return a text whose lines have no control characters."""
    return "\n".join(map(visible, text.split("\n")))


def _xml(text: str) -> str:
    return NOT_XML.sub("?", _lines(text))


def _name(text: str) -> str:
    return _xml(visible(text))


def _details(result: SuiteResult, row: CheckRow) -> str:
    return "\n".join([result.why(row), *row.problems])


def junit(result: SuiteResult) -> str:
    """Return JUnit XML: a suite with a test case for each check, with figures as properties."""
    from xml.etree import ElementTree

    counts = {
        "tests": len(result) + len(result.unfinished),
        "failures": sum(row.verdict != "error" for row in result.failures),
        "errors": sum(row.verdict == "error" for row in result.failures),
        "skipped": len(result.unfinished),
        "time": f"{sum(row.seconds for row in result):.3f}",
    }
    suite = ElementTree.Element("testsuite", name=_name(result.title), timestamp=result.date)
    suite.attrib |= {name: str(value) for name, value in counts.items()}
    for row in result:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=_name(row.model),
            name=_name(row.flow or "program"),
            time=f"{row.seconds:.3f}",
        )
        properties = ElementTree.SubElement(case, "properties")
        for figure in FIGURES:
            value = getattr(row, figure.name)
            if value is not None:
                about = {"name": figure.name, "value": f"{value:.6g}"}
                ElementTree.SubElement(properties, "property", about)
        if row in result.failures:
            kind = "error" if row.verdict == "error" else "failure"
            about = {"type": result.state(row), "message": _xml(result.why(row))}
            ElementTree.SubElement(case, kind, about).text = _xml(_details(result, row))
    for name in result.unfinished:
        model, _, flow = name.rpartition(":")
        case = ElementTree.SubElement(suite, "testcase", classname=_name(model), name=_name(flow))
        ElementTree.SubElement(case, "skipped", message="interrupted")
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _cell(text: str) -> str:
    """Return a text for a cell of a Markdown table."""
    text = visible(" ".join(text.split()))
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)


def markdown(result: SuiteResult) -> str:
    """Return a page of GitHub's Markdown: the finding, the table, and why checks fail."""
    head, cells = result.head(), result.cells()
    used = [i for i in range(len(head)) if any(row[i] for row in cells)]
    lines = [f"## {_cell(result.heading())}", "", f"{_cell(result.summary())}", ""]
    if used:
        lines.append(f"| {' | '.join(head[i] for i in used)} |")
        lines.append(f"|{'|'.join('---' if i < 2 else '---:' for i in used)}|")
        lines += [f"| {' | '.join(_cell(row[i]) for i in used)} |" for row in cells]
    if problems := result.problems():
        lines += ["", *(f"* {_cell(problem)}" for problem in problems)]
    return "\n".join(lines) + "\n"


def gitlab(result: SuiteResult) -> str:
    """Return GitLab's code quality report: an issue for each failure, at the model's line of the
    file of checks."""
    severities = {"differ": "critical", "error": "critical", "inconclusive": "minor"}
    issues = [
        {
            "description": f"{row.name}: {result.why(row)}",
            "check_name": f"executorch-c check-all: {result.state(row)}",
            "fingerprint": hashlib.sha256(f"{result.title}\0{row.name}".encode()).hexdigest(),
            "severity": severities.get(row.verdict, "major"),
            "location": {"path": result.title, "lines": {"begin": row.line or 1}},
        }
        for row in result.failures
    ]
    return json.dumps(issues, indent=2) + "\n"


def _escaped(text: str, more: str = "") -> str:
    """Return a text for a workflow command of GitHub."""
    codes = {"%": "%25", "\r": "%0D", "\n": "%0A"} | {one: f"%{ord(one):02X}" for one in more}
    return "".join(codes.get(one, one) for one in _lines(text))


def github(result: SuiteResult) -> str:
    """Return a workflow command of GitHub for each failure, which shows it at the model's line of
    the file of checks."""
    lines = []
    for row in result.failures:
        level = "warning" if row.verdict == "inconclusive" else "error"
        place = f"file={_escaped(result.title, ',:')},line={row.line or 1}"
        title = _escaped(f"{row.name}: {result.state(row)}", ",:")
        lines.append(f"::{level} {place},title={title}::{_escaped(_details(result, row))}")
    return "".join(f"{line}\n" for line in lines)


WRITERS: dict[str, tuple[Callable[[SuiteResult], str], str]] = {
    "junit": (junit, "JUnit XML"),
    "markdown": (markdown, "Markdown"),
    "gitlab": (gitlab, "GitLab's code quality report"),
}
"""Functions of the formats of files, and their names, by option."""


def write(result: SuiteResult, paths: Mapping[str, FilePath | None]) -> None:
    """Write files by the names of WRITERS."""
    for name, path in paths.items():
        if path is not None:
            write_text(path, WRITERS[name][0](result))


def on_github(result: SuiteResult) -> str:
    """Return the workflow commands in a workflow of GitHub, after adding the Markdown to the
    summary of its step; an empty text elsewhere."""
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(summary, "a", encoding="utf-8") as file:
            file.write(markdown(result))
    return github(result) if os.environ.get("GITHUB_ACTIONS") == "true" else ""
