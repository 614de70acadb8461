"""Random input of readers in Python: `python -m tests.fuzz.readers --cases 100000`.

A reader's test has `cases(folder)`, which returns a function of a case's number: that returns True
if the input was accepted, False if it was refused, and raises on a finding. The tests run the first
cases of EXECUTORCH_C_FUZZ_SEED.
"""

import argparse
import importlib
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

READERS = {
    "etrecord": "tests.inspect.test_random_etrecords",
    "etdump": "tests.inspect.test_random_etdumps",
    "coreai": "tests.backends.test_coreai_answers",
    "coreai-payloads": "tests.backends.test_coreai_payloads",
    "arrays": "tests.python.test_hostile_arrays",
    "rewrite": "tests.rewrite.test_damaged",
}
"""Modules of the readers."""
SEED_CASES = 1 << 40
"""Cases of a seed."""

Case = Callable[[int], bool]


def numbers(seed: int, first: int, cases: int) -> range:
    return range(seed * SEED_CASES + first, seed * SEED_CASES + first + cases)


def check_cases(case: Case, cases: int) -> None:
    """Run a reader's first cases: some are accepted, and some are refused."""
    seed = int(os.environ.get("EXECUTORCH_C_FUZZ_SEED", "1"))
    counts = Counter(map(case, numbers(seed, 0, cases)))
    assert min(counts[True], counts[False]) > 0, counts


def run(case: Case, chosen: Iterable[int], seconds: float) -> tuple[Counter[str], int]:
    """Run cases until the time is over, or SIGINT comes; return counts by outcome, and the number
    after the last."""
    started, counts, number = time.monotonic(), Counter[str](), 0
    for number in chosen:
        try:
            counts["accepted" if case(number) else "refused"] += 1
        except Exception:
            counts["findings"] += 1
            print(f"case {number}:\n{traceback.format_exc()}", flush=True)
        except KeyboardInterrupt:
            return counts, number
        if time.monotonic() - started > seconds:
            break
    return counts, number + 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.readers", description=__doc__)
    add = parser.add_argument
    add("--reader", choices=READERS, action="append", help="only this reader (default: each)")
    add("--cases", type=int, default=100_000, help="of each reader (default: 100000)")
    add("--seconds", type=float, default=3600, help="time for each reader (default: 3600)")
    add("--seed", type=int, default=1, help="(default: 1)")
    add("--first", type=int, default=0, help="number of the first case of the seed (default: 0)")
    options = parser.parse_args()
    findings = 0
    for name in options.reader or READERS:
        module = importlib.import_module(READERS[name])
        with tempfile.TemporaryDirectory() as folder:
            chosen = numbers(options.seed, options.first, options.cases)
            counts, end = run(module.cases(Path(folder)), chosen, options.seconds)
        shown = ", ".join(f"{counts[key]:,} {key}" for key in ("accepted", "refused", "findings"))
        print(
            f"{name}: {counts.total():,} cases ({shown}); seed {options.seed}, next --first "
            f"{end % SEED_CASES}",
            flush=True,
        )
        findings += counts["findings"]
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
