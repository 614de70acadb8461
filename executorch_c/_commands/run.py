"""`executorch-c run`: calls a method and shows what comes out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from executorch_c._render import text as _text
from executorch_c._commands import _arguments
from executorch_c._commands._calls import call_times, describe_times, find_method, make_inputs

HELP = """\
Runs one method once, or several times with --repeat, and prints inputs, outputs and times.

Inputs come from an .npz file (in the order of the file: one array for each input, or one for each
tensor input; numbers and strings are then the ones of the program) or an .npy file (one input).
Without --inputs they are random and seeded: normally distributed floats, integers 0 and 1, and
upper bounds of dynamic sizes. State (a KV cache) is kept between repeats.
"""


def add(commands: _arguments.Commands) -> None:
    """The parser."""
    parser = _arguments.add_command(commands, "run", main, "run a method of a program", HELP)
    _arguments.add_model(parser)
    _arguments.add_inputs(parser)
    parser.add_argument("--method", default="forward", help="default: %(default)s")
    parser.add_argument("--repeat", type=_arguments.positive, default=1, metavar="N",
                        help="calls to make")  # fmt: skip
    parser.add_argument("--output", metavar="Y.npz",
                        help="file to write the last call's outputs to")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0,
                        help="of random inputs and random operators; default: %(default)s")


def write_outputs(path: str, outputs: Sequence[Any]) -> None:
    """An .npz with output_0, output_1, ...; None is left out."""
    named: dict[str, Any] = {}
    for i, out in enumerate(outputs):
        if out is not None:
            named[f"output_{i}"] = np.asarray(out)
    with open(path, "wb") as file:  # savez would append a suffix to a name
        np.savez(file, **named)


def show_values(title: str, names: Sequence[str], values: Sequence[Any]) -> None:
    print(title)
    rows = [_text.value_line(i, name, v) for i, (name, v) in enumerate(zip(names, values))]
    print(_text.table(rows) if rows else "  none")


def main(args: argparse.Namespace) -> int:
    """executorch-c run"""
    start = perf_counter()
    program = _arguments.open_program(args)
    load_time = perf_counter() - start
    wanted = find_method(program, args.method)
    inputs = make_inputs(wanted["inputs"], args.inputs, args.seed)
    start = perf_counter()
    method = program.load_method(args.method, seed=args.seed)
    load_time += perf_counter() - start
    show_values("inputs", [w.get("name") or "" for w in wanted["inputs"]], inputs)
    outputs, times = call_times(lambda: method.execute(inputs), args.repeat)
    show_values("outputs", [""] * len(outputs), outputs)
    print(f"time\n  load {_text.seconds(load_time)}, {describe_times(times)}")
    if args.output:
        write_outputs(args.output, outputs)
    return 0
