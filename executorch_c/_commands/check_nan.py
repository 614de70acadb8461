"""`executorch-c check-nan`: where NaN and infinity come from."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments
from executorch_c._commands._calls import inputs_of

HELP = """\
Run a method once and find the nodes that compute NaN or infinity, inside delegates too: the ranges
of their inputs, and the outputs that are reached. Infinity that is a constant of the program (an
attention mask) is not reported.

Exit code: 3 if NaN, or infinity that was computed, reaches an output.
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "check-nan", main, "find where NaN and infinity come from", HELP
    )
    _arguments.add_model(parser)
    _arguments.add_inputs(parser)
    _arguments.add_method(parser)
    _arguments.add_kernels(parser)
    _arguments.add_results(parser)


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c check-nan`."""
    from executorch_c.debug.nonfinite import check_nan

    source = _arguments.open_program(args)
    inputs = inputs_of(source.program, args)
    report = check_nan(source, inputs, method=args.method, kernels=args.kernels)
    _arguments.show(report, args)
    return _arguments.EXIT_CODES["match" if report else "differ"]
