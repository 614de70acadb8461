"""`executorch-c check-all`: many models by many flows."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from executorch_c import testing
from executorch_c._commands import _arguments
from executorch_c._render import text as _text
from executorch_c.suite import checks, writers

if TYPE_CHECKING:
    from executorch_c.suite.result import CheckRow, SuiteResult

HELP = """\
Check all models of a TOML file, each by several flows, as `check` does. Each check is a process
that has torch already; one that crashes, or exceeds its time limit, is a row of the table with the
verdict "error". Needs torch and executorch.

    executorch-c check-all checks.toml --jobs 2 --junit checks.xml
    executorch-c check-all checks.toml --shard 1/4 -o part1.json
    executorch-c check-all --merge part1.json part2.json -o all.json
    executorch-c check-all checks.toml --baseline yesterday.json

The file has a table for each model, with the function that makes it (as for `check`), its flows and
options of executorch_c.testing.check_model. Paths are relative to the file. Keys of "defaults" are
for all models; those of a flow count most:

    [defaults]
    flows = ["portable", "xnnpack"]
    n_random = 2

    [models.classifier]
    model = "models/vision.py:classifier"
    flows = ["xnnpack", "xnnpack-int8"]

    [models.classifier.flow.xnnpack-int8]
    min_sqnr_db = 25

    [models.shipped]
    model = "models/vision.py:classifier"
    program = "classifier.pte"

In a workflow of GitHub, each failure is shown at its model's line of the file, and the table is
added to the summary of the step.

Ctrl-C and SIGTERM end the checks that run; all that is written has the checks that are done.

Exit code: that of the worst verdict: 3 differ, or worse than the baseline, 1 error, 4 inconclusive,
0 match; 130 after an interrupt.
"""

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that interrupt the command."""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "check-all", main, "check many models by many flows", HELP
    )
    _add_selection(parser)
    parser.add_argument(
        "--jobs",
        type=_arguments.positive,
        default=1,
        metavar="N",
        help="number of checks at a time; default: 1. Times of calls are longer beside others",
    )
    parser.add_argument(
        "--seconds",
        type=_arguments.seconds,
        metavar="S",
        help=f"time limit of each check; default: that of the file, or {checks.SECONDS:g}",
    )
    parser.add_argument(
        "--baseline", metavar="OLD.json", help="earlier result: list what got worse since"
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        type=_allowance,
        metavar="NAME=CHANGE",
        help="change that is not worse: sqnr=1dB, size=1%%, delegated=0.1%%, ms=50%% are the "
        "defaults; repeatable",
    )
    _arguments.add_results(parser)
    for name, (_, about) in writers.WRITERS.items():
        parser.add_argument(
            f"--{name}", metavar="F", type=_arguments.output_file(), help=f"write {about}"
        )
    parser.add_argument(
        "--pages", metavar="DIR", help="write the HTML page of each check that does not match"
    )


def _add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the file of checks, and the options that select checks."""
    parser.add_argument("checks", metavar="CHECKS.toml", nargs="?", help="file of checks")
    parser.add_argument(
        "--merge",
        nargs="+",
        default=[],
        metavar="PART.json",
        help="put results of parts (--shard) together, and run nothing",
    )
    parser.add_argument("--list", action="store_true", help="list the checks, and run nothing")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="run the checks of this model or flow, or model:flow, with * and ?; repeatable",
    )
    parser.add_argument(
        "--shard", type=_shard, metavar="I/N", help="run the I-th of N parts of the checks"
    )


def _shard(text: str) -> str:
    """Return a part, as 2/4: the argparse type."""
    _arguments.read_by(checks.shard_of, text)
    return text


def _allowance(text: str) -> tuple[str, float]:
    """Return ("ms", 0.5) of "ms=50%": the argparse type."""
    from executorch_c.suite import baseline

    name, _, number = text.partition("=")
    try:
        is_share = number.endswith("%")
        value = float(number.removesuffix("%").removesuffix("dB")) / (100 if is_share else 1)
        baseline.allowances_of({name: value})
    except ValueError as error:
        why = str(error) if "allowance" in str(error) else f"{text!r}: expected NAME=CHANGE"
        raise argparse.ArgumentTypeError(why) from None
    return name, value


def _check_usage(args: argparse.Namespace) -> None:
    """Report wrong combinations of arguments as usage errors."""
    if bool(args.checks) == bool(args.merge):
        args.parser.error("expected CHECKS.toml, or --merge PART.json ...")
    for name in ("list", "only", "shard", "pages", "seconds"):
        if args.merge and getattr(args, name):
            args.parser.error(f"--{name} is for checks that run: --merge runs none")
    if args.allow and not args.baseline:
        args.parser.error("--allow is for --baseline")


def _told(row: CheckRow) -> None:
    """Print that a check is done on stderr, where that is no terminal with a progress line."""
    if sys.stderr is not None and not sys.stderr.isatty():
        print(f"{row.name}: {row.verdict} ({row.seconds:.1f} s)", file=sys.stderr, flush=True)


def _list(args: argparse.Namespace) -> int:
    """Print the checks that would run."""
    from executorch_c.suite import run

    tasks = run.selected(run.tasks_of(args.checks)[1], only=args.only)
    tasks = checks.part(tasks, checks.shard_of(args.shard)) if args.shard else tasks
    if args.json:
        rows = [{"name": t.name, "model": t.make, "program": t.program, **t.options} for t in tasks]
        print(json.dumps(rows, indent=2))
        return 0
    lines = [
        [task.name, ", ".join(f"{name}={value}" for name, value in task.options.items())]
        for task in tasks
    ]
    print(_text.table(lines, ("check", "options"), width=_text.width()))
    return 0


def _result(args: argparse.Namespace) -> SuiteResult:
    """Run the checks, or put parts together."""
    from executorch_c.suite import run
    from executorch_c.suite.result import read

    allowances: dict[str, Any] = dict(args.allow)
    if not args.merge:
        return testing.check_all(
            args.checks,
            jobs=args.jobs,
            only=args.only,
            shard=args.shard,
            seconds=args.seconds,
            baseline=args.baseline,
            allowances=allowances,
            pages=args.pages,
            done=_told,
        )
    result = run.merged([(path, read(path)) for path in args.merge])
    return run.against(result, read(args.baseline), allowances) if args.baseline else result


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c check-all`."""
    _check_usage(args)
    if args.list:
        return _list(args)
    from executorch_c.suite.result import SuiteInterrupt

    with _interrupts():
        try:
            result = _result(args)
        except SuiteInterrupt as interrupt:
            result = interrupt.result
        for number in SIGNALS:  # no half-written files
            signal.signal(number, signal.SIG_IGN)
        _write(result, args)
    return _arguments.INTERRUPTED if result.interrupted else _arguments.EXIT_CODES[result.verdict]


@contextmanager
def _interrupts() -> Iterator[None]:
    """Let SIGTERM interrupt as Ctrl-C does."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        for number in SIGNALS:
            signal.signal(number, signal.default_int_handler)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write(result: SuiteResult, args: argparse.Namespace) -> None:
    """Write the requested files, and print the result."""
    _arguments.write_results(result, args)
    writers.write(result, {name: getattr(args, name) for name in writers.WRITERS})
    sys.stderr.write(writers.on_github(result))
    print(result.to_json() if args.json else result)
