"""Run sessions with each call of the kernel failing in turn; a script for a separate process.

    LD_PRELOAD=preload_io.so python fail_calls.py FOLDER SESSION...

FOLDER has the files of test_without_io.py. Each case is a process forked from this one: the n-th
call of a session fails ("fail"), transfers one byte ("short") or is interrupted ("interrupt").
The session raises one exception that names a file, and leaves what it writes as it was before; or
it has its usual result. Its repetition has it in any case. Printed are a line for each fault, and
at the end the numbers of cases and of exceptions.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import executorch_c
from executorch_c import cli, devtools
from executorch_c._arrays import write_arrays
from executorch_c.bundled import BundledProgram

sys.modules["matplotlib"] = None  # type: ignore[assignment]
"""Pages have no pictures, because errors of reading matplotlib's fonts are matplotlib's."""
FILES = Path(sys.argv[1])
MODES = ("fail", "short", "interrupt")
OTHERS = ("fork", "pipe2", "dup", "pthread_create")
"""Calls whose errors have no file."""
OLD = "what was there before"
LAST = 3
"""Sessions without a failed call that end a search."""
Session = Callable[[Path], Any]

here = ctypes.CDLL(None)
here.preload_io_disarm.restype = ctypes.c_size_t
here.preload_io_happened.restype = ctypes.c_bool
here.preload_io_name.restype = ctypes.c_char_p


class CommandError(Exception):
    """A command that ends with a status other than 0; the message is what it printed on standard
    error, or its report, which has the errors of the programs of `bench`."""


with np.load(FILES / "inputs.npz") as arrays:
    INPUTS = [arrays[name] for name in arrays.files]
with np.load(FILES / "package.npz") as arrays:
    PACKED = [arrays["in0"]]
FOUR = [np.ones(4, np.float32)]


def load(folder: Path) -> Any:
    program = executorch_c.Runtime.get().load_program(folder / "model.pte")
    return program.load_method("forward", num_threads=2).execute(INPUTS)


def load_data(folder: Path) -> Any:
    runtime = executorch_c.Runtime.get()
    program = runtime.load_program(folder / "split.pte", data_path=folder / "split.ptd")
    return program.load_method("forward").execute(FOUR)


def load_bundled(folder: Path) -> Any:
    bundled = BundledProgram.load(folder / "model.bpte")
    assert all(bundled.verify())
    return [bundled.run()[0]]


def load_package(folder: Path) -> Any:
    return executorch_c.load(folder / "package.ptn").load_method("forward").execute(PACKED)


def save_trace(folder: Path) -> None:
    method = executorch_c.Runtime.get().load_program(folder / "model.pte").load_method("forward")
    with method.tracing(values=True) as trace:
        method.execute(INPUTS)
    trace.to_etdump(folder / "out.etdp", folder / "out.bin")
    trace.to_chrome(folder / "out.json")
    trace.save(folder / "out.html")


def read_evidence(folder: Path) -> Any:
    dump = devtools.read_etdump(folder / "run.etdp", folder / "run.bin")
    return [event.name for event in dump.runs[0].events]


def save_reports(folder: Path) -> None:
    devtools.memory_plan(folder / "model.pte").save(folder / "out.csv")
    devtools.graph(folder / "model.pte").save(folder / "out.html")
    devtools.dump(folder / "model.pte").save(folder / "out.txt")


def save_arrays(folder: Path) -> None:
    write_arrays(folder / "out.npz", "input", INPUTS)


def save_bundled(folder: Path) -> None:
    BundledProgram.load(folder / "model.bpte").save(folder / "out.bpte")


def command(*words: str) -> Session:
    """Return the session of a command, whose arguments may have the folder as `{}`."""

    def run(folder: Path) -> str:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = cli.main([word.format(folder) for word in words])
            except SystemExit as left:
                status = left.code
        if status:
            raise CommandError(err.getvalue() or (folder / "out.json").read_text())
        return ""

    return run


SESSIONS: dict[str, Session] = {
    "load": load,
    "load_data": load_data,
    "load_bundled": load_bundled,
    "load_package": load_package,
    "save_trace": save_trace,
    "read_evidence": read_evidence,
    "save_reports": save_reports,
    "save_arrays": save_arrays,
    "save_bundled": save_bundled,
    "run": command(
        "run", "{}/model.pte", "--inputs", "{}/inputs.npz", "-o", "{}/out.npz"
    ),
    "validate": command(
        "validate", "{}/model.pte", "--inputs", "{}/inputs.npz", "--expect", "{}/outputs.npz",
        "--html", "{}/out.html", "-o", "{}/out.json",
    ),
    "trace": command(
        "trace", "{}/model.pte", "--inputs", "{}/inputs.npz", "--etdump", "{}/out.etdp"
    ),
    "bench": command(
        "bench", "{}/model.pte", "--inputs", "{}/inputs.npz", "--min-time", "0.01", "--threads",
        "1", "-o", "{}/out.json",
    ),
}  # fmt: skip


# ---- what may be left ------------------------------------------------------------------------


def is_whole(path: Path) -> bool:
    """Return True if a file has its end."""
    match path.suffix:
        case ".json":
            return bool(json.loads(path.read_text()))
        case ".html":
            return path.read_text().rstrip().endswith("</html>")
        case ".npz":
            with np.load(path) as arrays:
                return all(arrays[name].size for name in arrays.files)
        case ".etdp":
            return bool(devtools.read_etdump(path).runs)
        case ".bpte":
            return bool(BundledProgram.load(path).cases)
    return path.stat().st_size > 40 and path.read_bytes()[-1:] != b","


def check_files(folder: Path, before: dict[str, bytes], failed: bool) -> None:
    """Check that each file is whole or as before, and that there is no other."""
    for path in sorted(folder.iterdir()):
        old = before.get(path.name)
        assert old is not None or path.name.startswith("out."), f"{path.name} is left"
        if old is None or path.read_bytes() != old:
            assert path.name.startswith("out."), f"{path.name} has changed"
            assert is_whole(path), f"{path.name} is a half file"
        elif path.name.startswith("out.") and not failed:
            raise AssertionError(f"{path.name} has not been written")


def check_error(error: BaseException, name: str, folder: Path) -> None:
    """Check that an exception is one of a file, with its name, or one of a process or thread."""
    expected = (OSError, executorch_c.Error, CommandError, MemoryError)
    assert isinstance(error, expected), f"{type(error).__name__}: {error}"
    text = str(error)
    assert len(text) > 10, repr(error)
    assert "Traceback" not in text, text
    assert name in OTHERS or str(folder) in text, f"no file in {text!r}"


def equal(result: Any, wanted: Any) -> None:
    """Check that results are equal."""
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], np.ndarray):
        for one, other in zip(result, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    else:
        assert result == wanted, (result, wanted)


# ---- cases -----------------------------------------------------------------------------------


def one_case(session: Session, wanted: Any, folder: Path, n: int, mode: str) -> str:
    """Return "none" if no call failed, "raised" or "passed"."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result, error = None, None
    here.preload_io_arm(ctypes.c_size_t(n), MODES.index(mode))
    try:
        result = session(folder)
    except BaseException as raised:
        error = raised
    here.preload_io_disarm()
    happened, name = here.preload_io_happened(), here.preload_io_name().decode()
    if error is None:
        equal(result, wanted)
    else:
        assert happened, f"{type(error).__name__}: {error}"
        assert mode == "fail", f"{name} in mode {mode}: {type(error).__name__}: {error}"
        check_error(error, name, folder)
    check_files(folder, before, error is not None)
    equal(session(folder), wanted)
    return "none" if not happened else "passed" if error is None else "raised"


