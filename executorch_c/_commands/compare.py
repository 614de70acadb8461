"""`executorch-c compare`: the first divergence of two programs of one model."""

from __future__ import annotations

import argparse
from dataclasses import replace
from os.path import basename

from executorch_c._commands import _arguments
from executorch_c._commands._calls import find_method, make_inputs
from executorch_c._programs import opened

HELP = """\
Runs two programs of one model (portable and delegated, before and after) on the same inputs and
compares their values: of instructions, and of nodes in delegates, as far as they correspond. With
--kernels, one program: fast kernels against plain loops.

Inputs are random without --inputs, as for run.
""" + _arguments.EXIT_TEXT


def add(commands: _arguments.Commands) -> None:
    """The parser."""
    parser = _arguments.add_command(
        commands, "compare", main, "find the first divergence of two programs", HELP
    )
    _arguments.add_model(parser, "the baseline")
    parser.add_argument("other", metavar="OTHER.pte", nargs="?", help="the candidate")
    parser.add_argument("--kernels", action="store_true",
                        help="compare fast kernels with plain loops, of one program")  # fmt: skip
    _arguments.add_inputs(parser)
    parser.add_argument("--method", default="forward", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of random inputs")
    _arguments.add_tolerances(parser)
    _arguments.add_rows(parser)
    parser.add_argument("--html", metavar="FILE", help="write a page with all figures")
    _arguments.add_json(parser)


def main(args: argparse.Namespace) -> int:
    """executorch-c compare"""
    from executorch_c.debug.programs import compare_kernels, compare_programs

    if (args.other is None) is not args.kernels:
        raise ValueError("expected two programs, or one and --kernels")
    program = opened(args.model, args.data).program
    inputs = make_inputs(find_method(program, args.method)["inputs"], args.inputs, args.seed)
    options = {"method": args.method, "rtol": args.rtol, "atol": args.atol}
    if args.kernels:
        report = compare_kernels(program, inputs, **options)
    else:
        other = opened(args.other, args.data).program
        report = compare_programs(program, other, inputs, **options)
        names = f"{basename(args.other)} compared with {basename(args.model)}"
        report = replace(report, title=f"{names}, method '{args.method}'")
    if args.html:
        report.to_html(args.html)
    _arguments.print_report(report, args)
    return _arguments.EXIT_CODES[report.verdict]
