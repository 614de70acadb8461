"""`executorch-c dump`: every value and instruction of a program."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments

DESCRIPTION = """\
Prints a whole program: inputs and outputs, constants and where they are, each instruction with its
arguments by name and what it computes, and what is inside of delegates.

No method is loaded: programs can be shown that cannot run here.
"""


def add(commands: _arguments.Commands) -> None:
    """The parser."""
    parser = _arguments.add_command(
        commands, "dump", main, "print every instruction of a program", DESCRIPTION
    )
    _arguments.add_model(parser)
    parser.add_argument("--method", help="default: all")
    _arguments.add_json(parser, "all that is known, as JSON")


def main(args: argparse.Namespace) -> int:
    """executorch-c dump"""
    from executorch_c.devtools import dump

    program = _arguments.open_program(args)
    text = dump(program, "json" if args.json else "text", method=args.method)
    print(text, end="" if text.endswith("\n") else "\n")
    return 0
