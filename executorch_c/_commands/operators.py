"""`executorch-c operators`: the operators of this runtime."""

from __future__ import annotations

import argparse

from executorch_c._commands import _arguments
from executorch_c._core import operators
from executorch_c._render import json as _json
from executorch_c._render import text as _text


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "operators", main, "list the operators of this runtime"
    )
    _arguments.add_json(parser, "print schemas and dtypes as JSON")


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c operators`."""
    every = operators()
    if args.json:
        print(_json.dumps(every))
        return 0
    head = ("operator", "family", "dtypes")
    rows = []
    for o in every:
        family = o["family"] if o["origin"] == "builtin" else f"{o['family']} ({o['origin']})"
        rows.append([o["name"], family, " ".join(o["dtypes"])])
    print(_text.table(rows, head))
    print(f"{_text.plural(len(every), 'operator')}")
    return 0
