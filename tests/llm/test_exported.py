"""Programs of the official exporters: every logit of every call, as eager PyTorch in float32 and as
the official runtime in the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executorch_c import Runtime
from executorch_c.llm import TextRunner
from exported_llm import Made, Row, load
from exported_rows import BY_NAME, ROWS, differences


def runner_of(made: Made, method: str, **options: Any) -> TextRunner:
    return TextRunner(made.program, data_path=made.data or None, method=method, **options)


def logits(runner: TextRunner, made: Made) -> list[np.ndarray]:
    return [runner.forward(ids) for ids in made.tokens]


def assert_agree(row: Row, made: Made, method: str, found: list[np.ndarray]) -> None:
    """Assert that logits are those of eager or, for `official` rows, of the official runtime.

    A row that eager computes in float64, too, is compared with that: at most three times as far
    from it as float32 eager is, whose distance depends on the model and on the CPU.

    An activation between two integers is rounded up in one runtime and down in another, as their
    sums end in other bits; caches keep it. So of quantised rows a third of the calls must agree to
    the limit, and none may be farther from the official runtime than eager is.
    """
    if row.in_float64:
        exact = made.exact[method]
        assert max(differences(found, exact)) <= 3 * max(differences(made.eager[method], exact))
        return
    if not row.official:
        largest = max(float(np.abs(logits).max()) for logits in made.eager[method])
        limit = row.limit * max(1, largest / 10)
        assert max(differences(found, made.eager[method])) <= limit
        return
    expected = made.official[method]
    apart = sorted(differences(found, expected))
    assert apart[len(apart) // 3] <= row.limit
    assert apart[-1] <= max(row.limit, *differences(made.eager[method], expected))


def rows() -> list[Any]:
    return [pytest.param(row, id=row.name, marks=[] if row.by_default else pytest.mark.heavy)
            for row in ROWS]  # fmt: skip


@pytest.mark.parametrize("row", rows())
def test_every_step(row: Row) -> None:
    made = load(row)
    program = Runtime.get().load_program(made.program, data_path=list(made.data) or None)
    needs = program.requirements()
    found = [*(name.partition(".")[0] for name in needs["operators"]), *needs["backends"]]
    assert set(row.uses) <= set(found), "the export does not test what the row names"
    for method in row.methods:
        runner = runner_of(made, method)
        first = logits(runner, made)
        assert_agree(row, made, method, first)
        runner.reset()
        for before, after in zip(first, logits(runner, made)):
            np.testing.assert_array_equal(after, before)


HEAVY = [pytest.param("int8-cache", marks=pytest.mark.heavy),
         pytest.param("llama-8da4w", marks=pytest.mark.heavy)]  # fmt: skip


@pytest.mark.parametrize("name", ["gemma3", *HEAVY])
def test_a_lost_call_is_seen(name: str) -> None:
    """Planted fault: one call does not reach the caches."""
    row = BY_NAME[name]
    made = load(row)
    runner, found = runner_of(made, "forward"), []
    for i, ids in enumerate(made.tokens):
        before = runner.snapshot()
        found.append(runner.forward(ids))
        if i == 1:
            kept = list(runner._session.ids)
            runner.restore(before)
            runner._session.ids = kept
    with pytest.raises(AssertionError):
        assert_agree(row, made, "forward", found)
