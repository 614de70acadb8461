"""`executorch-c blame`: who is at fault where a device computes something else."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments, _devices, _models, _probes, explain

HELP = """\
Say who is at fault where a device computes something else than the model: the export, the lowering,
the device, or nobody. The payload runs here, too, node by node and with the roundings that the
device may do, so that the limit of the device's error is measured for these inputs.

    executorch-c blame m.pte --model m.py:f --inputs x.npz --device run*.npz
    executorch-c blame m.pte --inputs x.npz --etdump d.etdp --debug-buffer d.bin

Verdicts: match (a few roundings), precision (float16 or int8 explain it), export, lowering (a node
of the payload), device, nondeterministic (runs on equal inputs differ). With values of nodes, in an
ETDump or under their ids (d0.3) in an .npz, also the first node at which the device leaves.

For devices that return outputs only, --probes DIR writes a program that also returns the values of
nodes (--at; default all), and its inputs as raw files. Run it on the device, put what it returns
beside it, and pass --device DIR. With --rounds it returns one value; the same command reads it and
writes the next program, until the node is found.

    executorch-c blame m.pte --inputs x.npz --probes DIR --at d0.3 i7
    executorch-c blame m.pte --inputs x.npz --device DIR

Exit code: 0 match or precision, 3 export, lowering, device or nondeterministic, 4 inconclusive.
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "blame", main, "say who is at fault: export, lowering or device", HELP
    )
    _arguments.add_model(parser)
    reference = parser.add_mutually_exclusive_group()
    reference.add_argument("--etrecord", metavar="E.bin", help="ETRecord of the export")
    _models.add_model_function(reference)
    _arguments.add_inputs(parser, "the model's example")
    _arguments.add_method(parser)
    _devices.add(parser)
    _probes.add(parser)
    _arguments.add_rows(parser)
    _arguments.add_results(parser, picture=True)


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c blame`."""
    if (args.at or args.rounds) and not args.probes:
        args.parser.error("--at and --rounds are options of --probes")
    if not (args.device or args.etdump or args.probes):
        args.parser.error("pass what the device has computed: --device or --etdump; or --probes")
    if not args.inputs and not args.make:
        args.parser.error("pass the inputs of the device's runs: --inputs X.npz")
    program, reference, inputs = explain.opened(args)
    if args.probes:
        return _probes.run(args, program, inputs)
    return _devices.judge(args, program, reference, inputs)
