"""`executorch-c compare`: the first divergence of two programs of one model."""

from __future__ import annotations

import argparse

from executorch_c._arrays import write_arrays
from executorch_c._commands import _arguments, _next
from executorch_c._commands._calls import inputs_or_set
from executorch_c._programs import opened

HELP = (
    """\
Compare two programs of one model (portable and delegated, old and new) on the same inputs, value by
value. Values are results of instructions and of nodes in delegates. With one program and --kernels
reference, compare its optimised kernels with plain loops; with one and --delegate-at-load, compare
what XNNPACK computes of its other operators with plain loops.

Inputs are random without --inputs, as for `run`.

"""
    + _arguments.EXIT_TEXT
)


RANDOM = "on random inputs only: --inputs takes those of your data"
"""Note of a report without --inputs."""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "compare", main, "find the first divergence of two programs", HELP
    )
    _arguments.add_model(parser, "baseline")
    parser.add_argument("other", metavar="OTHER.pte", nargs="?", help="candidate")
    _arguments.add_input_sets(parser)
    _arguments.add_method(parser)
    _arguments.add(parser, "--kernels", "--kv-cache")
    _arguments.add_checked_delegation(parser)
    _arguments.add(parser, "--rtol", "--atol")
    _arguments.add_policies(parser)
    _arguments.add_rows(parser)
    _arguments.add_results(parser, picture=True)


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c compare`."""
    from executorch_c.debug.programs import compare_kernels, compare_programs

    if args.other is None and args.kernels != "reference" and not args.checks_delegated:
        args.parser.error(
            "expected two programs, or one and --kernels reference or --delegate-at-load"
        )
    source = _arguments.open_program(args)
    other = opened(args.other, args.data) if args.other else None
    inputs = inputs_or_set(source.program, args)
    options = {
        "method": args.method,
        "rtol": args.rtol,
        "atol": args.atol,
        "delegate_at_load": args.checks_delegated,
        **_arguments.policies(args),
    }
    if other is None:
        report = compare_kernels(source, inputs, **options)
    else:
        report = compare_programs(source, other, inputs, kernels=args.kernels, **options)
    if args.inputs is None:
        report = report.changed(notes=(*report.notes, RANDOM))
    path = args.inputs
    if report.verdict == "differ" and not args.json and path is None:
        path = _next.new_file("inputs.npz")
        write_arrays(path, "input", inputs)
    _arguments.show(report, args, report.text(args.top, args.sort))
    if report.verdict == "differ" and not args.json:
        _next.explain_by_model(args, args.other or args.model, path)
    return _arguments.EXIT_CODES[report.verdict]
