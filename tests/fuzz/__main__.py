"""python -m tests.fuzz: the fuzzers.

Run every program and regression file unchanged, then damaged copies, with new seeds until the cases
are done or the time is over. Fail if a case fails, or if the time was too short for all cases.
With --coverage-guided: libFuzzer (clang) on each target in turn, from the seeds and the corpus of
tests/fuzz/corpus; fail if an input fails, and write it to --out.
With --differential: mutants that load, by this runtime in several ways and by the official one
(`differential.py`).
With --campaign: mutants of each target in the build without sanitizers, each in two ways that must
agree, for hours: the counts in the folder are those of all runs.
With --minimise: a corpus for the tree from the inputs of a campaign's folder (`minimise.py`).
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz import campaign, guided, minimise
from tests.fuzz.driver import REGRESSION, kept_build, run
from tests.fuzz.make_programs import write_all
from tests.fuzz.seeds import TARGETS

BATCH = 5000


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    add = parser.add_argument
    add("--cases", type=int, default=20000, help="damaged copies (default: 20000)")
    add("--seconds", type=float, default=360, help="time for all cases or targets (default: 360)")
    add("--seed", type=int, default=1, help="random seed (default: 1)")
    add("--out", type=Path, default=Path("fuzz-failures"), help="folder for failing files")
    add("--coverage-guided", action="store_true", help="use libFuzzer; needs clang")
    add(
        "--target",
        choices=TARGETS,
        action="append",
        help="with --coverage-guided, --campaign or --minimise: only this target (default: each)",
    )
    add("--corpus", type=Path, help="with --coverage-guided: folder for the corpus")
    add("--differential", action="store_true", help="compare ways to run mutants")
    add(
        "--first",
        type=int,
        default=0,
        help="with --differential: number of the first case (default: 0)",
    )
    add(
        "--against",
        choices=("official", "reference", "delegated", "traced", "unchanged"),
        nargs="+",
        help="with --differential: other ways (default: all)",
    )
    add("--campaign", type=Path, metavar="DIR", help="run mutants, and go on with those of DIR")
    add(
        "--minimise",
        type=Path,
        metavar="DIR",
        help="make the smallest inputs of a campaign with the same edges the corpus of the tree",
    )
    return parser.parse_args()


def main() -> int:
    options = parse()
    if options.coverage_guided:
        return guided.run(options)
    if options.differential:
        from tests.fuzz import differential  # and with it torch

        return differential.main(options)
    if options.campaign:
        return campaign.run(options)
    if options.minimise:
        return minimise.run(options)
    with tempfile.TemporaryDirectory() as work:
        programs = Path(work) / "programs"
        fuzzer = kept_build() / "fuzz_pte"  # the one that pytest uses, too
        print(write_all(programs, options.seed), "programs", flush=True)
        files = sorted(programs.glob("*.pte"))
        whole = files + sorted(REGRESSION.glob("*.pte"))
        started, done, seed = time.monotonic(), 0, options.seed
        fine, report = run(fuzzer, whole, len(whole), seed, options.out)
        print("as they are:", report, flush=True)
        while fine and done < options.cases:
            if time.monotonic() - started > options.seconds:
                print(f"only {done} of {options.cases} cases in {options.seconds:.0f} seconds")
                return 1
            cases = min(BATCH, options.cases - done)
            fine, report = run(fuzzer, files, cases, seed, options.out)
            print(f"seed {seed}:", report, flush=True)
            done, seed = done + cases, seed + 1
        print(f"{done} damaged files in {time.monotonic() - started:.0f} seconds")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
