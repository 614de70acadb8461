"""`executorch-c validate`: a program's outputs beside those that it should give."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

import numpy as np

from executorch_c import _json, testing
from executorch_c._commands import _arguments
from executorch_c._commands._calls import as_input, find_method, make_inputs, read_arrays
from executorch_c.bundled import BundledProgram

HELP = """\
Runs one method once and compares its outputs with those that it should give (of PyTorch eager, or
of an earlier version): largest absolute and relative difference, ULP, cosine, signal to noise,
agreement of argmax, and where the first and the worst difference are.

Tolerances are by dtype unless they are given: those of torch.testing.assert_close. The exit code
is 0 where outputs match, 3 where they differ.

A bundled program (.bpte) brings inputs and outputs with it: all its test cases are run, or those
of --method.
"""


def add(commands: _arguments.Commands) -> None:
    """The parser."""
    parser = _arguments.add_command(
        commands, "validate", run, "compare the outputs of a program with expected ones", HELP
    )
    _arguments.add_model(parser, "or a .bpte, with its own test cases")
    _arguments.add_inputs(parser)
    parser.add_argument("--expect", metavar="Y.npz", help="outputs, in order, as arrays")
    parser.add_argument("--method", help="default: forward; of a .bpte: all")
    _arguments.add_tolerances(parser)
    _arguments.add_kernels(parser)
    _arguments.add_json(parser)
    _arguments.add_html(parser)


def write_html(args: argparse.Namespace, *parts: Any) -> None:
    """The page, if one is asked for; parts as of `report.comparisons_page`."""
    if not args.html:
        return
    from executorch_c._check import report

    with open(args.html, "w", encoding="utf-8") as file:
        file.write(report.comparisons_page(f"Outputs of {args.model}", *parts))


def as_json(comparison: testing.Comparison) -> str:
    """All figures: {"ok", "problems", "outputs": [{"index", "dtype", "gap": {...}, ...}]}."""
    outputs = [{"ok": output.ok, **asdict(output)} for output in comparison]
    whole = {"ok": comparison.ok, "problems": comparison.problems(), "outputs": outputs}
    return _json.dumps(whole)


def _is_bundled(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(8)[4:] == b"BP08"


def validate_bundled(args: argparse.Namespace) -> int:
    """All test cases of a .bpte."""
    given = [f"--{name}" for name in ("inputs", "expect", "data") if getattr(args, name)]
    if given or args.kernels != "default":
        unfit = ", ".join(given) or "--kernels"
        raise ValueError(f"{args.model} is a bundled program: {unfit} cannot be used with one")
    bundled = BundledProgram.load(args.model)
    results = bundled.verify(args.method, rtol=args.rtol, atol=args.atol)
    write_html(args, *(
        (str(result.case), result.comparison, result.outputs, result.case.expected)
        for result in results
    ))  # fmt: skip
    if args.json:
        rows = {str(result.case): json.loads(as_json(result.comparison)) for result in results}
        print(json.dumps(rows, indent=2))
    else:
        print("\n".join(map(str, results)) if results else "no test cases")
    return 0 if all(results) else _arguments.DIFFERENT


def run(args: argparse.Namespace) -> int:
    """executorch-c validate"""
    if _is_bundled(args.model):
        return validate_bundled(args)
    for name in ("inputs", "expect"):
        if not getattr(args, name):
            raise ValueError(f"--{name} is needed: only a .bpte has test cases of its own")
    args.method = args.method or "forward"
    program = _arguments.open_program(args)
    about = find_method(program, args.method)
    inputs = make_inputs(about["inputs"], args.inputs, seed=0)
    method = program.load_method(args.method, kernels=args.kernels)
    outputs = method.execute(inputs)
    arrays = read_arrays(args.expect)
    expected: list[object] = list(arrays)
    tensors = [out for out in outputs if isinstance(out, np.ndarray)]
    if len(expected) == len(outputs):
        expected = [as_input(e, w) for e, w in zip(arrays, about["outputs"])]
    elif len(expected) == len(tensors):  # `run --output` leaves None out
        outputs = list(tensors)
    comparison = testing.compare(outputs, expected, rtol=args.rtol, atol=args.atol)
    write_html(args, (f"method '{args.method}'", comparison, outputs, expected))
    print(as_json(comparison) if args.json else comparison)
    return 0 if comparison else _arguments.DIFFERENT
