"""Command-line options that several commands share: one function for each option.

Invalid values fail here, before any work.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, TypeVar

from executorch_c._render.figures import NothingToDraw
from executorch_c._render.text import did_you_mean, shortened, unknown
from executorch_c._input_sets import MAX_CASES
from executorch_c.compare.policies import METRICS

if TYPE_CHECKING:
    from executorch_c._core import KVCache, Program
    from executorch_c._programs import ProgramFile
    from executorch_c.compare.verdicts import Verdict
    from executorch_c.report import Report

T = TypeVar("T")
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The argument of a command's `add`: the subparsers action of argparse."""


EXIT_CODES: dict[Verdict | Literal["error"], int] = {
    "match": 0,
    "error": 1,
    "differ": 3,
    "inconclusive": 4,
}
"""Exit code of a command by its verdict."""
INTERRUPTED = 130
"""Exit code after Ctrl-C."""
EXIT_TEXT = """\
Exit code: 0 match, 3 differ, 4 inconclusive (no outputs; or expected outputs that are empty,
constant, all zero or all NaN).
"""

DELEGATE_AT_LOAD = "EXECUTORCH_C_DELEGATE_AT_LOAD"
"""Environment variable: the default of `Program.load_method(delegate_at_load=)`."""

FORMATS = (".html", ".json", ".csv", ".txt")
PICTURES = (".svg", ".png", ".pdf")
"""File extensions of reports."""


# ---- types ------------------------------------------------------------------------------------


def tolerance(text: str) -> float:
    """Return a number of at least 0."""
    value = float(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"expected 0 or more, got {text}")
    return value


def positive(text: str) -> int:
    """Return an int of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {value}")
    return value


def count(text: str) -> int:
    """Return an int of at least 0."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected 0 or more, got {value}")
    return value


