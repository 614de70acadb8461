"""Files of a check: its program, and the inputs and outputs of a case."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from executorch_c._arrays import write_arrays
from executorch_c._paths import read_bytes, write_bytes
from executorch_c.check import finding
from executorch_c.check.reference import Eager

if TYPE_CHECKING:
    from executorch_c._programs import ProgramFile
    from executorch_c._types import FilePath
    from executorch_c.check.result import CheckedCase, CheckResult


def save_program(result: CheckResult, path: FilePath) -> None:
    """Write the program of a check. Raises ValueError if its bytes are not known."""
    origin = result._origins.get("program")
    _write(None if origin is None else origin.source, path)


def write_program(program: ProgramFile, path: FilePath) -> None:
    """Write a program. Raises ValueError if its bytes are not known."""
    _write(program.source, path)


def _write(source: object, path: FilePath) -> None:
    if isinstance(source, (str, os.PathLike)):
        source = read_bytes(source)
    if not isinstance(source, (bytes, bytearray, memoryview)):
        raise ValueError("the bytes of a loaded program are not known: pass its path or bytes")
    write_bytes(path, source)


def call_of(case: CheckedCase) -> int:
    """Return the index of the call of a case whose values are kept: the first that differs."""
    first = 0 if case.comparison is None else case.comparison.first_call()
    return max(first - 1, 0)


def save_inputs(case: CheckedCase, path: FilePath) -> None:
    """Write the inputs of a case's call."""
    write_arrays(path, "input", case.inputs[call_of(case)])


def outputs_of(result: CheckResult, case: CheckedCase) -> Sequence[Any]:
    """Return the program's outputs of a case's call, which runs again after the calls before it.

    Raises ValueError if the program raises.
    """
    if case.error is not None or case.skipped is not None:
        why = case.error if case.error is not None else case.skipped
        raise ValueError(f"no outputs of {case.name}: {why}")
    method = finding.loaded(result)
    method.reset()
    outputs: Any = ()
    for inputs in case.inputs[: call_of(case) + 1]:
        outputs = method.execute(list(inputs))
    method.reset()
    found: Sequence[Any] = outputs
    return found


def expected_of(result: CheckResult, case: CheckedCase) -> Sequence[Any]:
    """Return eager's outputs of a case's call; of a test case of a .bpte, the expected ones where
    they differ."""
    expected: Any = case.expected if case.kind == "bundled" else ()
    if not expected:
        inputs = case.inputs[: call_of(case) + 1]
        calls = [finding.call_of_inputs(result.structure, one) for one in inputs]
        expected = Eager(result.reference)(calls)[-1]
    found: Sequence[Any] = expected
    return found


def save_outputs(result: CheckResult, case: CheckedCase, path: FilePath) -> None:
    """Write `outputs_of` a case."""
    write_arrays(path, "output", outputs_of(result, case))


def save_expected(result: CheckResult, case: CheckedCase, path: FilePath) -> None:
    """Write `expected_of` a case."""
    write_arrays(path, "output", expected_of(result, case))
