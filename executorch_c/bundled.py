"""Bundled programs (.bpte): a program with inputs and expected outputs.

    from executorch_c.bundled import BundledProgram

    bundled = BundledProgram.load("model.bpte")
    for result in bundled.verify():
        print(result)

The format is ExecuTorch's bundled_program_schema.fbs (identifier "BP08"), as
`executorch.devtools.BundledProgram` writes it. Reading needs NumPy only, writing the package
`flatbuffers` (the extra `executorch_c[devtools]`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import Array, as_array, dtype_of
from executorch_c._core import Method, Program, Runtime, _read_bundled
from executorch_c._delegation import DelegateAtLoad
from executorch_c._eager_caches import cache_for
from executorch_c._files import named_after
from executorch_c._paths import read_bytes, write_bytes
from executorch_c._render import text as _text
from executorch_c.compare.arrays import MismatchError, compare_flat
from executorch_c.compare.comparison import Comparison
from executorch_c.compare.policies import Function, policies_of
from executorch_c.compare.quantized import rule_by_program
from executorch_c.compare.requiring import required
from executorch_c.compare.verdicts import Verdict
from executorch_c.report import Report

if TYPE_CHECKING:
    from executorch_c._types import BundledValue, Data, Output

__all__ = ["BundledProgram", "CaseResult", "TestCase"]

Value = Array | int | float | bool


@dataclass(frozen=True)
class TestCase:
    """One call of a method, with its expected outputs."""

    __test__ = False  # pytest must not collect it

    method: str
    index: int
    """Index among the cases of its method."""
    inputs: tuple[Value, ...]
    expected: tuple[Value, ...]
    """Empty for a case without expected outputs."""

    def __str__(self) -> str:
        return f"{self.method}[{self.index}]"


@dataclass(frozen=True)
class CaseResult(Report):
    """A test case, its outputs, and their comparison with the expected ones."""

    case: TestCase
    outputs: tuple[Output, ...]
    comparison: Comparison

    @property
    def verdict(self) -> Verdict:
        """The verdict; "inconclusive" if expected outputs are missing or uninformative."""
        return self.comparison.verdict

    @property
    def ok(self) -> bool:
        """True if the outputs match."""
        return self.comparison.ok

    def __bool__(self) -> bool:
        return self.ok

    def summary(self) -> str:
        """Return the case and its verdict."""
        return f"{self.case}: {self.comparison.summary()}"

    def problems(self) -> list[str]:
        """Return a sentence for each output that differs or is inconclusive."""
        return self.comparison.problems()

    def table(self) -> str:
        """Return a row for each output as text."""
        return self.comparison.table()

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each output."""
        return self.comparison.rows_as_dicts()

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as a dict, with the case."""
        return {"case": str(self.case), **self.comparison.as_dict()}

    def sections(self) -> Iterator[object]:
        """Return the parts of its page after the finding."""
        return self.comparison.sections()

    def __str__(self) -> str:
        return f"{self.case}: {self.comparison}"


class BundledProgram:
    """A program with test cases.

    Args:
        program: The bytes of a .pte.
        cases: Test cases by method name: for each method a list of pairs of inputs and expected
            outputs. Inputs and outputs are arrays (or torch tensors) and numbers; the
            format has no other values (None, strings).

    Raises TypeError for a value of another kind.
    """

    def __init__(
        self, program: bytes, cases: dict[str, Sequence[tuple[Sequence[object], Sequence[object]]]]
    ) -> None:
        self.program_data = bytes(program)
        self._cases = {
            name: [
                TestCase(name, i, tuple(map(_value, inputs)), tuple(map(_value, expected)))
                for i, (inputs, expected) in enumerate(rows)
            ]
            for name, rows in cases.items()
        }
        self._program: Program | None = None

    @classmethod
    def load(cls, source: Data) -> BundledProgram:
        """Return the BundledProgram of a .bpte: a path, bytes or an open file.

        Raises InvalidProgramError (a ValueError: another kind of file, a damaged one, tensors
        whose data do not fit their sizes), NotSupportedError (a dtype), OSError.
        """
        data = _bytes_of(source)
        with named_after(source):
            offset, size, suites = _read_bundled(data)
        source = data
        loaded = cls(source[offset : offset + size], {})
        for name, rows in suites:
            cases = loaded._cases.setdefault(name, [])
            for inputs, expected in rows:
                values = [tuple(_read(source, v) for v in side) for side in (inputs, expected)]
                cases.append(TestCase(name, len(cases), *values))
        return loaded

    @property
    def program(self) -> Program:
        """The program, loaded at the first access."""
        if self._program is None:
            self._program = Runtime.get().load_program(self.program_data)
        return self._program

    @property
    def cases(self) -> list[TestCase]:
        """All test cases, method by method."""
        return [case for cases in self._cases.values() for case in cases]

    def case(self, method: str = "forward", index: int = 0) -> TestCase:
        """Return a test case. Raises KeyError (a method without cases), IndexError."""
        if method not in self._cases:
            names = ", ".join(self._cases) or "none"
            raise KeyError(f"no test cases of method '{method}'; methods with test cases: {names}")
        rows = self._cases[method]
        if not 0 <= index < len(rows):
            count = _text.plural(len(rows), "test case")
            raise IndexError(f"test case {index} of method '{method}', which has {count}")
        return rows[index]

    def run(self, method: str = "forward", index: int = 0) -> list[Output]:
        """Return the outputs of a test case, run from the initial state of its method."""
        return _run(self.program.load_method(method), self.case(method, index))

    def verify(
        self,
        method: str | None = None,
        index: int | None = None,
        *,
        rtol: float | None = None,
        atol: float | None = None,
        min_sqnr_db: float | None = None,
        delegate_at_load: DelegateAtLoad = False,
        require: str | Sequence[str] | None = None,
        metrics: Mapping[str, Function] | None = None,
    ) -> list[CaseResult]:
        """Run test cases and return their comparisons with the expected outputs.

        Args:
            method: Name of a method. Default: all methods.
            index: Index of one case of the method (default "forward").
            rtol, atol: As for `executorch_c.testing.compare`. (The reference's own default is
                rtol 1e-5, atol 1e-8 whatever the dtype.)
            min_sqnr_db: Minimum signal-to-quantisation-noise ratio, in dB, of a quantised program
                against outputs of its float model. Default: 10, with float or dynamic activations
                and weights of 8 bits 15.
            delegate_at_load: As for `executorch_c.testing.check_model`.
            require, metrics: As for `executorch_c.testing.compare`, of each case.

        State (a KV cache) starts anew with each case. A case without expected outputs runs, and
        is inconclusive. Raises KeyError, IndexError, ValueError for a minimum SQNR without effect,
        and exceptions of the program.
        """
        chosen = self._chosen(method, index)
        policies = policies_of(require, metrics)
        names = dict.fromkeys(case.method for case in chosen)
        caches = {name: cache_for(self.program, name) for name in names}
        methods = {
            name: self.program.load_method(name, delegate_at_load=delegate_at_load, kv_cache=cache)
            for name, cache in caches.items()
        }
        results = []
        for case in chosen:
            outputs = _run(methods[case.method], case)
            comparison = Comparison((), reason="the test case has no expected outputs")
            if case.expected:
                rule = rule_by_program(self.program, case.method, rtol, atol, min_sqnr_db)
                expected = list(case.expected)
                comparison = compare_flat(outputs, expected, rule)
                comparison = required(comparison, outputs, expected, policies)
            results.append(CaseResult(case, tuple(outputs), comparison))
        return results

    def _chosen(self, method: str | None, index: int | None) -> Sequence[TestCase]:
        """Return the cases of `verify`. Raises KeyError, IndexError."""
        if index is not None:
            return [self.case(method or "forward", index)]
        if method is None:
            return self.cases
        self.case(method, 0)
        return self._cases[method]

    def assert_verified(self, *, rtol: float | None = None, atol: float | None = None) -> None:
        """Raise MismatchError (an AssertionError) for the first case that does not match, and
        ValueError if there are no cases."""
        results = self.verify(rtol=rtol, atol=atol)
        if not results:
            raise ValueError("the bundled program has no test cases: nothing can be verified")
        for result in results:
            if not result:
                error = MismatchError(result.comparison, result.outputs, result.case.expected)
                error.args = (str(result),)
                raise error

    def to_bytes(self) -> bytes:
        """Return the bytes of the .bpte file.

        Raises ImportError without the package `flatbuffers`, NotSupportedError for a dtype that
        the format lacks.
        """
        from executorch_c._bundled_write import write

        return write(self.program_data, self._cases)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the .bpte file. Raises the exceptions of to_bytes."""
        write_bytes(path, self.to_bytes())

    def __repr__(self) -> str:
        counts = [_text.plural(len(rows), "case") + f" of '{n}'" for n, rows in self._cases.items()]
        return f"<executorch_c.BundledProgram: {', '.join(counts) or 'no test cases'}>"


def _run(method: Method, case: TestCase) -> list[Output]:
    """Return the outputs of a test case, run from the initial state of its method."""
    method.reset()
    return method.execute(case.inputs)


def _bytes_of(source: Data) -> bytes:
    """Return the content of a file or buffer."""
    if isinstance(source, (str, PathLike)):
        return read_bytes(source)
    data = source.read() if hasattr(source, "read") else source
    return data if isinstance(data, bytes) else bytes(memoryview(data))


def _value(value: object) -> Value:
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        return value
    if value is None or isinstance(value, (str, bytes)):
        raise TypeError(f"expected an array or a number, found {type(value).__name__}")
    return as_array(value)


def _read(data: bytes, value: BundledValue) -> Value:
    """Return a value of the file; a tensor keeps its memory layout, and its data are copied."""
    if not isinstance(value, tuple):
        return value
    name, sizes, order, offset, size = value
    dense = np.frombuffer(data, np.uint8, size, offset).copy().view(dtype_of(name))
    placed: Array = dense.reshape([sizes[d] for d in order])
    return placed.transpose(np.argsort(order)) if order else placed
