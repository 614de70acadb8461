"""`executorch-c demo`: run the digit classifier of the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import executorch_c
from executorch_c._render import json as _json
from executorch_c._render import text as _text
from executorch_c._commands import _arguments
from executorch_c._commands._calls import call_times, describe_times

LIMIT = 1e-4
"""Largest accepted difference from the outputs of PyTorch eager."""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "demo", main, "classify digits and compare with eager PyTorch"
    )
    _arguments.add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c demo`."""
    folder = Path(executorch_c.__file__).parent / "examples"
    with np.load(folder / "digits.npz") as data:
        images, expected, labels = data["inputs"], data["expected"], data["labels"]
    method = executorch_c.Runtime.get().load_program(folder / "digits.pte").load_method("forward")
    [outputs], times = call_times(lambda: method.execute([images]), 20)
    predicted = outputs.argmax(axis=1)
    difference = float(np.abs(outputs - expected).max())
    if args.json:
        print(
            _json.dumps(
                {
                    "ok": difference <= LIMIT,
                    "predicted": predicted.tolist(),
                    "label": labels.tolist(),
                    "difference": difference,
                    "seconds": times,
                }
            )
        )
        return 0 if difference <= LIMIT else 1
    shown = 20
    print(f"digits.pte on {len(labels)} images of handwritten digits, the first {shown}:")
    print(
        _text.table(
            [
                ["predicted", *map(str, predicted[:shown])],
                ["label", *map(str, labels[:shown])],
            ]
        )
    )
    print(f"right      {int((predicted == labels).sum())} of {len(labels)} images")
    print(f"difference {difference:.1e} at most from eager PyTorch's outputs")
    print(f"time       {describe_times(times)}")
    if difference <= LIMIT:
        return 0
    print(f"executorch-c: error: outputs differ by more than {LIMIT:g}", file=sys.stderr)
    return 1
