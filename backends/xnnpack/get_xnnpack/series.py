"""Apply patches of `git format-patch` at exactly the lines that they name.

`patch` and `git` may be missing where the package is installed, and both accept a hunk elsewhere
if its lines are found there, which another version of the source may have.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from get_xnnpack.log import XnnpackError

THIRD_PARTY = Path(__file__).parents[1] / "third_party"
"""The pin, the patches and the kernels."""
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def names() -> tuple[str, ...]:
    """Return the names of the series that are built."""
    is_fast = os.environ.get("EXECUTORCH_C_XNNPACK") != "corrections"
    return ("corrections", "speed") if is_fast else ("corrections",)


def patches() -> list[Path]:
    """Return the patches in their order."""
    return [path for name in names() for path in sorted((THIRD_PARTY / name).glob("*.patch"))]


def sources() -> list[Path]:
    """Return the sources of our own."""
    kernels = [THIRD_PARTY / "kernels" / name for name in names()]
    paths = [path for folder in kernels for path in sorted(folder.iterdir())]
    return [THIRD_PARTY / "workers.c", *paths]


def prepare(xnnpack: Path, pthreadpool: Path) -> None:
    """Patch the sources, and add those of our own."""
    for patch in patches():
        apply(patch, xnnpack)
    for path in sources():
        if path.parent == THIRD_PARTY:
            shutil.copy(path, pthreadpool / "src" / "pthreads.c")
        else:
            folder = xnnpack / "src" / "executorch_c" / path.parent.name
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder)


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
