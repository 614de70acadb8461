"""`executorch-c run`: run a method and print its outputs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from executorch_c._arrays import write_arrays
from executorch_c._commands import _arguments
from executorch_c._commands._calls import (
    call_times,
    describe_times,
    find_method,
    inputs_of,
)
from executorch_c._render import json as _json
from executorch_c._render import text as _text

HELP = """\
Run a method once, or --repeat times, and print inputs, outputs and times.

Inputs come from an .npz file, or an .npy file for one input: an array for each input, or for each
tensor input; numbers and strings are then those of the program. Arrays are matched by name (names
of the program's inputs, or input_0, input_1, ...), otherwise by order. Without --inputs they are
random and seeded: floats are normally distributed, integers 0 or 1, dynamic sizes at their upper
bounds. State (a KV cache) is kept between repeats.
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(commands, "run", main, "run a method of a program", HELP)
    _arguments.add_model(parser)
    _arguments.add_inputs(parser)
    parser.add_argument(
        "--save-inputs", metavar="X.npz", type=_arguments.output_file(), help="write the inputs"
    )
    _arguments.add_method(parser)
    _arguments.add(parser, "--kernels", "--kv-cache")
    _arguments.add_delegation(parser)
    _arguments.add(parser, "--repeat", "--threads")
    _arguments.add_output(parser, "write the last call's outputs, as .npz")
    _arguments.add_json(parser)
    parser.add_argument(
        "--values", action="store_true", help="with --json: all elements, not only a summary"
    )


def lines(
    names: Sequence[str], values: Sequence[Any], few: int = _text.MAX_PRINTED_ELEMENTS
) -> list[list[object]]:
    """Return a row for each value: index, name, dtype, shape, first elements."""
    return [_text.value_line(i, name, v, few) for i, (name, v) in enumerate(zip(names, values))]


def show_values(title: str, names: Sequence[str], values: Sequence[Any]) -> None:
    """Print inputs or outputs, with as many of their first elements as a line has room for."""
    table = ""
    for few in range(_text.MAX_PRINTED_ELEMENTS, 0, -1):
        table = _text.table(lines(names, values, few))
        if max(map(len, table.splitlines()), default=0) <= _text.width():
            break
    print(title)
    print(table or "  none")


def as_json(
    names: Sequence[str], values: Sequence[Any], with_values: bool
) -> list[dict[str, object]]:
    """Return inputs or outputs for JSON: a summary of each array, or all its elements."""
    return [
        {
            "name": name or None,
            "dtype": line[2],
            "shape": list(np.shape(value)),
            **({"values": _elements(value)} if with_values else _summary(value)),
        }
        for name, value, line in zip(names, values, lines(names, values))
    ]


def _elements(value: Any) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _summary(value: Any) -> dict[str, object]:
    """Return number of NaN and infinities, least and largest finite element, mean and first
    elements of an array; another value as it is."""
    if not isinstance(value, np.ndarray):
        return {"value": value}
    first = value.reshape(-1)[: _text.MAX_PRINTED_ELEMENTS].tolist()
    if value.dtype.kind == "c" or not value.size:
        return {"first": first}
    wide = value.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    low, high, mean = (
        (float(f(finite)) if finite.size else None) for f in (np.min, np.max, np.mean)
    )
    return {
        "nan": int(np.isnan(wide).sum()),
        "infinite": int(np.isinf(wide).sum()),
        "min": low,
        "max": high,
        "mean": mean,
        "first": first,
    }


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c run`."""
    if args.values and not args.json:
        args.parser.error("--values is for --json; --output writes the outputs as .npz")
    start = perf_counter()
    program = _arguments.open_program(args).program
    load_time = perf_counter() - start
    inputs = inputs_of(program, args)
    if args.save_inputs:
        write_arrays(args.save_inputs, "input", inputs)
    start = perf_counter()
    method = program.load_method(
        args.method,
        kernels=args.kernels,
        seed=args.seed,
        num_threads=args.threads,
        kv_cache=args.kv_cache,
    )
    load_time += perf_counter() - start
    info = find_method(program, args.method)
    outputs, times = call_times(lambda: method.execute(inputs), args.repeat)
    if args.output:
        write_arrays(args.output, "output", outputs)
    sides = [
        ([w.get("name") or "" for w in rows], values)
        for rows, values in ((info["inputs"], inputs), (info["outputs"], outputs))
    ]
    is_random = args.inputs is None and any(w["kind"] == "Tensor" for w in info["inputs"])
    if args.json:
        arrays = [as_json(*side, args.values) for side in sides]
        print(
            _json.dumps(
                {
                    "method": args.method,
                    "inputs": arrays[0],
                    "outputs": arrays[1],
                    "random_inputs": is_random,
                    "seed": args.seed,
                    "load_seconds": load_time,
                    "seconds": times,
                }
            )
        )
        return 0
    note = f" (random, seed {args.seed}; --save-inputs writes them)" if is_random else ""
    show_values(f"inputs{note}", *sides[0])
    show_values("outputs", *sides[1])
    print(f"time\n  load {_text.seconds(load_time)}, {describe_times(times)}")
    return 0
