"""`executorch-c info`: contents of a program, missing operators and backends."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from executorch_c import _engines
from executorch_c._commands import _arguments
from executorch_c._core import Error, Program
from executorch_c._names import visible
from executorch_c._render import text as _text

if TYPE_CHECKING:
    from executorch_c._types import (
        DelegateReport,
        DelegateUse,
        MethodInfo,
        NamedData,
        OperatorUse,
        PassInfo,
        UndelegatedOperator,
        ValueInfo,
    )
    from executorch_c.inspect.device import RemarkRow

HELP = """\
Describe a program: its methods, operators, delegates and data, what of them is missing here, and
differences of the official runtime: operators that it lacks, rejects or computes differently,
moves whose source is overwritten; and values that are read and that nothing writes. No method is
loaded.

With --delegate-at-load, each method is loaded to show which operator calls are delegated to
XNNPACK at load, why not the others, and how many calls each pass changed (load_method(passes=...)
leaves passes out).
"""

LONGEST_LIST = 12
"""Maximum number of listed segments and named data; the rest is counted."""


KV_CACHE = (
    "--kv-cache capacity=N of the commands, load_method(kv_cache=executorch_c.KVCache(N)) or "
    "TextRunner(kv_cache=) in Python, with dtype and windows of the runner for which the program "
    "was exported"
)
"""Ways to pass a KV cache to a program."""


class DelegatedAtLoad(TypedDict):
    """Operators of a method after load-time delegation."""

    error: str | None
    """Why the method cannot be loaded."""
    delegates: list[DelegateReport]
    undelegated: list[UndelegatedOperator]
    passes: list[PassInfo]


def add(commands: _arguments.Commands) -> None:
    """Add the parser."""
    parser = _arguments.add_command(
        commands, "info", main, "describe a program without loading its methods", HELP
    )
    _arguments.add_model(parser)
    _arguments.add_delegation(parser)
    _arguments.add_json(parser, "print the result as JSON")


def value_row(index: int, value: ValueInfo) -> list[object]:
    """Return a table row for an input, output or attribute of a method."""
    if value["kind"] != "Tensor":
        traced = value.get("value")
        return [index, value.get("name") or "", value["kind"], "", "" if traced is None else traced]
    shape = _text.shape(value["shape"], value["dynamism"])
    order = list(value["dim_order"])
    notes = [f"dim order {order}"] if order != sorted(order) else []
    return [index, value.get("name") or "", value["dtype"], shape, ", ".join(notes)]


def section(title: str, rows: Sequence[Sequence[object]], head: Sequence[str] = ()) -> None:
    """Print a table with a title, unless it is empty."""
    if rows:
        print(f"  {title}")
        print(_text.table(rows, head, indent=4, width=_text.width()))


def operator_state(operator: OperatorUse) -> str:
    return "" if operator["available"] else "MISSING"


def delegate_state(delegate: DelegateUse) -> str:
    if not delegate["registered"]:
        return "MISSING: no such backend is registered"
    if not delegate["available"]:
        return "NOT AVAILABLE on this machine"
    return delegate["engine"] or ""


def show_open(program: Program, method: MethodInfo) -> None:
    """Print what is open in the delegates that cannot run here: compile specs, facts of the
    payload, and what they need."""
    missing = {d["id"]: d["lacks"] for d in method["delegates"] if not d["available"]}
    if not missing:
        return
    from executorch_c.inspect import payloads, structure

    (view,) = structure.methods(program, method["name"])
    for index, row in enumerate(view.structure["delegates"][:LONGEST_LIST]):
        if row["id"] in missing:
            specs = [
                (f"compile spec {key}", payloads.spec_text(value))
                for key, value in row["specs"][:LONGEST_LIST]
            ]
            print(f"  delegate {index}: {visible(row['id'])}")
            for name, fact in [*view.facts(index), *specs]:
                print(_text.wrapped(f"    {visible(name)}: {visible(fact)}"))
    for text in filter(None, missing.values()):
        print(_text.wrapped(f"  {text}"))


def show_method(program: Program, method: MethodInfo) -> None:
    counts = [
        _text.plural(method["instructions"], "instruction"),
        _text.plural(method["values"], "value"),
        f"{_text.plural(method['constant_bytes'], 'byte')} of constants",
    ]
    print(f"\nmethod {visible(method['name'])}: " + ", ".join(counts))
    values = {
        "inputs": method["inputs"],
        "outputs": method["outputs"],
        "attributes": method["attributes"],
    }
    for title, listed in values.items():
        section(title, [value_row(i, value) for i, value in enumerate(listed)])
    arenas = zip(method["arenas"], method["arena_devices"])
    rows = [
        [f"arena {i}", size, "bytes", "" if device == "CPU" else f"memory of {device}"]
        for i, (size, device) in enumerate(arenas, 1)
    ]
    section("planned memory", rows)
    section("operators", [[o["calls"], o["name"], operator_state(o)] for o in method["operators"]])
    section(
        "delegates",
        [[d["calls"], d["payload"], d["id"], delegate_state(d)] for d in method["delegates"]],
        ("calls", "bytes", "backend", ""),
    )
    for hint in _engines.hints(method):
        print(_text.wrapped(f"  {visible(hint)}"))
    show_open(program, method)
    show_remarks(program, method["name"])


def show_remarks(program: Program, method: str) -> None:
    """Print differences of the reference runtime, and reads of values that nothing writes."""
    from executorch_c.inspect import device

    remarks = device.remarks(program, method)
    for one in remarks[:LONGEST_LIST]:
        print(_text.wrapped(f"  {visible(one.text)}"))
    if len(remarks) > LONGEST_LIST:
        print(f"    ... and {len(remarks) - LONGEST_LIST:,} more (--json lists all)")


def remark_rows(program: Program, method: str) -> list[RemarkRow]:
    from executorch_c.inspect import device

    return [one.row() for one in device.remarks(program, method)]


def delegated_at_load(program: Program, name: str) -> DelegatedAtLoad:
    """Load a method with load-time delegation, and return what became of its operators."""
    try:
        method = program.load_method(name)
    except Error as error:
        return {"error": str(error.args[0]), "delegates": [], "undelegated": [], "passes": []}
    delegates = [row for row in method.backend_report() if row["calls_delegated_at_load"]]
    return {
        "error": None,
        "delegates": delegates,
        "undelegated": method.undelegated(),
        "passes": method.passes(),
    }


def show_delegated(delegated: DelegatedAtLoad) -> None:
    """Print the operators by what became of them."""
    if delegated["error"] is not None:
        section("delegated at load", [["", f"cannot be loaded: {delegated['error']}"]])
        return
    counts = Counter[tuple[str, str]]()
    for one in delegated["delegates"]:
        for operator, calls in one["delegated_at_load"].items():
            counts[operator, one["backend"]] += calls
    rows = [[calls, operator, backend] for (operator, backend), calls in sorted(counts.items())]
    left = sorted(
        (one["operator"], one["reason"], one["calls"]) for one in delegated["undelegated"]
    )
    section("delegated at load", rows, ("calls", "operator", "backend"))
    rows = [[calls, operator, reason] for operator, reason, calls in left]
    section("not delegated at load", rows, ("calls", "operator", "why not"))
    done, rest = sum(counts.values()), sum(one["calls"] for one in delegated["undelegated"])
    print(
        f"  delegates made at load: {len(delegated['delegates']):,}, with {done:,} of "
        f"{_text.plural(done + rest, 'call')}"
    )
    passes = [[one["calls"], one["name"], one["purpose"]] for one in delegated["passes"]]
    section("passes", passes, ("calls", "pass", ""))


def show_list(title: str, rows: Sequence[Sequence[object]], head: Sequence[str]) -> None:
    """Print the first items of a list of the file, and the number of the others."""
    if rows:
        print(f"\n{title}")
        print(_text.table(rows[:LONGEST_LIST], head, width=_text.width()))
        if len(rows) > LONGEST_LIST:
            print(f"  ... and {len(rows) - LONGEST_LIST:,} more (--json lists all)")


def named_source(args: argparse.Namespace, named: NamedData) -> str:
    """Return the data file of named data; empty for data in the program itself."""
    return "" if named["source"] < 0 else str(args.data[named["source"]])


def show_verdict(methods: Sequence[MethodInfo]) -> None:
    """Print a sentence about missing operators and backends."""
    operators = {o["name"] for m in methods for o in m["operators"] if not o["available"]}
    backends = {d["id"] for m in methods for d in m["delegates"] if not d["available"]}
    devices = {f"of {m['device']}" for m in methods if m["device"]}
    missing = [("operators", operators), ("backends", backends), ("memory", devices)]
    text = "; ".join(f"{kind} {', '.join(sorted(names))}" for kind, names in missing if names)
    if devices:
        text += " (export without the compile spec 'target_device')"
    if text:
        verdict = f"cannot run here, missing: {visible(text)}"
    elif any(m["uses_kv_cache"] for m in methods):
        verdict = f"can run here with a KV cache, which is not in the file: {KV_CACHE}"
    else:
        verdict = "can run here: nothing is missing"
    print("\n" + _text.wrapped(verdict))


def main(args: argparse.Namespace) -> int:
    """Run `executorch-c info`."""
    program = _arguments.open_program(args).program
    what = program.info()
    delegated = {}
    if args.delegate_at_load:
        names = [method["name"] for method in what["methods"]]
        delegated = {name: delegated_at_load(program, name) for name in names}
    if args.json:
        rows = [
            {
                **one,
                "remarks": remark_rows(program, one["name"]),
                **({"delegated_at_load": delegated[one["name"]]} if delegated else {}),
            }
            for one in what["methods"]
        ]
        print(json.dumps({**what, "methods": rows}, indent=2, default=str))
        return 0
    print(
        f"{visible(os.path.basename(args.model))}: {_text.plural(what['file_size'], 'byte')}, "
        f"{what['program_size']:,} in tables, "
        f"{_text.plural(len(what['segments']), 'segment')}"
    )
    for method in what["methods"]:
        show_method(program, method)
        if delegated:
            show_delegated(delegated[method["name"]])
    segments = [[i, s["offset"], s["size"]] for i, s in enumerate(what["segments"])]
    show_list("segments", segments, ("", "offset", "bytes"))
    named = [[n["size"], n["key"], named_source(args, n)] for n in what["named_data"]]
    show_list("named data", named, ("bytes", "key", ""))
    show_verdict(what["methods"])
    return 0
