"""`executorch-c explain`: the first node of a program that differs from its PyTorch model."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from executorch_c._commands import _arguments, _models
from executorch_c._commands._calls import inputs_of
from executorch_c.check import named

if TYPE_CHECKING:
    from executorch_c._programs import ProgramFile

HELP = (
    """\
Find the first node of a program that differs from its PyTorch model, with its layer and the source
line in the model. Nodes inside delegates are compared, too. Needs torch and executorch.

The model is an ETRecord (generate_etrecord=True in the export flow, then get_etrecord().save), or
the result of a function without arguments, as for `check`. The function returns the model in eval
mode, or the model and its example inputs.

"""
    + _arguments.EXIT_TEXT
)


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "explain", main, "find the first node that differs from the PyTorch model", HELP
    )
    add_reference(parser)
    _arguments.add(parser, "--rtol", "--atol", "--ladder")


def add_reference(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a program and its model, for `opened`."""
    _arguments.add_model(parser)
    reference = parser.add_mutually_exclusive_group(required=True)
    reference.add_argument("--etrecord", metavar="E.bin", help="ETRecord of the export")
    _models.add_model_function(reference)
    _arguments.add_inputs(parser, "the model's example, or random")
    _arguments.add_method(parser)
    _arguments.add_rows(parser)
    _arguments.add(parser, "--kernels", "--kv-cache")
    _arguments.add_checked_delegation(parser)
    _arguments.add_results(parser, picture=True)


def opened(args: argparse.Namespace) -> tuple[ProgramFile, object, list[object]]:
    """Return the program, the model (or the path of an ETRecord) and the inputs of a call: from
    --inputs, else the model's example, else random."""
    if args.etrecord and not os.path.isfile(args.etrecord):
        raise FileNotFoundError(2, "No such file or directory", args.etrecord)
    program = _arguments.open_program(args)
    inputs = inputs_of(program.program, args)
    reference: object = args.etrecord
    if args.make:
        reference, example, _ = named.model_and_inputs(args.make)
        inputs = list(example) if example is not None and not args.inputs else inputs
    return program, reference, inputs


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c explain`."""
    from executorch_c.debug._graphs.run import as_tensors
    from executorch_c.devtools import explain

    if args.ladder and args.etrecord:
        args.parser.error("--ladder begins with the model: --model M.py:F")
    program, model, inputs = opened(args)
    report = explain(
        model,
        inputs,
        program=program,
        method=args.method,
        rtol=args.rtol,
        atol=args.atol,
        kernels=args.kernels,
        delegate_at_load=args.checks_delegated,
        title=os.path.basename(args.model),
    )
    _arguments.show(report, args, report.text(args.top, args.sort))
    if args.ladder and not args.json:
        from executorch_c.check.ladder import compare_steps

        call = as_tensors(inputs), dict[str, object]()
        name = os.path.basename(args.model)
        print(compare_steps(model, [call], program=program, method=args.method, title=name))
    return _arguments.EXIT_CODES[report.verdict]
