"""MkDocs hooks: included files, and links to files outside the site.

A page includes a file of the tree with `<!-- include: PATH -->` on a line by itself, and the
help texts of all commands with `<!-- include: --help -->`.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
EXAMPLES = DOCS.parent / "examples"
ROOT = DOCS.parents[1]
INCLUDE = re.compile(r"^<!-- include: (\S+) -->$", re.M)
LINK = re.compile(r"\[([^\]]+)\]\((?!\w+://)([^)#\s]+)(#[^)\s]*)?\)(?!\{: download)")
CODE = re.compile(r"(^```.*?^```$)", re.M | re.S)
WIDTH = "90"
log = logging.getLogger("mkdocs.hooks.executorch_c")


def help_texts() -> str:
    """Return the help text of each command as a section of Markdown."""
    from executorch_c import cli

    os.environ["COLUMNS"] = WIDTH
    top = cli.parser()
    choices = next(action.choices for action in top._actions if isinstance(action.choices, dict))
    sections = [f"```text\n{top.format_help()}```\n"]
    for module in cli.COMMANDS:
        name = cli.name_of(module)
        sections.append(f"## {name}\n\n```text\n{choices[name].format_help()}```\n")
    return "\n".join(sections)


def linked(text: str, folder: Path, page: Path) -> str:
    """Return a text of `folder` with its links relative to a page of the site. A link to a file
    outside the site becomes its path in the tree, one to a notebook leads to its page; a missing
    file is a warning. The words of a link may go on in the next line."""

    def replaced(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        path = (folder / target).resolve()
        if not path.exists():
            log.warning("%s: '%s' does not exist", page.relative_to(DOCS), target)
        if path.suffix == ".ipynb":
            path = DOCS / "notebooks" / f"{path.stem}.md"
        if path.is_relative_to(DOCS):
            return f"[{words}]({os.path.relpath(path, page.parent)}{anchor})"
        return f"{words} (`{path.relative_to(ROOT)}`)"

    parts = CODE.split(text)  # odd parts are code blocks
    return "".join(part if i % 2 else LINK.sub(replaced, part) for i, part in enumerate(parts))


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Return the Markdown of a page with its includes and with links that work on the site."""
    if page.file.generated_by:  # of a notebook
        return linked(markdown, EXAMPLES, DOCS / page.file.src_uri)
    source = Path(page.file.abs_src_path)

    def included(match: re.Match[str]) -> str:
        if match[1] == "--help":
            return help_texts()
        path = ROOT / match[1]
        return linked(path.read_text(encoding="utf-8"), path.parent, source)

    return INCLUDE.sub(included, linked(markdown, source.parent, source))
