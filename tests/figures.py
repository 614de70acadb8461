"""python -m tests.figures: lines, long functions and circles of the tree (see CONTRIBUTING.md)."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import test_architecture as tree

C = ("*.c", "*.h", "*.def")
LONG = 30


def lines(folder: str, *patterns: str) -> int:
    """Return the number of lines of the files of a folder and below."""
    return sum(len(p.read_text().splitlines()) for p in tree.files(*patterns, under=ROOT / folder))


def functions(folders: tuple[str, ...], *patterns: str) -> list[tuple[int, str]]:
    """Return the length and name of each function, the longest last."""
    found = []
    for path in (p for f in folders for p in tree.files(*patterns, under=ROOT / f)):
        parse = tree.python_functions if path.suffix == ".py" else tree.c_functions
        found += [(count, f"{tree.name(path)}:{function}") for function, count in parse(path)]
    return sorted(found)


def main() -> None:
    """Print the figures."""
    for folder in ("csrc", "csrc/kernels", "csrc/runtime", "backends"):
        print(f"lines of {folder}, C: {lines(folder, *C):,}")
    for folder in ("executorch_c", "tests"):
        print(f"lines of {folder}, Python: {lines(folder, '*.py'):,}")
    for folders, patterns in (
        (("csrc", "backends"), ("*.c", "*.h")),
        (("executorch_c",), ("*.py",)),
        (("tests",), ("*.py",)),
    ):
        found = functions(folders, *patterns)
        long = sum(count > LONG for count, _ in found)
        print(
            f"functions of {' and '.join(folders)} over {LONG} lines: {long} of {len(found):,}; "
            f"the longest: {found[-1][1]}, {found[-1][0]} lines"
        )
    circles = [f for f in tree.source_folders() if tree.circle(tree.modules(ROOT / f))]
    print(f"folders with circles between C files: {', '.join(circles) or 'none'}")
    print(f"operators: {len(tree.operator_rows())}")


if __name__ == "__main__":
    main()
