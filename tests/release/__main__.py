"""Changes of another release of executorch, and which of them are unknown here.

    python -m tests.release --wheel DIR_OR_VENV [--steps STEP...] [--json] [--all]

The environment is a virtual environment, or a folder of `pip install --target`. Compared with the
executorch of this environment: schemas, operators, backends, passes, dialects, the Python API, and
the names that this repository imports. Then programs of the release (export_programs.py), each flow
and example (examples.py), and the wheel's own tests run on this runtime. Prints what is unknown at
the end of each step, and nothing if all is known; exits with 1 if something is unknown.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.release import changes, environment, golden, suites
from tests.release.changes import Change
from tests.release.programs import programs, refusals

STEPS = ("snapshot", "programs", "examples", "suites")


def parser() -> argparse.ArgumentParser:
    lines = (__doc__ or "").splitlines()
    result = argparse.ArgumentParser(prog="python -m tests.release", description=lines[0])
    result.add_argument("--wheel", type=Path, required=True, metavar="DIR_OR_VENV")
    result.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    result.add_argument("--examples", nargs="+", default=(), metavar="NAME", help="default: all")
    result.add_argument("--all", action="store_true", help="known changes, too, with reasons")
    result.add_argument("--json", action="store_true", help="all changes and faults as JSON")
    result.add_argument("--keep", action="store_true", help="add the programs to golden/RELEASE")
    return result


def changed_programs(other: environment.Environment, release: str, keep: bool) -> list[Change]:
    """Return a row for each program that does not run here, or that the release cannot export."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / release
        missing = other.export(folder, environment.progress)
        faults = {program.name: program.fault() for program in programs(folder)}
        rows = [Change("programs", key, "fault", fault) for key, fault in faults.items() if fault]
        failed = refusals(folder)
        rows += [Change("programs", key, "not exported", why) for key, why in failed.items()]
        rows += [Change("programs", "export_programs.py", "fault", missing)] if missing else []
        if keep and not missing:
            golden.keep(folder, release)
    return rows


def changed_examples(other: environment.Environment, names: Sequence[str]) -> Iterator[Change]:
    """Yield a row for each flow and example that runs with this release, but not with the other;
    of a row that only the other has, if it does not run; and known rows of those that neither runs.

    This release runs the rows that do not run with the other one.
    """
    after, missing = other.examples(environment.progress, names)
    if missing:
        yield Change("examples", "examples.py", "fault", missing)
    unknown = dict.fromkeys(() if missing else sorted({*names} - {*after}), "no such row")
    faults = {name: result for name, result in after.items() if result != "ok"} | unknown
    before, _ = environment.here().examples(environment.progress, [*faults]) if faults else ({}, "")
    for name, result in faults.items():
        same = before.get(name, "ok") != "ok"
        yield Change("examples", name, "not run by either" if same else "fault", result)


def found(
    args: argparse.Namespace, other: environment.Environment, release: str
) -> Iterator[Change]:
    """Yield all changes and faults, those of a step at its end."""
    if "snapshot" in args.steps:
        environment.progress("snapshot of the installed release")
        old = environment.here().snapshot()
        environment.progress(f"snapshot of {release}")
        yield from changes.all_differences(old, other.snapshot())
    if "programs" in args.steps:
        yield from changed_programs(other, release, args.keep)
    if "examples" in args.steps:
        yield from changed_examples(other, args.examples)
    if "suites" in args.steps:
        for test, outcome in suites.differences(other, environment.progress):
            yield Change("suites", test, "fault", outcome)


def lines(row: Change) -> str:
    """Return a change in lines of 80 columns."""
    parts = [f"{row.part}: {row.what}", f"  {row.name}", f"  {row.detail}", f"  ({row.reason})"]
    texts = [part for part in parts if part.strip("() ")]
    return "\n".join(text if len(text) <= 80 else f"{text[:77]}..." for text in texts)


def main() -> int:
    args = parser().parse_args()
    other, known = environment.Environment.of(args.wheel), changes.Known.here()
    release, rows = other.version(), []
    for change in found(args, other, release):
        row = known.judged(change, release)
        rows.append(row)
        if not args.json and (args.all or not row.reason):
            environment.progress("")
            print(lines(row), flush=True)
    environment.progress("")
    unknown = [row for row in rows if not row.reason]
    if args.json:
        table = [vars(row) for row in rows]
        print(environment.as_json({"release": release, "unknown": len(unknown), "changes": table}))
    elif unknown:
        print(f"executorch {release}: {len(unknown)} of {len(rows)} changes are unknown")
    return int(bool(unknown))


if __name__ == "__main__":
    sys.exit(main())
