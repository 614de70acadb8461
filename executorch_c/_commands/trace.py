"""`executorch-c trace`: where the time of a call goes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from executorch_c import Method, _trace_view
from executorch_c._commands import _arguments
from executorch_c._commands._calls import find_method, make_inputs
from executorch_c.trace import Trace

HELP = """\
Runs one method and prints time, shapes and bytes of each instruction, and of each node inside of
delegates. With --repeat these are means of so many calls, which follow one that is not traced.
State (a KV cache) starts anew after that one, and is then kept from call to call.

The official executorch.devtools.Inspector reads what --etdump and --debug-buffer write.
"""


def add(commands: _arguments.Commands) -> None:
    """The parser."""
    parser = _arguments.add_command(commands, "trace", run, "show where the time goes", HELP)
    parser.set_defaults(usage_error=parser.error)
    _arguments.add_model(parser)
    _arguments.add_inputs(parser)
    parser.add_argument("--method", default="forward", help="default: %(default)s")
    parser.add_argument("--repeat", type=_arguments.positive, default=1, metavar="N",
                        help="calls to trace")  # fmt: skip
    parser.add_argument("--threads", type=_arguments.positive, metavar="N",
                        help="default: all CPUs that the process may use")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0,
                        help="of random inputs and random operators; default: %(default)s")
    parser.add_argument("--html", metavar="FILE", help="a page with bars of time")
    parser.add_argument("--chrome", metavar="FILE", help="JSON for chrome://tracing and Perfetto")
    parser.add_argument("--csv", metavar="FILE", help="a row for each event")
    parser.add_argument("--etdump", metavar="FILE", help="an ETDump (needs flatbuffers)")
    parser.add_argument("--debug-buffer", metavar="FILE",
                        help="computed values that belong to the ETDump")  # fmt: skip


def _warm(method: Method, inputs: Sequence[object]) -> None:
    """A first call; where it fails, the traced one tells."""
    try:
        method.execute(inputs)
    except RuntimeError:
        return
    method.reset()


def _show(trace: Trace, args: argparse.Namespace) -> None:
    print(trace)
    if args.html:
        trace.to_html(args.html)
    if args.chrome:
        trace.to_chrome(args.chrome)
    if args.csv:
        _trace_view.write_csv(trace, args.csv)
    if args.etdump:
        trace.to_etdump(args.etdump, args.debug_buffer)


def run(args: argparse.Namespace) -> int:
    """executorch-c trace"""
    if args.debug_buffer and not args.etdump:
        args.usage_error("--debug-buffer belongs to --etdump")
    program = _arguments.open_program(args)
    inputs = make_inputs(find_method(program, args.method)["inputs"], args.inputs, args.seed)
    method = program.load_method(args.method, seed=args.seed, num_threads=args.threads)
    if args.repeat > 1:
        _warm(method, inputs)
    trace = None
    try:
        with method.tracing(values=bool(args.debug_buffer)) as trace:
            for _ in range(args.repeat):
                method.execute(inputs)
    finally:
        if trace and trace.runs:
            _show(trace, args)  # what went before an error, too
    return 0
