"""Comparisons of outputs with expected ones: `executorch_c.testing.compare`.

long: the docstring of compare is its reference
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from executorch_c._arrays import Array, as_array
from executorch_c._render import text as _text
from executorch_c.compare import shown, tolerance, verdicts
from executorch_c.compare.comparison import Comparison, OutputComparison
from executorch_c.compare.policies import Function, policies_of
from executorch_c.compare.requiring import required
from executorch_c.compare.tolerance import CallerTolerances, PerOutput, Tolerance
from executorch_c.compare.unresolved import describe_unresolved
from executorch_c.compare.verdicts import Verdict

if TYPE_CHECKING:
    from executorch_c.compare.verdicts import Judgement
Rule: TypeAlias = Callable[[int, Array, Array], Tolerance]
"""Function that returns the tolerance of an output, from its index, actual and expected values."""


class MismatchError(AssertionError):
    """The outputs differ from the expected ones, or the comparison is inconclusive. `comparison`
    has the metrics; `actual` and `expected` are the flat lists of outputs."""

    def __init__(self, comparison: Comparison, actual: object = (), expected: object = ()) -> None:
        super().__init__(str(comparison))
        self.comparison = comparison
        self.actual, self.expected = tuple(flatten(actual)), tuple(flatten(expected))


def is_array(value: object) -> bool:
    """Return True if a value is an array or tensor of any library."""
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def _is_numeric(value: object) -> bool:
    return is_array(value) or isinstance(value, (int, float, complex))


def _brief(value: object) -> str:
    return f"an array ({type(value).__name__})" if is_array(value) else repr(value)


def flatten(values: object) -> list[object]:
    """Return outputs in order: of a single value, (nested) lists, tuples and values of dicts."""
    if isinstance(values, Mapping):
        return [leaf for value in values.values() for leaf in flatten(value)]
    if isinstance(values, (list, tuple)):
        return [leaf for value in values for leaf in flatten(value)]
    return [values]


def compare_output(
    index: int,
    actual: object,
    expected: object,
    rule: Rule,
    *,
    equal_nan: bool = True,
    check_dtype: bool = True,
    name: str | None = None,
) -> OutputComparison:
    """Return one output compared with the expected one, by the tolerance of `rule`."""
    if not (_is_numeric(actual) and _is_numeric(expected)):
        return _compare_objects(index, actual, expected, name)
    a, e = as_array(actual), as_array(expected)
    problem = None
    if a.shape != e.shape:
        problem = f"shape {_text.shape(a.shape)}, expected {_text.shape(e.shape)}"
        return OutputComparison(
            index, a.dtype.name, a.shape, "differ", "", None, None, problem, name
        )
    if check_dtype:
        problem = _dtype_problem(actual, expected, a, e)
    limits = rule(index, a, e)
    judgement: Judgement = verdicts.judge(a, e, limits, equal_nan)
    verdict: Verdict = "differ" if problem is not None else judgement.verdict
    note = ""
    if verdict == "match":
        note = shown.exempted(limits, a, e)
        if not note and limits.kind not in ("quantized", "grid"):
            note = describe_unresolved(a, e)
    return OutputComparison(
        index,
        a.dtype.name,
        a.shape,
        verdict,
        judgement.reason,
        limits,
        replace(judgement.metrics, not_judged=shown.not_judged(limits, a, e)),
        problem,
        name,
        note,
    )


def _dtype_problem(actual: object, expected: object, a: Array, e: Array) -> str | None:
    """Return a sentence if two arrays, or two numbers of Python, have different types."""
    arrays = is_array(actual), is_array(expected)
    if all(arrays) and a.dtype != e.dtype:
        return f"dtype {a.dtype.name}, expected {e.dtype.name}"
    if not any(arrays) and type(actual) is not type(expected):
        return f"type {type(actual).__name__}, expected {type(expected).__name__}"
    return None


def _compare_objects(
    index: int, actual: object, expected: object, name: str | None
) -> OutputComparison:
    """Return the comparison of outputs that are not both numbers: they match if they are equal."""
    same = type(actual) is type(expected) and actual == expected
    problem = None if same else f"{_brief(actual)}, expected {_brief(expected)}"
    verdict: Verdict = "match" if same else "differ"
    if same and expected is None:
        verdict = "inconclusive"
    reason = "the expected output is None" if expected is None else ""
    return OutputComparison(
        index, type(actual).__name__, None, verdict, reason, None, None, problem, name
    )


def count_problem(actual: int, expected: int) -> str | None:
    """Return a sentence if the number of outputs is wrong, else None."""
    return (
        None if actual == expected else f"{_text.plural(actual, 'output')}, expected {expected:,}"
    )


def names_of(values: object, path: str = "") -> list[str | None]:
    """Return the names of outputs in the order of `flatten`: keys of dicts ("logits", "cache.0");
    None for unnamed outputs."""
    if isinstance(values, Mapping):
        return [
            name
            for key, value in values.items()
            for name in names_of(value, f"{path}.{key}" if path else str(key))
        ]
    if isinstance(values, (list, tuple)):
        return [
            name
            for i, value in enumerate(values)
            for name in names_of(value, f"{path}.{i}" if path else "")
        ]
    return [path or None]


def default_rule(rtol: PerOutput, atol: PerOutput, names: Sequence[str | None] = ()) -> Rule:
    """Return the rule for arrays without a model; explicit tolerances follow assert_close.

    Raises ValueError for a negative tolerance.
    """
    return rule_of(CallerTolerances(rtol, atol), names)


def rule_of(limits: CallerTolerances, names: Sequence[str | None] = ()) -> Rule:
    """Return the rule of the caller's tolerances; of outputs without one, that by dtype."""

    def rule(index: int, actual: Array, expected: Array) -> Tolerance:
        mine = limits.of(index, names[index] if index < len(names) else None)
        if mine == (None, None):
            return tolerance.by_dtype(actual, expected)
        return tolerance.of_caller(actual, expected, *mine)

    return rule


