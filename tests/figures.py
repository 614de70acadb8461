"""python -m tests.figures [TREE ...]: a table of the figures of source trees, a column each.

The default is this tree. `git worktree add DIR COMMIT` makes the tree of a commit.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from tests import ROOT, test_architecture as architecture

C = ("*.c", "*.h", "*.def")
CODE = (*C, "*.py", "*.pyi")
LONG_FUNCTION_LINES = 30
ROOMS = (
    ("csrc/core, format, trace", "C", ("csrc/core", "csrc/format", "csrc/trace")),
    ("csrc/kernels", "C", ("csrc/kernels",)),
    ("csrc/runtime", "C", ("csrc/runtime",)),
    ("csrc/python", "C", ("csrc/python",)),
    ("csrc/testing", "C", ("csrc/testing",)),
    ("csrc", "C", ("csrc",)),
    ("backends/xnnpack", "C", ("backends/xnnpack",)),
    (
        "XNNPACK's build and patches",
        "all",
        ("backends/xnnpack/get_xnnpack", "backends/xnnpack/third_party"),
    ),
    ("backends", "C", ("backends",)),
    ("backends", "Python", ("backends",)),
    ("executorch_c/check", "Python", ("executorch_c/check",)),
    ("executorch_c/compare, debug", "Python", ("executorch_c/compare", "executorch_c/debug")),
    ("executorch_c/inspect", "Python", ("executorch_c/inspect",)),
    ("executorch_c/llm", "Python", ("executorch_c/llm",)),
    ("executorch_c", "Python", ("executorch_c",)),
    ("tests", "Python", ("tests",)),
    ("benchmarks", "Python", ("benchmarks",)),
    ("documents", "Markdown", (".",)),
)
PATTERNS = {
    "C": C,
    "Python": ("*.py", "*.pyi"),
    "Markdown": ("*.md",),
    "all": (*CODE, "*.patch"),
}
WORDS = (
    ("claim", r"\bclaim(?:s|ed|ing|er)?\b|claim_|_claim"),
    ("constants MOST, FEW, NEAR, ENOUGH, ROOM", r"\b(?:\w+_)?(?:MOST|FEW|NEAR|ENOUGH|ROOM)\w* ="),
    ("locals found, made, given, fed", r"^\s+(?:found|made|given|fed)(?:: [^=\n]+)? ="),
    ("# fmt: skip, # fmt: off", r"# fmt: (?:skip|off)"),
)


def texts(tree: Path, *patterns: str) -> dict[Path, str]:
    """Return the texts of the files of a tree that match."""
    return {path: path.read_text() for path in architecture.files(*patterns, under=tree)}


def lines(tree: Path, folders: tuple[str, ...], patterns: tuple[str, ...]) -> int:
    """Return the number of lines of files in folders."""
    places = [tree / folder for folder in folders if (tree / folder).is_dir()]
    return sum(t.count("\n") for place in places for t in texts(place, *patterns).values())


def long_functions(tree: Path) -> str:
    """Return the number of functions over LONG_FUNCTION_LINES, and of all."""
    counts = []
    for path in architecture.files("*.c", "*.h", "*.py", under=tree):
        is_python = path.suffix == ".py"
        parse = architecture.python_functions if is_python else architecture.c_functions
        counts += [count for _, count in parse(path)]
    return f"{sum(count > LONG_FUNCTION_LINES for count in counts):,} of {len(counts):,}"


def patches(tree: Path) -> str:
    """Return the number of patches of XNNPACK in .patch files, and of those in Python strings."""
    folder = tree / "backends" / "xnnpack"
    strings = sum(
        len(re.findall(r"(?<!class )\bPatch\(", t)) for t in texts(folder, "*.py").values()
    )
    files = texts(folder, "*.patch")
    count = sum(text.count("\n") for text in files.values())
    return f"{len(files)} files of {count:,} lines, {strings} in strings"


def limit_modules(tree: Path) -> int:
    """Return the number of modules outside compare/ with decimal constants."""
    pattern = re.compile(r"^[A-Z_]+(?:: \w+)? = (?:-?\d+\.\d|-?\d+e-|2\.?0?\*\*-)", re.M)
    folders = [tree / "executorch_c" / name for name in ("check", "debug", "llm", "inspect")]
    return sum(bool(pattern.search(t)) for f in folders for t in texts(f, "*.py").values())


def size(tree: Path) -> str:
    """Return the size of the extension modules, if they are built in place."""
    sizes = [path.stat().st_size for path in (tree / "executorch_c").glob("*.so")]
    return f"{sum(sizes) / 1e6:.1f} MB" if sizes else "not built"


def wide_lines(tree: Path) -> int:
    """Return the number of Markdown lines of more than MARKDOWN_COLUMNS."""
    limit = architecture.MARKDOWN_COLUMNS
    rows = (line for text in texts(tree, "*.md").values() for line in text.splitlines())
    return sum(len(line) > limit for line in rows)


def count(pattern: str, *patterns: str) -> Callable[[Path], int]:
    """Return a function that counts the matches in the files of a tree."""
    regex = re.compile(pattern, re.M)
    own = Path(__file__).name
    return lambda tree: sum(
        len(regex.findall(text)) for p, text in texts(tree, *patterns).items() if p.name != own
    )


def rows() -> list[tuple[str, Callable[[Path], int | str]]]:
    """Return title and function of each row."""
    match: list[tuple[str, Callable[[Path], int | str]]] = [
        (f"lines of {title}, {kind}", lambda t, f=folders, k=kind: lines(t, f, PATTERNS[k]))
        for title, kind, folders in ROOMS
    ]
    match += [
        ("files of C, Python, Markdown", lambda t: len(architecture.files(*CODE, "*.md", under=t))),
        ("headers", lambda t: len(architecture.files("*.h", under=t))),
        ("headers of backends", lambda t: len(architecture.files("*.h", under=t / "backends"))),
        ("patches of XNNPACK", patches),
        ("modules with limits, outside compare/", limit_modules),
        (f"functions over {LONG_FUNCTION_LINES} lines", long_functions),
        ("Markdown lines over 120 columns", wide_lines),
    ]
    match += [(f"words: {title}", count(pattern, *CODE)) for title, pattern in WORDS]
    return [*match, ("size of the extension modules", size)]


def main() -> None:
    """Print the table."""
    trees = [Path(name).resolve() for name in sys.argv[1:]] or [ROOT]
    print("| | " + " | ".join(tree.name for tree in trees) + " |")
    print("|---|" + "--:|" * len(trees))
    for title, figure in rows():
        cells = (figure(tree) for tree in trees)
        print(
            f"| {title} | "
            + " | ".join(f"{c:,}" if isinstance(c, int) else c for c in cells)
            + " |"
        )


if __name__ == "__main__":
    main()
