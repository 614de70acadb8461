"""The command line: `executorch-c` and `python -m executorch_c`.

Only argparse is imported until a command runs, so that --help answers at once. Each command is a
function of the parsed arguments in _cli_*.py that returns the exit code.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

RUNTIME_ERROR = 1
INTERRUPTED = 130

EXAMPLES = """\
examples:
  executorch-c demo                                  the classifier that ships with the package
  executorch-c info model.pte                        what is in it, and whether it can run here
  executorch-c run model.pte                         random inputs that fit the program
  executorch-c run model.pte --inputs x.npz --output y.npz
  executorch-c run model.pte --method encode --repeat 100
  executorch-c run model.pte --data weights.ptd
  executorch-c validate model.pte --inputs x.npz --expect y.npz
  executorch-c ops --json

exit codes: 0 all is well, 1 an error of the program or its inputs, 2 wrong usage, 3 outputs differ
"""

RUN_HELP = """\
Runs one method once, or several times with --repeat, and prints inputs, outputs and times.

Inputs come from an .npz file (in the order of the file: one array for each input, or one for each
tensor input; numbers and strings are then the ones of the program) or an .npy file (one input).
Without --inputs they are random and seeded: normally distributed floats, integers 0 and 1, and
upper bounds of dynamic sizes. State (a KV cache) is kept between repeats.
"""


VALIDATE_HELP = """\
Runs one method once and compares its outputs with those that it should give (of PyTorch eager, or
of an earlier version): largest absolute and relative difference, ULP, cosine, signal to noise,
agreement of argmax, and where the first and the worst difference are.

Tolerances are by dtype unless they are given: those of torch.testing.assert_close. The exit code
is 0 where outputs match, 3 where they differ.

A bundled program (.bpte) brings inputs and outputs with it: all its test cases are run, or those
of --method.
"""


def _run(args: argparse.Namespace) -> int:
    from executorch_c._cli_run import run

    return run(args)


def _info(args: argparse.Namespace) -> int:
    from executorch_c._cli_info import info

    return info(args)


def _validate(args: argparse.Namespace) -> int:
    from executorch_c._cli_validate import validate

    return validate(args)


def _ops(args: argparse.Namespace) -> int:
    from executorch_c._cli_info import ops

    return ops(args)


def _demo(args: argparse.Namespace) -> int:
    from executorch_c._cli_run import demo

    return demo(args)


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


def _add_validate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    validate = commands.add_parser(
        "validate",
        help="compare the outputs of a program with expected ones",
        description=VALIDATE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    validate.set_defaults(command=_validate)
    validate.add_argument("model", metavar="MODEL.pte", help="or a .bpte, with its own test cases")
    validate.add_argument(
        "--inputs", metavar="X.npz", help=".npz or .npy file with the inputs"
    )
    validate.add_argument(
        "--expect", metavar="Y.npz", help="outputs, in order, as arrays"
    )
    validate.add_argument("--method", help="default: forward; of a .bpte: all")
    validate.add_argument(
        "--data", action="append", default=[], metavar="X.ptd", help="weights; may be repeated"
    )
    validate.add_argument("--rtol", type=tolerance, help="relative to |expected|; default by dtype")
    validate.add_argument("--atol", type=tolerance, help="default by dtype")
    validate.add_argument(
        "--kernels", choices=("default", "reference"), default="default",
        help="reference: plain loops only",
    )  # fmt: skip
    validate.add_argument("--json", action="store_true", help="all figures, as JSON")


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    raw = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(
        "executorch-c",
        description="Run and inspect ExecuTorch programs (.pte) on NumPy arrays, without torch.",
        epilog=EXAMPLES,
        formatter_class=raw,
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(title="commands", metavar="COMMAND")

    run = commands.add_parser(
        "run", help="run a method of a program", description=RUN_HELP, formatter_class=raw
    )
    run.set_defaults(command=_run)
    run.add_argument("model", metavar="MODEL.pte")
    run.add_argument("--inputs", metavar="X.npz", help=".npz or .npy file with the inputs")
    run.add_argument("--method", default="forward", help="default: %(default)s")
    run.add_argument("--repeat", type=positive, default=1, metavar="N", help="calls to make")
    run.add_argument(
        "--data", action="append", default=[], metavar="X.ptd", help="weights; may be repeated"
    )
    run.add_argument("--output", metavar="Y.npz", help="file to write the last call's outputs to")
    run.add_argument("--seed", type=int, default=0,
                     help="of random inputs and random operators; default: %(default)s")

    info = commands.add_parser("info", help="describe a program without loading its methods")
    info.set_defaults(command=_info)
    info.add_argument("model", metavar="MODEL.pte")
    info.add_argument(
        "--data", action="append", default=[], metavar="X.ptd", help="weights; may be repeated"
    )
    info.add_argument("--json", action="store_true", help="all that is known, as JSON")

    _add_validate(commands)
    ops = commands.add_parser("ops", help="list the operators that this runtime has")
    ops.set_defaults(command=_ops)
    ops.add_argument("--json", action="store_true", help="with schemas and dtypes, as JSON")

    demo = commands.add_parser("demo", help="classify digits and compare with eager PyTorch")
    demo.set_defaults(command=_demo)
    return top


def _print_version() -> int:
    from executorch_c import __version__

    print(f"executorch_c {__version__}")
    return 0


def _error(error: BaseException) -> int:
    """One line on stderr: what a user of the command needs, without a traceback."""
    text = str(error.args[0]) if len(error.args) == 1 else str(error)  # KeyError quotes itself
    text = text or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    print("executorch-c: error: " + " ".join(text.split()), file=sys.stderr)
    return RUNTIME_ERROR


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code; usage errors exit with 2."""
    top = parser()
    args = top.parse_args(argv)
    if args.version:
        return _print_version()
    if not hasattr(args, "command"):
        top.error("a command is needed: run, info, validate, ops or demo (see --help)")
    try:
        code: int = args.command(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except (RuntimeError, OSError, ValueError, TypeError, LookupError, MemoryError) as error:
        return _error(error)
