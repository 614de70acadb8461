"""Results of mutants: a file with a line for each, which a later run continues."""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """Attributes:
    name: Name of the mutant.
    folder: Folder of the table.
    title: Place and change.
    kind: Kind of the change.
    result: "c" (the tests in C find it), "python" (those in Python) or "survived"; of a change that
        is no mutant "compiler" (it does not compile), "same code" or "no function" (no function of
        the process has that code).
    by: How the run ends, or the number of tests that ran.
    """

    name: str
    folder: str
    title: str
    kind: str
    result: str
    by: str


def read(file: Path) -> dict[str, Result]:
    """Return the last result of each mutant."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {row["name"]: Result(**row) for row in map(json.loads, lines)}


def add(file: Path, result: Result) -> None:
    """Append a result."""
    with file.open("a") as out:
        out.write(json.dumps(asdict(result)) + "\n")


def table(results: dict[str, Result], judged: dict[str, str]) -> list[str]:
    """Return the lines of the table by folder. Survivors that somebody judged equivalent count as
    such."""
    lines = [
        "| folder | mutants | killed | survived | equivalent | rate |",
        "|---|---|---|---|---|---|",
    ]
    folders = sorted({row.folder for row in results.values()})
    for folder in [*folders, "all"]:
        rows = [row for row in results.values() if folder in (row.folder, "all")]
        count = Counter("equivalent" if row.name in judged else row.result for row in rows)
        killed = count["c"] + count["python"]
        whole = killed + count["survived"]
        rate = f"{100 * killed / whole:.1f} %" if whole else ""
        cells = (whole, killed, count["survived"], count["equivalent"], rate)
        lines.append(f"| {folder} | " + " | ".join(map(str, cells)) + " |")
    return lines