def seconds(text: str) -> float:
    """Return a finite number of more than 0."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected more than 0 and finite, got {text}")
    return value


def numbers(text: str) -> list[float]:
    """Return the numbers of "0.485,0.456,0.406"."""
    return [float(part) for part in text.split(",")]


EXPECTED: dict[object, str] = {
    int: "a whole number",
    float: "a number",
    tolerance: "a number",
    positive: "a whole number",
    count: "a whole number",
    seconds: "a number of seconds",
    numbers: "numbers, such as 0.5,1",
}
"""Values that each type expects, for its error message."""


def _windows(text: str) -> int | list[int | None] | None:
    """Return the window of a KV cache: "512" for all layers, "none/512" by layer."""
    each = [None if part == "none" else positive(part) for part in text.split("/")]
    return each[0] if len(each) == 1 else each


KV_CACHE: dict[str, Callable[[str], object]] = {
    "capacity": positive,
    "n_layers": positive,
    "n_kv_heads": positive,
    "head_dim": positive,
    "dtype": str,
    "window": _windows,
}
"""Types of the arguments of a KV cache."""


def read_by(read: Callable[[str], T], text: str) -> T:
    """Return what a function reads in an argument; its error is the message of the usage error."""
    try:
        return read(text)
    except (ValueError, ImportError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def kv_cache(text: str) -> KVCache:
    """Return the KV cache of "capacity=1024,window=512", or of "1024": the argparse type."""
    from executorch_c import Error, KVCache

    values: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        name, value = (name, value) if equals else ("capacity", name)
        if name not in KV_CACHE or name in values:
            what = "is there twice" if name in values else f"is none of {', '.join(KV_CACHE)}"
            raise argparse.ArgumentTypeError(f"{name!r} {what}")
        try:
            values[name] = KV_CACHE[name](value)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{name}={value}: expected a number") from None
    if "capacity" not in values:
        raise argparse.ArgumentTypeError("expected capacity=N, the number of positions")
    try:
        return KVCache(**values)
    except (ValueError, Error) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def output_file(*endings: str) -> Callable[[str], str]:
    """Return the argparse type of an output file: its folder must exist, and its extension be one
    of `endings`."""

    def check(text: str) -> str:
        folder = os.path.dirname(text) or "."
        if not os.path.isdir(folder):
            raise argparse.ArgumentTypeError(f"{text}: folder {folder} does not exist")
        if os.path.isdir(text):
            raise argparse.ArgumentTypeError(f"{text} is a folder, expected a file")
        if endings and Path(text).suffix.lower() not in endings:
            known = ", ".join(endings)
            raise argparse.ArgumentTypeError(f"{text!r}: expected a name that ends with {known}")
        return text

    return check


def folder(text: str) -> str:
    """Return the path of a folder that exists, or is new in one that does: the argparse type."""
    if not os.path.isdir(text) and not os.path.isdir(os.path.dirname(os.path.abspath(text))):
        raise argparse.ArgumentTypeError(f"{text}: folder {os.path.dirname(text)} does not exist")
    return text


def new_folder(text: str) -> str:
    """Return the path of a folder that is new or empty, in one that exists: the argparse type."""
    if not os.path.isdir(os.path.dirname(os.path.abspath(text))):
        raise argparse.ArgumentTypeError(f"{text}: folder {os.path.dirname(text)} does not exist")
    if os.path.exists(text) and not (os.path.isdir(text) and not os.listdir(text)):
        raise argparse.ArgumentTypeError(f"{text}: expected a new or empty folder")
    return text


# ---- parsers ----------------------------------------------------------------------------------


class HelpFormatter(argparse.HelpFormatter):
    """Fill paragraphs and usages to the width of the terminal; keep indented blocks as they are."""

    def _format_usage(self, *args: Any) -> str:
        """Return the usage; if the command's name leaves too little room beside it for an option,
        lines after the first begin below it."""
        usage = super()._format_usage(*args)
        if max(map(len, usage.splitlines())) <= self._width:
            return usage
        return re.sub(r"\n +", "\n" + " " * len("usage: "), usage)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        blocks = text.strip("\n").split("\n\n")
        return "\n\n".join(self._block(block, width, indent) for block in blocks)

    def _block(self, block: str, width: int, indent: str) -> str:
        if any(line.startswith(" ") for line in block.splitlines()):
            return block
        return textwrap.fill(
            block,
            width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
            break_long_words=False,
        )


class Parser(argparse.ArgumentParser):
    """A parser whose errors have one line of usage, and the name that is most like an unknown
    one."""

    def error(self, message: str) -> NoReturn:
        """Print usage and error; exit with code 2."""
        words = [
            action.metavar or action.dest
            for action in self._get_positional_actions()
            if action.nargs not in ("?", "*")
        ]
        usage = " ".join([self.prog, "[OPTIONS]", *map(str, words)])
        self.exit(2, f"usage: {usage} (see --help)\n{self.prog}: error: {message}\n")

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        try:
            return super()._get_value(action, text)
        except argparse.ArgumentError as error:
            if action.type not in EXPECTED or not isinstance(error.__context__, ValueError):
                raise
            expected = f"expected {EXPECTED[action.type]}, got {shortened(text, 40)!r}"
            raise argparse.ArgumentError(action, expected) from None

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Report words that are no arguments of the command."""
        hints = (did_you_mean(word, self._option_string_actions) for word in words)
        hint = next(filter(None, hints), "")
        self.error(f"unrecognized arguments: {' '.join(words)}{hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            found = unknown(str(value), map(str, action.choices))
            raise argparse.ArgumentError(action, f"found {found}")


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    description: str = "",
) -> argparse.ArgumentParser:
    """Add the parser of a command and return it; its description is filled, code is indented."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=description or summary[0].upper() + summary[1:] + ".",
        formatter_class=HelpFormatter,
    )
    parser.set_defaults(command=run, parser=parser)
    return parser


PROGRAM = "program, a .pte, .ptn or .bpte"


def add_model(parser: argparse.ArgumentParser, text: str = PROGRAM) -> None:
    """Add MODEL.pte and --data."""
    parser.add_argument("model", metavar="MODEL.pte", help=text)
    add(parser, "--data")


OPTIONS: dict[str, dict[str, Any]] = {
    "--data": dict(
        action="append", default=[], metavar="X.ptd", help="weights of the program; repeatable"
    ),
    "--seed": dict(
        type=int,
        default=0,
        metavar="N",
        help="seed of random inputs and random operators; default: 0",
    ),
    "--threads": dict(
        type=positive, metavar="N", help="number of threads; default: CPUs of the process"
    ),
    "--repeat": dict(
        type=positive, default=1, metavar="N", help="number of calls; default: %(default)s"
    ),
    "--ladder": dict(
        action="store_true",
        help="also show the steps (eager, exported, decomposed, quantised, lowered, delegated), "
        "each with its verdict and SQNR, and the first that loses",
    ),
    "--rtol": dict(
        type=tolerance,
        metavar="R",
        help="relative tolerance: an element matches if "
        "|actual - expected| <= atol + rtol |expected|",
    ),
    "--atol": dict(
        type=tolerance,
        metavar="A",
        help="absolute tolerance; default of both: by dtype, scale and rounding noise",
    ),
    "--min-sqnr": dict(
        type=float,
        metavar="DB",
        help="minimum signal-to-quantisation-noise ratio (SQNR) of a quantised program against "
        "float outputs, in dB; default: 10, with weights of 8 bits and float or dynamic "
        "activations 15; an error where it has no effect",
    ),
    "--kv-cache": dict(
        type=kv_cache,
        metavar="C",
        help="cache of keys and values that the program expects of its runner: "
        "capacity=1024,dtype=float16,window=512, with the arguments of executorch_c.KVCache; "
        "window=none/512 has one for each layer",
    ),
    "--debug-buffer": dict(metavar="F", help="file with the values of the ETDump"),
    "--time-scale": dict(
        choices=("ns", "us", "ms", "s", "cycles"),
        default="ns",
        help="unit of the device's clock; default: ns",
    ),
    "--kernels": dict(
        choices=("default", "reference"),
        default="default",
        help="kernels of operators; reference: plain loops only",
    ),
}
"""Options that commands share, with the arguments of add_argument."""


def add(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add shared options."""
    for name in names:
        parser.add_argument(name, **OPTIONS[name])


