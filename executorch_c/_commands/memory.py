"""`executorch-c memory`: who occupies planned memory, when."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments

DESCRIPTION = """\
Prints how a method uses its planned memory: each tensor's place, bytes and lifetime, who makes it;
the most bytes that are live at one time, and how many are planned in vain. Nothing is loaded.
"""


def add(commands: _arguments.Commands) -> None:
    """The parser."""
    parser = _arguments.add_command(
        commands, "memory", main, "show planned memory over time", DESCRIPTION
    )
    _arguments.add_model(parser)
    _arguments.add_method(parser)
    parser.add_argument("--plot", metavar="F.svg", help="picture to write (.png, .svg, .pdf)")
    parser.add_argument(
        "--chrome", metavar="F.json", help="trace to write, for chrome://tracing and Perfetto"
    )
    _arguments.add_json(parser)


def main(args: argparse.Namespace) -> int:
    """executorch-c memory"""
    from executorch_c.devtools import memory_plan

    program = _arguments.open_program(args)
    plan = memory_plan(program, _arguments.method_of(program, args.method))
    if args.plot:
        plan.save(args.plot)
    if args.chrome:
        plan.to_chrome(args.chrome)
    print(plan.to_json() if args.json else plan)
    return 0
