"""Option --probes of `blame`: programs for devices that return outputs only."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from executorch_c._commands import _arguments, _devices

if TYPE_CHECKING:
    from executorch_c._programs import ProgramFile


def add(parser: argparse.ArgumentParser) -> None:
    """Add --probes, --at and --rounds."""
    parser.add_argument(
        "--probes",
        metavar="DIR",
        help="write a program that returns values of nodes, for devices that return outputs only",
    )
    parser.add_argument(
        "--at", nargs="+", metavar="NODE", help="nodes of --probes (d0.3, i7; default: all)"
    )
    parser.add_argument(
        "--rounds",
        action="store_true",
        help="with --probes: one value a round, each of which halves the nodes in question",
    )


def run(args: argparse.Namespace, program: ProgramFile, inputs: list[object]) -> int:
    """Write probes, or those of the next round; return the exit code: 0 if there is a program to
    run, 3 if the node is found, 4 if the fault does not show."""
    from executorch_c.blame import manifest
    from executorch_c.blame.probes import folder_of, next_probe, write_probes

    _devices.check_inputs(args)
    folder = folder_of(args.probes)
    if folder is None or args.at or not manifest.read(folder)["rounds"]:
        written = write_probes(
            program, inputs, args.probes, at=args.at, rounds=args.rounds, method=args.method
        )
        print(written)
        return 0
    known = next_probe(program, folder)
    print(known)
    if known.probes is not None:
        return 0
    return _arguments.EXIT_CODES["differ" if known.suspects else "inconclusive"]
