"""`executorch-c check-nan`: where NaN and infinity come from."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments
from executorch_c._commands._calls import find_method, make_inputs

HELP = """\
Runs one method once, looks at whatever its instructions and the nodes of its delegates take and
give, and says where NaN and infinity come about, from which ranges of inputs, and whether they
reach the outputs. Infinity that the program itself puts somewhere (attention masks) is no fault.

The exit code is 3 where NaN, or infinity that was computed, reaches an output.
"""


def add(commands: _arguments.Commands) -> None:
    """The parser."""
    parser = _arguments.add_command(
        commands, "check-nan", main, "find where NaN and infinity come from", HELP
    )
    _arguments.add_model(parser)
    _arguments.add_inputs(parser)
    parser.add_argument("--method", default="forward", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of random inputs")
    _arguments.add_json(parser)


def main(args: argparse.Namespace) -> int:
    """executorch-c check-nan"""
    from executorch_c.debug.nonfinite import check_nan

    program = _arguments.open_program(args)
    about = find_method(program, args.method)
    inputs = make_inputs(about["inputs"], args.inputs, args.seed)
    report = check_nan(program, inputs, method=args.method)
    print(report.to_json() if args.json else report)
    return _arguments.EXIT_CODES["match" if report else "differ"]
