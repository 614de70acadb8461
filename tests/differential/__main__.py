"""`python -m tests.differential`: random programs of the official flow against eager.

Each seed is a graph of 3 to 15 calls. It is exported, and run by eager, by this runtime in each way
of loading and by the official runtime. With `--save FILE`, the reports are appended, and seeds that
are in the file are not run again. `--seed S --count 1` replays one program and prints it.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

PROGRESS_PROGRAMS = 50
"""Programs between two lines of progress."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="number of seeds")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--without-official", action="store_true", help="do not run the official runtime"
    )
    parser.add_argument("--shrink", action="store_true", help="drop calls while a program differs")
    parser.add_argument("--save", type=Path, metavar="FILE", help="append reports as JSON lines")
    parser.add_argument(
        "--saved",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="print the table of saved reports, without any run",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    return parser


def main() -> int:
    """Print the table; return 1 if a difference has no explained cause."""
    args = _parser().parse_args()
    from tests.differential import results

    saved = [report for path in args.saved or [] for report in results.read(path)]
    reports = list({report.seed: report for report in saved}.values())  # the latest of a seed
    if not args.saved:
        reports = _run(args)
    table = results.table(reports)
    print(table)
    if args.markdown:
        args.markdown.write_text(f"{results.HEAD}\n{table}\n")
    return int(any(map(results.unexplained, reports)))


def _run(args: argparse.Namespace) -> list:
    from tests.differential import results
    from tests.differential import workers

    reports = results.read(args.save) if args.save and args.save.exists() else []
    seen = {report.seed for report in reports}
    seeds = [seed for seed in range(args.seed, args.seed + args.count) if seed not in seen]
    workers.prepare()
    for i, report in enumerate(
        workers.run(seeds, args.jobs, not args.without_official, args.seconds), 1
    ):
        reports.append(report)
        if args.save:
            with args.save.open("a") as file:
                file.write(json.dumps(asdict(report)) + "\n")
        if results.unexplained(report) or args.count == 1:
            print(results.text(report), flush=True)
            if args.shrink:
                print(workers.shrunk(report.seed), flush=True)
        if i % PROGRESS_PROGRAMS == 0:
            print(f"{i} of {len(seeds)} programs", file=sys.stderr, flush=True)
    return reports


if __name__ == "__main__":
    sys.exit(main())
