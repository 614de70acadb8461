"""Rows of large tables in mapped files: their pages do not stay in memory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_c import Method, Runtime
from tests.plans import BOUNDED, Constants, Plan, build
from tests.resident import mapping

ROWS, COUNT = 16384, 64
"""Rows of a table of 16 MB or more; look-ups of a call."""
MAX_RESIDENT_KB = 12 << 10
"""KB that may be resident: huge pages of some rows."""
Lookup = tuple[str, Callable[[np.ndarray], np.ndarray], list[Any], list[Any]]


def floats() -> Lookup:
    """Return an operator, a function of indices that returns the rows that it looks up, and its
    arguments around the indices."""
    weight = np.random.default_rng(0).standard_normal((ROWS, 512), np.float32)
    return "aten::embedding.out", weight.__getitem__, [weight], [-1, False, False]


def nibbles() -> Lookup:
    packed = np.random.default_rng(1).integers(0, 256, (ROWS, 1024), np.uint8)
    scales = np.random.default_rng(2).standard_normal((ROWS, 64), np.float32)

    def rows(at: np.ndarray) -> np.ndarray:
        values = np.stack([packed[at] >> 4, packed[at] & 15], axis=-1).reshape(len(at), 2048)
        return (values.astype(np.float32) - 8) * np.repeat(scales[at], 32, axis=1)

    name = "quantized_decomposed::embedding_4bit.out"
    return name, rows, [packed, scales, None, -8, 7], []


def lookup(file: Path, of: Lookup, count: int) -> Method:
    op, rows, before, after = of
    plan, constants = Plan(), Constants()
    at = plan.input((count,), "int64", dynamism=BOUNDED)
    y = plan.output((count, rows(np.array([0])).shape[1]), dynamism=BOUNDED)
    put = [plan.constant(constants, a) if isinstance(a, np.ndarray) else a for a in before]
    plan.call(op, *put, at, *after, y)
    file.write_bytes(build(plan, constants=constants))
    return Runtime.get().load_program(file).load_method("forward")


@pytest.mark.parametrize("make", [floats, nibbles], ids=["float32", "4 bits"])
@pytest.mark.parametrize("count", [1, COUNT], ids=["a token", "a prompt"])
def test_rows_of_a_table_leave_memory(
    tmp_path: Path, make: Callable[[], Lookup], count: int
) -> None:
    table = make()
    file, rows = tmp_path / "model.pte", table[1]
    method = lookup(file, table, count)
    resident = 0
    for first in range(8 if count > 1 else 2000):
        at = (first * 7 + np.arange(count) * (ROWS // count)) % ROWS
        np.testing.assert_array_equal(method.execute([at])[0], rows(at))
        if first % (8 if count > 1 else 256) == 7:  # reading maps takes long
            resident = max(resident, mapping(file)["Rss"])
    assert resident < MAX_RESIDENT_KB


def test_a_table_that_is_read_again_and_again_stays(tmp_path: Path) -> None:
    """Mapping the rows of an encoder's text takes longer than looking them up."""
    table = floats()
    file, rows = tmp_path / "model.pte", table[1]
    method = lookup(file, table, COUNT)
    at = np.arange(COUNT) * (ROWS // COUNT)
    for _ in range(20):
        np.testing.assert_array_equal(method.execute([at])[0], rows(at))
    kept = mapping(file)["Rss"]
    method.execute([at])
    assert mapping(file)["Rss"] == kept >= COUNT * 4
    for row in range(0, ROWS, 32):  # rows of single tokens leave
        method.execute([np.array([row])])
    assert mapping(file)["Rss"] < MAX_RESIDENT_KB // 4
