"""python -m tests.mutation: mutants of the code, and how many of them tests find.

Each mutant is one change: another operator or constant, a condition that is always true or false, a
removed statement. Mutants of C are compiled, linked and run by the tests in C that run their lines;
those of Python run in a fork of a process that has collected the tests in Python.
The sample depends on the seed and on the text of lines, not on their numbers. Results are kept in
a file; a later run goes on, with --again also with mutants that survived.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests import ROOT
from tests.mutation import core_tests, mutate_c, mutate_py, python_tests, records
from tests.mutation.core_tests import CoreTests
from tests.mutation.mutant import Mutant, sample
from tests.mutation.python_tests import PythonTests

HERE = Path(__file__).parent
DEFAULT = ROOT / "tests/.cache/mutation"


class Maker(NamedTuple):
    """Source files, mutators and judge of a folder."""

    root: str
    suffix: str
    mutants: Callable[[str, str], list[Mutant]]
    judge: Callable[[Path], CoreTests | PythonTests]


C = Maker("csrc", ".c", mutate_c.mutants, CoreTests)
PYTHON = Maker("executorch_c", ".py", mutate_py.mutants, PythonTests)
MAKERS = {**dict.fromkeys(core_tests.FOLDERS, C), **dict.fromkeys(python_tests.FOLDERS, PYTHON)}


def mutants(folders: list[str], seed: int) -> list[tuple[str, Mutant]]:
    """Return the mutants of folders, each with its folder, in the order of the seed."""
    found: dict[str, tuple[str, Mutant]] = {}
    for folder in folders:
        maker = MAKERS[folder]
        for path in sorted((ROOT / maker.root / folder).rglob(f"*{maker.suffix}")):
            name = path.relative_to(ROOT).as_posix()
            for mutant in maker.mutants(name, path.read_text()):
                found[mutant.name] = (folder, mutant)
    order = sample((mutant for _, mutant in found.values()), seed)
    return [found[mutant.name] for mutant in order]


def equivalent() -> dict[str, str]:
    """Return the reasons of survivors that were read and mean the same."""
    rows = (HERE / "equivalent.tsv").read_text().splitlines()[1:]
    return {name: reason for name, _, reason in (row.split("\t") for row in rows)}


def run(options: argparse.Namespace, rows: Iterator[tuple[str, Mutant]]) -> None:
    """Judge mutants and append their results."""
    known = records.read(options.state)
    judges: dict[Maker, CoreTests | PythonTests] = {}
    for number, (folder, mutant) in enumerate(rows, 1):
        before = known.get(mutant.name)
        if before and not (options.again and before.result == "survived"):
            continue
        maker = MAKERS[folder]
        if maker not in judges:
            judges[maker] = maker.judge(options.build.resolve())
        result, by = judges[maker].judge(mutant)
        row = records.Result(mutant.name, folder, mutant.title, mutant.kind, result, by)
        records.add(options.state, row)
        print(f"{number} {mutant.name} {result}: {mutant.title}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    add = parser.add_argument
    add("--folder", action="append", choices=MAKERS, help="only this folder; repeatable")
    add("--count", type=int, default=200, help="number of mutants (default: 200)")
    add("--first", type=int, default=0, help="place of the first one in the order (default: 0)")
    add("--seed", type=int, default=0, help="seed of the order (default: 0)")
    add("--again", action="store_true", help="also those that survived before")
    add("--build", type=Path, default=DEFAULT, help="folder of objects, kept")
    add("--state", type=Path, help="file of results (default: results.jsonl in that folder)")
    add("--table", action="store_true", help="only print the table of kept results")
    options = parser.parse_args()
    options.build.mkdir(parents=True, exist_ok=True)
    options.state = options.state or options.build / "results.jsonl"
    if not options.table:
        rows = mutants(options.folder or list(MAKERS), options.seed)
        run(options, iter(rows[options.first : options.first + options.count]))
    print(*records.table(records.read(options.state), equivalent()), sep="\n")


if __name__ == "__main__":
    main()
