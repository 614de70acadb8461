"""The option --model of commands: the function that makes a PyTorch model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Protocol

from executorch_c import _functions
from executorch_c._commands import _arguments
from executorch_c._commands._calls import inputs_of
from executorch_c.check.flows import FLOWS, unknown_flow

if TYPE_CHECKING:
    from executorch_c._programs import ProgramFile
    from executorch_c.debug.report import ErrorReport


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


def explained(args: argparse.Namespace, program: ProgramFile, method: str) -> ErrorReport:
    """Return the report of `explain` on the model of --model, which names modules: on --inputs,
    else the model's example, else random inputs."""
    from executorch_c.check import named
    from executorch_c.devtools import explain

    model, inputs, _ = named.model_and_inputs(args.make)
    args.method = method
    if inputs is None or args.inputs:
        inputs = inputs_of(program.program, args)
    return explain(model, list(inputs), program=program, method=method)


def modules_of(report: ErrorReport) -> dict[str, str]:
    """Return the model's modules by the place of an instruction or node."""
    return {row.where: row.module for row in report if row.module}


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
