"""Whether a program computes what it should: comparisons for tests, notebooks and scripts.

    from executorch_c.testing import assert_matches, compare

    def test_model():
        expected = model(x)  # PyTorch eager, or saved arrays
        assert_matches("model.pte", [x], expected)

Needs NumPy only; torch tensors are read where they appear. With torch and executorch installed,
`check_model` exports a model and checks it on inputs of its own:

    check_model(model, (x,), "xnnpack").raise_if_wrong()

long: the docstring of check_model says all that it does
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from executorch_c import _text
from executorch_c._arrays import as_array
from executorch_c._gap import Gap, Index, check_not_negative, measure, tolerances
from executorch_c._programs import method_of

if TYPE_CHECKING:
    from executorch_c._core import Method, Program
    from executorch_c._check.result import CheckedCase, CheckError, CheckResult
    from executorch_c._types import Data

__all__ = [
    "CheckError",
    "CheckResult",
    "CheckedCase",
    "Comparison",
    "Gap",
    "MismatchError",
    "OutputComparison",
    "assert_matches",
    "check_model",
    "compare",
]

HEAD = ("output", "dtype", "shape", "outside", "max abs", "max rel", "ulp", "cosine", "SNR dB",
        "argmax")  # fmt: skip


WORST: dict[str, Callable[[list[float]], float]] = {
    "max_abs": max, "max_rel": max, "max_ulp": max, "snr_db": min, "cosine": min,
}  # fmt: skip
"""Which of several measures is the worst, by name."""


def _number(value: float | complex | None) -> str:
    return "-" if value is None or value != value else f"{value:.4g}"


def _at(index: Index | None) -> str:
    return "(" + ", ".join(map(str, index or ())) + ("," if index and len(index) == 1 else "") + ")"


@dataclass(frozen=True)
class OutputComparison:
    """One output beside what it should be."""

    index: int
    dtype: str
    """NumPy's name, or that of the Python type of an output that is no array."""
    shape: tuple[int, ...] | None
    rtol: float
    atol: float
    gap: Gap | None
    """None where the two cannot be measured: `problem` says why (or both are equal objects)."""
    problem: str | None
    """What is wrong beside numbers: another shape, dtype or type."""

    @property
    def ok(self) -> bool:
        """Whether the output is what it should be."""
        return self.problem is None and (self.gap is None or self.gap.outside == 0)

    def why(self) -> str:
        """What differs and where, in a sentence; empty where nothing does."""
        if self.problem is not None:
            return f"output {self.index}: {self.problem}"
        gap = self.gap
        if gap is None or not gap.outside:
            return ""
        text = (
            f"output {self.index}: {gap.outside:,} of {_text.plural(gap.elements, 'element')} "
            f"({gap.outside / gap.elements:.2%}) are off by more than atol {self.atol:g} + "
            f"rtol {self.rtol:g} * |expected|; worst at {_at(gap.worst)}: "
            f"{_number_or_nan(gap.actual_at_worst)}, expected "
            f"{_number_or_nan(gap.expected_at_worst)}; first at {_at(gap.first)}"
        )
        for name, (ours, theirs) in (("NaN", gap.nan), ("infinite", gap.inf)):
            if ours != theirs:
                text += f"; {ours:,} are {name}, expected {theirs:,}"
        return text

    def row(self) -> list[str]:
        """Cells of a table with HEAD."""
        shape = "" if self.shape is None else _text.shape(self.shape)
        head = [str(self.index), self.dtype, shape]
        gap = self.gap
        if gap is None:
            return [*head, "equal" if self.ok else "see below", *[""] * 6]
        argmax = "" if gap.argmax is None else f"{gap.argmax:.2%}"
        numbers = [gap.max_abs, gap.max_rel, gap.max_ulp, gap.cosine, gap.snr_db]
        return [*head, f"{gap.outside:,}", *map(_number, numbers), argmax]


def _number_or_nan(value: float | complex | None) -> str:
    return f"{value:.7g}" if value is not None else "-"


