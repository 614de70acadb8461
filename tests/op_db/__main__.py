"""python -m tests.op_db [NAME...]: share of torch's operator database with eager's results.

For each function of `op_db` and each dtype some samples are exported by the official flow (kept in
the tests' cache) and run here, with the default and the reference kernels, and in the official
runtime. The report counts eager's results among the samples that eager accepts and the flow
exports.
"""

import argparse
import fnmatch
import json
import re
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import executorch_c._core  # noqa: F401  (not there: an error here, not in every sample)
from tests.op_db.opdb_run import RUNTIMES, Outcome, outcome
from tests.op_db.opdb_samples import DTYPES, entries


HOW = """\
Samples of torch 2.13's operator database that eager accepts on CPU and the official flow exports,
run by this runtime ("ours": default kernels; "reference": the plain loops) and by executorch 1.5.1
("official"). README.md defines equality."""


CAUSES = """\
Causes of failures here. If the program is the cause, the flow has changed the function: its
operators, run by eager, do not give the function's results either."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.op_db", description=__doc__)
    parser.add_argument("names", nargs="*", default=["*"], help="functions, as shell patterns")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument(
        "--samples", type=int, help="samples per function and dtype (default: 1 to 4)"
    )
    parser.add_argument("--runtimes", nargs="*", choices=RUNTIMES, default=list(RUNTIMES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--failures", action="store_true", help="print every failing sample")
    parser.add_argument("--json", type=Path, help="write everything to a file")
    parser.add_argument("--markdown", type=Path, help="also write the report to a file")
    return parser.parse_args()


def collect(arguments: argparse.Namespace) -> list[Outcome]:
    """Return all outcomes, with progress on standard error."""
    names = [n for n in entries() if any(fnmatch.fnmatch(n, p) for p in arguments.names)]
    jobs = [(n, d) for d in arguments.dtypes for n in names if d in entries()[n].dtypes()]
    count, runtimes = arguments.samples, tuple(arguments.runtimes)
    items, started = list[Outcome](), time.monotonic()
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
        running = {
            pool.submit(outcome, n, d, count or DTYPES[d], runtimes): (n, d) for n, d in jobs
        }
        for done in as_completed(running):
            name, dtype = running[done]
            try:
                items.append(done.result())
            except Exception as error:
                pool.shutdown(wait=False, cancel_futures=True)
                sys.exit(f"{name} {dtype}: {type(error).__name__}: {error}")
            seconds = time.monotonic() - started
            text = f"{len(items)} of {len(jobs)} ({seconds:.0f} s): {name} {dtype}"
            if sys.stderr.isatty():
                print(f"\r{text:<78}", end="", file=sys.stderr, flush=True)
            elif len(items) % 50 == 0:
                print(text, file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return sorted(items, key=lambda o: (o.name, list(DTYPES).index(o.dtype)))


def totals(outcomes: list[Outcome], runtimes: list[str]) -> list[str]:
    """Return a table by dtype: the number of samples with eager's results."""
    by_dtype: dict[str, Counter] = defaultdict(Counter)
    for o in outcomes:
        for key in (o.dtype, "all"):
            by_dtype[key].update(
                exported=o.exported,
                unexported=len(o.unexported),
                **{r: o.exported - len(o.failures[r]) for r in runtimes},
            )
    lines = [
        "| dtype | exported | " + " | ".join(runtimes) + " | not exported |",
        "|---|--:|" + "--:|" * len(runtimes) + "--:|",
    ]
    for dtype, n in sorted(by_dtype.items(), key=lambda item: item[0] == "all"):
        shares = [f"{n[r]} ({100 * n[r] / max(1, n['exported']):.2f} %)" for r in runtimes]
        cells = [dtype, str(n["exported"]), *shares, str(n["unexported"])]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def functions(outcomes: list[Outcome], runtimes: list[str]) -> list[str]:
    """Return the functions that fail here, and those with more failures than in the official
    runtime."""
    by_name: dict[str, Counter] = defaultdict(Counter)
    for o in outcomes:
        by_name[o.name].update(exported=o.exported, **{r: len(o.failures[r]) for r in runtimes})
    wrong = {n: c for n, c in by_name.items() if any(c[r] for r in runtimes if r != "official")}
    lines = [f"{len(by_name)} functions, {len(wrong)} with samples that fail here."]
    for name, c in wrong.items():
        shares = ", ".join(f"{r} {c['exported'] - c[r]}" for r in runtimes)
        lines.append(f"- {name}: {shares} of {c['exported']}")
    if {"ours", "official"} <= set(runtimes):
        below = [n for n, c in by_name.items() if c["ours"] > c["official"]]
        lines += ["", f"Below the official runtime: {', '.join(below) or 'none'}."]
    return lines


def causes(outcomes: list[Outcome]) -> list[str]:
    """Return eager's results for the programs that fail here."""
    count: dict[tuple[str, str], list[str]] = defaultdict(list)
    for o in outcomes:
        for text in o.causes:
            count[o.name, text].append(o.dtype)
    return [
        f"- {name} ({', '.join(dict.fromkeys(dtypes))}): {text}"
        for (name, text), dtypes in count.items()
    ]


def reasons(outcomes: list[Outcome]) -> list[str]:
    """Return the reasons why samples are not exported, the most frequent first."""
    count = Counter(re.sub(r"\d+", "N", text)[:90] for o in outcomes for text in o.unexported)
    return [f"- {n} x {text.strip()}".replace("\n", " ") for text, n in count.most_common(12)]


def failures(outcomes: list[Outcome]) -> list[str]:
    return [
        f"{o.name} {o.dtype} {runtime} sample {index}: {text}"
        for o in outcomes
        for runtime, wrong in o.failures.items()
        if runtime != "official"
        for index, text in wrong
    ]


def main() -> int:
    result = options()
    value = collect(result)
    report = [*totals(value, result.runtimes), "", *functions(value, result.runtimes)]
    print("\n".join(report + (failures(value) + causes(value) if result.failures else [])))
    if result.markdown:
        known = ["", CAUSES, "", *causes(value)]
        head = ["# Results of op_db compared with eager's", "", HOW, ""]
        why = ["", "Reasons for samples that are not exported:", "", *reasons(value)]
        result.markdown.write_text("\n".join([*head, *report, *known, *why]) + "\n")
    if result.json:
        result.json.write_text(
            json.dumps([{**vars(o), "operators": sorted(o.operators)} for o in value], indent=1)
        )
    return 1 if any(o.failures.get("ours") or o.failures.get("reference") for o in value) else 0


if __name__ == "__main__":
    sys.exit(main())
