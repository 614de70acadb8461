"""A program as text or JSON: values, instructions, nodes of delegates."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, overload

from executorch_c._names import visible
from executorch_c._render import html as _html
from executorch_c._render import json as _json
from executorch_c._render import text as _text
from executorch_c._programs import ProgramSource, opened
from executorch_c.inspect import payloads, structure
from executorch_c.inspect.structure import Instruction, View
from executorch_c.report import Report

if TYPE_CHECKING:
    from executorch_c._core import Program
    from executorch_c._types import InnerNode, InnerValue, StructureDelegate

_KEY = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")
"""Hashes that name data of XNNPACK; the text has their first 8 digits."""

MAX_NAME_CHARACTERS = 120
"""Maximum number of characters of a name or string in an instruction: many can repeat it."""


class Dump(str, Report):
    """A program as text: `print(dump)` prints it. A str, and a Report of its instructions."""

    def __new__(cls, text: str, whole: dict[str, Any], rows: list[dict[str, object]]) -> Dump:
        dump = super().__new__(cls, text)
        dump._whole, dump._rows = whole, rows
        return dump

    _whole: dict[str, Any]
    _rows: list[dict[str, object]]

    @property
    def ok(self) -> bool:
        """True if no operator or backend of the program is missing."""
        return not self.problems()

    def summary(self) -> str:
        """Return the size and the methods of the program."""
        return self.partition("\n")[0]

    def overview(self, top: int | None = None) -> str:
        """Return size, methods, inputs, outputs, planned memory, and the numbers of instructions
        and nodes of the `top` most frequent operators as text; default: of all."""
        methods = self._whole["method_structures"]
        values = [method for method in methods if not any(method["chains"])]
        parts = [_overview(method, top) for method in methods if any(method["chains"])]
        if values:
            rows = [[visible(one["name"]), _returned(one)] for one in values]
            table = _text.table(rows, ("method", "value"), width=_text.width())
            parts.append(f"methods that return constants\n{table}")
        return "\n\n".join([self.summary(), *parts])

    def problems(self) -> list[str]:
        """Return a sentence for each missing operator and backend."""
        problems: dict[str, None] = {}
        for method in self._whole["methods"]:
            problems |= {
                f"operator {one['name']} is missing": None
                for one in method["operators"]
                if not one["available"]
            }
            problems |= {
                f"backend {one['id']} is missing": None
                for one in method["delegates"]
                if not one["available"]
            }
        return list(problems)

    def table(self) -> str:
        """Return a row for each instruction as text."""
        head = list(self._rows[0]) if self._rows else []
        rows = [[str(row[name]) for name in head] for row in self._rows]
        return _text.table(rows, head, width=_text.width())

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each instruction."""
        return self._rows

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON of `dump`."""
        return self._whole

    def heading(self) -> str:
        """Return the heading of its page."""
        return "Program"

    def sections(self) -> Iterator[object]:
        """Yield the parts of its page after the finding: instructions, and the text."""
        if self._rows:
            rows = [[*row.values()] for row in self._rows]
            yield _html.table("instructions", list(self._rows[0]), rows, len(self._rows[0]))
        yield _html.tag("pre", str(self))


@overload
def dump(
    program: ProgramSource, format: Literal["text"] = "text", *, method: str | None = None
) -> Dump: ...


@overload
def dump(program: ProgramSource, format: Literal["json"], *, method: str | None = None) -> str: ...


def dump(
    program: ProgramSource, format: Literal["text", "json"] = "text", *, method: str | None = None
) -> Dump | str:
    """Return a program as text or JSON; one `method`, or all.

    No method is loaded, so programs that cannot run here can be printed. A line of text is an
    instruction: its number in the chain, its arguments by name, its results and their memory; `>`
    marks targets of jumps. `%7` is the method's value 7; constant numbers are printed in place.
    Nodes of a delegate follow its instruction.

    JSON has the keys of `Program.info()` and `method_structures`: see MethodStructure in
    executorch_c/_types.py; each delegate has `inside` (nodes and values, if the backend describes
    payloads), `error` (the reason if not), `methods` (of a payload that is a program) and `facts`
    (what the header of a payload shows, for backends without an engine here). The text has the same
    JSON as `to_json()`.

    Raises InvalidProgramError and other exceptions of loading for a wrong file, NotFoundError for
    an unknown method, ValueError for another format.
    """
    if format not in ("text", "json"):
        raise ValueError(f"`format` is {format!r}, expected 'text' or 'json'")
    file = opened(program)
    if file.method is not None and method is None:
        method = file.method.metadata.name()
    views = structure.methods(file.program, method)
    whole = {**file.program.info(), "method_structures": [_as_json(view) for view in views]}
    if format == "json":
        return _json.dumps(whole)
    with _text.drawn_by(None):  # the text may be written to a file
        parts = ["\n".join(_header(file.program))]
        parts += ["\n".join(_method(view)) for view in views]
    rows = [_row(view, step) for view in views for step in view.steps]
    text = Dump("\n\n".join(parts) + "\n", whole, rows)
    text.set_origins(program=file.origin)
    return text


def _row(view: View, step: Instruction) -> dict[str, object]:
    return {
        "method": view.method,
        "chain": step.chain,
        "instruction": step.number,
        "kind": step.row["kind"],
        "name": step.title,
        "call": _call(view, step),
        "available": step.row["available"],
    }


def _overview(method: dict[str, Any], top: int | None) -> str:
    """Return inputs, outputs, planned memory and counts of a method, from its JSON."""
    steps = [row for chain in method["chains"] for row in chain]
    lines = [f"method {visible(method['name'])}: {_text.plural(len(steps), 'instruction')}"]
    for side in ("inputs", "outputs"):
        values = ", ".join(_type(method["values"][index]) for index in method[side])
        lines.append(_text.wrapped(f"  {side}: {values or 'none'}"))
    if method["arenas"]:
        lines.append(f"  planned memory: {sum(method['arenas']):,} bytes")
    counts = Counter(row["name"] or row["kind"] for row in steps)
    rows: list[list[object]] = [[name, count] for name, count in counts.most_common(top)]
    lines.append(_text.table(rows, ("instruction", "count"), width=_text.width()))
    for index, delegate in enumerate(method["delegates"]):
        nodes = (delegate["inside"] or {"nodes": ()})["nodes"]
        counts = Counter(node["name"] or "?" for node in nodes)
        payload = f"payload of {_text.plural(delegate['size'], 'byte')}"
        listed = [f"{count} {name}" for name, count in counts.most_common(top)]
        title = f"d{index} {delegate['id']}: {', '.join([payload, *listed])}"
        lines.append(_text.wrapped("  " + visible(title)))
    return "\n".join(lines)


def _returned(method: dict[str, Any]) -> str:
    """Return the outputs of a method without instructions: "128", or the types of tensors."""
    values = [method["values"][index] for index in method["outputs"]]
    return ", ".join(
        _type(one) if one["kind"] == "Tensor" else _text.shortened(repr(one["value"]), 60)
        for one in values
    )


def _type(value: dict[str, Any]) -> str:
    """Return the type of a value: "float32 (1, 3)"."""
    if value["kind"] != "Tensor":
        return str(value["kind"])
    return f"{value['dtype']} {structure.shape(value['shape'], value['dynamism'])}"


# ---- JSON ------------------------------------------------------------------------------------


def _spec(value: bytes) -> dict[str, str]:
    """Return a compile spec as text or as hexadecimal digits."""
    text = {"text": value.decode()} if payloads.is_text(value) else {}
    return {"hex": value.hex(), **text}


def _delegate_json(view: View, index: int, row: StructureDelegate) -> dict[str, object]:
    inside = view.inside(index)
    return {
        **row,
        "specs": [{"key": key, **_spec(value)} for key, value in row["specs"]],
        "inside": None if isinstance(inside, str) else inside,
        "error": inside if isinstance(inside, str) else None,
        "methods": [_as_json(nested) for nested in view.nested(index)],
        "facts": dict(view.facts(index)),
    }


def _as_json(view: View) -> dict[str, object]:
    delegates = enumerate(view.structure["delegates"])
    return {
        **view.structure,
        "delegates": [_delegate_json(view, index, row) for index, row in delegates],
    }


# ---- text ------------------------------------------------------------------------------------


def _header(program: Program) -> Iterator[str]:
    info = program.info()
    yield (
        f"program: {_text.plural(info['file_size'], 'byte')}, {info['program_size']:,} in "
        f"tables, {_text.plural(len(info['methods']), 'method')}"
    )
    if info["segments"]:
        yield f"segments (after byte {info['segment_base']:,})"
        rows = [[i, s["offset"], s["size"]] for i, s in enumerate(info["segments"])]
        yield _text.table(rows, ("", "offset", "bytes"))
    if info["named_data"]:
        yield "named data"
        yield _text.table(
            [
                [n["size"], n["key"], "" if n["source"] < 0 else f"data file {n['source']}"]
                for n in info["named_data"]
            ],
            ("bytes", "key", ""),
        )


def _method(view: View) -> Iterator[str]:
    structure = view.structure
    yield (
        f"method {visible(view.method)}: {_text.plural(len(view.steps), 'instruction')}, "
        f"{_text.plural(len(view.values), 'value')}"
    )
    for title, indices in (("inputs", structure["inputs"]), ("outputs", structure["outputs"])):
        if indices:
            yield f"  {title}"
            yield _text.table([_value_row(view, index) for index in indices], indent=4)
    if structure["arenas"]:
        yield "  planned memory"
        yield _text.table(
            [[f"arena {i}", size, "bytes"] for i, size in enumerate(structure["arenas"], 1)],
            indent=4,
        )
    homes = ("constant", "external", "state")
    fixed = [i for i, v in enumerate(view.values) if v.get("where") in homes]
    if fixed:
        yield "  constants and state"
        yield _text.table([_value_row(view, index) for index in fixed], indent=4)
    opened: set[int] = set()
    for step in view.steps:
        if step.number == 0:
            chains = len(structure["chains"])
            yield f"  chain {step.chain}" if chains > 1 else "  instructions"
        yield from _step(view, step, opened)


def _value_row(view: View, index: int) -> list[object]:
    value = view.values[index]
    if value["kind"] != "Tensor":
        return [f"%{index}", value["kind"], _constant(view, index), "", ""]
    return [
        f"%{index}",
        structure.tensor(value),
        structure.home(value),
        value["nbytes"],
        value["name"] or "",
    ]


def _constant(view: View, index: int) -> str:
    """Return a value other than a tensor: the constant, or the index of the value."""
    value = view.values[index]
    if index in view.computed:
        return f"%{index}"
    if value["kind"] not in structure.LISTS:
        return _text.shortened(repr(value["value"]), MAX_NAME_CHARACTERS)
    items = value["value"]
    assert isinstance(items, list)
    texts = ["None" if item is None else _argument(view, int(item)) for item in items]
    return "[" + ", ".join(texts) + "]"


def _argument(view: View, index: int) -> str:
    value = view.values[index]
    if value["kind"] != "Tensor":
        return _constant(view, index)
    if value["where"] in ("constant", "external"):
        name = " " + _text.shortened(value["name"], MAX_NAME_CHARACTERS) if value["name"] else ""
        return f"%{index} const{name} {structure.shape(value['shape'])}"
    base = view.bases.get(index)
    return f"%{index}" if base is None else f"%{index} (is %{base})"


def _results(view: View, step: Instruction) -> str:
    texts = []
    for index in step.writes:
        value = view.values[index]
        text = f"%{index}"
        if value["kind"] == "Tensor":
            text += f" {structure.tensor(value)} {structure.place(value)}".rstrip()
        texts.append(text)
    return " -> " + ", ".join(texts) if texts else ""


def _call(view: View, step: Instruction) -> str:
    row = step.row
    operands = [(name, index) for index, name, role in row["args"] if role in ("in", "inout")]
    if row["kind"] == "jump":
        condition = f" if not {_argument(view, operands[0][1])}" if view.goes_on(step) else ""
        return f"jump to {row['destination']}{condition}"
    if row["kind"] == "move":
        return f"move {_argument(view, operands[0][1])}{_results(view, step)}"
    if row["kind"] == "free":
        return f"free {_argument(view, operands[0][1])}"
    texts = [f"{name}={_argument(view, i)}" if name else _argument(view, i) for name, i in operands]
    number = "" if row["delegate"] is None else f"[{row['delegate']}]"
    note = "" if row["available"] else "  (no kernel here)"
    return f"{row['name']}{number}({', '.join(texts)}){_results(view, step)}{note}"


def _step(view: View, step: Instruction, opened: set[int]) -> Iterator[str]:
    mark = ">" if (step.chain, step.number) in view.targets else " "
    yield f"   {mark}{step.number:4}  {visible(_call(view, step))}"
    if step.row["stack"]:
        file, line, function, context = structure.frame(step)
        parts = [file or "", function or "", context or ""]
        file, function, context = (_text.shortened(part, MAX_NAME_CHARACTERS) for part in parts)
        source = f": {context.strip()}" if context else ""
        yield "           # " + visible(f"{file}:{line} in {function}{source}")
    delegate = step.row["delegate"]
    if delegate is not None and delegate not in opened:
        opened.add(delegate)
        for line_ in _delegate(view, step, delegate):
            yield "           | " + visible(line_)


# ---- delegates -------------------------------------------------------------------------------


def _delegate(view: View, step: Instruction, index: int) -> Iterator[str]:
    row = view.structure["delegates"][index]
    where = "in the tables" if row["where"] == "inline" else f"in segment {row['index']}"
    place = "" if row["at"] is None else f", file @ {row['at']:#x}"
    yield f"payload of {_text.plural(row['size'], 'byte')} {where}{place}"
    for key, value in row["specs"]:
        yield f"compile spec {key}: {payloads.spec_text(value)}"
    yield from (f"{name}: {fact}" for name, fact in view.facts(index))
    nested = view.nested(index)
    for inner in nested:
        yield from ("\n".join(_method(inner))).split("\n")
    inside = view.inside(index)
    if isinstance(inside, str):
        yield f"cannot be opened: {inside}"
    elif inside is not None:
        values = {value["id"]: value for value in inside["values"]}
        outer = [arg[0] for arg in step.row["args"]]
        for number, node in enumerate(inside["nodes"]):
            yield f"{number:4}  {_node(node, values, outer)}"
    elif not nested:
        yield "no nodes: the backend is missing or does not describe them"


def inner_name(value: InnerValue, outer: list[int]) -> str:
    """Return the name of a value inside a delegate: the name of the argument, or its id."""
    at = value["argument"]
    return f"%{outer[at]}" if at is not None and at < len(outer) else f"v{value['id']}"


def inner_tensor(value: InnerValue) -> str:
    """Return the dtype and shape of a value, with its quantisation: "fp32 (1, 3)"."""
    note = " [" + _KEY.sub(r"\1...", value["note"]) + "]" if value["note"] else ""
    return f"{value['dtype'] or '?'} {structure.shape(value['shape'])}{note}"


def _node(node: InnerNode, values: dict[int, InnerValue], outer: list[int]) -> str:
    def read(index: int) -> str:
        value = values.get(index)
        if value is None:
            return f"v{index}"
        name = inner_name(value, outer)
        return f"{name} const {inner_tensor(value)}" if value["constant"] else name

    def written(index: int) -> str:
        value = values.get(index)
        return f"{inner_name(value, outer)} {inner_tensor(value)}" if value else f"v{index}"

    operands = [read(index) for index in node["inputs"]]
    operands += [node["note"]] if node["note"] else []
    results = ", ".join(written(index) for index in node["outputs"])
    handle = "" if node["debug_handle"] is None else f"  # debug handle {node['debug_handle']}"
    return f"{node['name'] or '?'}({', '.join(operands)}) -> {results}{handle}"
