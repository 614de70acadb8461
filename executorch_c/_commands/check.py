"""`executorch-c check`: a PyTorch model beside the program that is exported from it."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

from executorch_c import testing
from executorch_c._commands import _arguments
from executorch_c.check.flows import FLOWS

HELP = """\
Exports a PyTorch model with the official flow, or takes a program that was made from it, and checks
it against eager on the example, on random inputs, at the bounds of dynamic shapes, and on inputs
that are given. Needs torch and executorch.

MODEL is module:function or file.py:function. The function takes nothing and returns the model and
its example inputs, and perhaps a dictionary of further arguments of
executorch_c.testing.check_model:

    def make():
        return Net().eval(), (torch.randn(1, 3, 224, 224),), {"real_inputs": load_pictures()}

"""
HELP += _arguments.EXIT_TEXT


def add(commands: _arguments.Commands) -> None:
    """The parser."""
    parser = _arguments.add_command(
        commands, "check", main, "export a PyTorch model and compare the program with it", HELP
    )
    parser.add_argument("model", metavar="MODEL", help="module:function or file.py:function")
    parser.add_argument(
        "--flow", default="portable", metavar="FLOW",
        help="portable, xnnpack, xnnpack-int8, xnnpack-dynamic, or a .pte or .bpte file; "
        "default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--data", action="append", default=[], metavar="X.ptd", help="weights of a .pte file"
    )
    parser.add_argument("--random", type=int, metavar="N", help="random calls; default: 3")
    parser.add_argument("--seed", type=int, help="of random inputs; default: 0")
    parser.add_argument("--method", help="default: forward")
    _arguments.add_tolerances(parser)
    _arguments.add_min_sqnr(parser)
    _arguments.add_json(parser)
    _arguments.add_html(parser)


def _load(path: str) -> Any:
    """A file as a module."""
    spec = importlib.util.spec_from_file_location("executorch_c_checked", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec.loader.exec_module(module)
    return module


def find(text: str) -> Callable[[], Any]:
    """The function that "module:function" names. Raises ValueError."""
    place, _, name = text.rpartition(":")
    if not place or not name:
        raise ValueError(f"'{text}' is no module:function")
    if place.endswith(".py"):
        module = _load(place)
    else:
        sys.path.insert(0, os.getcwd())
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name and place.startswith(error.name):
                raise ValueError(f"there is no module '{place}'") from None
            raise
    found = getattr(module, name, None)
    if not callable(found):
        raise ValueError(f"{place} has no function '{name}'")
    function: Callable[[], Any] = found
    return function


def made(text: str) -> tuple[Any, Any, dict[str, Any]]:
    """Model, example and further arguments. Raises ValueError."""
    parts = find(text)()
    if not isinstance(parts, tuple) or len(parts) not in (2, 3):
        raise ValueError(
            f"{text} returns a {type(parts).__name__}, expected (model, example_inputs) or (model, "
            "example_inputs, arguments of check_model)"
        )
    model, example, *more = parts
    return model, example, dict(more[0]) if more else {}


def main(args: argparse.Namespace) -> int:
    """executorch-c check"""
    model, example, options = made(args.model)
    asked = {"n_random": args.random, "seed": args.seed, "method": args.method, "rtol": args.rtol,
             "atol": args.atol, "data_path": args.data or None,
             "min_sqnr_db": args.min_sqnr}  # fmt: skip
    options |= {name: value for name, value in asked.items() if value is not None}
    if os.path.exists(args.flow) and args.flow not in FLOWS:
        options["program"] = args.flow
    result = testing.check_model(
        model, example, **{"flow": None if "program" in options else args.flow, **options}
    )
    if args.html:
        result.to_html(args.html, f"{args.model} ({args.flow})")
    print(result.to_json() if args.json else result)
    return _arguments.EXIT_CODES[result.verdict]
