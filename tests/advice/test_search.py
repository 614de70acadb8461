"""The search for a small set of layers, beside brute force, on noise that does not just add up."""

from dataclasses import dataclass
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from executorch_c.advice import run
from executorch_c.advice.programs import Made
from executorch_c.advice.search import Search


@dataclass(frozen=True)
class Result:
    """Noise, and whether it reaches a target."""

    noise: float
    ok: bool


class Problem:
    """Layers in a row: a layer in float between quantised ones keeps a part of its noise."""

    def __init__(self, seed: int, count: int) -> None:
        rng = np.random.default_rng(seed)
        self.names = [f"layer{i}" for i in range(count)]
        self.noise = rng.lognormal(0, 1.5, count)
        self.edges = rng.lognormal(-0.5, 1, count + 1)
        self.limit = rng.uniform(0.05, 0.9) * self.total(frozenset())

    def total(self, kept: frozenset[str]) -> float:
        quantised = [name not in kept for name in self.names]
        own = self.noise[quantised].sum()
        before, after = [False, *quantised], [*quantised, False]
        return float(own + self.edges[np.logical_or(before, after)].sum())

    def result(self, kept: frozenset[str]) -> Result:
        total = self.total(kept)
        return Result(total, total <= self.limit)

    def search(self, max_sets: int = 10_000) -> Search:
        return Search({name: {name} for name in self.names}, self.result, max_sets)

    def fewest(self) -> int:
        for size in range(len(self.names) + 1):
            if any(self.result(frozenset(s)).ok for s in combinations(self.names, size)):
                return size
        raise AssertionError


def test_beside_brute_force() -> None:
    """Within one layer of the fewest, and mostly the fewest."""
    more = []
    for seed in range(60):
        problem = Problem(seed, 4 + seed % 6)
        found = problem.search().fewest()
        assert found is not None and problem.result(found).ok
        more.append(len(found) - problem.fewest())
    assert min(more) == 0 and max(more) <= 1 and more.count(0) >= 50, more


def test_nothing_and_everything() -> None:
    problem = Problem(0, 5)
    problem.limit = 1e9
    assert problem.search().fewest() == frozenset()
    problem.limit = -1.0
    assert problem.search().fewest() is None
    problem.limit = 0.0
    assert problem.search().fewest() == frozenset(problem.names)


def test_a_layer_that_covers_others_counts_as_all() -> None:
    """A block with its own operators keeps a layer inside it in float, too."""
    covers = {"block": {"block", "conv"}, "conv": {"conv"}, "head": {"head"}}
    noise = {"block": 3.0, "conv": 2.0, "head": 1.0}

    def result(kept: frozenset[str]) -> Result:
        total = sum(noise.values()) - sum(noise[n] for n in {m for k in kept for m in covers[k]})
        return Result(total, total <= 4.5)

    search = Search(covers, result, 100)
    assert search.fewest() == frozenset({"conv"}) and search.size({"block", "conv"}) == 2


@pytest.mark.parametrize("max_sets", [5, 20, 60])
def test_few_sets(max_sets: int) -> None:
    """A result that reaches the target even where not all sets may be tried."""
    problem = Problem(3, 12)
    search = problem.search(max_sets)
    found = search.fewest()
    assert found is not None and problem.result(found).ok
    assert len(search.known) <= max_sets + 2 * len(problem.names)


class Chosen(run.Choice):
    """A choice whose programs have more noise than their graphs."""

    def __init__(self, problem: Problem, factor: float) -> None:
        self.problem, self.factor, self.exports = problem, factor, 0
        self.search, self.notes, self.is_cut = problem.search(), [], False
        layers: Any = SimpleNamespace(layers=dict.fromkeys(problem.names))
        self.simulation = layers

    def made(self, name: str, kept: Any) -> Made:
        self.exports += 1
        noise = self.problem.total(frozenset(kept)) * self.factor
        reached: Any = Result(noise, noise <= self.problem.limit)
        return Made(name, len(kept), b"", reached)


def test_layers_that_were_added_for_the_program_are_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not more layers than without pruning, fewer for some problems, by a few programs more."""
    counts = []
    for seed in range(30):
        found = []
        for max_pruned in (run.MAX_PRUNED, 0):
            monkeypatch.setattr(run, "MAX_PRUNED", max_pruned)
            chosen = Chosen(Problem(seed, 12), 1.4)
            best, made = chosen._reaching(chosen.made("all quantised", ()))
            assert made.count == len(best) and (made.reached.ok or len(best) == 12)
            found.append((made.count, chosen.exports))
        monkeypatch.undo()
        counts.append(found[1][0] - found[0][0])
        assert found[0][1] <= found[1][1] + run.MAX_PRUNED
    assert min(counts) == 0 and max(counts) > 0, counts
