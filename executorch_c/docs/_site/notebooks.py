"""A MkDocs hook: the notebooks of executorch_c/examples are pages, with the outputs that they keep.

Their tests execute them (tests/python/test_docs.py); the build of the site does not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDER = "notebooks"
HTML, TEXT = "text/html", "text/plain"


def on_files(files: Files, *, config: Any, **_: object) -> Files:
    """Return the files of the site with a page for each notebook, and the notebook itself."""
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        text = page_of(json.loads(path.read_text(encoding="utf-8")), path.name)
        files.append(File.generated(config, f"{FOLDER}/{path.stem}.md", content=text))
        files.append(File.generated(config, f"{FOLDER}/{path.name}", abs_src_path=str(path)))
    return files


def page_of(notebook: dict[str, Any], name: str) -> str:
    """Return the Markdown of a notebook: its cells, and a link to the file below its title."""
    title, *cells = map(cell_of, notebook["cells"])
    return "\n\n".join([title, f"[Download {name}]({name}){{: download }}", *cells]) + "\n"


def cell_of(cell: dict[str, Any]) -> str:
    """Return the Markdown of a cell."""
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *map(output_of, cell["outputs"])])


def output_of(output: dict[str, Any]) -> str:
    """Return the HTML of an output if it has one, or else its text."""
    data = output.get("data", {})
    if HTML in data:
        html = "".join(data[HTML]).replace("\n", "&#10;")  # an empty line would end the block
        return f'<div class="output">{html}</div>'
    text = "".join(data.get(TEXT, output.get("text", "")))
    return f"```text\n{text.rstrip()}\n```"
