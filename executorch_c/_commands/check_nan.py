"""`executorch-c check-nan`: the origin of NaN and infinity."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments
from executorch_c._commands._calls import inputs_of

HELP = """\
Run a method once and find the nodes that compute NaN or infinity from finite inputs, inside
delegates too. Print the ranges of their inputs and the affected outputs. Constant infinities of the
program (an attention mask) are not reported.

Exit code: 3 if NaN or a computed infinity reaches an output.
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "check-nan", main, "find the origin of NaN and infinity", HELP
    )
    _arguments.add_model(parser)
    _arguments.add_inputs(parser)
    _arguments.add_method(parser)
    _arguments.add(parser, "--kernels", "--kv-cache")
    _arguments.add_checked_delegation(parser)
    _arguments.add_results(parser)


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c check-nan`."""
    from executorch_c.debug.nonfinite import check_nan

    source = _arguments.open_program(args)
    inputs = inputs_of(source.program, args)
    report = check_nan(
        source,
        inputs,
        method=args.method,
        kernels=args.kernels,
        delegate_at_load=args.checks_delegated,
    )
    _arguments.show(report, args)
    return _arguments.EXIT_CODES["match" if report else "differ"]
