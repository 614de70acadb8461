"""`executorch-c trace`: the time of each instruction of a call."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from executorch_c import Method
from executorch_c._commands import _arguments
from executorch_c._commands._calls import inputs_of
from executorch_c.trace import Trace

HELP = """\
Run a method and print time, shapes and bytes of each instruction and of each node inside delegates.
With --repeat, the times are means over the calls, after an untraced warm-up call. State (a KV
cache) is reset after the warm-up, and kept between the other calls.

The official executorch.devtools.Inspector reads the files of --etdump and --debug-buffer.
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(commands, "trace", main, "time each instruction", HELP)
    _arguments.add_model(parser)
    _arguments.add_inputs(parser)
    _arguments.add_method(parser)
    _arguments.add(parser, "--kernels", "--kv-cache")
    _arguments.add_delegation(parser)
    _arguments.add(parser, "--repeat", "--threads")
    _arguments.add_results(parser)
    for name, text in (
        ("--chrome", "write JSON for chrome://tracing and Perfetto"),
        ("--csv", "write a row for each event"),
        ("--etdump", "write an ETDump (needs flatbuffers)"),
        ("--debug-buffer", "write the values of the ETDump"),
    ):
        parser.add_argument(name, metavar="F", type=_arguments.output_file(), help=text)


def _warm(method: Method, inputs: Sequence[object]) -> None:
    """Make a warm-up call and ignore its error: the traced call raises it again."""
    try:
        method.execute(inputs)
    except RuntimeError:
        return
    method.reset()


def _show(trace: Trace, args: argparse.Namespace) -> None:
    _arguments.show(trace, args)
    if args.chrome:
        trace.to_chrome(args.chrome)
    if args.csv:
        trace.to_csv(args.csv)
    if args.etdump:
        trace.to_etdump(args.etdump, args.debug_buffer)


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c trace`."""
    if args.debug_buffer and not args.etdump:
        args.parser.error("--debug-buffer requires --etdump")
    source = _arguments.open_program(args)
    inputs = inputs_of(source.program, args)
    method = source.program.load_method(
        args.method,
        kernels=args.kernels,
        seed=args.seed,
        num_threads=args.threads,
        kv_cache=args.kv_cache,
    )
    if args.repeat > 1:
        _warm(method, inputs)
    trace = None
    try:
        with method.tracing(values=bool(args.debug_buffer)) as trace:
            trace.set_origins(program=source.origin)
            for _ in range(args.repeat):
                method.execute(inputs)
    finally:
        if trace and trace.runs:
            _show(trace, args)  # includes calls before an error
    return 0
