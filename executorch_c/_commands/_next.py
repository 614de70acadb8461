"""Command lines to go on with, ready to paste, and the files that they name."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence

LOADED = ("--data", "--method", "--kernels", "--kv-cache", "--delegate-at-load")
"""Options of commands that load a method."""
COMPARED = (*LOADED, "--rtol", "--atol")
"""Options of commands that compare."""


def command_line(*words: str) -> str:
    """Return a line for the shell that calls executorch-c with words, quoted where needed."""
    line = ["executorch-c", *words]
    return subprocess.list2cmdline(line) if os.name == "nt" else shlex.join(line)


def given(args: argparse.Namespace, names: Sequence[str] = COMPARED) -> list[str]:
    """Return the options of a command's own line that are among `names`, as they were written."""
    return [word for name, words in _options(args) if name in names for word in words]


def _options(args: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Yield the options of the command's line: the name that it begins with in help, and its
    words."""
    known: dict[str, argparse.Action] = args.parser._option_string_actions
    words = iter(getattr(args, "words", ()))
    for word in words:
        name, equals, _ = word.partition("=")
        matches = [name] if name in known else [one for one in known if one.startswith(name)]
        if not name.startswith("-") or not matches:
            continue
        action = known[matches[0]]
        takes_value = action.nargs is None and not equals
        yield action.option_strings[0], [word, next(words)] if takes_value else [word]


def new_file(name: str) -> str:
    """Return the path of a file in a new folder, which stays: the one for temporary files of the
    system has it."""
    return os.path.join(tempfile.mkdtemp(prefix="executorch-c-"), name)


MODEL = "M.py:F"
"""Stands for the function that returns the model, which the command does not know."""
ABOUT_MODEL = f"{MODEL}: the function that returns the model, as for `check`"


def explain_by_model(args: argparse.Namespace, program: str, inputs: str) -> None:
    """Print the call of explain for a program whose model the command does not know."""
    words = ["explain", program, "--model", MODEL, "--inputs", inputs, *given(args)]
    show(command_line(*words), ABOUT_MODEL)


def show(line: str, about: str = "") -> None:
    """Print the next command; `about` says what in it has to be replaced."""
    print(f"next: {line}" + (f"\n  {about}" if about else ""))
