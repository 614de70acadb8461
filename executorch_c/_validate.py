"""Outputs of a program against expected ones, case by case: `executorch_c.testing.validate`.

long: the docstring of validate is its reference
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from executorch_c._delegation import DelegateAtLoad
from executorch_c._input_sets import InputCase, InputSet, Source, input_set, pairs
from executorch_c._names import visible
from executorch_c._order import model_first
from executorch_c._programs import (
    ProgramSource,
    method_info,
    method_of,
    name_in,
    opened,
    output_names,
    title_of,
)
from executorch_c.compare.arrays import compare_flat
from executorch_c.compare.cases import CaseComparisons, ComparedCase, settled_cases
from executorch_c.compare.policies import Function, policies_of
from executorch_c.compare.quantized import rule_by_program
from executorch_c.compare.requiring import required
from executorch_c.progress import Progress

if TYPE_CHECKING:
    from executorch_c._types import Data

KEPT_CASES = 20
"""Maximum number of cases whose outputs a result keeps: of the first that do not match."""


@model_first
def validate(
    inputs: Source,
    expected: Source,
    *,
    program: ProgramSource,
    method: str = "forward",
    data_path: Data | Sequence[Data] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    min_sqnr_db: float | None = None,
    require: str | Sequence[str] | None = None,
    metrics: Mapping[str, Function] | None = None,
    kernels: Literal["default", "reference"] = "default",
    delegate_at_load: DelegateAtLoad = False,
    seed: int = 0,
    progress: bool | None = None,
) -> CaseComparisons:
    """Run a program on many inputs and return the comparisons with expected outputs.

    Args:
        inputs: Calls, as for `input_set`: a folder, a pattern of names, "loader.py:function", a
            list, a generator or a DataLoader; one that is read as it is reached.
        expected: The expected outputs, likewise. Of two folders, files with the same name (without
            extension) belong together; others by order.
        program: As for `assert_matches`.
        method: Name of the method.
        data_path: The .ptd file or files of a .pte.
        rtol, atol, require, metrics: As for `compare`. Shares of rows (top1, top5) are those of all
            cases together.
        min_sqnr_db: Minimum signal-to-quantisation-noise ratio, in dB, of a quantised program, as
            for `BundledProgram.verify`.
        kernels: As for `Program.load_method`.
        delegate_at_load: As for `check_model`.
        seed: Seed of random operators.
        progress: Show progress on stderr. Default: on a terminal.

    State (a KV cache) starts anew with each case. A case in which the program raises is a row with
    the error. Raises ValueError for a case without expected outputs and for damaged files, with
    their names, and exceptions of loading.
    """
    policies = policies_of(require, metrics)
    ours, theirs = _as_set(inputs), _as_set(expected)
    source = opened(program, data_path)
    name = name_in(source, method)
    given = program if source.method else source.program
    loaded = method_of(given, name, kernels, delegate_at_load)
    about = method_info(source.program, name)
    rule = rule_by_program(source.program, name, rtol, atol, min_sqnr_db)
    names = output_names(source.program, name)
    policies.check_names(names)
    cases = list[ComparedCase]()
    with Progress("validate", progress) as say:
        for case, outputs in pairs(ours, theirs):
            say(case.name)
            wanted, values = outputs.outputs_of(about), case.for_program(about)
            kept = sum(not one.ok for one in cases) < KEPT_CASES
            cases.append(_compared(case, loaded, values, wanted, names, rule, policies, seed, kept))
    result = CaseComparisons(
        f"Outputs of {title_of(program, 'a program')}, method '{visible(name)}'",
        name,
        settled_cases(cases),
        tuple(ours.notes()),
    )
    result.set_origins(program=source.origin)
    return result


def _as_set(source: Source) -> InputSet:
    return source if isinstance(source, InputSet) else input_set(source)


def _compared(
    case: InputCase,
    method: Any,
    inputs: Sequence[object],
    expected: list[object],
    names: Sequence[str | None],
    rule: Any,
    policies: Any,
    seed: int,
    is_kept: bool,
) -> ComparedCase:
    """Return one case, run from the initial state."""
    method.reset()
    method.manual_seed(seed)
    try:
        outputs = list(method.execute(list(inputs)))
    except Exception as error:
        return ComparedCase(case.name, None, error, path=case.path)
    if len(expected) != len(outputs):  # `run --output` skips None
        some = [i for i, value in enumerate(outputs) if value is not None]
        if len(expected) == len(some):
            names = [names[i] for i in some]
            outputs = [outputs[i] for i in some]
    comparison = required(
        compare_flat(outputs, expected, rule, names=names), outputs, expected, policies
    )
    if comparison.ok or not is_kept:
        return ComparedCase(case.name, comparison, path=case.path)
    kept = tuple(outputs), tuple(expected)
    return ComparedCase(case.name, comparison, None, *kept, path=case.path)


validate.__module__ = "executorch_c.testing"  # the public name
