"""The program argument: every function accepts all sources, and errors name the file."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import cli, devtools
from executorch_c.bundled import BundledProgram
from executorch_c.testing import assert_matches, check_model
from tests import process
from tests.python.digits import DIGITS, EXPECTED, IMAGES

CASE = [IMAGES[:2]], [EXPECTED[:2]]


class Manager:
    """The interface of an ExecutorchProgramManager that functions use."""

    buffer = DIGITS.read_bytes()


class Edge:
    """The interface of an EdgeProgramManager that functions use."""

    def to_executorch(self) -> Manager:
        return Manager()


def bpte(folder: Path) -> Path:
    BundledProgram(DIGITS.read_bytes(), {"forward": [CASE]}).save(folder / "digits.bpte")
    return folder / "digits.bpte"


SOURCES: dict[str, Callable[[Path], Any]] = {
    "str": lambda folder: str(DIGITS),
    "path": lambda folder: DIGITS,
    "bytes": lambda folder: DIGITS.read_bytes(),
    "array": lambda folder: np.frombuffer(DIGITS.read_bytes(), np.uint8),
    "open file": lambda folder: io.BytesIO(DIGITS.read_bytes()),
    "program": lambda folder: executorch_c.load(DIGITS),
    "method": lambda folder: executorch_c.load(DIGITS).load_method("forward"),
    "manager": lambda folder: Manager(),
    "edge manager": lambda folder: Edge(),
    "bundled": lambda folder: BundledProgram.load(bpte(folder)),
    "bpte path": bpte,
    "bpte bytes": lambda folder: bpte(folder).read_bytes(),
    "bpte file": lambda folder: io.BytesIO(bpte(folder).read_bytes()),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_function_takes_every_source(kind: str, tmp_path: Path) -> None:
    inputs, expected = CASE

    def source() -> Any:
        return SOURCES[kind](tmp_path)

    assert "forward" in executorch_c.load(source()).method_names
    assert "aten::convolution.out" in devtools.dump(source())
    assert devtools.graph(source()).edges
    assert devtools.memory_plan(source()).nbytes
    assert devtools.check_nan(source(), inputs)
    assert devtools.compare_programs(source(), DIGITS, inputs)
    assert devtools.compare_kernels(source(), inputs)
    assert assert_matches(inputs, expected, program=source())


@pytest.mark.parametrize("make", [bpte, lambda folder: DIGITS], ids=["bpte", "pte"])
def test_every_command_takes_both_files(
    make: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(make(tmp_path))
    for command in ("run", "info", "dump", "graph", "memory", "check-nan", "trace"):
        assert cli.main([command, model]) == 0, command
    assert cli.main(["compare", model, str(DIGITS)]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("name", ["damaged.pte", "damaged.bpte"])
def test_errors_name_the_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"\0\0\0\0" + (b"BP08" if "bpte" in name else b"ET12") + bytes(64))
    with pytest.raises(executorch_c.Error, match=name):
        executorch_c.load(path)
    with pytest.raises((executorch_c.Error, OSError), match=r"missing\.pte"):
        executorch_c.load(tmp_path / "missing.pte")


def test_missing_packages_name_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from executorch_c._arrays import dtype_of

    for name in ("torch", "executorch", "ml_dtypes"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"torch and executorch.*executorch_c\[check\]"):
        check_model(abs, (1.0,))
    with pytest.raises(ImportError, match=r"executorch_c\[check\]"):
        devtools.explain(abs, [], program=DIGITS)
    with pytest.raises(ImportError, match=r"ml_dtypes.*executorch_c\[bfloat16\]"):
        dtype_of("bfloat16")


def test_load_imports_no_reports(tmp_path: Path) -> None:
    """Their import takes longer than loading a small program; only bundled programs need them."""
    code = (
        "import sys, executorch_c; executorch_c.load(sys.argv[1]);"
        "print(*sorted(name for name in sys.modules if name.startswith('executorch_c')))"
    )
    done = process.python("-c", code, DIGITS, cwd=tmp_path)
    loaded = set(done.stdout.split())
    needed = {
        f"executorch_c.{name}" for name in ("_core", "_files", "_names", "_paths", "_programs")
    }
    assert loaded == needed | {"executorch_c"}
