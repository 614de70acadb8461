"""`executorch-c check-nan`: where NaN and infinity come from."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments
from executorch_c._commands._calls import inputs_of

HELP = """\
Runs one method once, looks at the values of all instructions and of the nodes inside delegates, and
says where NaN and infinity come about, from which ranges of inputs, and whether they reach the
outputs. Infinity that the program itself puts somewhere (attention masks) is no fault.

The exit code is 3 where NaN, or infinity that was computed, reaches an output.
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
