"""The command line: `executorch-c` and `python -m executorch_c`.

Each command is a module in _commands: `add` adds its parser, `main` takes the parsed arguments and
returns the exit code.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType

from executorch_c import __version__, _stages, _streams
from executorch_c._eager_caches import default_cache
from executorch_c._names import visible
from executorch_c._render import terminal
from executorch_c._commands import (
    _arguments,
    advise,
    bench,
    blame,
    check,
    check_all,
    check_nan,
    compare,
    demo,
    dump,
    etdump,
    explain,
    generate,
    graph,
    info,
    memory,
    operators,
    perplexity,
    quantization_error,
    run,
    selective,
    trace,
    validate,
)

COMMANDS = (
    run,
    info,
    dump,
    graph,
    memory,
    validate,
    check,
    check_all,
    compare,
    explain,
    blame,
    quantization_error,
    advise,
    check_nan,
    trace,
    bench,
    etdump,
    generate,
    perplexity,
    operators,
    selective,
    demo,
)
"""In the order of --help."""

ALIASES = {"check-model": "check", "compare-programs": "compare", "memory-plan": "memory"}
"""Names of functions as commands, if the command is shorter."""

REPORTED = (RuntimeError, OSError, ValueError, TypeError, LookupError, MemoryError, ImportError)
"""Errors printed as one line; any other exception is a bug and keeps its traceback."""
RUNTIME_ERROR = 1

EXAMPLES = """\
examples:
  executorch-c demo                                  the included classifier
  executorch-c info model.pte                        contents, missing operators
  executorch-c info model.pte --delegate-at-load     operators for XNNPACK
  executorch-c dump model.pte                        operators; all nodes: --all
  executorch-c graph model.pte -o model.svg          a picture
  executorch-c memory model.pte --plot plan.svg      planned memory over time
  executorch-c run model.pte                         random inputs
  executorch-c run model.pte --save-inputs x.npz     and write them
  executorch-c run model.pte --inputs x.npz --output y.npz
  executorch-c run model.pte --method encode --repeat 100
  executorch-c run model.pte --data weights.ptd
  executorch-c validate model.pte --inputs x.npz --expect y.npz
  executorch-c check model.py:make --flow xnnpack    export and compare
  executorch-c check model.pte --model model.py:make compare with PyTorch
  executorch-c check-all checks.toml --jobs 2        many models and flows
  executorch-c compare portable.pte delegated.pte    first divergence
  executorch-c explain model.pte --etrecord e.bin    first node that differs
  executorch-c blame model.pte --inputs x.npz --device run1.npz
  executorch-c quantization-error int8.pte --model model.py:make
  executorch-c advise model.py:make --flow xnnpack-int8 --target 30dB
  executorch-c check-nan model.pte --inputs x.npz    origin of NaN and infinity
  executorch-c trace model.pte --repeat 20 --html t.html
  executorch-c bench model.pte --with official       times beside others
  executorch-c etdump run.etdp --etrecord e.bin      times on a device
  executorch-c generate model.pte --tokenizer tokenizer.json --prompt "Hello"
  executorch-c perplexity model.pte --tokenizer tokenizer.json --text t.txt
  executorch-c operators --json
  executorch-c selective model.pte -o small          a small C library

exit codes: 0 match, 1 error, 2 wrong usage, 3 differ, 4 inconclusive
"""


def parser() -> _arguments.Parser:
    """Return the parser of all commands."""
    top = _arguments.Parser(
        "executorch-c",
        description="Run and inspect ExecuTorch programs (.pte) on NumPy arrays, without torch.",
        epilog=EXAMPLES,
        formatter_class=_arguments.HelpFormatter,
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return top


def name_of(command: ModuleType) -> str:
    """Return the name of a command: "check-nan"."""
    return command.__name__.rpartition(".")[2].replace("_", "-")


def _canonical(argv: Sequence[str]) -> list[str]:
    """Return the arguments with the short name of the command."""
    return [*(ALIASES.get(word, word) for word in argv[:1]), *argv[1:]]


def _error(error: BaseException, args: argparse.Namespace) -> int:
    """Print one line on stderr, which names a file, without a traceback."""
    text = str(error.args[0]) if len(error.args) == 1 else str(error)  # str(KeyError) adds quotes
    text = text or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    named = [value for value in vars(args).values() if isinstance(value, str) and "." in value]
    files = [os.path.basename(name.rpartition(".py:")[0] or name) for name in named]
    model = getattr(args, "model", None)
    if _stages.stage_of(error) in ("make", "eager", "export"):  # of the model, not of its program
        model = getattr(args, "make", None) or model
    if model and not any(file in text for file in files):
        text = f"{model}: {text}"
    text = "; ".join([text, *getattr(error, "__notes__", ())])
    print("executorch-c: error: " + visible(" ".join(text.split())), file=sys.stderr)
    return RUNTIME_ERROR


CHATTY = ("torchao", "torch.utils._pytree")
"""Loggers that warn about their own libraries when these are imported."""


def _silence_imports() -> None:
    """Hide what torch and torchao say about themselves: their errors only."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"copyreg|torch\.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; usage errors exit with 2.

    Written files and the exit code are the same if nobody reads standard output.
    """
    with _streams.outputs():
        return _main(_canonical(sys.argv[1:] if argv is None else argv))


def _main(argv: Sequence[str]) -> int:
    top = parser()
    args, unknown = top.parse_known_args(argv)
    if unknown:
        usage: _arguments.Parser = getattr(args, "parser", top)
        usage.refuse(unknown)
    if args.version:
        print(f"executorch_c {__version__}")
        return 0
    if not hasattr(args, "command"):
        names = ", ".join(map(name_of, COMMANDS))
        top.error(f"pass a command: {names} (see --help)")
    args.words = argv[1:]
    _silence_imports()
    cache = getattr(args, "kv_cache", None)
    try:
        with terminal.tables(sys.stdout), _arguments.delegation(args), default_cache(cache):
            code: int = args.command(args)
        return code
    except BrokenPipeError:  # of a command whose text is all it does
        return 0
    except KeyboardInterrupt:
        return _arguments.INTERRUPTED
    except REPORTED as error:
        return _error(error, args)
