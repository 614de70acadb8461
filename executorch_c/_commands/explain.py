"""`executorch-c explain`: the first operator of a program that differs from its PyTorch model."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from executorch_c._commands import _arguments, check
from executorch_c._commands._calls import find_method, make_inputs

if TYPE_CHECKING:
    from executorch_c._core import Program

HELP = """\
Compares a program with its PyTorch model, node by node and inside delegates, and names the first
divergence: its layer, and the source line in the model. Needs torch and executorch.

The model is an ETRecord (generate_etrecord=True in the export flow, then get_etrecord().save), or
the result of a function without arguments: module:function or file.py:function, as for `check`. The
function returns the model in eval mode, or the model and its example inputs.

""" + _arguments.EXIT_TEXT


def add(commands: _arguments.Commands) -> None:
    """The parser."""
    parser = _arguments.add_command(
        commands, "explain", main, "find the operator that differs from the PyTorch model", HELP
    )
    add_reference(parser)
    _arguments.add_tolerances(parser)
    _arguments.add_html(parser)


def add_reference(parser: argparse.ArgumentParser) -> None:
    """What a program beside its model takes: the arguments for `opened`, --kernels and --json."""
    _arguments.add_model(parser)
    reference = parser.add_mutually_exclusive_group(required=True)
    reference.add_argument("--etrecord", metavar="E.bin", help="as the export flow saved it")
    reference.add_argument(
        "--model", dest="make", metavar="MODEL", help="module:function or file.py:function"
    )
    _arguments.add_inputs(parser)
    parser.add_argument("--method", default="forward", help="default: %(default)s")
    _arguments.add_rows(parser)
    _arguments.add_kernels(parser)
    _arguments.add_json(parser)


def opened(args: argparse.Namespace) -> tuple[Program, object, list[object]]:
    """The program, the model (an ETRecord's path, too) and the inputs of a call.

    These are those of --inputs, else the model's example, else random ones.
    """
    program = _arguments.open_program(args)
    inputs = make_inputs(find_method(program, args.method)["inputs"], args.inputs, seed=0)
    reference: object = args.etrecord
    if args.make:
        given = check.find(args.make)()
        reference, *example = given if isinstance(given, tuple) else (given,)
        inputs = list(example[0]) if example and not args.inputs else inputs
    return program, reference, inputs


def main(args: argparse.Namespace) -> int:
    """executorch-c explain"""
    from executorch_c.devtools import explain

    report = explain(
        *opened(args), method=args.method, rtol=args.rtol, atol=args.atol,
        kernels=args.kernels, title=os.path.basename(args.model),
    )  # fmt: skip
    _arguments.print_report(report, args)
    if args.html:
        report.to_html(args.html)
    return _arguments.EXIT_CODES[report.verdict]
