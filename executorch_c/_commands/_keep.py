"""What `check` keeps: the program, inputs and outputs of a case, the first node that differs, and
the command to go on with."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from executorch_c._commands import _arguments, _next
from executorch_c._commands._arguments import output_file

if TYPE_CHECKING:
    from executorch_c.check.result import CheckResult
    from executorch_c.debug.report import ErrorReport


def add_kept(parser: argparse.ArgumentParser) -> None:
    """Add --save-pte, --save-inputs, --save-outputs, --save-expected and --explain."""
    case = "the case that differs most, else of the first one"
    parser.add_argument(
        "--save-pte", metavar="M.pte", type=output_file(), help="write the exported program"
    )
    parser.add_argument(
        "--save-inputs",
        metavar="X.npz",
        type=output_file(),
        help=f"write the inputs of {case}, for --inputs",
    )
    parser.add_argument(
        "--save-outputs",
        metavar="Y.npz",
        type=output_file(),
        help=f"write the program's outputs of {case}",
    )
    parser.add_argument(
        "--save-expected",
        metavar="E.npz",
        type=output_file(),
        help=f"write eager's outputs of {case}, for --expect of `validate`; of a quantised flow, "
        "the quantised graph's",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="if the program differs, also find the first node that does, as `explain`",
    )


def save(result: CheckResult, args: argparse.Namespace) -> None:
    """Write the files that are asked for. What cannot be written is a warning, as the verdict
    stands."""
    for path, write in (
        (args.save_pte, result.save_program),
        (args.save_inputs, result.save_inputs),
        (args.save_outputs, result.save_outputs),
        (args.save_expected, result.save_expected),
    ):
        if path:
            try:
                write(path)
            except ValueError as error:
                _arguments.warn(f"{path} is not written: {error}")


def explained(result: CheckResult) -> ErrorReport | None:
    """Return the report of explain for the case that differs most; None, after a warning, where
    there is none or it cannot be compared."""
    case = result.worst_case()
    if case.ok_here:
        return None
    try:
        return result.explain(case)
    except Exception as error:  # exporters raise many kinds; the verdict stands
        first = next(iter(str(error).strip().splitlines()), "")
        _arguments.warn(f"not explained: {type(error).__name__}: {first}")
        return None


def show_next(result: CheckResult, args: argparse.Namespace, example: Any) -> None:
    """Print the command that finds the first node of a program that differs.

    It names the inputs of the case: the file of --save-inputs, or a new one in the folder for
    temporary files. A case of several calls, and inputs that --inputs does not read (nested ones,
    keywords), are explained by the check itself.
    """
    from executorch_c.check.keeping import call_of

    case = result.worst_case()
    if case.ok_here:
        return
    is_plain = isinstance(example, (tuple, list)) and all(map(_is_array, example))
    if len(case.inputs) > 1 or call_of(case) or not is_plain:
        if not args.explain:
            _next.show(_next.command_line("check", *args.words, "--explain"))
        return
    path = args.save_inputs
    if not path:
        path = _next.new_file("inputs.npz")
        result.save_inputs(path, case)
    model = [args.model, "--model", args.make] if args.make else [args.model]
    flow = [] if args.make else ["--flow", args.flow or "portable"]
    words = ["explain", *model, *flow, "--inputs", path, *_next.given(args)]
    _next.show(_next.command_line(*words))


def _is_array(value: object) -> bool:
    return hasattr(value, "shape")
