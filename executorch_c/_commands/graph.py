"""`executorch-c graph`: a picture of a method."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments

FORMATS = ("dot", "svg", "model-explorer")
ENDINGS = (".dot", ".gv", ".svg", ".json", ".html", ".csv", ".txt")

HELP = """\
Draw the graph of a method: operators and the tensors between them, with the nodes of delegates. No
method is loaded.

Formats: dot, text for Graphviz; svg, drawn by Graphviz' `dot`; model-explorer, JSON for Model
Explorer (pip install ai-edge-model-explorer). The extension of the output selects the format (.dot,
.gv, .svg, .json), or a table of nodes (.html, .csv, .txt).
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "graph", main, "draw a method, with the nodes of delegates", HELP
    )
    _arguments.add_model(parser)
    _arguments.add_method(parser)
    parser.add_argument("--format", choices=FORMATS, help="default: by extension, or dot")
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
