"""`executorch-c validate`: outputs of a program compared with expected outputs."""

from __future__ import annotations

import argparse
from typing import Any

from executorch_c._commands import _arguments, _next
from executorch_c._commands._calls import as_input, find_method, inputs_of, ordered
from executorch_c._files import is_bundled
from executorch_c._programs import method_of, opened
from executorch_c._render import json as _json
from executorch_c.compare import verdicts
from executorch_c.compare.arrays import compare_flat
from executorch_c.compare.comparison import Comparison, joined
from executorch_c.compare.quantized import rule_by_program
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
    _arguments.add_inputs(parser, "from the .bpte; required with a .pte")
    parser.add_argument("--expect", metavar="Y.npz", help="expected outputs, an .npz or .npy file")
    _arguments.add_method(parser, "forward, or the only one; of a .bpte: all")
    _arguments.add(parser, "--rtol", "--atol", "--min-sqnr", "--kernels", "--kv-cache")
    _arguments.add_checked_delegation(parser)
    _arguments.add_results(parser)


def write(args: argparse.Namespace, origin: Origin, *parts: Any) -> None:
    """Write the files of --html and --output, with the parts of `report.comparisons_page`."""
    if args.html:
        from executorch_c.check import report

        with open(args.html, "w", encoding="utf-8") as file:
            file.write(report.comparisons_page(f"Outputs of {args.model}", *parts, origin=origin))
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
    program = source.program
    inputs = inputs_of(program, args)
    about = find_method(program, args.method)
    arrays = ordered(args.expect, about["outputs"], "output")
    method = method_of(program, args.method, args.kernels, args.checks_delegated)
    method.manual_seed(args.seed)
    outputs = method.execute(inputs)
    expected: list[object] = list(arrays)
    if len(expected) == len(outputs):
        expected = [as_input(e, w) for e, w in zip(arrays, about["outputs"])]
    elif len(expected) == sum(out is not None for out in outputs):  # `run --output` skips None
        outputs = [out for out in outputs if out is not None]
    rule = rule_by_program(program, args.method, args.rtol, args.atol, args.min_sqnr)
    comparison = compare_flat(outputs, expected, rule)
    write(args, source.origin, (f"method '{args.method}'", comparison, outputs, expected))
    print(comparison.to_json() if args.json else comparison)
    if comparison.verdict == "differ" and not args.json:
        if _is_nan_new(comparison):
            words = ["check-nan", args.model, "--inputs", args.inputs]
            words += _next.given(args, _next.LOADED)
            _next.show(_next.command_line(*words))
        else:
            _next.explain_by_model(args, args.model, args.inputs)
    return _arguments.EXIT_CODES[comparison.verdict]