def add_method(parser: argparse.ArgumentParser, default: str = "forward, or the only one") -> None:
    """Add --method, for `method_of`."""
    parser.add_argument("--method", metavar="NAME", help=f"name of the method; default: {default}")


def add_inputs(parser: argparse.ArgumentParser, otherwise: str = "random") -> None:
    """Add --inputs and --seed."""
    parser.add_argument(
        "--inputs", metavar="X.npz", help=f"inputs, an .npz or .npy file; default: {otherwise}"
    )
    add(parser, "--seed")


def add_input_sets(parser: argparse.ArgumentParser, otherwise: str = "random") -> None:
    """Add --inputs of one case or many, --seed, --max-cases, --image-mean and --image-std."""
    parser.add_argument(
        "--inputs",
        metavar="X.npz",
        help="inputs: an .npz or .npy file; of many cases, a folder, a pattern '*.npz' (.png, .jpg "
        f"and .wav, too) or loader.py:function, which returns an iterable; default: {otherwise}",
    )
    parser.add_argument(
        "--max-cases",
        type=positive,
        metavar="N",
        help=f"maximum number of cases of --inputs; default: {MAX_CASES:,}",
    )
    for name, text in (("mean", "mean"), ("std", "deviation")):
        parser.add_argument(
            f"--image-{name}",
            type=numbers,
            metavar="X,Y,Z",
            help=f"{text} of the channels of images, of pixels from 0 to 1, for inputs of floats",
        )
    add(parser, "--seed")


def add_rows(
    parser: argparse.ArgumentParser,
    sorts: Sequence[str] = ("order", "error"),
    default: str | None = None,
) -> None:
    """Add --top, --all and --sort, for the table of a report. Without --sort, `args.sort` is the
    first of `sorts`, or None if the command has a `default` of its own."""
    add_top(parser)
    parser.add_argument(
        "--sort",
        choices=sorts,
        default=None if default else sorts[0],
        help=f"order of rows; default: {default or sorts[0]}",
    )


def add_top(parser: argparse.ArgumentParser) -> None:
    """Add --top and --all; with --all, `args.top` is None."""
    count = parser.add_mutually_exclusive_group()
    count.add_argument(
        "--top",
        type=positive,
        metavar="N",
        default=12,
        help="maximum number of rows; default: %(default)s",
    )
    count.add_argument("--all", action="store_const", const=None, dest="top", help="show all rows")


def add_delegation(parser: argparse.ArgumentParser) -> None:
    """Add --delegate-at-load, for `delegation`."""
    parser.add_argument(
        "--delegate-at-load",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="hand operators that no delegate has to XNNPACK when the method is loaded; default: "
        f"the environment variable {DELEGATE_AT_LOAD} (1, always, 0), else yes",
    )


def add_checked_delegation(parser: argparse.ArgumentParser) -> None:
    """Add --delegate-at-load of commands that check a program; the value is
    `args.checks_delegated`."""
    parser.add_argument(
        "--delegate-at-load",
        action=argparse.BooleanOptionalAction,
        default=False,
        dest="checks_delegated",
        help="check what XNNPACK computes of operators that no delegate has; default: no, the "
        "program runs as written",
    )


