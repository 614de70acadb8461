"""Buffers of programs: used in place if they are immutable."""

import mmap
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_c import Runtime
from tests.alone import alone
from tests.plans import Constants, Plan, build, load

ONES = np.ones(4, np.float32)


def adding_constant() -> bytes:
    """Return a program that adds 3 to its input, with the constant in a segment."""
    constants = Constants()
    plan = Plan()
    x, y = plan.input((4,)), plan.output((4,))
    plan.call("aten::add.out", x, plan.constant(constants, 3 * ONES), 1, y)
    return build(plan, constants=constants)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.pte"
    file.write_bytes(adding_constant())
    return file


def views_of(memory: Any) -> list[Any]:
    """Return read-only views of writable memory."""
    array = np.frombuffer(memory, np.uint8)
    locked = array.view()
    locked.flags.writeable = False
    return [memoryview(memory).toreadonly(), locked, memoryview(locked)]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("mapped", [False, True])
def test_read_only_views_of_writable_memory_are_copied(
    path: Path, number: int, mapped: bool
) -> None:
    """Such a view does not protect its memory, which may change after verification."""
    memory: Any = bytearray(path.read_bytes())
    if mapped:
        with path.open("r+b") as file:
            memory = mmap.mmap(file.fileno(), 0)
    loaded = Runtime.get().load_program(views_of(memory)[number])
    memory[:] = bytes(len(memory))
    method = alone(lambda: float(loaded.load_method("forward")(ONES).sum()))
    assert method == 16


def test_subclasses_of_bytes_are_copied() -> None:
    class Mine(bytes):
        pass

    data = Mine(adding_constant())
    before = sys.getrefcount(data)
    method = load(data)
    assert sys.getrefcount(data) == before
    np.testing.assert_array_equal(method(ONES), 4 * ONES)
