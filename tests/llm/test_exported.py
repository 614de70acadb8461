"""Programs of the official exporters: every logit of every call, as eager PyTorch in float32 and as
the official runtime in the rest."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_c import Error, Runtime, load as opened
from executorch_c.llm import TextRunner
from tests.llm import official_trace, small_llm
from tests.llm.exported_llm import ExportedRow, Row, load
from tests.llm.exported_rows import ROWS, differences
from tests.llm.small_llm import CONTEXT, eager, program as decoder


def runner_of(export: ExportedRow, method: str, **options: Any) -> TextRunner:
    return TextRunner(export.program, data_path=export.data or None, method=method, **options)


def logits(runner: TextRunner, export: ExportedRow) -> list[np.ndarray]:
    return [runner.forward(ids) for ids in export.tokens]


def assert_agree(row: Row, export: ExportedRow, method: str, outputs: list[np.ndarray]) -> None:
    """Assert that logits are those of eager or, for `official` rows, of the official runtime.

    A row that eager computes in float64, too, is compared with that: at most three times as far
    from it as float32 eager is, whose distance depends on the model and on the CPU.

    An activation between two integers is rounded up in one runtime and down in another, as their
    sums end in other bits; caches keep it. So of quantised rows a third of the calls must agree to
    the limit, and none may be farther from the official runtime than eager is.
    """
    if row.in_float64:
        exact = export.exact[method]
        assert max(differences(outputs, exact)) <= 3 * max(differences(export.eager[method], exact))
        return
    if not row.official:
        largest = max(float(np.abs(logits).max()) for logits in export.eager[method])
        limit = row.limit * max(1, largest / 10)
        assert max(differences(outputs, export.eager[method])) <= limit
        return
    expected = export.official[method]
    apart = sorted(differences(outputs, expected))
    assert apart[len(apart) // 3] <= row.limit
    assert apart[-1] <= max(row.limit, *differences(export.eager[method], expected))


LOST = ("gemma3", "int8-cache", "llama-8da4w")
"""Rows in which a call that does not reach the caches must be seen."""


@pytest.mark.sweep(8)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_step(row: Row, tmp_path: Path) -> None:
    exported = load(row)
    program = Runtime.get().load_program(exported.program, data_path=list(exported.data) or None)
    needs = program.requirements()
    results = [*(name.partition(".")[0] for name in needs["operators"]), *needs["backends"]]
    assert set(row.uses) <= set(results), "the export does not test what the row names"
    for method in row.methods:
        runner = runner_of(exported, method)
        first = logits(runner, exported)
        assert_agree(row, exported, method, first)
        runner.reset()
        for before, after in zip(first, logits(runner, exported)):
            np.testing.assert_array_equal(after, before)
    if row.official:
        assert_differences_begin_at_ties(exported, tmp_path)
    if row.name in LOST:
        with pytest.raises(AssertionError):
            assert_agree(row, exported, "forward", without_a_call(exported))


def without_a_call(export: ExportedRow) -> list[np.ndarray]:
    """Return logits with a planted fault: one call does not reach the caches."""
    runner, results = runner_of(export, "forward"), []
    for i, ids in enumerate(export.tokens):
        before = runner.snapshot()
        results.append(runner.forward(ids))
        if i == 1:
            kept = list(runner._session.ids)
            runner.restore(before)
            runner._session.ids = kept
    return results


# ---- the cause of differences of quantised programs ------------------------------------------

CLOSE = 2e-6
"""Of values up to 4."""
GAIN = 8
"""Maximum ratio of the difference of a layer's result to the differences of its inputs, without a
tie. Measured: 6 for sums of a few products (rotations); thousands with a tie of integers."""


def integers_of(x: np.ndarray) -> np.ndarray:
    """Return rows of activations as XNNPACK's integers, before the zero point is added."""
    rows = x.reshape(-1, x.shape[-1])
    spread = np.maximum(rows.max(-1), 0) - np.minimum(rows.min(-1), 0)
    return np.rint(rows * (np.float32(255) / spread)[:, None])


def traced(runner: TextRunner, ids: list[int]) -> list[tuple[int, list[np.ndarray], np.ndarray]]:
    """Return instruction, float inputs of several rows, and result of each float kernel and
    delegate of one result."""
    (method,) = runner._engine.methods.values()
    with method.tracing(values=True) as trace:
        runner.forward(ids)
    known: dict[int, np.ndarray] = {}
    results = []
    for event in trace.events:
        if event.kind not in ("kernel", "delegate") or event.instruction is None:
            continue
        inputs = [known[v.slot] for v in event.inputs if v.slot in known]
        for value in event.outputs:
            if isinstance(value.data, np.ndarray) and value.data.dtype == np.float32:
                known[value.slot] = value.data
                results.append((event.instruction, inputs, value.data))
    return results


