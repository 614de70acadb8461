"""`executorch-c memory`: lifetimes of tensors in planned memory."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments

HELP = """\
Print the planned memory of a method: the peak of live bytes, unused memory, and the tensors that
are live at the peak, with address, bytes, lifetime and operator; --all prints all tensors. No
method is loaded.
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(commands, "memory", main, "show planned memory over time", HELP)
    _arguments.add_model(parser)
    _arguments.add_method(parser)
    parser.add_argument(
        "--etrecord", metavar="E.bin", help="ETRecord of the export: names the modules of tensors"
    )
    _arguments.add_top(parser)
    _arguments.add_results(parser, picture=True)
    parser.add_argument(
        "--chrome",
        metavar="F",
        type=_arguments.output_file(),
        help="write JSON for chrome://tracing and Perfetto",
    )


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c memory`."""
    from executorch_c.devtools import memory_plan

    source = _arguments.open_program(args)
    method = _arguments.method_of(source.program, args.method)
    plan = memory_plan(source, method, etrecord=args.etrecord)
    if args.chrome:
        plan.to_chrome(args.chrome)
    _arguments.show(plan, args, plan.text(args.top))
    return 0