def forked(session: Session, wanted: Any, written: list[str], n: int, mode: str) -> str:
    """Run `one_case` in a forked process; return its result, or the text of its fault."""
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="case-") as name:
        folder = Path(name)
        for path in FILES.iterdir():
            shutil.copy(path, folder)
        for output in written if n % 2 else ():
            (folder / output).write_text(OLD)
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                answer = one_case(session, wanted, folder, n, mode)
            except BaseException:
                answer = f"{here.preload_io_name().decode()}: {traceback.format_exc()[-900:]}"
            os.write(writing, answer.encode())
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as file:
            answer = file.read().decode()
        status = os.waitpid(child, 0)[1]
    return answer or f"the process ended with status {status}"


def search(name: str) -> tuple[int, int, int]:
    """Return the numbers of cases, exceptions and faults of a session; print the faults."""
    session, counts = SESSIONS[name], {"passed": 0, "raised": 0, "fault": 0}
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        for path in FILES.iterdir():
            shutil.copy(path, folder)
        for _ in range(2):
            wanted = session(Path(folder))
        written = [path.name for path in Path(folder).glob("out.*")]
    for mode in MODES:
        n, none = 0, 0
        while none < LAST:
            n += 1
            answer = forked(session, wanted, written, n, mode)
            none = none + 1 if answer == "none" else 0
            if answer in ("passed", "raised"):
                counts[answer] += 1
            elif answer != "none":
                counts["fault"] += 1
                print(f"{name}: {mode} of call {n}: {answer}\n", flush=True)
    return counts["passed"] + counts["raised"], counts["raised"], counts["fault"]


if __name__ == "__main__":
    for name in sys.argv[2:] or SESSIONS:
        print(name, *search(name), flush=True)
