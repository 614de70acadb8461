"""`executorch-c check` of language models: options, and the call of check_llm."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from executorch_c._commands import _arguments, _text_models
from executorch_c._commands._calls import cases_of
from executorch_c._input_files import read_arrays
from executorch_c._input_sets import names_many
from executorch_c._commands._models import Parser
from executorch_c.check import named

WITHOUT = {
    "flow": "--flow",
    "random": "--random",
    "atol": "--atol",
    "save_pte": "--save-pte",
    "save_inputs": "--save-inputs",
    "save_outputs": "--save-outputs",
    "save_expected": "--save-expected",
    "explain": "--explain",
    "require": "--require",
    "metric": "--metric",
}
"""Options of other programs."""
UNSET: tuple[object, ...] = (None, False, [])
"""Values of options that are not given."""


def add_text_checks(parser: argparse.ArgumentParser) -> None:
    """Add the options of language models."""
    group: Parser = parser.add_argument_group(
        "language models",
        "Logits of prompts, called in several ways (check_llm); --rtol is "
        "relative to the RMS of the logits. Without --model or --reference, the program is "
        "compared with itself. --inputs are those of the encoder, if the program has one.",
    )
    group.add_argument(
        "--llm", action="store_true", help="check a language model; implied by the options below"
    )
    group.add_argument("--prompt", metavar="TEXT", help="prompt; default: two random ones")
    group.add_argument(
        "--prompts", metavar="P.txt", help="text file, each line of which is a prompt"
    )
    group.add_argument(
        "--ids", type=_text_models.ids_of, metavar="1,2,3", help="prompt as token ids"
    )
    group.add_argument(
        "--tokenizer", metavar="T", help="tokenizer; default: in the folder of the program"
    )
    group.add_argument(
        "--reference",
        metavar="R.pte",
        help="program as the reference: a float one for a quantised one",
    )
    group.add_argument(
        "--length",
        type=_arguments.positive,
        metavar="N",
        help="maximum number of tokens of long cases; default: the context, at most 1,024",
    )


def is_text_check(args: argparse.Namespace) -> bool:
    """Return True if an option of language models is given."""
    return bool(
        args.llm
        or args.prompt
        or args.prompts
        or args.ids
        or args.tokenizer
        or args.reference
        or args.length
    )


def _check_options(args: argparse.Namespace) -> None:
    """Report wrong combinations as usage errors."""
    wrong = [option for name, option in WITHOUT.items() if getattr(args, name) not in UNSET]
    if wrong:
        args.parser.error(f"{wrong[0]} is not an option of language models")
    if args.kernels != "default":
        args.parser.error("--kernels is not an option of language models")
    if args.make and args.reference:
        args.parser.error("pass --model or --reference, not both")
    if not os.path.isfile(args.model):
        args.parser.error(f"{args.model} is not a file: a language model is checked as a program")


def _encoder_inputs(args: argparse.Namespace) -> list[Any]:
    """Return the inputs of an encoder, one for each prompt: the arrays of a file, or the only one
    of each file of a set."""
    if not names_many(args.inputs):
        return list(read_arrays(args.inputs).values())
    inputs = list[Any]()
    for case in cases_of(args):
        values = list(case.arrays(()).values()) if case.path is not None else [case.value]
        if len(values) != 1:
            raise ValueError(
                f"{case.path}: {len(values)} arrays, expected one input of the encoder"
            )
        inputs += values
    return inputs


def check_text(args: argparse.Namespace) -> int:
    """Run `executorch-c check` for a language model."""
    from executorch_c.llm import check_llm

    _check_options(args)
    args.threads = None
    runner = _text_models.open_runner(args, args.checks_delegated, may_encode=True)
    model = args.reference
    if args.make:
        model = named.model_and_inputs(args.make)[0]
    prompts = [one for one in (args.prompt, args.ids) if one is not None]
    if args.prompts:
        prompts += _text_models.text_of(args.prompts).splitlines()
    prompts = [one for one in prompts if not isinstance(one, str) or one.strip()]
    if args.prompts and not prompts:
        args.parser.error(f"{args.prompts} has no prompts")
    inputs = _encoder_inputs(args) if args.inputs else None
    report = check_llm(
        model,
        prompts[: args.max_cases] or None,
        program=runner,
        length=args.length,
        encoder_inputs=inputs,
        engines=args.engines,
        official_seconds=args.official_seconds,
        relative=args.rtol,
        min_sqnr_db=args.min_sqnr,
        seed=args.seed or 0,
        progress=None if sys.stderr.isatty() else False,
    )
    _arguments.show(report, args)
    return _arguments.EXIT_CODES[report.verdict]
