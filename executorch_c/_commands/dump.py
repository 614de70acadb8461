"""`executorch-c dump`: values and instructions of a program."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments

HELP = """\
Print a program: inputs, outputs, planned memory, and how many instructions and nodes in delegates
have each operator. --all prints all: constants and their offsets, each instruction with its
arguments and results, and the nodes of delegates. No method is loaded, so operators and backends of
the program may be missing.
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "dump", main, "count the instructions of a program, or list them", HELP
    )
    _arguments.add_model(parser)
    _arguments.add_method(parser, "all")
    _arguments.add_top(parser)
    _arguments.add_results(parser)


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c dump`."""
    from executorch_c.devtools import dump

    text = dump(_arguments.open_program(args), method=args.method)
    _arguments.show(text, args, text.rstrip("\n") if args.top is None else text.overview(args.top))
    return 0
