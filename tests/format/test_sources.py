"""Sources of programs: buffers are used in place if they are immutable, objects that are no plain
files are read, and files that change after they were opened are an error."""

import gc
import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import Runtime
from tests.alone import alone
from tests.format.test_files import ONES, Reader, large, with_constants
from tests.plans import load
from tests.resident import mapping


def views_of(memory: Any) -> list[Any]:
    """Return read-only views of writable memory."""
    array = np.frombuffer(memory, np.uint8)
    locked = array.view()
    locked.flags.writeable = False
    return [memoryview(memory).toreadonly(), locked, memoryview(locked)]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("mapped", [False, True])
def test_read_only_views_of_writable_memory_are_copied(
    tmp_path: Path, number: int, mapped: bool
) -> None:
    """Such a view does not protect its memory, which may change after verification."""
    path = tmp_path / "model.pte"
    path.write_bytes(with_constants())
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

    data = Mine(with_constants())
    before = sys.getrefcount(data)
    method = load(data)
    assert sys.getrefcount(data) == before
    np.testing.assert_array_equal(method(ONES), 4 * ONES)


class OnlyReads:
    """An object with nothing of a file but `read`."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self) -> bytes:
        return self.data


def test_sources_of_load(tmp_path: Path) -> None:
    """`executorch_c.load` looks at the head of a source first."""
    data = with_constants()
    path = tmp_path / "model.pte"
    path.write_bytes(data)
    ends = os.pipe()
    with path.open("rb") as mapped, os.fdopen(ends[0], "rb") as pipe:
        sources = [mmap.mmap(mapped.fileno(), 0, access=mmap.ACCESS_READ), OnlyReads(data), pipe]
        with os.fdopen(ends[1], "wb") as writer:
            writer.write(data)
        for source in [*sources, Reader(data)]:
            program: Any = executorch_c.load(source)
            assert program.method_names == ["forward"] or program.method_names == {"forward"}


def test_open_devices_are_refused() -> None:
    for name in ("/dev/zero", "/dev/urandom"):
        for buffering in (-1, 0):
            with open(name, "rb", buffering=buffering) as file:
                for load in (executorch_c.load, executorch_c.Runtime.get().load_program):
                    with pytest.raises(executorch_c.AccessFailedError, match=f"'{name}' is a dev"):
                        load(file)


@pytest.mark.heavy
def test_an_endless_pipe_is_limited() -> None:
    class Endless(OnlyReads):
        def __init__(self, number: int) -> None:
            self.number = number

        def fileno(self) -> int:
            return self.number

        def read(self, size: int = -1) -> bytes:
            return bytes(1 << 28)

    ends = os.pipe()
    with os.fdopen(ends[0]), os.fdopen(ends[1]):
        with pytest.raises(ValueError, match="A pipe has more than 2146435072 bytes"):
            executorch_c.load(Endless(ends[0]))  # type: ignore[arg-type]


def test_small_files_are_copied(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(with_constants())
    loaded = Runtime.get().load_program(path)
    method = loaded.load_method("forward")
    assert mapping(path)["Size"] == 0
    os.truncate(path, 0)
    np.testing.assert_array_equal(method(ONES), 4 * ONES)
    np.testing.assert_array_equal(loaded.load_method("forward")(ONES), 4 * ONES)


def cut(file: Path) -> None:
    os.truncate(file, 0)


def write(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(-1, os.SEEK_END)
        opened.write(b"x")
    os.utime(file, ns=(1, 1))  # a clock that has not moved on


@pytest.mark.parametrize(
    "change, match",
    [(cut, r"was written after .*\(0 bytes, it had \d+\)"), (write, "was written after")],
)
def test_mapped_files_that_change(
    change: Callable[[Path], None], match: str, tmp_path: Path
) -> None:
    """A truncated file ended the process with SIGBUS at the next call."""
    file = large(tmp_path, 2)
    loaded = Runtime.get().load_program(file)
    methods = [loaded.load_method(name) for name in ("small", "large")]
    again = file.read_bytes()
    for method in methods:
        assert method.execute([])
    change(file)
    for method in methods:
        for _ in range(2):
            with pytest.raises(executorch_c.InvalidStateError, match=rf"large\.pte' {match}"):
                method.execute([])
    with pytest.raises(executorch_c.InvalidStateError, match=match):
        loaded.load_method("small", seed=1)
    other = file.with_name("other.pte")
    other.write_bytes(again)
    other.replace(file)
    loaded = Runtime.get().load_program(file)
    method = loaded.load_method("large")
    other.write_bytes(b"short")
    other.replace(file)
    assert method.execute([]), "another file of the same name"
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    del loaded, method
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before - 1
