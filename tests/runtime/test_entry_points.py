"""Valid and invalid calls of each entry point do not grow the process.

In CI a few thousand calls of each; 100,000 with
`EXECUTORCH_C_CALLS=100000 pytest tests/runtime/test_entry_points.py`.
"""

import gc
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from executorch_c import Method, MethodMeta, Program, Runtime
from tests.resident import resident_bytes
from tests.runtime import entry_points
from tests.runtime.entry_points import BAD, GOOD, Call, failing

CALLS = int(os.environ.get("EXECUTORCH_C_CALLS", "3000"))
SECONDS = float("inf") if CALLS > 3000 else 0.4
"""Maximum time for the calls of one entry point in CI: slow ones are called less often."""
BINDINGS = entry_points.bindings()
ROWS = [
    *((f"good {name}", call) for table in (GOOD, BINDINGS[0]) for name, call in table.items()),
    *(
        (f"bad {name}", failing(call))
        for table in (BAD, BINDINGS[1])
        for name, call in table.items()
    ),
]


@pytest.fixture(autouse=True, scope="module")
def small_heap() -> Iterator[None]:
    """Exempt objects that exist before the tests from collections."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def repeat(call: Call, times: int, seconds: float) -> int:
    """Call an entry point repeatedly; return the number of calls."""
    end = time.monotonic() + seconds
    for done in range(times):
        call()
        if done % 16 == 15 and time.monotonic() > end:
            return done + 1
    return times


def growth(call: Call, times: int, seconds: float) -> tuple[int, int, int]:
    """Return the calls, and the growth of the process in bytes and objects."""
    gc.collect()
    before, blocks = resident_bytes("RssAnon"), sys.getallocatedblocks()
    done = repeat(call, times, seconds)
    gc.collect()
    return done, resident_bytes("RssAnon") - before, sys.getallocatedblocks() - blocks


@pytest.mark.parametrize("name, call", ROWS, ids=[name for name, _ in ROWS])
def test_calls_do_not_leak(name: str, call: Call) -> None:
    """A leak appears in each part of the calls; a cache in only one of them."""
    repeat(call, CALLS // 10, SECONDS / 4)
    parts = [growth(call, CALLS // 3, SECONDS / 4) for _ in range(3)]
    assert min(done for done, _, _ in parts) >= 16
    assert min(blocks - done // 8 for done, _, blocks in parts) < 20, parts
    assert min(size - done * 16 for done, size, _ in parts) < 256 << 10, parts


@pytest.mark.parametrize("kind", [Runtime, Program, Method, MethodMeta])
def test_every_name_has_a_row(kind: type) -> None:
    """A new method of these types needs a row."""
    rows = " ".join([*GOOD, *BAD])
    read = {"inputs", "outputs", "name"}  # in read_meta
    names = {name for name in vars(kind) if not name.startswith("_")}
    if kind is MethodMeta:
        text: Any = entry_points.read_meta.__code__.co_names
        rows += " ".join(text) + " input_tensor_meta num_inputs num_outputs"
        names -= read
    assert {name for name in names if name not in rows} == set()


def test_a_leak_is_seen() -> None:
    kept: list[object] = []
    with pytest.raises(AssertionError):
        test_calls_do_not_leak("planted", lambda: kept.append(object()))
    lost: list[bytes] = []
    with pytest.raises(AssertionError):
        test_calls_do_not_leak("planted", lambda: lost.append(bytes(100_000)))
