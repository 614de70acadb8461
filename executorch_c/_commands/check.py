"""`executorch-c check`: a PyTorch model compared with its exported program."""

from __future__ import annotations

import argparse
import os
from typing import Any

from executorch_c import testing
from executorch_c._commands import _arguments, _keep, _models, _text_checks
from executorch_c._commands._calls import cases_of
from executorch_c._input_sets import names_many
from executorch_c._render import json as _json
from executorch_c.check import named

HELP = """\
Compare a program with its PyTorch model: export the model with the official flow, or take an
existing program, and compare its outputs with eager. Inputs are the example, random inputs, dynamic
shapes at their bounds, and --inputs. The official runtime runs the same cases, in a process of its
own. Needs torch and executorch.

    executorch-c check model.py:make --flow xnnpack
    executorch-c check model.pte --model model.py:make
    executorch-c check llm.pte --model model.py:make --prompt "def f("

The function takes no arguments. It returns the model, its example inputs and, optionally, a
dictionary of additional arguments of executorch_c.testing.check_model:

    def make():
        inputs = (torch.randn(1, 3, 224, 224),)
        return Net().eval(), inputs, {"real_inputs": load_pictures()}

"""
HELP += _arguments.EXIT_TEXT + "1: the official runtime refuses the program, or crashes.\n"


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "check", main, "export a PyTorch model and compare the program with it", HELP
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="function that returns the model, module:function or file.py:function; with --model: "
        "program, a .pte, .ptn or .bpte",
    )
    _models.add_model_function(parser)
    _arguments.add(parser, "--data")
    _models.add_flow(parser, "; default: portable")
    _arguments.add_input_sets(parser, "the model's example")
    parser.add_argument(
        "--random", type=_arguments.count, metavar="N", help="number of random calls; default: 3"
    )
    parser.add_argument(
        "--search",
        type=float,
        nargs="?",
        const=True,
        metavar="SECONDS",
        help="look for inputs that reach what the other cases do not, for 30 s or "
        "the seconds that are named: large numbers, ties, dead units, rare experts",
    )
    _arguments.add_method(parser, "forward")
    _arguments.add(parser, "--kernels", "--kv-cache")
    _arguments.add_checked_delegation(parser)
    parser.add_argument(
        "--engines",
        type=_engines,
        metavar="NAMES",
        help="here,official, or here: this runtime only; default: both",
    )
    parser.add_argument(
        "--official-seconds",
        type=float,
        metavar="S",
        help="time limit of a case in the official runtime; default: 20",
    )
    _arguments.add(parser, "--rtol", "--atol", "--min-sqnr")
    _arguments.add_policies(parser)
    _arguments.add_results(parser, picture=True)
    _keep.add_kept(parser)
    _arguments.add(parser, "--ladder")
    _text_checks.add_text_checks(parser)
    parser.set_defaults(seed=None)


def _engines(text: str) -> tuple[str, ...]:
    """Return the engines of an argument. Raises ArgumentTypeError."""
    from executorch_c.check.engines import engines_of

    return _arguments.read_by(engines_of, text)


def _program(args: argparse.Namespace) -> str | None:
    """Return the path of the program, or None. Report a wrong combination of options as a usage
    error."""
    if args.make:
        if args.flow:
            args.parser.error("--flow exports the model: --model takes an existing program")
        if args.save_pte:
            args.parser.error(f"--save-pte keeps what a flow exports: {args.model} is a program")
        path: str = args.model
        return path
    _models.check_flow(args)
    if os.path.isfile(args.model) and not args.model.endswith(".py"):
        args.parser.error(f"{args.model} is a program: pass its PyTorch model, --model M.py:F")
    return None


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c check`."""
    from executorch_c.check.cases import leaves, targets_of

    if _text_checks.is_text_check(args):
        return _text_checks.check_text(args)
    program = _program(args)
    cases = cases_of(args) if args.inputs else None
    model, example, options = named.model_and_inputs(args.make or args.model)
    if cases is not None:
        if names_many(args.inputs):
            options["real_inputs"] = cases
        if example is None or not names_many(args.inputs):
            example = next(iter(cases)).for_model(model, targets_of(leaves(((example,), {}))))
    asked: dict[str, Any] = {
        "n_random": args.random,
        "search": args.search,
        "seed": args.seed,
        "method": args.method,
        "rtol": args.rtol,
        "atol": args.atol,
        "data_path": args.data or None,
        "min_sqnr_db": args.min_sqnr,
        "program": program,
        "flow": args.flow if program is None else None,
        "kernels": None if args.kernels == "default" else args.kernels,
        "delegate_at_load": args.checks_delegated or None,
        "engines": args.engines,
        "official_seconds": args.official_seconds,
        **_arguments.policies(args),
    }
    options |= {name: value for name, value in asked.items() if value is not None}
    result = testing.check_model(model, example, **options)
    title = f"{args.model} ({args.make or args.flow or 'portable'})"
    _arguments.write_results(result, args, title)
    _keep.save(result, args)
    report = _keep.explained(result) if args.explain else None
    if args.json:
        more = {} if report is None else {"explain": report.as_dict()}
        print(_json.dumps(result.as_dict() | more))
        return _arguments.EXIT_CODES[result.verdict]
    print(result.text(hint=not any(not case.ok_here for case in result.cases)))
    if args.ladder:
        print(result.ladder())
    if report is not None:
        print(f"\n{report}")
    _keep.show_next(result, args, example)
    return _arguments.EXIT_CODES[result.verdict]
