"""`executorch-c selective`: a C library with the operators and dtypes of some programs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from executorch_c._commands import _arguments
from executorch_c._render import json as _json
from executorch_c._render import text as _text

COLUMNS = ("part", "code", "constants", "memory")

HELP = """\
Build libexecutorch_c with only the operators and dtypes of some programs, optimised for size,
and ec-run with it. Each method is run once on ones. The table has bytes of code, constants and
memory. Programs with delegates need their backend: ecr_register_backend.
"""


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "selective", main, "build a small C library for some programs", HELP
    )
    parser.add_argument("models", metavar="MODEL.pte", nargs="+", help="programs")
    parser.add_argument("-o", "--output", metavar="F", required=True, help="folder of the result")
    parser.add_argument("--source", metavar="DIR", help="source tree of executorch_c")
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=_arguments.positive,
        default=os.cpu_count() or 1,
        help="compilers at a time",
    )
    _arguments.add_json(parser, "print operators, dtypes and sizes as JSON")


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c selective`."""
    from executorch_c import _selective, load

    programs = [load(model) for model in args.models]
    for model, program in zip(args.models, programs):
        _selective.check_loadable(model, program)
    csrc = _selective.source_tree(args.source)
    needs = _selective.needs_of(programs)
    folder = Path(args.output)
    _selective.write(folder, csrc, needs)
    _selective.build(folder, csrc, args.jobs)
    if not needs.backends:
        _selective.run_once(folder, args.models)
    rows = _selective.totals(_selective.sizes(folder))
    if args.json:
        print(
            _json.dumps(
                {
                    "operators": sorted(needs.operators),
                    "dtypes": sorted(needs.dtypes),
                    "backends": sorted(needs.backends),
                    "sizes": [dict(zip(COLUMNS, row)) for row in rows],
                }
            )
        )
        return 0
    if needs.backends:
        print(f"not run: the programs need {', '.join(sorted(needs.backends))}")
    print(_text.table([[row[0], *(f"{n:,}" for n in row[1:])] for row in rows], COLUMNS))
    operators = _text.plural(len(needs.operators), "operator")
    print(
        f"{folder}: libexecutorch_c.a, libexecutorch_c.so, ec-run; {operators}; "
        f"{', '.join(sorted(needs.dtypes))}"
    )
    return 0
