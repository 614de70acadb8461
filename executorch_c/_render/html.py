"""HTML: elements that escape their text, tables, pages that sort and filter.

    tag("p", "a < b", class_="bad")  # <p class="bad">a &lt; b</p>

Text is escaped everywhere, and its control characters are shown (a program's file may hold codes
that reverse the text after them); `Markup` is text that is already HTML.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeAlias

from executorch_c._names import visible

Rows: TypeAlias = "list[list[object]]"


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


VERDICTS = {
    "match": "good",
    "ok": "good",
    "differ": "bad",
    "error": "bad",
    "source": "bad",
    "first": "bad",
    "amplified": "bad",
    "inconclusive": "unsure",
    "skipped": "unsure",
    "propagated": "unsure",
    "unexplained": "bad",
    "leaves": "bad",
}
"""CSS class of a verdict."""


def escaped(item: object) -> Markup:
    """Return Markup unchanged, and any other object as escaped text."""
    return item if isinstance(item, Markup) else Markup(_escaped(str(item)))


def _escaped(text: str) -> str:
    return escape("\n".join(map(visible, text.split("\n"))))


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element, without children that are None and attributes that are None or False.
    `class_` and `for_` are the attributes class and for."""
    said = "".join(
        f" {key.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{_escaped(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    inside = "".join(escaped(child) for child in children if child is not None)
    return Markup(f"<{name}{said}>{inside}</{name}>")


def together(*items: object, between: str = "") -> Markup:
    """Return the concatenation of items."""
    return Markup(Markup(between).join(map(escaped, items)))


def lines(*items: object) -> Markup:
    """Return items joined by line breaks."""
    return together(*items, between="<br>")


def verdict(name: str, text: object = None) -> Markup:
    """Return a text (default: the verdict) in the colour of a verdict."""
    return tag("span", name if text is None else text, class_=VERDICTS.get(name))


LEFT = "text-align: left; white-space: pre-wrap"


def _cell(item: object, is_text: bool, column: str) -> Markup:
    if column == "verdict" and not isinstance(item, Markup) and item in VERDICTS:
        item = verdict(str(item))
    return tag("td", item, style=LEFT if is_text else None)


def table(
    caption: object, head: Iterable[str], rows: Iterable[Iterable[object]], text_columns: int = 0
) -> Markup:
    """Return a table. The first `text_columns` columns are left-aligned and keep their spaces;
    numbers do not wrap; cells of a column "verdict" have its colour."""
    names = list(head)
    heads = [
        tag("th", name, style=LEFT if i < text_columns else None) for i, name in enumerate(names)
    ]
    body = [
        tag(
            "tr",
            *(
                _cell(item, i < text_columns, names[i] if i < len(names) else "")
                for i, item in enumerate(row)
            ),
        )
        for row in rows
    ]
    return tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *body, style="white-space: nowrap"),
    )


def without_empty(
    head: Sequence[str], rows: Rows, text_columns: int
) -> tuple[list[str], Rows, int]:
    """Return head, rows and text columns for `table`, without empty columns."""
    keep = [c for c in range(len(head)) if not rows or any(str(row[c]) for row in rows)]
    kept = [[row[c] for c in keep] for row in rows]
    return [head[c] for c in keep], kept, sum(c < text_columns for c in keep)


def bar(offset: float, width: float, second: bool = False) -> Markup:
    """Return a bar for the given shares of its width; `second` is a share in another colour."""
    width = min(max(width, 0.002), 1)
    offset = min(max(offset, 0), 1 - width)
    color = "#8250df" if second else "#1f6feb"
    inner = f"margin-left: {100 * offset:.2f}%; width: {100 * width:.2f}%; height: 100%; "
    return tag(
        "div",
        tag("div", style=inner + f"background: {color}"),
        style="width: 16em; height: .8em; background: rgba(128,128,128,.15)",
    )


