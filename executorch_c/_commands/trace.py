"""`executorch-c trace`: the time of each instruction of a call."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from executorch_c import Method, _trace_view
from executorch_c._commands import _arguments, _models
from executorch_c._commands._calls import inputs_of
from executorch_c._programs import ProgramFile
from executorch_c._trace_lines import SORTS, TOTALS
from executorch_c.report import Report
from executorch_c.trace import Trace

HELP = """\
Run a method and print where its time goes: the slowest instructions and nodes inside delegates, and
totals by operator, module and delegate. An id is an instruction ("i3") or a node ("d0.5": node 5 of
delegate 0). With --repeat, the times are means over the calls, with the median and the 90th
percentile, after an untraced warm-up call. State (a KV cache) is reset after the warm-up, and kept
between the other calls.

Modules are those of an ETRecord (--etrecord) or of the model (--model, needs torch).

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
    parser.add_argument("--etrecord", metavar="E.bin", help="ETRecord of the export")
    _models.add_model_function(parser)
    _arguments.add_rows(parser, SORTS, "time; order with --all")
    parser.add_argument(
        "--by", choices=TOTALS, help="print the totals of one kind only, --top of them or --all"
    )
    _arguments.add_results(parser, picture=True)
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


def _for_page(
    args: argparse.Namespace, source: ProgramFile, method: Method, inputs: Sequence[object]
) -> Sequence[Report]:
    """Return what colours the page's graph besides times: a call with the values of nodes, and the
    memory plan; nothing without a page."""
    from executorch_c.inspect.memory import memory_plan

    if not args.html and not (args.output or "").lower().endswith(".html"):
        return ()
    with method.tracing(values=True, ranges=True) as values:
        method.execute(inputs)
    return values, memory_plan(source, method.metadata.name())


def _show(trace: Trace, args: argparse.Namespace) -> None:
    text = _trace_view.summary(trace, args.top, args.sort, args.by)
    _arguments.show(trace, args, text)
    if args.chrome:
        trace.to_chrome(args.chrome)
    if args.csv:
        trace.to_csv(args.csv)
    if args.etdump:
        trace.to_etdump(args.etdump, args.debug_buffer)


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c trace`."""
    from executorch_c.inspect.diagram.draw import draw_on

    if args.debug_buffer and not args.etdump:
        args.parser.error("--debug-buffer requires --etdump")
    if args.make and args.etrecord:
        args.parser.error("--model and --etrecord both name modules: pass one")
    args.sort = args.sort or ("order" if args.top is None else "time")
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
    name = method.metadata.name()
    modules = {}
    if args.make:
        modules = _models.modules_of(_models.explained(args, source, name))
    trace, more = None, list[Report]()
    try:
        with method.tracing(values=bool(args.debug_buffer)) as trace:
            trace.set_origins(program=source.origin)
            draw_on(trace, source, name, more=more, modules=trace.modules)
            for _ in range(args.repeat):
                method.execute(inputs)
        more += _for_page(args, source, method, inputs)
    finally:
        if trace and trace.runs:  # includes calls before an error
            trace.name_nodes(source.program, args.etrecord, modules)
            _show(trace, args)
    return 0
