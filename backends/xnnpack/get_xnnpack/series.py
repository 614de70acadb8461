"""Apply patches of `git format-patch` at exactly the lines that they name.

`patch` and `git` may be missing where the package is installed, and both accept a hunk elsewhere
if its lines are found there, which another version of the source may have.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from get_xnnpack.log import XnnpackError

THIRD_PARTY = Path(__file__).parents[1] / "third_party"
"""The pin, the patches and the kernels."""
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def is_fast() -> bool:
    """Return False if only corrections are built."""
    return os.environ.get("EXECUTORCH_C_XNNPACK") != "corrections"


def patches() -> list[Path]:
    """Return the patches in their order."""
    folders = ("corrections", "speed")[: 1 + is_fast()]
    return [path for folder in folders for path in sorted((THIRD_PARTY / folder).glob("*.patch"))]


def kernels() -> list[Path]:
    """Return the sources of our own."""
    return sorted((THIRD_PARTY / "kernels").glob("*.c")) if is_fast() else []


def hunks(lines: list[str]) -> Iterator[tuple[str, int, list[str], list[str]]]:
    """Yield file, first line, old and new lines of each change of a patch."""
    file, at = "", 0
    while at < len(lines):
        header = HUNK.match(lines[at])
        if lines[at].startswith("+++ b/"):
            file = lines[at].removeprefix("+++ b/").rstrip("\n")
        at += 1
        if not (file and header):
            continue
        first, *counts = (int(number or 1) for number in header.groups())
        sides: dict[str, list[str]] = {"-": [], "+": []}
        while at < len(lines) and [len(side) for side in sides.values()] != counts:
            for side in "-+" if lines[at][0] == " " else lines[at][0]:
                sides[side].append(lines[at][1:])
            at += 1
        yield file, first, sides["-"], sides["+"]


def apply(patch: Path, source: Path) -> None:
    """Apply a patch to a source; XnnpackError if a line is not the one that it names."""
    shifts: dict[str, int] = {}
    for file, first, old, new in hunks(patch.read_text().splitlines(keepends=True)):
        path = source / file
        text = path.read_text().splitlines(keepends=True) if path.is_file() else []
        start = first - 1 + shifts.get(file, 0) if old else 0
        if text[start : start + len(old)] != old or not (old or not text):
            raise XnnpackError(f"{patch.name} does not apply to {file} at line {first}")
        text[start : start + len(old)] = new
        path.write_text("".join(text))
        shifts[file] = shifts.get(file, 0) + len(new) - len(old)
