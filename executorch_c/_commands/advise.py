"""`executorch-c advise`: the fewest layers to keep in float for a wanted accuracy."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments, _models
from executorch_c._commands._calls import cases_of
from executorch_c._input_sets import input_set, names_many
from executorch_c._paths import write_bytes
from executorch_c.check import named

HELP = """\
Find the fewest layers to keep in float so that a quantised program reaches a target. Prints the
layers, the programs with time and size (all quantised, advised, float), and the configuration of
the flow's quantiser as code. The program is exported and run here: the target is reached by it.
Needs torch and executorch.

    executorch-c advise model.py:make --flow xnnpack-int8 --target 30dB
    executorch-c advise model.py:make --flow xnnpack-int8 \\
      --target 'top1>=0.99' --inputs images

The function takes no arguments and returns the model in eval mode, and its example inputs. The
example and --inputs calibrate; the target is measured on the same calls, or on those of --held-out.

Exit code: 0 reached, 3 not reached.
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "advise", main, "find the layers to keep in float for a wanted accuracy", HELP
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        type=_models.function_name,
        help="function that returns the model: module:function or file.py:function",
    )
    _models.add_flow(parser)
    parser.add_argument(
        "--target",
        action="append",
        required=True,
        type=_target,
        metavar="T",
        help="30dB: the SQNR of the outputs against the float model; or a requirement as for "
        "--require of other commands: 'top1>=0.99'; repeatable",
    )
    _arguments.add_input_sets(parser, "the model's example")
    parser.add_argument(
        "--held-out",
        metavar="X.npz",
        help="inputs on which the target is measured, in the forms of --inputs; default: those "
        "that calibrate",
    )
    _arguments.add_method(parser, "forward")
    parser.add_argument(
        "--save-pte",
        metavar="M.pte",
        type=_arguments.output_file(),
        help="write the advised program",
    )
    _arguments.add_results(parser)
    parser.set_defaults(seed=None)


def _target(text: str) -> str:
    from executorch_c.advice.targets import targets_of

    _arguments.read_by(targets_of, text)
    return text


def _check_flow(args: argparse.Namespace) -> None:
    """Report a flow that cannot be told as a usage error."""
    from executorch_c.advice.configuration import configuration_of

    if args.flow is None:
        args.parser.error("the following arguments are required: --flow")
    _models.check_flow(args)
    try:
        configuration_of(args.flow)
    except ValueError as error:
        args.parser.error(f"argument --flow: {error}")


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c advise`."""
    from executorch_c.check.cases import leaves, targets_of
    from executorch_c.devtools import advise

    _check_flow(args)
    cases = cases_of(args) if args.inputs else None
    model, example, options = named.model_and_inputs(args.model)
    real = options.get("real_inputs", ())
    if cases is not None:
        real = cases if names_many(args.inputs) else ()
        if example is None or not names_many(args.inputs):
            example = next(iter(cases)).for_model(model, targets_of(leaves(((example,), {}))))
    held_out = input_set(args.held_out, max_cases=args.max_cases) if args.held_out else ()
    report = advise(
        model,
        example,
        flow=args.flow,
        target=args.target,
        real_inputs=real,
        held_out=held_out,
        method=args.method or options.get("method", "forward"),
        title=args.model,
    )
    if args.save_pte:
        write_bytes(args.save_pte, report.advised.data)
    _arguments.show(report, args)
    return _arguments.EXIT_CODES[report.verdict]
