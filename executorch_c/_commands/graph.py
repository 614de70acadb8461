"""`executorch-c graph`: a method as a graph, or what changed between two."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from executorch_c._commands import _arguments, _models
from executorch_c._commands._calls import inputs_of
from executorch_c._paths import write_text
from executorch_c._programs import ProgramFile, opened

if TYPE_CHECKING:
    from executorch_c.devtools import Graph
    from executorch_c.report import Report

FORMATS = ("dot", "svg", "model-explorer")
PAGES = (".html", ".json", ".csv", ".txt")
ENDINGS = (".dot", ".gv", ".svg", *PAGES)

HELP = """\
Draw the graph of a method: operators and the tensors between them, with the nodes of delegates. The
method is not loaded without --run. With two programs, show what changed between them.

A page (-o M.html) is one file without a server: pan, zoom, search, layers and delegates that open
and close, details of each node, colours by bytes of planned memory and, with --run, by time and
values. Two programs are side by side: a click selects what corresponds.

Layers are the modules of an ETRecord (--etrecord), those of the model (--model, needs torch; errors
against it colour the nodes, too), else the names of weights, which few programs have.

Formats: dot, text for Graphviz; svg, drawn by Graphviz' `dot`; model-explorer, JSON for Model
Explorer (pip install ai-edge-model-explorer). The extension of the output selects the format (.dot,
.gv, .svg, .json), the page (.html), or a table of nodes (.csv, .txt).
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "graph", main, "draw a method, with the nodes of delegates", HELP
    )
    _arguments.add_model(parser)
    parser.add_argument("other", metavar="OTHER.pte", nargs="?", help="program to compare with it")
    _arguments.add_method(parser)
    parser.add_argument(
        "--run", action="store_true", help="run the method; colour nodes by time and values"
    )
    _arguments.add_inputs(parser, "the model's example, or random")
    parser.add_argument("--etrecord", metavar="E.bin", help="ETRecord of the export")
    _models.add_model_function(parser)
    parser.add_argument("--format", choices=FORMATS, help="default: by extension, or dot")
    parser.add_argument(
        "--node-data",
        metavar="DIR",
        type=_arguments.folder,
        help="write the values of nodes to this folder, a file for each colour, for Model "
        "Explorer's --node_data_paths",
    )
    _arguments.add_output(parser, "file to write; default: stdout")
    _arguments.add_json(parser, "print nodes and edges as JSON")


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c graph`."""
    _check(args)
    source = _arguments.open_program(args)
    method = _arguments.method_of(source.program, args.method)
    if args.other:
        return _show_changes(source, method, args)
    from executorch_c.devtools import graph

    explained = _models.explained(args, source, method) if args.make else None
    overlays = [*_reports(source, method, args), *([explained] if explained else [])]
    modules = _models.modules_of(explained) if explained else {}
    picture = graph(source, method, overlays=overlays, etrecord=args.etrecord, modules=modules)
    if args.output:
        picture.save(args.output, args.format)
    if args.node_data:
        _write_node_data(picture, Path(args.node_data))
    if args.json:
        print(picture.to_json())
    elif args.output or args.node_data:
        print(picture.summary())
    else:
        print(picture.render(args.format or "dot"), end="")
    return 0


def _write_node_data(picture: Graph, folder: Path) -> None:
    """Write the values of each overlay to a file of the folder, which is made if it is new."""
    folder.mkdir(exist_ok=True)
    for name, text in picture.node_data().items():
        write_text(folder / f"{name.replace(' ', '_')}.json", text)


def _check(args: argparse.Namespace) -> None:
    """Report options that exclude each other, and unknown extensions."""
    named = args.make or args.etrecord
    if args.other and (args.run or args.inputs or args.format or args.node_data or named):
        args.parser.error(
            "--run, --inputs, --format, --node-data, --etrecord and --model are about one program"
        )
    if args.make and args.etrecord:
        args.parser.error("--model and --etrecord both name modules: pass one")
    if args.output and not args.format:
        try:
            _arguments.output_file(*(PAGES if args.other else ENDINGS))(args.output)
        except argparse.ArgumentTypeError as error:
            args.parser.error(str(error))


def _reports(source: ProgramFile, method: str, args: argparse.Namespace) -> list[Report]:
    """Return the reports whose values colour the nodes of a page."""
    from executorch_c.devtools import memory_plan

    is_page = args.node_data or Path(args.output or "").suffix.lower() in (".html", ".json")
    if not is_page:
        return []
    reports: list[Report] = [memory_plan(source, method)]
    if args.run or args.inputs:
        args.method = method
        inputs = inputs_of(source.program, args)
        loaded = source.program.load_method(method, seed=args.seed, delegate_at_load=False)
        with loaded.tracing(values=True, ranges=True) as trace:
            loaded.execute(inputs)
        reports.append(trace)
    return reports


def _show_changes(source: ProgramFile, method: str, args: argparse.Namespace) -> int:
    from executorch_c.devtools import compare_graphs

    changes = compare_graphs(source, opened(args.other, args.data), method)
    if args.output:
        changes.save(args.output)
    print(changes.to_json() if args.json else changes)
    return 0