def nearest(x: np.ndarray, others: list[np.ndarray]) -> np.ndarray | None:
    """Return the array of the same shape with the least difference."""
    same = [y for y in others if y.shape == x.shape and y.dtype == x.dtype]
    return min(same, key=lambda y: float(np.abs(x - y).max()), default=None)


def limit_of(x: np.ndarray) -> float:
    return CLOSE * max(1.0, float(np.abs(x).max()) / 4)


def assert_differences_begin_at_ties(export: ExportedRow, tmp_path: Path) -> None:
    """In the first call that is farther from the official runtime, the first layer whose result
    is: rows with the same integers as there agree, some activations are other integers, because
    they are between two, and their sums (means, attention) end in other bits."""
    runner = runner_of(export, "forward")
    expected = export.official["forward"]
    apart = differences(logits(runner, export), expected)
    far = [i for i, one in enumerate(apart) if one > limit_of(expected[i])]
    if not far:
        return
    runner.reset()
    for ids in export.tokens[: far[0]]:
        runner.forward(ids)
    calls = list(export.tokens[: far[0] + 1])
    by_instruction: dict[int, list[np.ndarray]] = {}
    for instruction, _, arrays in official_trace.trace(export.program, calls, tmp_path):
        by_instruction.setdefault(instruction, []).extend(arrays)
    everything = [array for arrays in by_instruction.values() for array in arrays]
    for instruction, inputs, ours in traced(runner, calls[-1]):
        theirs = nearest(ours, by_instruction.get(instruction, []))
        pairs = [(x, nearest(x, everything)) for x in inputs if x.ndim > 1]
        passed_on = max((np.abs(x - y).max() for x, y in pairs if y is not None), default=0)
        if theirs is None or np.abs(ours - theirs).max() <= limit_of(theirs) + GAIN * passed_on:
            continue
        same = np.ones(ours.reshape(-1, ours.shape[-1]).shape[0], bool)
        for x, y in pairs:
            assert y is not None and np.abs(x - y).max() <= limit_of(y), "not the first one"
            rows = (integers_of(x) == integers_of(y)).all(-1)
            same &= rows if len(rows) == len(same) else rows.all()
        errors = np.abs(ours - theirs).reshape(len(same), -1).max(-1)
        assert not same.all() and errors[same].max(initial=0) <= limit_of(theirs)
        return
    pytest.fail("no instruction differs")


# ---- small decoders -------------------------------------------------------------------------

OPERATORS = {
    "position": {"custom_sdpa", "update_cache"},
    "int8": {"custom_quantized_sdpa", "update_cache"},
    "ring": {"custom_sdpa", "update_cache_with_indices"},
    "recurrent": {"gated_delta_rule"},
}


@pytest.mark.parametrize("kind", OPERATORS)
def test_plain_loops_agree_with_eager(kind: str) -> None:
    loaded, tokens = opened(decoder(kind, every=True)), small_llm.ids(CONTEXT)
    operators = set(loaded.requirements()["operators"])
    assert {f"llama::{name}.out" for name in OPERATORS[kind]} <= operators
    method, expected = loaded.load_method("forward", kernels="reference"), eager(kind, tokens)
    for start, stop in itertools.pairwise((0, 5, 6, 7, 14, 16, 17, 18, 19, 34, 35, CONTEXT)):
        (logits,) = method.execute([np.array([tokens[start:stop]]), np.array([start])])
        np.testing.assert_allclose(logits[0], expected[start:stop], atol=1e-5)


def test_beyond_the_caches() -> None:
    """A call that does not fit is an error, and leaves the caches as they are."""
    method = opened(decoder()).load_method("forward")
    one, at = np.zeros((1, 1), np.int64), np.zeros(1, np.int64)
    first = method.execute([one, at])[0].copy()
    for start, n in ((CONTEXT, 1), (CONTEXT - 1, 2), (-1, 1), (2**62, 1)):
        with pytest.raises(Error, match=r"update_cache.*start_pos.*positions in \[0, 48"):
            method.execute([np.zeros((1, n), np.int64), np.array([start])])
    np.testing.assert_array_equal(method.execute([one, at])[0], first)