@dataclass(frozen=True)
class Comparison:
    """All outputs of a call beside what they should be.

    Prints as a table, in a notebook too; `bool(comparison)` is `comparison.ok`; iterates over its
    outputs.
    """

    outputs: tuple[OutputComparison, ...]
    problem: str | None = None
    """What is wrong with the outputs as a whole: another number of them."""

    @property
    def ok(self) -> bool:
        """Whether every output is what it should be."""
        return self.problem is None and all(output.ok for output in self.outputs)

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        count = _text.plural(len(self.outputs), "output")
        verdict = "match" if self.ok else "differ"
        return f"<executorch_c.testing.Comparison: {count}, {verdict}>"

    def __len__(self) -> int:
        return len(self.outputs)

    def __getitem__(self, index: int) -> OutputComparison:
        return self.outputs[index]

    def __iter__(self) -> Iterator[OutputComparison]:
        return iter(self.outputs)

    def figures(self) -> dict[str, float]:
        """The worst of all outputs: max_abs, max_rel, max_ulp, snr_db, cosine; without those that
        no output has."""
        gaps = [output.gap for output in self.outputs if output.gap is not None]
        found = {}
        for name, worst in WORST.items():
            known = [value for gap in gaps if (value := getattr(gap, name)) == value]
            if known:
                found[name] = worst(known)
        return found

    def problems(self) -> list[str]:
        """A sentence for each thing that differs."""
        whole = [self.problem] if self.problem else []
        return whole + [output.why() for output in self.outputs if not output.ok]

    def __str__(self) -> str:
        rows = [output.row() for output in self.outputs]
        verdict = "outputs match" if self.ok else "outputs differ"
        lines = [verdict, _text.table(rows, HEAD) if rows else "  no outputs"]
        return "\n".join([*lines, *self.problems()])

    def _repr_html_(self) -> str:
        from html import escape

        from executorch_c import _html

        caption = "Outputs match" if self.ok else "<b>Outputs differ</b>"
        text = _html.table(caption, HEAD, [output.row() for output in self.outputs], 3)
        return text + "".join(f"<p>{escape(problem)}</p>" for problem in self.problems())


class MismatchError(AssertionError):
    """Outputs are not what they should be; `comparison` has the figures, `actual` and `expected`
    have the outputs, flat."""

    def __init__(
        self, comparison: Comparison, actual: object = (), expected: object = ()
    ) -> None:
        super().__init__(str(comparison))
        self.comparison = comparison
        self.actual, self.expected = tuple(_flatten(actual)), tuple(_flatten(expected))


def _is_array(value: object) -> bool:
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def _is_numeric(value: object) -> bool:
    return _is_array(value) or isinstance(value, (int, float, complex))


def _brief(value: object) -> str:
    return f"an array ({type(value).__name__})" if _is_array(value) else repr(value)


def _flatten(values: object) -> list[object]:
    """Outputs in order: a single value, or (nested) lists, tuples and values of dicts."""
    if isinstance(values, dict):
        return [leaf for value in values.values() for leaf in _flatten(value)]
    if isinstance(values, (list, tuple)):
        return [leaf for value in values for leaf in _flatten(value)]
    return [values]


def _compare_one(
    index: int,
    actual: object,
    expected: object,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    check_dtype: bool,
) -> OutputComparison:
    if not (_is_numeric(actual) and _is_numeric(expected)):
        same = type(actual) is type(expected) and actual == expected
        problem = None if same else f"{_brief(actual)}, expected {_brief(expected)}"
        return OutputComparison(index, type(actual).__name__, None, 0, 0, None, problem)
    a, e = as_array(actual), as_array(expected)
    default_rtol, default_atol = tolerances(a.dtype, e.dtype)
    rtol = default_rtol if rtol is None else rtol
    atol = default_atol if atol is None else atol
    problem = None
    if a.shape != e.shape:
        problem = f"shape {_text.shape(a.shape)}, expected {_text.shape(e.shape)}"
    elif check_dtype and a.dtype != e.dtype and _is_array(actual) and _is_array(expected):
        problem = f"dtype {a.dtype.name}, expected {e.dtype.name}"
    gap = None if a.shape != e.shape else measure(a, e, rtol, atol, equal_nan)
    return OutputComparison(index, a.dtype.name, a.shape, rtol, atol, gap, problem)


def compare(
    actual: object,
    expected: object,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    check_dtype: bool = True,
) -> Comparison:
    """Compares outputs with what they should be.

    Args:
        actual: An output, or a list or tuple of them: arrays, torch tensors, numbers, str, None.
        expected: The same; nested lists, tuples and dicts (a model's own output structure) are
            read in order.
        rtol: Allowed difference relative to |expected|. Default: by dtype, as in
            torch.testing.assert_close (float32 1.3e-6, float16 1e-3, bfloat16 1.6e-2, float64
            1e-7; integers and bool must be equal). Both or none is not demanded: each has its own
            default.
        atol: Allowed absolute difference. Default: 1e-5 (float64 1e-7, integers 0).
        equal_nan: NaNs in the same places are equal.
        check_dtype: Another dtype is a difference, too.

    Returns a `Comparison`: false where an output differs. Raises TypeError for what is no array
    or number, ValueError for a negative tolerance.
    """
    check_not_negative(rtol=rtol, atol=atol)
    ours, theirs = _flatten(actual), _flatten(expected)
    rows = [
        _compare_one(i, a, e, rtol, atol, equal_nan, check_dtype)
        for i, (a, e) in enumerate(zip(ours, theirs))
    ]
    return Comparison(tuple(rows), count_problem(len(ours), len(theirs)))


def count_problem(found: int, expected: int) -> str | None:
    """What is wrong with the number of outputs."""
    return None if found == expected else f"{_text.plural(found, 'output')}, expected {expected:,}"


