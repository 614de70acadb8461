"""Programs of each release that are kept in golden/, and the bits of their results here.

    python -m tests.release.golden           # compare; exits with 1 if bits differ
    python -m tests.release.golden --renew   # after a deliberate change of an order of additions

bits.json has, by release and program, a digest of what the plain loops (kernels="reference")
compute for programs without a delegate. The fast loops depend on the processor's instruction set,
as delegates do: they are compared with eager within limits.
"""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

from tests.release.export_programs import FIRST_RELEASES
from tests.release.programs import Program, programs

FOLDER = Path(__file__).with_name("golden")
BITS = FOLDER / "bits.json"


def releases() -> list[str]:
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def kept() -> list[Program]:
    """Return all programs that are kept."""
    return [program for release in releases() for program in programs(FOLDER / release)]


def is_due(name: str, release: str) -> bool:
    """Return True if golden/ has a row of a release: it may be later than the release."""
    first = FIRST_RELEASES.get(name)
    return first is None or _numbers(release) >= _numbers(first)


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


def keep(folder: Path, release: str) -> None:
    """Copy the rows of a release from a folder to golden/, but those that are there."""
    target = FOLDER / release
    target.mkdir(exist_ok=True)
    there = {path.stem for path in target.iterdir()}
    for path in sorted(filter(Path.is_file, folder.iterdir())):
        if is_due(path.stem, release) and path.stem not in there:
            shutil.copyfile(path, target / path.name)


def key(program: Program) -> str:
    return f"{program.path.parent.name}/{program.name}"


def digests() -> dict[str, str]:
    """Return the digests of today's results."""
    return {key(program): program.digest() for program in kept() if not program.is_delegated}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--renew", action="store_true", help="write the bits of today's results")
    args = parser.parse_args()
    old, new = json.loads(BITS.read_text()) if BITS.exists() else {}, digests()
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            print(f"{name}: {old.get(name, 'new')} -> {new.get(name, 'gone')}")
    if args.renew:
        BITS.write_text(json.dumps(new, indent=1) + "\n")
    return int(old != new and not args.renew)


if __name__ == "__main__":
    sys.exit(main())
