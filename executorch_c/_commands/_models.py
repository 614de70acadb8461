"""The option --model of commands: the function that makes a PyTorch model."""

from __future__ import annotations

import argparse
from typing import Any, Protocol

from executorch_c import _functions
from executorch_c._commands import _arguments
from executorch_c.check.flows import FLOWS, unknown_flow


class Parser(Protocol):
    """A parser or an argument group."""

    def add_argument(self, *names: str, **options: Any) -> argparse.Action: ...


def add_model_function(parser: Parser) -> None:
    """Add --model; the value is `args.make`."""
    parser.add_argument(
        "--model",
        dest="make",
        metavar="M.py:F",
        type=function_name,
        help="function that returns the model: module:function or file.py:function",
    )


def add_flow(parser: Parser, otherwise: str = "") -> None:
    """Add --flow, for `check_flow`."""
    parser.add_argument(
        "--flow", metavar="FLOW", help=f"flow of the export: {', '.join(FLOWS)}{otherwise}"
    )


def check_flow(args: argparse.Namespace) -> None:
    """Report an unknown flow as a usage error."""
    if args.flow is not None and args.flow not in FLOWS:
        args.parser.error("argument --flow: flow is " + unknown_flow(args.flow))


def function_name(text: str) -> str:
    """Return a name in the form MODULE:FUNCTION: the argparse type."""
    _arguments.read_by(_functions.parts_of, text)
    return text