def add_policies(parser: argparse.ArgumentParser) -> None:
    """Add --require and --metric, for `policies`."""
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="R",
        help="requirement on outputs, [OUTPUT:]METRIC>=VALUE, in place of the tolerance: "
        "'cosine>=0.999', 'logits:top5>=0.99', 'p99_abs<=1e-2'; repeatable; metrics: "
        f"{', '.join(METRICS)}",
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="M.py:F",
        help="function of (actual, expected) that returns a number, for --require and as a figure; "
        "repeatable",
    )


def policies(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments `require` and `metrics` of the options of `add_policies`; an invalid
    requirement is a usage error."""
    from executorch_c import _functions
    from executorch_c.compare.policies import policies_of

    metrics: dict[str, Callable[..., Any]] = {}
    for text in args.metric:
        name = text.rpartition(":")[2]
        if name in metrics:
            args.parser.error(f"argument --metric: two functions have the name {name}")
        metrics[name] = _functions.find(text)
    try:
        policies_of(args.require, metrics)
    except ValueError as error:
        args.parser.error(f"argument --require: {error}")
    return {"require": args.require or None, "metrics": metrics or None}


def add_json(parser: argparse.ArgumentParser, text: str = "print the result as JSON") -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help=text)


def add_results(parser: argparse.ArgumentParser, picture: bool = False) -> None:
    """Add --json, --html and --output, for a report; if it has a plot, with pictures as formats,
    and --plot."""
    add_json(parser)
    parser.add_argument(
        "--html",
        metavar="F.html",
        type=output_file(),
        help="write an HTML page with the finding and all tables",
    )
    endings = FORMATS + PICTURES if picture else FORMATS
    add_output(parser, f"write the result; format by extension: {', '.join(endings)}", endings)
    if picture:
        parser.add_argument(
            "--plot",
            metavar="F.svg",
            help="write the picture: .png, .svg or .pdf",
            type=output_file(*PICTURES),
        )


def add_output(parser: argparse.ArgumentParser, text: str, endings: Sequence[str] = ()) -> None:
    """Add --output."""
    parser.add_argument("-o", "--output", metavar="F", type=output_file(*endings), help=text)


# ---- meaning ----------------------------------------------------------------------------------


def write_results(report: Report, args: argparse.Namespace, title: str | None = None) -> None:
    """Write the files of --html, --output and --plot. A picture of nothing is a warning, as the
    verdict stands."""
    if args.html:
        report.to_html(args.html, title)
    for path in filter(None, (args.output, getattr(args, "plot", None))):
        try:
            report.save(path)
        except NothingToDraw as error:
            warn(f"{path} is not written: {error}")


def show(report: Report, args: argparse.Namespace, text: str | None = None) -> None:
    """Write the requested files, and print a report (or `text` in its place), or its JSON."""
    write_results(report, args)
    print(report.to_json() if args.json else report if text is None else text)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    print(f"executorch-c: warning: {text}", file=sys.stderr)


@contextmanager
def delegation(args: argparse.Namespace) -> Iterator[None]:
    """Load methods as --delegate-at-load says, wherever the command loads them."""
    choice: bool | None = getattr(args, "delegate_at_load", None)
    before = os.environ.get(DELEGATE_AT_LOAD)
    if choice is not None and (before is None or choice != delegates_at_load()):
        os.environ[DELEGATE_AT_LOAD] = "1" if choice else "0"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(DELEGATE_AT_LOAD, None)
        else:
            os.environ[DELEGATE_AT_LOAD] = before


def delegates_at_load() -> bool:
    """Return True if methods are loaded with load-time delegation by default."""
    return os.environ.get(DELEGATE_AT_LOAD, "1") in ("1", "always", "each")


def open_program(args: argparse.Namespace) -> ProgramFile:
    """Return the program of the arguments of `add_model`."""
    from executorch_c._programs import opened

    return opened(args.model, args.data)


def method_of(program: Program, name: str | None) -> str:
    """Return the name of the method; by default "forward", or the only one.

    Raises ValueError if the program has several methods and none is "forward".
    """
    names = sorted(program.method_names)
    if name is not None:
        return name
    if len(names) > 1 and "forward" not in names:
        raise ValueError(f"pass --method: the program has {', '.join(names)}")
    return "forward" if "forward" in names else names[0]
