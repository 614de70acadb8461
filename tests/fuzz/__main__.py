"""python -m tests.fuzz [--cases N] [--seconds S] [--seed K] [--out DIR]: the fuzzer, for CI.

Runs every program and regression file as it is, then damaged copies; new seeds until the cases are
done or the time is over. Fails when a case fails, or when the time was not enough for all cases.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from driver import REGRESSION, build, run
from make_programs import write_all

BATCH = 5000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=360)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        programs = Path(work) / "programs"
        fuzzer = build(Path(work) / "build")
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
