"""The search of `advise` beside brute force over all sets of layers, on 20 small models.

`python -m tests.advice.brute [--model NAME] [--no-programs]` prints a row for each model and target
in the form of `results.md`. A target is the SQNR with all layers quantised, and some dB more.

Brute force tries all sets in the quantised graph in eager, smaller ones first; that this graph is
the converted one bit by bit is tested in `test_advise.py`. The program of the search's set is
exported by the flow, and reaches the target here.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from executorch_c.advice.run import Choice, maker_of
from executorch_c.advice.simulation import Simulation
from executorch_c.advice.targets import targets_of
from executorch_c.progress import Progress
from tests.advice import small_models

MORE_DB = (3, 8)
"""What targets have more than the quantised model, in dB."""


@dataclass(frozen=True)
class Row:
    """A search beside brute force."""

    model: str
    layers: int
    whole_db: float
    target_db: float
    found: int | None
    """Number of layers in float; None if no set reaches the target."""
    sets: int
    """Number of sets that the search simulated."""
    fewest: int | None
    brute_sets: int
    program_db: float
    """SQNR of the program; NaN if it was not made."""

    @property
    def more(self) -> float:
        """Number of layers more than the fewest; infinite if only one of the two found any."""
        if self.found is None or self.fewest is None:
            return 0 if self.found is self.fewest else math.inf
        return self.found - self.fewest

    def __str__(self) -> str:
        program = "" if math.isnan(self.program_db) else f"{self.program_db:.1f}"
        return (
            f"| {self.model} | {self.layers} | {self.whole_db:.1f} | {self.target_db:.1f} "
            f"| {_shown(self.found)} | {self.sets} | {_shown(self.fewest)} | {self.brute_sets} "
            f"| {program} |"
        )


def _shown(count: int | None) -> str:
    return "none" if count is None else str(count)


HEAD = (
    "| model | layers | SQNR dB | target dB | found | sets | fewest | all sets | program dB |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def fewest(choice: Choice) -> tuple[int | None, int]:
    """Return the size of the smallest set that reaches the target, None if none does, and the
    number of sets that were tried, smaller ones first."""
    names = [*choice.simulation.layers]
    sets = [frozenset(s) for n in range(len(names) + 1) for s in combinations(names, n)]
    sets.sort(key=choice.search.size)
    for tried, one in enumerate(sets, 1):
        if choice.search.result(one).ok:
            return choice.search.size(one), tried
    return None, len(sets)


def rows(name: str, with_programs: bool = True) -> Iterator[Row]:
    """Yield a row for each target of a model."""
    model, calls = small_models.made(name)
    say, simulation = Progress("", False), None
    for more in MORE_DB:
        target = targets_of("1dB")
        if simulation is None:
            maker, _ = maker_of(
                model, calls[0], "xnnpack-int8", target, calls[1:], (), "forward", say
            )
            simulation = Simulation(maker.flow, maker.exported, maker.samples, maker.quantizer)
            whole_db = Choice(maker, simulation, say).search.result(()).rows[0].value
        choice = Choice(maker.for_targets(f"{whole_db + more}dB"), simulation, say)
        found = choice.search.fewest()
        sets = len(choice.search.known)
        program_db = math.nan
        if with_programs and found is not None:
            made = choice.made("advised", found)
            program_db = made.reached.rows[0].value
        yield Row(
            name,
            len(simulation.layers),
            whole_db,
            whole_db + more,
            None if found is None else choice.search.size(found),
            sets,
            *fewest(choice),
            program_db,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=small_models.MODELS)
    parser.add_argument("--no-programs", action="store_true", help="export no programs")
    args = parser.parse_args()
    print(HEAD, flush=True)
    done, start = [], time.process_time()
    for name in [args.model] if args.model else small_models.MODELS:
        for row in rows(name, not args.no_programs):
            print(row, flush=True)
            done.append(row)
    worse = [row.more for row in done]
    print(
        f"\n{len(done)} searches: {worse.count(0)} with the fewest layers, {worse.count(1)} with "
        f"one more, {sum(one > 1 for one in worse)} with more; "
        f"{time.process_time() - start:.0f} s of processor time"
    )


if __name__ == "__main__":
    main()
