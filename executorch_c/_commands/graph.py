"""`executorch-c graph`: a method as a picture."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments

FORMATS = ("dot", "svg", "model-explorer")
ENDINGS = (".dot", ".gv", ".svg", ".json", ".html", ".csv", ".txt")

HELP = """\
Writes the graph of a method: operators and the tensors between them, delegates opened.

dot is text for Graphviz; svg is a picture, which Graphviz' program `dot` makes; model-explorer is
JSON that Model Explorer (pip install ai-edge-model-explorer) opens. The format is that of the
output's ending (.dot, .gv, .svg, .json; also .html, .csv, .txt with a row for each node) unless it
is given. Nothing is loaded.
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "graph", main, "draw a method, delegates opened", HELP
    )
    _arguments.add_model(parser)
    _arguments.add_method(parser)
    parser.add_argument("--format", choices=FORMATS, help="default: by the output's ending, or dot")
    _arguments.add_output(parser, "file to write; default: stdout")
    _arguments.add_json(parser, "print nodes and edges as JSON")


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c graph`."""
    from executorch_c.devtools import graph

    if args.output and not args.format:
        try:
            _arguments.output_file(*ENDINGS)(args.output)
        except argparse.ArgumentTypeError as error:
            args.parser.error(str(error))
    source = _arguments.open_program(args)
    picture = graph(source, _arguments.method_of(source.program, args.method))
    if args.output:
        picture.save(args.output, args.format)
    if args.json:
        print(picture.to_json())
    elif not args.output:
        print(picture.render(args.format or "dot"), end="")
    return 0
