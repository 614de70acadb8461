"""Options of commands for text programs."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from executorch_c._commands import _arguments

if TYPE_CHECKING:
    from executorch_c._delegation import DelegateAtLoad
    from executorch_c.llm.runner import TextRunner


def add_text_model(parser: argparse.ArgumentParser) -> None:
    """Add MODEL.pte, --data, --tokenizer, --method and --threads."""
    _arguments.add_model(parser, "text program, a .pte or .ptn")
    parser.add_argument(
        "--tokenizer",
        metavar="T",
        help="tokenizer.json, a folder with one, or a "
        "file of SentencePiece, tiktoken or llama2.c; default: in the folder "
        "of the program",
    )
    parser.add_argument(
        "--method",
        metavar="NAME",
        help="the only method to call; default: forward, or prefill and decode",
    )
    _arguments.add(parser, "--threads", "--kv-cache")


def tokenizer_of(model: str) -> str | None:
    """Return the path of the tokenizer in a program's folder; None if there is not exactly one."""
    from executorch_c.llm.tokenizers import IN_FOLDERS

    folder = os.path.dirname(model) or "."
    paths = [os.path.join(folder, name) for name in IN_FOLDERS]
    paths = [path for path in paths if os.path.isfile(path)]
    return paths[0] if paths else None


def open_runner(
    args: argparse.Namespace,
    delegate_at_load: DelegateAtLoad | None = None,
    may_encode: bool = False,
) -> TextRunner:
    """Return the runner of the arguments of `add_text_model`, with conflicts said on stderr.
    `may_encode`: the program may have an encoder."""
    from executorch_c.llm.encoder_decoder import open_program
    from executorch_c.llm.runner import TextRunner

    tokenizer = args.tokenizer or tokenizer_of(args.model)
    make = open_program if may_encode else TextRunner
    runner = make(
        args.model,
        tokenizer,
        args.data or None,
        method=args.method,
        num_threads=args.threads,
        delegate_at_load=delegate_at_load,
        kv_cache=args.kv_cache,
    )
    for conflict in runner.conflicts:
        _arguments.warn(conflict)
    return runner


def text_of(path: str) -> str:
    """Return the text of a file, or of stdin for "-". Raises ValueError if it is not UTF-8."""
    try:
        if path == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8: {error}") from error


def ids_of(text: str) -> list[int]:
    """Return token ids of "1,2,3": the argparse type."""
    try:
        return [int(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of token ids") from None