def compare_flat(
    actual: Sequence[object],
    expected: Sequence[object],
    rule: Rule,
    *,
    equal_nan: bool = True,
    check_dtype: bool = True,
    names: Sequence[str | None] = (),
) -> Comparison:
    """Return flat outputs compared with expected ones, by the tolerances of `rule`."""
    rows = [
        compare_output(
            i,
            a,
            e,
            rule,
            equal_nan=equal_nan,
            check_dtype=check_dtype,
            name=names[i] if i < len(names) else None,
        )
        for i, (a, e) in enumerate(zip(actual, expected))
    ]
    return Comparison(tuple(rows), count_problem(len(actual), len(expected)))


def compare(
    actual: object,
    expected: object,
    *,
    rtol: PerOutput = None,
    atol: PerOutput = None,
    equal_nan: bool = True,
    check_dtype: bool = True,
    names: Sequence[str | None] | None = None,
    require: str | Sequence[str] | None = None,
    metrics: Mapping[str, Function] | None = None,
) -> Comparison:
    """Compare outputs with expected ones.

    Args:
        actual: An output, or a list or tuple of them: arrays, torch tensors, numbers, str, None.
        expected: The same; nested lists, tuples and dicts (a model's own output structure) are
            read in order.
        rtol, atol: If one is set, an element matches if |actual - expected| <= atol +
            rtol * |expected|, exactly as in torch.testing.assert_close (the other one has that
            function's default). Default: rtol by dtype (float32 1.3e-6, float16 1e-3, bfloat16
            1.6e-2, float64 1e-12), atol in units of the output's scale around the element (float32
            1e-5, float16 8e-3, bfloat16 6e-2, float64 1e-12); integers and bool must be equal. The
            scale is the RMS of the output's slice, without mask values such as -1e9: a large
            element does not widen the tolerance of others, and small outputs have a small one.
            A dict sets tolerances by index or name of the output: {"logits": 1e-3}.
        equal_nan: NaN equals NaN in the same place.
        check_dtype: Outputs of another dtype differ, and numbers of another type (bool, int,
            float).
        names: Names of the outputs, for reports and tolerances. Default: keys of dicts in
            `expected`.
        require: Requirements, "[OUTPUT:]METRIC>=VALUE": "cosine>=0.999", "logits:top5>=0.99",
            "p99_abs<=1e-2". An output with requirements matches if they hold (and rtol or atol, if
            set); the verdict by default is shown beside.
        metrics: Functions of (actual, expected) by name, for requirements and as figures.

    Returns a `Comparison`, true if the outputs match. Its verdict is "inconclusive", and it is
    false, without outputs, or if the expected outputs are empty, constant, all zero or all NaN
    (unless rtol or atol is set: then only these decide). Raises TypeError for a value that is
    neither array nor number, ValueError for a negative tolerance.
    """
    flat = flatten(expected)
    known = names_of(expected) if names is None else names
    limits = CallerTolerances(rtol, atol)
    outputs, whole = flatten(actual), [*known, *[None] * (len(flat) - len(known))]
    limits.check_names(whole)
    policies = policies_of(require, metrics)
    policies.check_names(whole)
    comparison = compare_flat(
        outputs,
        flat,
        rule_of(limits, known),
        equal_nan=equal_nan,
        check_dtype=check_dtype,
        names=known,
    )
    comparison = replace(comparison, actual=tuple(outputs), expected=tuple(flat))
    return required(comparison, outputs, flat, policies)


for _public in (MismatchError, compare):
    _public.__module__ = "executorch_c.testing"  # the public name
