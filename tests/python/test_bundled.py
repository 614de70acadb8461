"""Bundled programs: from the official writer, for the official reader, damaged."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import executorch_c
from executorch_c.bundled import BundledProgram
from executorch_c.testing import MismatchError, compare
from tests.python.digits import DIGITS, EXPECTED, IMAGES
from tests.python.small_programs import counter_pte

PTE = DIGITS.read_bytes()
CASE = [IMAGES], [EXPECTED]
WRONG = [IMAGES], [EXPECTED + 1]


@pytest.fixture(scope="module")
def official() -> tuple[bytes, list[tuple[list[object], object]]]:
    """Return a .bpte of the official writer, with two cases of a tensor and a number, and its
    contents."""
    torch = pytest.importorskip("torch")
    from executorch.devtools import BundledProgram as Official
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import (
        serialize_from_bundled_program_to_flatbuffer as serialize,
    )

    from tests.exports import manager

    def scaled(x, n: int):  # type: ignore[no-untyped-def]
        return x * n, (x > 0)

    program = manager(scaled, torch.ones(2, 3), 3)
    inputs = [[torch.randn(2, 3), 3] for _ in range(2)]
    cases = [(row, scaled(*row)) for row in inputs]
    suite = MethodTestSuite(
        method_name="forward",
        test_cases=[MethodTestCase(inputs=i, expected_outputs=list(e)) for i, e in cases],
    )
    return serialize(Official(program, [suite])), cases


def test_what_the_official_writer_wrote(official: tuple[bytes, list[Any]]) -> None:
    data, cases = official
    bundled = BundledProgram.load(data)
    assert repr(bundled) == "<executorch_c.BundledProgram: 2 cases of 'forward'>"
    for case, (inputs, expected) in zip(bundled.cases, cases, strict=True):
        np.testing.assert_array_equal(case.inputs[0], inputs[0].numpy())
        assert case.inputs[1] == 3
        for ours, theirs in zip(case.expected, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs.numpy())
    assert [bool(result) for result in bundled.verify()] == [True, True]
    bundled.assert_verified()


def test_the_official_reader_reads_ours() -> None:
    lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")
    # The reference compares with NumPy-like limits: use the outputs of its own run.
    data = BundledProgram(PTE, {"forward": [CASE]}).to_bytes()
    module = lib._load_bundled_program_from_buffer(data)
    module.verify_result_with_bundled_expected_output("forward", 0, 1e-3, 1e-4)
    wrong = BundledProgram(PTE, {"forward": [WRONG]}).to_bytes()
    module = lib._load_bundled_program_from_buffer(wrong)
    with pytest.raises(RuntimeError):
        module.verify_result_with_bundled_expected_output("forward", 0, 1e-3, 1e-4)


def test_state_starts_anew_with_each_case() -> None:
    x = np.array([1, 2], np.float32)
    case = ([x], [x])  # the sum of one call
    bundled = BundledProgram(counter_pte(), {"forward": [case, case]})
    bundled.assert_verified()
    for _ in range(2):
        np.testing.assert_array_equal(bundled.run()[0], x)


DTYPES = [
    *("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"),
    *("complex128", "bool", ml_dtypes.bfloat16, "uint16", "uint32", "uint64"),
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_come_back(dtype: object, rng: np.random.Generator, tmp_path: Path) -> None:
    base = rng.integers(0, 2, (2, 3, 4, 5)).astype(dtype)  # type: ignore[call-overload]
    last = np.ascontiguousarray(base.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    values = [base, last, base[0, 0, 0, 0], base[:0], base[:, ::2], 3, True, 2.5, -(2**63)]
    bundled = BundledProgram(b"program", {"f": [(values, [])], "g": []})
    bundled.save(tmp_path / "x.bpte")
    loaded = BundledProgram.load(tmp_path / "x.bpte")
    assert loaded.program_data == b"program"
    [case] = loaded.cases
    for copy, value in zip(case.inputs, values, strict=True):
        if isinstance(value, (np.ndarray, np.generic)):
            assert isinstance(copy, np.ndarray)
            assert (copy.dtype, copy.shape) == (value.dtype, value.shape)
            np.testing.assert_array_equal(copy, value)
        else:
            assert copy == value and type(copy) is type(value)
    second = case.inputs[1]
    assert isinstance(second, np.ndarray) and second.strides == last.strides


def test_a_case_that_fails() -> None:
    rows = [CASE, WRONG, ([IMAGES], [])]
    bundled = BundledProgram(PTE, {"forward": rows})
    verdicts = [result.verdict for result in bundled.verify(atol=1e-4)]
    assert verdicts == ["match", "differ", "inconclusive"]
    assert [bool(r) for r in bundled.verify("forward", 1, atol=1e-4)] == [False]
    with pytest.raises(MismatchError, match=r"forward\[1\]: outputs differ"):
        bundled.assert_verified(atol=1e-4)
    [output] = bundled.run("forward", 2)
    assert compare(output, EXPECTED)


def test_wrong_requests() -> None:
    bundled = BundledProgram(PTE, {"forward": [CASE]})
    with pytest.raises(KeyError, match="no test cases of method 'encode'; .* test cases: forward"):
        bundled.verify("encode")
    with pytest.raises(IndexError, match="test case 1 of method 'forward', which has 1 test case"):
        bundled.run("forward", 1)
    with pytest.raises(TypeError, match="expected an array or a number, found NoneType"):
        BundledProgram(PTE, {"forward": [([None], [])]})


def test_other_files() -> None:
    for data in (b"", b"BP08", bytes(64), PTE):
        with pytest.raises(executorch_c.InvalidProgramError, match="bundled program"):
            BundledProgram.load(data)
    with pytest.raises(executorch_c.InvalidProgramError, match="'BP09', expected 'BP08'"):
        BundledProgram.load(bytes(4) + b"BP09" + bytes(64))
    with pytest.raises(executorch_c.InvalidProgramError, match="is not a .pte program but a bund"):
        executorch_c.Runtime.get().load_program(BundledProgram(b"p", {}).to_bytes() + bytes(64))


def test_damaged_files_are_refused_or_read() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    data = BundledProgram(b"program", {"forward": [([array, 1], [array, 2.0])]}).to_bytes()
    refused = 0
    for size in range(len(data.rstrip(b"\0"))):  # only padding follows
        with pytest.raises(executorch_c.Error):
            BundledProgram.load(data[:size])
    for at in range(len(data)):
        for value in (0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1, data[at] ^ 0x10):
            damaged = data[:at] + bytes([value]) + data[at + 1 :]
            try:
                BundledProgram.load(damaged)
            except executorch_c.Error:
                refused += 1
    assert refused > len(data)