def assert_matches(
    program: Program | Method | Data,
    inputs: Sequence[object],
    expected: object,
    *,
    method: str = "forward",
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    check_dtype: bool = True,
    kernels: Literal["default", "reference"] = "default",
) -> Comparison:
    """Runs a program and asserts that its outputs are what they should be.

    Args:
        program: A path, bytes or file of a .pte; a Program; or a loaded Method (whose state is
            then used and changed).
        inputs: Of one call: arrays, torch tensors, numbers, strings, None.
        expected: The outputs that there should be, as for `compare`.
        method: Which one to run, where `program` is no Method.
        rtol, atol, equal_nan, check_dtype: As for `compare`.
        kernels: As for `Program.load_method`.

    Returns the `Comparison`, to look at how close they are. Raises MismatchError (an
    AssertionError with the table of measures and where the outputs differ) and what loading and
    running raise.
    """
    outputs = method_of(program, method, kernels).execute(inputs)
    comparison = compare(
        outputs, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype
    )
    if not comparison:
        __tracebackhide__ = True  # pytest shows the line of the test
        raise MismatchError(comparison, outputs, expected)
    return comparison


def check_model(
    model: object,
    example_inputs: object = None,
    program_or_flow: object = "portable",
    *,
    dynamic_shapes: object = None,
    n_random: int = 3,
    real_inputs: Iterable[object] = (),
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    check_dtype: bool = True,
    method: str = "forward",
    kernels: Literal["default", "reference"] = "default",
    data_path: Data | Sequence[Data] | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> CheckResult:
    """Checks a program against the PyTorch model that it was made from. Needs torch.

    Both are called with the example, with random inputs like it, with shapes at the edges of what
    dynamic shapes allow, and with inputs of yours. What only some inputs show (channels in another
    order) needs these: random ones may not tell.

    Args:
        model: A torch.nn.Module in eval mode, a torch.export.ExportedProgram, or a function.
        example_inputs: What it is exported with: a tuple of positional arguments, a dict of
            keyword arguments, or one tensor. An ExportedProgram brings its own.
        program_or_flow: A flow by name, which exports the model here:
            "portable" (no delegate), "xnnpack", "xnnpack-int8" (PT2E: static, weights by channel,
            calibrated on the example and the real inputs) or "xnnpack-dynamic" (activations are
            quantised as they come); a function of your own, from ExportedProgram to a program; or
            a program: a path, bytes or an open file of a .pte or .bpte, a Program, a Method (whose
            state is then used), an EdgeProgramManager, an ExecutorchProgramManager, a
            BundledProgram. Test cases of a .bpte are run, too.
        dynamic_shapes: As for torch.export.export.
        n_random: So many random calls.
        real_inputs: Calls, each like `example_inputs`, of NumPy arrays or tensors.
        rtol, atol: Allowed difference, for all outputs. Defaults: rtol by dtype as for `compare`;
            atol 1e-5 (float64 1e-7) times the largest |expected| of the output, if that is more
            than 1, since sums are taken in another order. Integers must be equal.
            Of flows that quantise: see below.
        equal_nan, check_dtype: As for `compare`.
        method: Of the program.
        kernels: As for `Program.load_method`.
        data_path: The .ptd file or files of a program that is given as a .pte.
        seed: Of the random inputs: equal ones are the same everywhere.
        progress: Whether to say on stderr what is being done. Default: on a terminal.

    Random inputs: floats are normal with the example's mean and deviation, keep its sign, and are
    uniform in [0, 1] where the example lies in it; examples of few values (flags) are drawn from
    these, those with infinities (masks) stay as they are. Integers stay within the example's least
    and largest value, or are all indices of an embedding if that is all that they are used for.
    bools are as often true as the example's. What is no tensor stays as it is.

    Edge shapes: least, most, one more than the least, a prime, for all symbolic sizes at once and
    for each alone; sizes of one symbol change together. Where eager itself refuses edge or random
    inputs, the case is skipped and says so.

    State: each case starts from the model's initial buffers on both sides. If a call changes
    them, there is a case "state" of three calls in a row.

    Quantised flows: the program must give what the quantised eager graph (PT2E's converted module)
    gives, but for one step of the output's scale; where an output has no scale of its own, it may
    be twice as far from that graph as the graph is from the float model. How far the program is
    from the float model (SNR) is reported and is no part of the verdict.

    Returns a `CheckResult`: false where a case differs; `raise_if_wrong()` makes that an
    AssertionError, `to_html(path)` a page. Raises ValueError for a model that does not give the
    same outputs twice, for wrong arguments and inputs of another structure, and what eager (on the
    example and real inputs), the exporter and loading raise. What the program raises while it runs
    is a failed case.
    """
    from executorch_c._check import run

    return run.check_model(
        model,
        example_inputs,
        program_or_flow,
        dynamic_shapes=dynamic_shapes,
        n_random=n_random,
        real_inputs=real_inputs,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_dtype=check_dtype,
        method=method,
        kernels=kernels,
        data_path=data_path,
        seed=seed,
        progress=progress,
    )


def __getattr__(name: str) -> Any:
    """The classes of check_model, which are built on those of this module."""
    if name in ("CheckError", "CheckResult", "CheckedCase"):
        from executorch_c._check import result

        return getattr(result, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
