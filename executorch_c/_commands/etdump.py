"""`executorch-c etdump`: what an ETDump of a device has recorded."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments

HELP = """\
Print the times of each operator and node in an ETDump: of this runtime, of the official one, or of
a device. With --etrecord, the edge program's operators and modules name them. With --debug-buffer,
the values are checked, too.

Neither torch nor the official package is needed.
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "etdump", main, "print the times in an ETDump of a device", HELP
    )
    parser.add_argument("file", metavar="RUN.etdp", help="ETDump")
    _arguments.add(parser, "--debug-buffer")
    parser.add_argument("--etrecord", metavar="E.bin", help="ETRecord of the export")
    _arguments.add_method(parser)
    _arguments.add(parser, "--time-scale")
    _arguments.add_results(parser)


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c etdump`."""
    from executorch_c.inspect import read_etdump

    dump = read_etdump(
        args.file,
        args.debug_buffer,
        etrecord=args.etrecord,
        method=args.method,
        time_scale=args.time_scale,
    )
    _arguments.show(dump, args)
    return 0
