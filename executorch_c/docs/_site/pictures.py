"""A MkDocs hook: pictures below the snippets that end in a figure, on pages with the line
`<!-- pictures -->`. The build draws them: no picture is a file of the tree.
"""

from __future__ import annotations

import ast
import re
from typing import Any

MARK = "<!-- pictures -->"
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the Markdown of a page with its pictures."""
    if MARK not in markdown:
        return markdown
    names: dict[str, Any] = {}
    return SNIPPET.sub(lambda match: f"{match[0]}\n\n{picture(match[1], names)}", markdown)


def picture(code: str, names: dict[str, Any]) -> str:
    """Run a snippet with the names of those before it, and return the image of its figure."""
    from executorch_c._render.figures import image

    *statements, last = ast.parse(code).body
    exec(compile(ast.Module(statements, []), "snippet", "exec"), names)
    if not isinstance(last, ast.Expr):
        exec(compile(ast.Module([last], []), "snippet", "exec"), names)
        return ""
    figure = eval(compile(ast.Expression(last.value), "snippet", "eval"), names)
    return f'<div class="picture">{image(figure, ast.unparse(last))}</div>'
