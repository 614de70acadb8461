"""`executorch-c quantization-error`: the error that each layer of a quantised program adds."""

from __future__ import annotations

import argparse
import os

from executorch_c._commands import _arguments
from executorch_c._commands.explain import add_reference, opened

HELP = """\
Print what each layer of a quantised program costs at the outputs, against the float model: the
signal-to-noise ratio with the errors of this layer only, and what the outputs gain without them
(in dB). The errors are those on the activations of the program. The most expensive layers come
first; the finding ends with the layer to keep in float. Needs torch and executorch.

The float model is the result of a function without arguments, module:function or file.py:function,
as for `check`, which returns the model in eval mode, or the model and its example inputs; or an
ETRecord of an export of it.

Exit code: 0. This command has no verdict.
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands,
        "quantization-error",
        main,
        "find what each layer of a quantised program costs",
        HELP,
    )
    add_reference(parser)


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c quantization-error`."""
    from executorch_c.devtools import quantization_error

    program, model, inputs = opened(args)
    report = quantization_error(
        model,
        inputs,
        program=program,
        method=args.method,
        kernels=args.kernels,
        delegate_at_load=args.checks_delegated,
        title=os.path.basename(args.model),
    )
    _arguments.show(report, args, report.text(args.top, args.sort))
    return 0
