"""`executorch-c validate`: outputs of a program compared with expected outputs."""

from __future__ import annotations

import argparse
from typing import Any

from executorch_c import testing
from executorch_c._commands import _arguments, _next
from executorch_c._commands._arguments import method_of, warn
from executorch_c._commands._calls import cases_of
from executorch_c._files import is_bundled
from executorch_c._input_sets import input_set, names_many
from executorch_c._names import visible
from executorch_c._paths import write_text
from executorch_c._programs import opened
from executorch_c._render import json as _json
from executorch_c.compare import verdicts
from executorch_c.compare.cases import ComparedCase
from executorch_c.compare.comparison import Comparison, joined
from executorch_c.report import Origin

HELP = """\
Run a method once and compare its outputs with expected outputs, from PyTorch eager or an earlier
version. Print maximum absolute and relative error, ULP, cosine similarity, signal-to-noise ratio,
argmax agreement, and the first and the worst mismatch.

By default the tolerance of an element depends on dtype and on the scale of the output around it.
With --rtol or --atol, it is torch.testing.assert_close's. The outputs of a quantised program are
compared by signal-to-quantisation-noise ratio, as `check` compares them with a float model. An
output dequantised from 8 bits is compared in steps of its scale if the expected one is a multiple
of that scale, too: the quantised model's.

A bundled program (.bpte) contains inputs and expected outputs: all its test cases run, or those
of --method.

"""
HELP += _arguments.EXIT_TEXT


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "validate", main, "compare the outputs of a program with expected outputs", HELP
    )
    _arguments.add_model(parser, "program, a .pte or .ptn, or a .bpte with test cases")
    _arguments.add_input_sets(parser, "from the .bpte; required with a .pte")
    parser.add_argument(
        "--expect",
        metavar="Y",
        help="expected outputs: an .npz or .npy file; of many cases a folder or a pattern, with "
        "the names of the inputs, or loader.py:function",
    )
    _arguments.add_method(parser, "forward, or the only one; of a .bpte: all")
    _arguments.add(parser, "--rtol", "--atol", "--min-sqnr", "--kernels", "--kv-cache")
    _arguments.add_policies(parser)
    _arguments.add_checked_delegation(parser)
    _arguments.add_results(parser)


def write(args: argparse.Namespace, origin: Origin, *parts: Any) -> None:
    """Write the files of --html and --output, with the parts of `report.comparisons_page`."""
    if args.html:
        from executorch_c.check import report

        title = f"Outputs of {args.model}"
        write_text(args.html, report.comparisons_page(title, *parts, origin=origin))
    if args.output:
        whole = joined([comparison for _, comparison, _, _ in parts])
        whole.set_origins(program=origin)
        whole.save(args.output)


def validate_bundled(args: argparse.Namespace) -> int:
    """Run all test cases of a .bpte."""
    options = [f"--{name}" for name in ("inputs", "expect", "data") if getattr(args, name)]
    options += ["--kernels"] if args.kernels != "default" else []
    if options:
        args.parser.error(
            f"{args.model} is a bundled program: {', '.join(options)} cannot be used with one"
        )
    source = opened(args.model)
    assert source.bundled is not None
    results = source.bundled.verify(
        args.method,
        rtol=args.rtol,
        atol=args.atol,
        min_sqnr_db=args.min_sqnr,
        delegate_at_load=args.checks_delegated,
        **_arguments.policies(args),
    )
    write(
        args,
        source.origin,
        *(
            (str(result.case), result.comparison, result.outputs, result.case.expected)
            for result in results
        ),
    )
    if args.json:
        rows = {str(result.case): result.comparison.as_dict() for result in results}
        print(_json.dumps(rows))
    else:
        print(
            "\n".join(map(str, results)) if results else "inconclusive: the file has no test cases"
        )
    verdict = verdicts.combined(result.verdict for result in results)
    if verdict == "differ" and not args.json:
        words = ["check", args.model, "--model", _next.MODEL, *_next.given(args)]
        _next.show(_next.command_line(*words), _next.ABOUT_MODEL)
    return _arguments.EXIT_CODES[verdict]


def _is_nan_new(comparison: Comparison) -> bool:
    """Return True if an output has more NaN or infinite elements than the expected one."""
    known = [one.metrics for one in comparison.outputs if one.metrics is not None]
    return any(
        metrics.nan[0] > metrics.nan[1] or metrics.inf[0] > metrics.inf[1] for metrics in known
    )


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c validate`."""
    if is_bundled(args.model):
        return validate_bundled(args)
    for name in ("inputs", "expect"):
        if not getattr(args, name):
            args.parser.error(f"pass --{name}: only a .bpte contains test cases")
    source = _arguments.open_program(args)
    expected = input_set(args.expect, max_cases=args.max_cases)
    expected.warn = warn
    args.method = method_of(source.program, args.method)
    result = testing.validate(
        cases_of(args),
        expected,
        program=source,
        method=args.method,
        rtol=args.rtol,
        atol=args.atol,
        min_sqnr_db=args.min_sqnr,
        kernels=args.kernels,
        delegate_at_load=args.checks_delegated,
        seed=args.seed,
        **_arguments.policies(args),
    )
    if len(result) == 1 and not names_many(args.inputs):
        return show_case(result[0], source.origin, args)
    _arguments.show(result, args)
    paths = [case.path for case in result.failures if case.path is not None]
    if paths and not args.json:
        _next.explain_by_model(args, args.model, paths[0])
    return _arguments.EXIT_CODES[result.verdict]


def show_case(case: ComparedCase, origin: Origin, args: argparse.Namespace) -> int:
    """Print the comparison of the only case, write its files and return the exit code. Raises the
    program's exception."""
    if case.comparison is None:
        assert case.error is not None
        raise case.error
    comparison = case.comparison
    write(
        args, origin, (f"method '{visible(args.method)}'", comparison, case.actual, case.expected)
    )
    print(comparison.to_json() if args.json else comparison)
    if comparison.verdict == "differ" and not args.json:
        if _is_nan_new(comparison):
            words = ["check-nan", args.model, "--inputs", args.inputs]
            words += _next.given(args, _next.LOADED)
            _next.show(_next.command_line(*words))
        else:
            _next.explain_by_model(args, args.model, args.inputs)
    return _arguments.EXIT_CODES[comparison.verdict]
