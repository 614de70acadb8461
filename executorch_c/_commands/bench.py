"""`executorch-c bench`: times of programs, beside each other and beside other runtimes."""

from __future__ import annotations

import argparse
from dataclasses import replace

from executorch_c._commands import _arguments, _models
from executorch_c._commands._calls import inputs_of

HELP = """\
Measure calls of programs: median and 90th percentile, the ratio to the first program with its 95 %
interval, time of loading and of the first call, peak memory. Each program and rival has a process
of its own; they call in turns, so that other load on the machine affects all of them.

    executorch-c bench old.pte new.pte --fail-if-slower 10%
    executorch-c bench m.pte --with official,onnxruntime:m.onnx --threads 1,2

Exit code: 0; 1 an engine failed; 3 with --fail-if-slower: slower.
"""
RIVALS = "official, eager (with --model), onnxruntime:m.onnx, openvino:m.onnx, litert:m.tflite"


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "bench", main, "measure programs, beside other runtimes", HELP
    )
    parser.add_argument(
        "model", metavar="MODEL.pte", nargs="+", help="programs; ratios are to the first"
    )
    _arguments.add(parser, "--data")
    parser.add_argument(
        "--with",
        dest="rivals",
        metavar="NAMES",
        type=_names,
        default=[],
        help=f"other runtimes: {RIVALS}",
    )
    _models.add_model_function(parser)
    _arguments.add_inputs(parser)
    _arguments.add_method(parser)
    _arguments.add_delegation(parser)
    parser.add_argument(
        "--threads",
        type=_counts,
        metavar="N",
        default=[],
        help="numbers of threads, such as 1,2; default: CPUs of the process",
    )
    parser.add_argument(
        "--min-time",
        type=_arguments.seconds,
        default=2.0,
        metavar="S",
        help="seconds of calls of each; default: %(default)g",
    )
    parser.add_argument(
        "--concurrency",
        type=_arguments.positive,
        default=1,
        metavar="N",
        help="also measure calls per second of N threads at once, with a method each",
    )
    parser.add_argument(
        "--fail-if-slower",
        type=_share,
        metavar="P",
        help="exit with 3 if a program is slower than the first one, or the first one than a "
        "rival, by more than this share, such as 10%%",
    )
    _arguments.add_results(parser)


def _names(text: str) -> list[str]:
    """Return rivals of "official,onnxruntime:m.onnx": the argparse type."""
    from executorch_c.bench.engines import rival_of

    names = [name for name in text.split(",") if name]
    for name in names:
        _arguments.read_by(rival_of, name)
    return names


def _counts(text: str) -> list[int]:
    """Return the numbers of "1,2": the argparse type."""
    try:
        return [_arguments.positive(part) for part in text.split(",")]
    except ValueError:
        expected = "expected numbers of threads, such as 1,2"
        raise argparse.ArgumentTypeError(f"{expected}, got {text!r}") from None


def _share(text: str) -> float:
    from executorch_c.bench.report import share_of

    return _arguments.read_by(share_of, text)


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c bench`."""
    from executorch_c._programs import opened
    from executorch_c.devtools import bench

    if "eager" in args.rivals and not args.make:
        args.parser.error("--with eager needs the model: --model M.py:F")
    for path in args.model[1:]:
        opened(path, args.data)
    inputs = inputs_of(opened(args.model[0], args.data).program, args)
    report = bench(
        args.model,
        inputs,
        method=args.method,
        data_path=args.data,
        rivals=args.rivals,
        model=args.make,
        threads=args.threads,
        min_time=args.min_time,
        concurrency=args.concurrency,
    )
    report = replace(report, allowed=args.fail_if_slower)
    _arguments.show(report, args)
    return _arguments.EXIT_CODES[report.verdict]
