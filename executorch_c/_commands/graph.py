"""`executorch-c graph`: a method as a picture."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments

DESCRIPTION = """\
Writes the graph of a method: operators and the tensors between them, delegates opened.

dot is text for Graphviz; svg is a picture, which Graphviz' program `dot` makes; model-explorer is
JSON that Model Explorer (pip install ai-edge-model-explorer) opens. The format is that of the
output's ending (.dot, .gv, .svg, .json) unless it is given. Nothing is loaded.
"""


def add(commands: _arguments.Commands) -> None:
    """The parser."""
    parser = _arguments.add_command(
        commands, "graph", main, "draw a method, delegates opened", DESCRIPTION
    )
    _arguments.add_model(parser)
    _arguments.add_method(parser)
    parser.add_argument("--format", help="default: by the output's ending, or dot")
    parser.add_argument("-o", "--output", metavar="F", help="file to write; default: stdout")


def main(args: argparse.Namespace) -> int:
    """executorch-c graph"""
    from executorch_c.devtools import graph

    program = _arguments.open_program(args)
    picture = graph(program, _arguments.method_of(program, args.method))
    if args.output:
        picture.save(args.output, args.format)
    else:
        print(picture.render(args.format or "dot"), end="")
    return 0
