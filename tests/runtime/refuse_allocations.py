"""Run one program with each allocation failing in turn; a script for a separate process.

    LD_PRELOAD=preload_alloc.so python refuse_allocations.py FOLDER c|c-onwards|python

FOLDER has model.pte and inputs `small.npz`, `large.npz`. "c": requests of the package's extensions
to the C library, "python": requests to Python's allocators. Each step of a session may fail with a
MemoryError with a message, and gives the right result when it is repeated. Printed are the
number of sessions, of failed steps, and of leaked blocks: the extensions', and Python's.
"""

import ctypes
import gc
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import executorch_c

FOLDER, HOW = Path(sys.argv[1]), sys.argv[2]
PACKAGE = Path(executorch_c.__file__).parent


def arrays(name: str) -> list[np.ndarray]:
    with np.load(FOLDER / f"{name}.npz") as file:
        return [file[key] for key in file.files]


SMALL, LARGE = arrays("small"), arrays("large")
PTE = (FOLDER / "model.pte").read_bytes()
FILE = str(FOLDER / "model.pte")
DUMP = str(FOLDER / "dump.etdp")


class Session:
    """One program from its file to its end; the results of the steps must be equal each time."""

    def __init__(self) -> None:
        self.outs = [np.empty_like(o) if isinstance(o, np.ndarray) else None for o in OUTPUTS]

    def load_program(self) -> Any:
        self.program = executorch_c.Runtime.get().load_program(PTE)
        return self.program.method_names

    def load_file(self) -> Any:
        return executorch_c.Runtime.get().load_program(FILE, enable_etdump=True).has_etdump

    def describe(self) -> Any:
        meta = self.program.metadata("forward")
        return [repr(meta), self.program.info(), self.program.requirements()]

    def load_method(self) -> Any:
        self.method = self.program.load_method("forward", num_threads=2)
        return self.method.attribute_names

    def small(self) -> Any:
        return self.method.execute(SMALL)

    def large(self) -> Any:
        return self.method.execute(LARGE)

    def strided(self) -> Any:
        return self.method.execute([np.asfortranarray(array) for array in SMALL])

    def out(self) -> Any:
        self.method.execute(LARGE, out=self.outs)
        return [None if out is None else out.copy() for out in self.outs]

    def attributes(self) -> Any:
        results = []
        for name in self.method.attribute_names:
            self.method.set_attribute(name, np.full_like(self.method.get_attribute(name), 3))
            results.append(self.method.get_attribute(name).copy())
        return results

    def reset(self) -> Any:
        self.method.reset()
        self.method.manual_seed(1)
        self.method.set_state(self.method.get_state())
        return [self.method.get_attribute(name).copy() for name in self.method.attribute_names]

    def figures(self) -> Any:
        self.method.memory()
        self.method.backend_report()
        return None

    def trace(self) -> Any:
        with self.method.tracing(values=True, ranges=True) as trace:
            outputs = self.method.execute(LARGE)
        assert trace.dropped_events or trace.events
        return outputs

    def etdump(self) -> Any:
        program = executorch_c.Runtime.get().load_program(
            PTE, enable_etdump=True, debug_buffer_size=1 << 20
        )
        outputs = program.load_method("forward", num_threads=1).execute(SMALL)
        if HOW.startswith("c"):  # Python code and files: not for Python's allocators
            program.write_etdump_result_to_file(DUMP, None)
        return outputs


STEPS = [
    *(Session.load_program, Session.load_file, Session.describe, Session.load_method),
    *(Session.small, Session.large, Session.strided, Session.out, Session.attributes),
    *(Session.reset, Session.large, Session.figures, Session.trace, Session.small),
    Session.etdump,
]


def equal(result: Any, wanted: Any) -> None:
    if isinstance(wanted, (list, tuple)):
        assert type(result) is type(wanted) and len(result) == len(wanted)
        for one, other in zip(result, wanted, strict=True):
            equal(one, other)
    elif isinstance(wanted, np.ndarray):
        np.testing.assert_array_equal(result, wanted)
    else:
        assert result == wanted, (result, wanted)


class Library:
    """The preloaded library: fails allocations of the extensions in the C library."""

    says = True
    """True if each MemoryError has a message."""
    spare = 0
    """Number of sessions without an error that ends the search."""

    def __init__(self) -> None:
        self.here = ctypes.CDLL(None)
        for name in ("refused", "alive"):
            getattr(self.here, f"preload_{name}").restype = ctypes.c_size_t
        for line in Path("/proc/self/maps").read_text().splitlines():
            fields = line.split()
            if len(fields) > 5 and "x" in fields[1] and Path(fields[5]).parent == PACKAGE:
                begin, end = (ctypes.c_size_t(int(part, 16)) for part in fields[0].split("-"))
                self.here.preload_choose(begin, end)
        self.disarm()

    def arm(self, n: int) -> None:
        self.here.preload_arm(ctypes.c_size_t(n), HOW == "c-onwards")

    def disarm(self) -> bool:
        """Disarm the library; return True if an allocation failed."""
        refused = bool(self.here.preload_refused())
        self.here.preload_arm(ctypes.c_size_t(0), 0)
        return refused

    def alive(self) -> int:
        """Return the number of blocks of the extensions."""
        return int(self.here.preload_alive())


class Python(Library):
    """Python's own allocators, whose MemoryError has no message and whose failures are not
    counted."""

    says = False
    spare = 30

    def __init__(self) -> None:
        self.hooks = importlib.import_module("_testcapi")
        super().__init__()

    def arm(self, n: int) -> None:
        if n:
            self.hooks.set_nomemory(n, n + 1)

    def disarm(self) -> bool:
        self.hooks.remove_mem_hooks()
        return False


def one_session(refuser: Library, n: int, wanted: list[Any]) -> tuple[bool, int]:
    """Fail the n-th allocation of each step; return True if one failed, and the failed steps."""
    session, failed, refused = Session(), 0, False
    for number, step in enumerate(STEPS):
        results, error = None, None
        refuser.arm(n)
        try:
            results = step(session)
        except MemoryError as raised:
            error = raised
        refused = refuser.disarm() or error is not None or refused
        if error is not None:
            failed += 1
            assert not refuser.says or len(str(error)) > 10, f"{step.__name__}: {error!r}"
            del error
            results = step(session)
        if number < len(wanted):
            equal(results, wanted[number])
        else:
            wanted.append(results)
    return refused, failed


def sessions(refuser: Library, wanted: list[Any]) -> Iterator[int]:
    """Yield the number of failed steps of each session, until no allocation fails."""
    n, spare = 0, refuser.spare
    while spare >= 0:
        n += 1
        refused, failed = one_session(refuser, n, wanted)
        spare = refuser.spare if refused else spare - 1
        yield failed


OUTPUTS = executorch_c.Runtime.get().load_program(PTE).load_method("forward").execute(LARGE)

if __name__ == "__main__":
    refuser = Python() if HOW == "python" else Library()
    wanted: list[Any] = []
    for _ in range(2):
        one_session(refuser, 0, wanted)
    for _ in range(30):  # Python fills its caches at first; a leak occurs in every round
        gc.collect()
        before, objects = refuser.alive(), sys.getallocatedblocks()
        failures = list(sessions(refuser, wanted))
        gc.collect()
        more = refuser.alive() - before, sys.getallocatedblocks() - objects
        if more[1] < sum(failures) / 2:
            break
    print(len(failures), sum(failures), *more)
