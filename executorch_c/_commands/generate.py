"""`executorch-c generate`: text from a text program, piece by piece."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from executorch_c import _streams
from executorch_c._commands import _arguments, _text_models
from executorch_c._render import json as _json

if TYPE_CHECKING:
    from executorch_c.llm.chat import Chat
    from executorch_c.llm.runner import TextRunner

HELP = """\
Generate text with a language model, without torch. Text is printed while it is
generated; tokens/s are printed on stderr.

The default is greedy: the same prompt gives the same text. --temperature,
--top-k, --top-p, --min-p and --seed draw tokens at random. --sampler official
makes the choices of ExecuTorch's own runner.

--chat uses the tokenizer's chat template and, without --prompt, reads messages
from stdin. Without a tokenizer, --ids takes and prints token ids.
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "generate", main, "generate text with a language model", HELP
    )
    _text_models.add_text_model(parser)
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument("--prompt", metavar="TEXT", help="the prompt; - reads stdin")
    prompt.add_argument(
        "--ids", type=_text_models.ids_of, metavar="1,2,3", help="the prompt as token ids"
    )
    parser.add_argument("--chat", action="store_true", help="use the chat template")
    parser.add_argument("--system", metavar="TEXT", help="system message of a chat")
    _add_sampling(parser)
    _arguments.add_delegation(parser)
    _arguments.add_json(parser, "print text, ids, log probabilities and times as JSON")


def _add_sampling(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose tokens and end the text."""
    parser.add_argument(
        "--max-new-tokens",
        type=_arguments.positive,
        metavar="N",
        help="default: as many as fit into the context",
    )
    for name, default, text in (
        ("temperature", 0.0, "0: the most likely token; default: %(default)s"),
        ("top-p", 1.0, "most likely tokens up to this probability; default: %(default)s"),
        ("min-p", 0.0, "least probability, relative to the largest; default: %(default)s"),
        ("repetition-penalty", 1.0, "above 1: earlier tokens are less likely; default: 1"),
    ):
        parser.add_argument(f"--{name}", type=float, default=default, metavar="X", help=text)
    parser.add_argument(
        "--top-k",
        type=_arguments.count,
        default=0,
        metavar="N",
        help="the N most likely tokens; default: all",
    )
    parser.add_argument(
        "--seed", type=_arguments.count, metavar="N", help="seed of the sampler; default: random"
    )
    parser.add_argument(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help="text that ends the generation; repeatable",
    )
    parser.add_argument("--no-bos", action="store_true", help="do not begin with BOS")
    parser.add_argument(
        "--ignore-eos", action="store_true", help="go on after an end-of-sequence token"
    )
    parser.add_argument(
        "--sampler",
        choices=("default", "official"),
        default="default",
        help="official: the choices of ExecuTorch's runner",
    )


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of TextRunner.stream."""
    names = (
        "max_new_tokens",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "repetition_penalty",
        "seed",
        "stop",
        "ignore_eos",
        "sampler",
    )
    options = {name: getattr(args, name) for name in names}
    return {**options, "logprobs": args.json}


def write(pieces: Iterator[str], quiet: bool) -> None:
    """Print pieces as they come, unless `quiet`, while somebody reads them."""
    for piece in pieces:
        if not quiet:
            sys.stdout.write(piece)
            sys.stdout.flush()
            _streams.stop_without_reader()
    if not quiet:
        sys.stdout.write("\n")


def talk(chat: Chat, args: argparse.Namespace) -> None:
    """Answer the message of --prompt, or all lines of stdin."""
    lines = [args.prompt] if args.prompt else iter(_asked, None)
    for line in lines:
        assert line is not None
        write(chat.stream(line), args.json)
        assert chat.last is not None
        if args.json:
            print(_json.dumps(chat.last.as_dict()))
        else:
            print(f"[{chat.last.stats}]", file=sys.stderr)


def _asked() -> str | None:
    """Return the next line of stdin that is not empty; None at its end."""
    while True:
        if sys.stdin.isatty():
            print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            return None
        if line.strip():
            return line.rstrip("\n")


def complete(runner: TextRunner, args: argparse.Namespace) -> None:
    """Continue --prompt or --ids."""
    prompt: Any = args.ids
    if prompt is None:
        prompt = _text_models.text_of("-") if args.prompt == "-" else args.prompt
    bos = False if args.no_bos else None
    stream = runner.stream(prompt, bos=bos, **options_of(args))
    write(stream, args.json or runner.tokenizer is None)
    result = stream.result
    if args.json:
        print(_json.dumps(result.as_dict()))
        return
    if runner.tokenizer is None:
        print(",".join(map(str, result.ids)))
    print(f"[{result.stats}; {result.finish_reason}]", file=sys.stderr)


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c generate`."""
    if args.prompt is None and args.ids is None and not args.chat:
        args.parser.error("pass --prompt, --ids or --chat")
    if args.chat and args.ids is not None:
        args.parser.error("--chat takes --prompt, not --ids")
    if args.chat and args.prompt == "-":
        args.prompt = _text_models.text_of("-")
    runner = _text_models.open_runner(args)
    if args.chat:
        from executorch_c.llm.chat import Chat

        talk(Chat(runner, args.system, **options_of(args)), args)
    else:
        complete(runner, args)
    return 0
