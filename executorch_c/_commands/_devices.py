"""Options of a device's runs, and the verdict on them: of `blame`, and of `explain`."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from executorch_c._commands import _arguments
from executorch_c._input_sets import names_many

if TYPE_CHECKING:
    from executorch_c._programs import ProgramFile


def add(parser: argparse.ArgumentParser) -> None:
    """Add --device, --etdump, --debug-buffer and --time-scale: what a device has computed."""
    parser.add_argument(
        "--device",
        nargs="+",
        metavar="RUN",
        help="runs of a device on the inputs: .npz files with the outputs (and values of nodes "
        "under their ids, d0.3), the raw NAME-0.bin, ... of executor_runner --output_file=NAME, "
        "or a folder of `blame --probes`",
    )
    parser.add_argument("--etdump", metavar="F", help="ETDump of the device")
    _arguments.add(parser, "--debug-buffer", "--time-scale")


def judge(
    args: argparse.Namespace, program: ProgramFile, reference: object, inputs: list[object]
) -> int:
    """Print who is at fault where a device computes something else; return the exit code."""
    from executorch_c.devtools import blame

    check_inputs(args)
    report = blame(
        reference,
        inputs,
        program=program,
        device=args.device or (),
        etdump=args.etdump,
        debug_buffer=args.debug_buffer,
        time_scale=args.time_scale,
        method=args.method,
        title=os.path.basename(args.model),
    )
    _arguments.show(report, args, report.text(args.top, args.sort))
    return _arguments.EXIT_CODES[report.verdict]


def check_inputs(args: argparse.Namespace) -> None:
    """Refuse the inputs of many calls: runs of a device are of one."""
    if args.inputs and names_many(args.inputs):
        args.parser.error("runs of a device have the inputs of one call: --inputs X.npz")
