"""`executorch-c quantization-error`: what each layer of a quantised program adds to its error."""

from __future__ import annotations

import argparse
import os

from executorch_c._commands import _arguments
from executorch_c._commands.explain import add_reference, opened

HELP = """\
Runs a quantised program beside its float model and says what each layer adds to the error, on the
activations that the program itself had there, and how much has arrived: the layers that add most
come first. Needs torch and executorch.

The float model is what a function gives that takes nothing: module:function or file.py:function,
which returns the model in eval mode, or the model and its example inputs, as for `check`; or an
ETRecord of an export of it.

The exit code is 0 whatever the figures are: nothing is right or wrong here.
"""


def add(commands: _arguments.Commands) -> None:
    """The parser."""
    parser = _arguments.add_command(
        commands, "quantization-error", main,
        "find the error that each layer of a quantised program adds", HELP,
    )  # fmt: skip
    add_reference(parser)
    parser.add_argument("--html", metavar="F.html", help="write a page with bars for all layers")


def main(args: argparse.Namespace) -> int:
    """executorch-c quantization-error"""
    from executorch_c.devtools import quantization_error

    report = quantization_error(
        *opened(args), method=args.method, kernels=args.kernels, title=os.path.basename(args.model)
    )
    _arguments.print_report(report, args)
    if args.html:
        report.to_html(args.html)
    return 0
