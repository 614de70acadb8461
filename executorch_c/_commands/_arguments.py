"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from executorch_c._core import Program
    from executorch_c.compare.tolerance import Verdict
    from executorch_c.debug.report import ErrorReport

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What `add` of a command gets: where parsers of commands are added."""


EXIT_CODES: dict[Verdict, int] = {"match": 0, "differ": 3, "inconclusive": 4}
"""Exit code of a command by its verdict."""
EXIT_TEXT = """\
The exit code is 0 where all match, 3 where something differs, 4 where nothing could be told (no
outputs, or expected ones that are constant, all zero, all NaN or empty).
"""


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
    parser.set_defaults(command=run, parser=parser)
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


def add_rows(parser: argparse.ArgumentParser) -> None:
    """--top, --all and --sort, for a report's table"""
    count = parser.add_mutually_exclusive_group()
    count.add_argument("--top", type=positive, metavar="N", default=12,
                       help="rows of the table, the most important; default: %(default)s")
    count.add_argument("--all", action="store_const", const=None, dest="top", help="all rows")
    parser.add_argument("--sort", choices=("order", "error"), default="order",
                        help="rows by order of execution (default) or by error")


def print_report(report: ErrorReport, args: argparse.Namespace) -> None:
    """Print a report as --json, --top, --all and --sort ask for."""
    print(report.to_json() if args.json else report.text(args.top, args.sort))


def add_tolerances(parser: argparse.ArgumentParser) -> None:
    """--rtol and --atol"""
    parser.add_argument(
        "--rtol", type=tolerance,
        help="with --atol: an element matches where |actual - expected| <= atol + rtol |expected|",
    )  # fmt: skip
    parser.add_argument(
        "--atol", type=tolerance, help="default of both: by dtype, scale and rounding noise"
    )


def add_min_sqnr(parser: argparse.ArgumentParser) -> None:
    """--min-sqnr"""
    parser.add_argument(
        "--min-sqnr", type=float, metavar="DB",
        help="least signal-to-quantisation-noise ratio of a quantised program against float "
        "outputs, in decibel; default: 10 (15 for dynamic quantisation)",
    )  # fmt: skip


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
    from executorch_c._programs import opened

    return opened(args.model, args.data).program


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
