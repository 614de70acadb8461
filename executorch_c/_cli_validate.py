"""`executorch-c validate`: a program's outputs beside those that it should give."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict

import numpy as np

import executorch_c
from executorch_c import testing
from executorch_c._cli_run import as_input, find_method, make_inputs, read_arrays
from executorch_c.bundled import BundledProgram

DIFFERENT = 3


def _json_value(value: object) -> object:
    """What JSON has no word for, as strings or None."""
    if isinstance(value, dict):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return str(value) if isinstance(value, complex) else value


def as_json(comparison: testing.Comparison) -> str:
    """All figures: {"ok", "problems", "outputs": [{"index", "dtype", "gap": {...}, ...}]}."""
    outputs = [{"ok": output.ok, **asdict(output)} for output in comparison]
    whole = {"ok": comparison.ok, "problems": comparison.problems(), "outputs": outputs}
    return json.dumps(_json_value(whole), indent=2)


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
    if args.json:
        rows = {str(result.case): json.loads(as_json(result.comparison)) for result in results}
        print(json.dumps(rows, indent=2))
    else:
        print("\n".join(map(str, results)) if results else "no test cases")
    return 0 if all(results) else DIFFERENT


def validate(args: argparse.Namespace) -> int:
    """executorch-c validate"""
    if _is_bundled(args.model):
        return validate_bundled(args)
    for name in ("inputs", "expect"):
        if not getattr(args, name):
            raise ValueError(f"--{name} is needed: only a .bpte has test cases of its own")
    args.method = args.method or "forward"
    program = executorch_c.Runtime.get().load_program(args.model, data_path=args.data or None)
    about = find_method(program, args.method)
    inputs = make_inputs(about["inputs"], args.inputs, seed=0)
    method = program.load_method(args.method, kernels=args.kernels)
    outputs = method.execute(inputs)
    expected: list[object] = list(read_arrays(args.expect))
    tensors = [out for out in outputs if isinstance(out, np.ndarray)]
    if len(expected) == len(outputs):
        expected = [as_input(e, w) for e, w in zip(read_arrays(args.expect), about["outputs"])]
    elif len(expected) == len(tensors):  # `run --output` leaves None out
        outputs = list(tensors)
    comparison = testing.compare(outputs, expected, rtol=args.rtol, atol=args.atol)
    print(as_json(comparison) if args.json else comparison)
    return 0 if comparison else DIFFERENT