_STYLE = Markup("""
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em;
       color: #1b1f24; background: #fff }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums }
caption { text-align: left; padding: .3em 0; color: #57606a }
th, td { padding: .2em .7em; border-bottom: 1px solid #d8dee4; text-align: right }
th { border-bottom-width: 2px; font-weight: 600; cursor: pointer; user-select: none }
th[aria-sort=ascending]::after { content: " \\25b2" }
th[aria-sort=descending]::after { content: " \\25bc" }
tr:hover td { background: #f3f6f9 }
pre, code { font: 13px/1.4 ui-monospace, monospace } pre { overflow-x: auto }
img, svg { max-width: 100%; height: auto }
p, li { overflow-wrap: anywhere }
@media (max-width: 720px) {
  table { display: block; overflow-x: auto } td ~ td[style*=pre-wrap] { min-width: 7em } }
:root { color-scheme: light dark }
th:focus-visible { outline: 2px solid #0b5fd0; outline-offset: -2px }
input[type=search] { font: inherit; padding: .2em .5em; width: 20em; max-width: 100%;
  box-sizing: border-box }
.bad { color: #b3261e; font-weight: 600 } .good { color: #1a7f37; font-weight: 600 }
.unsure { color: #9a6700; font-weight: 600 }
@media (prefers-color-scheme: dark) {
  body { color: #d6dbe1; background: #16191d } caption { color: #9aa4af }
  th, td { border-color: #333a42 } tr:hover td { background: #20252b }
  .bad { color: #ff8078 } .good { color: #57c26d } .unsure { color: #e3b341 }
  img { background: #fff } }
""")

_SCRIPT = Markup("""
"use strict";
const units = {KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
               s: 1, ms: 1e-3, us: 1e-6, ns: 1e-9};
function value(cell) {
  const text = cell ? cell.textContent.trim() : "";
  const found = /^([-+]?(?:[\\d,]*\\.?\\d+(?:e[-+]?\\d+)?|inf))\\s*([A-Za-z%]*)/i.exec(text);
  if (!found) return text.toLowerCase();
  const number = /inf/i.test(found[1]) ? Infinity : Number(found[1].replaceAll(",", ""));
  return number * (units[found[2]] || 1) * (found[1].startsWith("-inf") ? -1 : 1);
}
function compare(a, b) {
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? -1 : 1;
}
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], head = table.tHead ? [...table.tHead.rows[0].cells] : [];
  if (!body || body.rows.length < 2) continue;
  head.forEach(th => {
    th.tabIndex = 0;
    th.addEventListener("keydown", event => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      th.click();
    });
  });
  head.forEach((th, column) => th.addEventListener("click", () => {
    const down = th.getAttribute("aria-sort") === "ascending";
    head.forEach(other => other.removeAttribute("aria-sort"));
    th.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].map(row => [value(row.cells[column]), row]);
    rows.sort((a, b) => compare(a[0], b[0]) * (down ? -1 : 1));
    body.append(...rows.map(pair => pair[1]));
  }));
  if (body.rows.length < 8) continue;
  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "filter " + body.rows.length + " rows";
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    for (const row of body.rows)
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  table.before(search);
}
""")


def _policy(*scripts: str) -> Markup:
    """Return the element by which a page loads nothing and runs only these scripts."""
    digests = (base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">')


def page(title: str, *sections: object, script: str = "") -> str:
    """Return a self-contained page, which loads nothing. Tables sort by a click on their head; long
    tables have a filter field. Sections that are text become paragraphs; `script` is theirs."""
    shown = [one if isinstance(one, Markup) else tag("p", one) for one in sections if one]
    scripts = [_SCRIPT, *([Markup(script)] if script else [])]
    head = tag(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        _policy(*scripts),
        tag("title", title),
        tag("style", _STYLE),
    )
    content = together(*shown, between="\n")
    run = [tag("script", one) for one in scripts]
    body = tag("body", tag("h1", title), "\n", content, "\n", *run)
    return "<!DOCTYPE html>\n" + tag("html", head, "\n", body, lang="en") + "\n"
