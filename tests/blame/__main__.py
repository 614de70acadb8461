"""`python -m tests.blame`: error rates of `blame` on simulated devices, as tables.

    python -m tests.blame --count 300 --others 300 --healthy 300 --results tests/blame/results.md
    python -m tests.blame --held-out 2 --results tests/blame/results/held_out.md

Programs of flows whose packages are missing are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import textwrap
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from tests.backends.flow_matrix import PACKAGES
from tests.blame import faults, held_out, judged, planted
from tests.blame.units import SCHEMES, Unit, recorded, units

SIZES = (0.1, 0.5)
"""Limits between small, medium and large changes of the outputs, in parts of their RMS."""


def available(seeds: int, count: int | None) -> list[Unit]:
    """Return the programs that are kept, and the units whose packages are here: `count` of them at
    random, or all."""

    def is_here(unit: Unit) -> bool:
        packages = PACKAGES.get(unit.scheme.split("-")[0], ())
        return all(importlib.util.find_spec(name) is not None for name in packages)

    here = [unit for unit in units(seeds) if is_here(unit)]
    if count is not None and count < len(here):
        chosen = np.random.default_rng(0).choice(len(here), count, replace=False)
        here = [here[i] for i in sorted(chosen)]
    return [*recorded(), *here]


class Rates:
    """Right verdicts and near places, by group."""

    def __init__(self) -> None:
        self.counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])

    def add(self, group: str, is_right: bool, is_near: bool) -> None:
        row = self.counts[group]
        row[0], row[1], row[2] = row[0] + 1, row[1] + is_right, row[2] + is_near

    def table(self, title: str, groups: Iterable[str]) -> list[str]:
        """Return a table in Markdown."""
        lines = [f"| {title} | faults | right verdict | node within one |", "|---|---|---|---|"]
        for group in groups:
            count, right, near = self.counts[group]
            if count:
                lines.append(
                    f"| {group} | {count} | {_share(right, count)} | {_share(near, count)} |"
                )
        return [*lines, ""]


def _share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.1f} %)"


def _size(case: planted.Case) -> str:
    small, large = SIZES
    if case.size < small:
        return f"change below {small}"
    return f"change of {small} to {large}" if case.size < large else f"change above {large}"


def timely(cases: Iterable[planted.Case], minutes: float | None) -> Iterator[planted.Case]:
    """Yield cases until the time is over."""
    start = time.monotonic()
    for case in cases:
        yield case
        if minutes is not None and time.monotonic() - start > 60 * minutes:
            return


def with_faults(cases: Iterable[planted.Case], minutes: float | None) -> tuple[Rates, list[str]]:
    """Judge devices with faults; return rates by kind, scheme, model and size, and the misses."""
    rates, misses = Rates(), []
    for case in timely(cases, minutes):
        alone, located = judged.ask(case, False), judged.ask(case, True)
        right, near = alone.is_right(case), located.is_near()
        for group in ("all", case.kind, case.unit.scheme, case.unit.model, _size(case)):
            rates.add(group, right, near)
        if not right:
            misses.append(f"{case.title}, change {case.size:.2g}: {alone.finding}")
        if not near:
            misses.append(f"{case.title}, change {case.size:.2g}: at {located.place or 'no node'}")
        print("." if right and near else f"\n{misses[-1]}\n", end="", flush=True, file=sys.stderr)
    return rates, misses


def without_faults(cases: Iterable[planted.Case], minutes: float | None) -> tuple[int, list[str]]:
    """Judge healthy devices; return their number, and those that are accused."""
    accused, number = [], 0
    for case in timely(cases, minutes):
        answers = [judged.ask(case, False), judged.ask(case, True)]
        number += 1
        wrong = [answer for answer in answers if not answer.is_right(case)]
        if wrong:
            accused.append(f"{case.title}, {case.arithmetic}: {wrong[0].finding}")
        print("!" if wrong else ".", end="", flush=True, file=sys.stderr)
    return number, accused


def tables(
    cases: Iterable[planted.Case], minutes: float | None, kinds: Sequence[str], units: list[Unit]
) -> list[str]:
    """Return the results of faults of some kinds in Markdown."""
    rates, misses = with_faults(cases, minutes)
    lines = [
        *rates.table("all", ["all"]),
        *rates.table("kind", kinds),
        *rates.table("scheme", sorted({unit.scheme for unit in units})),
        *rates.table("model", sorted({unit.model for unit in units})),
        *rates.table("size", sorted(group for group in rates.counts if group.startswith("change"))),
    ]
    return [*lines, "Wrong answers:", "", *_items(misses or ["none"]), ""]


def _items(texts: Iterable[str]) -> Iterator[str]:
    """Yield a list in Markdown, in lines of at most 120 characters."""
    for text in texts:
        yield from textwrap.wrap(f"* {text}", 120, subsequent_indent="  ")


def report(chosen: list[Unit], args: argparse.Namespace) -> str:
    """Return the results in Markdown."""
    runs = planted.drawn_healthy(chosen, args.healthy, args.seed)
    number, accused = without_faults(runs, args.minutes)
    lines = [
        "# Error rates of `blame` on simulated devices",
        "",
        f"`python -m tests.blame --count {args.count} --others {args.others} --healthy "
        f"{args.healthy} --seed {args.seed}`: {len(chosen)} programs.",
        "Verdicts are of outputs alone, nodes of the values of all nodes.",
        "",
        f"Healthy devices of float16 and int8 accused: {len(accused)} of {number}.",
        "",
        *_items(accused),
    ]
    parts = (
        ("The six kinds", args.count, faults.KINDS),
        ("Other kinds", args.others, faults.OTHER_KINDS),
    )
    for title, count, kinds in parts:
        if count:
            cases = planted.drawn(chosen, count, args.seed, kinds)
            lines += [f"## {title}", "", *tables(cases, args.minutes, kinds, chosen)]
    return "\n".join(lines)


def held_out_report(schemes: list[str], args: argparse.Namespace) -> str:
    """Return the results of the faults and programs that `blame` was not fitted on."""
    programs = held_out.programs(schemes)
    runs = held_out.healthy_cases(programs, args.held_out, args.seed)
    number, accused = without_faults(runs, args.minutes)
    cases = held_out.cases(schemes, args.held_out, args.seed)
    lines = [
        "# Faults and programs that `blame` was not fitted on",
        "",
        f"`python -m tests.blame --held-out {args.held_out} --seed {args.seed}`: {len(programs)} "
        "programs (`held_out.py`).",
        "",
        f"Healthy devices without the verdict match or precision: {len(accused)} of {number}.",
        "",
        *_items(accused),
        "",
        "## Faults",
        "",
        *tables(cases, args.minutes, held_out.KINDS, programs),
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.blame", description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="faults")
    parser.add_argument("--others", type=int, default=60, help="faults of other kinds")
    parser.add_argument("--healthy", type=int, default=60, help="runs of healthy devices")
    parser.add_argument("--held-out", type=int, help="rounds of other programs and faults alone")
    parser.add_argument("--schemes", nargs="+", default=[*SCHEMES], help="of --held-out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weights", type=int, default=2, help="seeds of weights")
    parser.add_argument("--programs", type=int, help="exported programs; default: all")
    parser.add_argument("--minutes", type=float, help="time of each part; default: no limit")
    parser.add_argument("--results", type=Path, metavar="FILE", help="write the tables")
    args = parser.parse_args()
    if args.held_out:
        text = held_out_report(args.schemes, args)
    else:
        text = report(available(args.weights, args.programs), args)
    print(text)
    if args.results:
        args.results.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
