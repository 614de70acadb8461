"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from executorch_c._core import Program

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What `add` of a command gets: where parsers of commands are added."""


DIFFERENT = 3
"""The exit code that says: outputs differ."""


def tolerance(text: str) -> float:
    """An argument that is a number of at least 0."""
    value = float(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"expected 0 or more, got {text}")
    return value


def positive(text: str) -> int:
    """An argument of type int that is at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {value}")
    return value


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    description: str = "",
) -> argparse.ArgumentParser:
    """The parser of a command; its description keeps its lines."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=description or summary[0].upper() + summary[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=run)
    return parser


def add_model(parser: argparse.ArgumentParser, text: str | None = None) -> None:
    """MODEL.pte and --data."""
    parser.add_argument("model", metavar="MODEL.pte", help=text)
    parser.add_argument(
        "--data", action="append", default=[], metavar="X.ptd", help="weights; may be repeated"
    )


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """--inputs"""
    parser.add_argument("--inputs", metavar="X.npz", help=".npz or .npy file with the inputs")


def add_tolerances(parser: argparse.ArgumentParser) -> None:
    """--rtol and --atol"""
    parser.add_argument("--rtol", type=tolerance, help="relative to |expected|; default by dtype")
    parser.add_argument("--atol", type=tolerance, help="default by dtype")


def add_kernels(parser: argparse.ArgumentParser) -> None:
    """--kernels"""
    parser.add_argument(
        "--kernels", choices=("default", "reference"), default="default",
        help="reference: plain loops only",
    )  # fmt: skip


def add_json(parser: argparse.ArgumentParser, text: str = "all figures, as JSON") -> None:
    """--json"""
    parser.add_argument("--json", action="store_true", help=text)


def add_html(parser: argparse.ArgumentParser) -> None:
    """--html"""
    parser.add_argument("--html", metavar="F.html", help="write a page with where they differ")


def open_program(args: argparse.Namespace) -> Program:
    """The program of `add_model`."""
    from executorch_c import Runtime

    return Runtime.get().load_program(args.model, data_path=args.data or None)


def add_method(parser: argparse.ArgumentParser) -> None:
    """--method, for `method_of`"""
    parser.add_argument("--method", help="default: forward, or the only one")


def method_of(program: Program, name: str | None) -> str:
    """The method that is meant where none is named."""
    names = sorted(program.method_names)
    if name is not None:
        return name
    if len(names) > 1 and "forward" not in names:
        raise ValueError(f"--method is needed: the program has {', '.join(names)}")
    return "forward" if "forward" in names else names[0]
