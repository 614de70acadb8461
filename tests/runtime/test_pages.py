"""Rows of large tables in mapped files: their pages do not stay in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_c import Method, Runtime
from plans import Constants, Plan, build
from resident import mapping

ROWS, COUNT = 16384, 64
"""Rows of a table of 16 MB or more; look-ups of a call."""
MOST = 12 << 10
"""KB that may be resident: huge pages of some rows."""
Made = tuple[str, np.ndarray, list[Any], list[Any]]


def floats() -> Made:
    """Return an operator, the rows that it looks up, and its arguments around the indices."""
    weight = np.random.default_rng(0).normal(size=(ROWS, 512)).astype(np.float32)
    return "aten::embedding.out", weight, [weight], [-1, False, False]


def nibbles() -> Made:
    packed = np.random.default_rng(1).integers(0, 256, (ROWS, 1024)).astype(np.uint8)
    scales = np.random.default_rng(2).normal(size=(ROWS, 64)).astype(np.float32)
    values = np.stack([packed >> 4, packed & 15], axis=-1).reshape(ROWS, 2048).astype(np.float32)
    rows = (values - 8) * np.repeat(scales, 32, axis=1)
    name = "quantized_decomposed::embedding_4bit.out"
    return name, rows, [packed, scales, None, -8, 7], []


def lookup(file: Path, op: str, width: int, before: list[Any], after: list[Any]) -> Method:
    plan, constants = Plan(), Constants()
    at, y = plan.input((COUNT,), "int64"), plan.output((COUNT, width))
    put = [plan.constant(constants, a) if isinstance(a, np.ndarray) else a for a in before]
    plan.call(op, *put, at, *after, y)
    file.write_bytes(build(plan, constants=constants))
    return Runtime.get().load_program(file).load_method("forward")


@pytest.mark.parametrize("make", [floats, nibbles], ids=["float32", "4 bits"])
def test_rows_of_a_table_leave_memory(tmp_path: Path, make: Callable[[], Made]) -> None:
    op, rows, before, after = make()
    file = tmp_path / "model.pte"
    method = lookup(file, op, rows.shape[1], before, after)
    most = 0
    for first in range(0, ROWS // COUNT, 4):
        at = first + np.arange(COUNT) * (ROWS // COUNT)
        np.testing.assert_array_equal(method.execute([at])[0], rows[at])
        most = max(most, mapping(file)["Rss"])
    assert most < MOST
    for row in range(0, ROWS, 256):  # one token at a time
        at = np.full(COUNT, row)
        np.testing.assert_array_equal(method.execute([at])[0], rows[at])
    assert mapping(file)["Rss"] < MOST
