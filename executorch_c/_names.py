"""Names from files, in messages and reports."""

from __future__ import annotations


def visible(text: str) -> str:
    """Return a text on one line, with control characters and line breaks as escapes: names in a
    program's file may hold a terminal's codes, or lines that look like the command's."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
