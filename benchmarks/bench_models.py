"""Latency of the models of the zoo, exported without a delegate."""

from __future__ import annotations

from benchmarks.common import OFFICIAL, OURS, Row, Table, alternate, open_official, open_ours
from benchmarks.common import rounds_for, seconds, to_torch, zoo_program

OFFICIAL_CANNOT = {"channels_last"}
"""Models that the official runtime cannot run (tests/test_models.py has the reasons)."""


def model_row(name: str, budget: float) -> Row:
    path, method, inputs = zoo_program(name)
    official, ours = open_official(path, method), open_ours(path, method)
    tensors = to_torch(inputs)
    calls = {OFFICIAL: lambda: official.execute(tensors), OURS: lambda: ours.execute(inputs)}
    rounds = rounds_for(calls, budget, 3, 500)
    times = alternate(calls, rounds)
    what = name if method == "forward" else f"{name}, `{method}`"
    return Row(what, times[OFFICIAL], times[OURS], seconds)


def measure(quick: bool) -> Table:
    from tests.models import zoo

    how = (
        "One call of a method on random weights, in turn, one process, torch at one thread; "
        "programs from `to_edge(...).to_executorch()`: no delegates."
    )
    table = Table("Latency of models without delegates", how, geometric_mean=True)
    names = [name for name in zoo.names() if name not in OFFICIAL_CANNOT]
    if not quick:
        names += [name for name in zoo.names(large=True) if name == "mobilenet_v2_224"]
    for name in names:
        table.rows.append(model_row(name, 0.2 if quick else 2.0))
    return table
