"""`executorch-c perplexity`: perplexity of a text program on a text."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments, _text_models

HELP = """\
Compute the perplexity of a language model on a text, with a 95 % confidence
interval.

The text is read in windows of the context's length that overlap by half; each
token is predicted once. Bits per byte can be compared between models with
different tokenizers.
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "perplexity", main, "compute the perplexity of a language model", HELP
    )
    _text_models.add_text_model(parser)
    text = parser.add_mutually_exclusive_group(required=True)
    text.add_argument("--text", metavar="F.txt", help="the text, UTF-8; - reads stdin")
    text.add_argument(
        "--ids", type=_text_models.ids_of, metavar="1,2,3", help="the text as token ids"
    )
    parser.add_argument(
        "--window",
        type=_arguments.positive,
        metavar="N",
        help="tokens of a window; default: the context",
    )
    parser.add_argument(
        "--stride",
        type=_arguments.positive,
        metavar="N",
        help="distance of windows; default: half a window",
    )
    parser.add_argument("--no-bos", action="store_true", help="do not begin with BOS")
    _arguments.add_delegation(parser)
    _arguments.add_results(parser)


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c perplexity`."""
    from executorch_c.llm.losses import perplexity

    runner = _text_models.open_runner(args)
    text = args.ids if args.text is None else _text_models.text_of(args.text)
    report = perplexity(
        runner, text, window=args.window, stride=args.stride, bos=False if args.no_bos else None
    )
    _arguments.show(report, args)
    return 0
