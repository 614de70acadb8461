"""HTML: tables for notebooks (what _repr_html_ of the types in C shows) and pages of reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, TypeAlias

from executorch_c import _text
from executorch_c._core import Method, MethodMeta, Program, Runtime, TensorInfo

if TYPE_CHECKING:
    from executorch_c._types import DelegateUse, Requirements, ValueInfo


Rows: TypeAlias = "list[list[object]]"


class Markup(str):
    """A cell that is HTML."""


def _cell(item: object) -> str:
    return item if isinstance(item, Markup) else escape(str(item))


def table(
    caption: str, head: Iterable[str], rows: Iterable[Iterable[object]], text_columns: int = 0
) -> str:
    """An HTML table; the caption is HTML, cells are text or Markup.

    The first `text_columns` columns are set to the left and keep their spaces.
    """
    left = ' style="text-align: left; white-space: pre-wrap"'
    names = (f"<th{left if i < text_columns else ''}>{escape(name)}</th>"
             for i, name in enumerate(head))  # fmt: skip
    cells = ["<tr>" + "".join(names) + "</tr>"]
    for row in rows:
        cells.append("<tr>" + "".join(
            f"<td{left if i < text_columns else ''}>{_cell(item)}</td>"
            for i, item in enumerate(row)
        ) + "</tr>")  # fmt: skip
    return f"<table><caption>{caption}</caption>{''.join(cells)}</table>"


def without_empty(head: list[str], rows: Rows, text_columns: int) -> tuple[list[str], Rows, int]:
    """Head, rows and text columns for `table`, without columns that have nothing in them."""
    keep = [c for c in range(len(head)) if not rows or any(str(row[c]) for row in rows)]
    kept = [[row[c] for c in keep] for row in rows]
    return [head[c] for c in keep], kept, sum(c < text_columns for c in keep)


def bar(offset: float, width: float, second: bool = False) -> Markup:
    """A bar in a strip, both as shares of it; `second` is for those in another colour."""
    width = min(max(width, 0.002), 1)
    offset = min(max(offset, 0), 1 - width)
    color = "#8250df" if second else "#1f6feb"
    return Markup(
        '<div style="width: 16em; height: .8em; background: rgba(128,128,128,.15)">'
        f'<div style="margin-left: {100 * offset:.2f}%; width: {100 * width:.2f}%; height: 100%; '
        f'background: {color}"></div></div>'
    )


_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em;
       color: #1b1f24; background: #fff }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums }
caption { text-align: left; padding: .3em 0; color: #57606a }
th, td { padding: .2em .7em; border-bottom: 1px solid #d8dee4; text-align: right }
th { border-bottom-width: 2px; font-weight: 600 }
tr:hover td { background: #f3f6f9 }
pre, code { font: 13px/1.4 ui-monospace, monospace } pre { overflow-x: auto }
img, svg { max-width: 100%; height: auto }
.bad { color: #b3261e; font-weight: 600 } .good { color: #1a7f37; font-weight: 600 }
@media (prefers-color-scheme: dark) {
  body { color: #d6dbe1; background: #16191d } caption { color: #9aa4af }
  th, td { border-color: #333a42 } tr:hover td { background: #20252b }
  .bad { color: #ff8078 } .good { color: #57c26d } img { background: #fff } }
"""


def page(title: str, *sections: str) -> str:
    """A page of its own, without anything from elsewhere; the title is text, sections are HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n" + "\n".join(sections) + "\n</body></html>\n"
    )


# ---- types in C ------------------------------------------------------------------------------

def _line(caption: str) -> str:
    """A caption that may be wider than its table."""
    return f'<span style="white-space: nowrap">{caption}</span>'


def _shape(sizes: Sequence[int], is_dynamic: bool) -> str:
    text = ", ".join(f"≤{size}" if is_dynamic else str(size) for size in sizes)
    return f"({text},)" if len(sizes) == 1 else f"({text})"


def _value(role: str, index: int, kind: str, value: object) -> list[object]:
    if not isinstance(value, TensorInfo):
        return [f"{role} {index}", kind, "" if value is None else repr(value), "", "", ""]
    shape = _shape(value.shape, value.is_dynamic)
    return [f"{role} {index}", "", value.numpy_dtype, shape, _text.size(value.nbytes()),
            value.name or ""]  # fmt: skip


def _caption(meta: MethodMeta, note: str = "") -> str:
    counts = [_text.plural(meta.num_inputs(), "input"), _text.plural(meta.num_outputs(), "output")]
    return _line(f"Method <b>{escape(meta.name())}</b>: {', '.join(counts)}{escape(note)}")


def _meta_table(meta: MethodMeta, caption: str) -> str:
    rows = [_value("input", i, *item) for i, item in enumerate(meta.inputs)]
    rows += [_value("output", i, *item) for i, item in enumerate(meta.outputs)]
    attributes = [meta.attribute_tensor_meta(i) for i in range(meta.num_attributes())]
    rows += [_value("attribute", i, "Tensor", item) for i, item in enumerate(attributes)]
    head = ["", "kind", "dtype or value", "shape", "size", "name"]
    return table(caption, *without_empty(head, rows, 4))


def method_meta(meta: MethodMeta) -> str:
    """Inputs, outputs and attributes of a method."""
    return _meta_table(meta, _caption(meta))


MEMORY = {
    "planned": "planned", "shared": "shared with other methods", "native": "instructions",
    "scratch": "scratch", "heap": "unplanned tensors",
}  # fmt: skip
"""What the figures of Method.memory() are called."""


def method(loaded: Method) -> str:
    """A loaded method: its inputs and outputs, memory, and what its delegates say of themselves."""
    figures = loaded.memory().items()
    memory = [f"{_text.size(int(str(size)))} {MEMORY.get(name, name)}"
              for name, size in figures if size]  # fmt: skip
    note = f"; {_text.plural(loaded.num_threads, 'thread')}; memory: {', '.join(memory) or 'none'}"
    rows: Rows = []
    for index, report in enumerate(loaded.backend_report()):
        told = ", ".join(f"{name.replace('_', ' ')} {number:,}"
                         for name, number in report["figures"].items())  # fmt: skip
        rows.append([index, report["backend"], told])
    delegates = table("Delegates", ["", "backend", "figures"], rows, 3) if rows else ""
    return _meta_table(loaded.metadata, _caption(loaded.metadata, note)) + delegates


def _signature(values: list[ValueInfo]) -> str:
    """"float32 (1, 3), Int": the first ones."""
    texts = [
        f"{value['dtype']} {_shape(value['shape'], value['dynamism'] != 'static')}"
        if value["kind"] == "Tensor" else value["kind"]
        for value in values[:MOST]
    ]  # fmt: skip
    return "\n".join([*texts, *([f"... {len(values) - MOST} more"] if len(values) > MOST else [])])


MOST = 4
"""So many inputs or outputs of a method, and missing operators, are listed."""


def _delegates(uses: list[DelegateUse]) -> str:
    counts: dict[str, int] = {}
    for use in uses:
        counts[use["id"]] = counts.get(use["id"], 0) + 1
    return "\n".join(f"{name} × {count}" if count > 1 else name for name, count in counts.items())


def _verdict(needs: Requirements) -> str:
    """Whether a program can run here; what is missing is red."""
    parts = []
    for noun, names in (("operator", needs["missing_operators"]),
                        ("backend", needs["missing_backends"])):  # fmt: skip
        if names:
            more = f", ... {len(names) - MOST} more" if len(names) > MOST else ""
            listed = ", ".join(names[:MOST]) + more
            parts.append(f"{noun}{'s' if len(names) > 1 else ''} {listed}")
    if not parts:
        return "can run here"
    return f'<b style="color: #b3261e">missing here: {escape("; ".join(parts))}</b>'


def program(loaded: Program) -> str:
    """The methods of a program, and what it needs that is missing."""
    info = loaded.info()
    rows: Rows = [
        [
            one["name"], _signature(one["inputs"]), _signature(one["outputs"]),
            _delegates(one["delegates"]), one["instructions"], len(one["operators"]),
            _text.size(one["constant_bytes"]), _text.size(sum(one["arenas"])),
        ]
        for one in info["methods"]
    ]  # fmt: skip
    head = ["method", "inputs", "outputs", "delegates", "instructions", "operators", "constants",
            "planned memory"]  # fmt: skip
    data = sum(named["size"] for named in info["named_data"])
    note = f", {_text.size(data)} of named data" if data else ""
    caption = (f"Program of {_text.size(info['file_size'])}{note}: "
               f"{_verdict(loaded.requirements())}")  # fmt: skip
    return table(_line(caption), *without_empty(head, rows, 4))


def runtime(instance: Runtime) -> str:
    """What the runtime can run."""
    backends = instance.backend_registry
    rows: Rows = [
        [name, "available" if backends.is_available(name) else "not available on this machine",
         ", ".join(backends.option_keys(name))]
        for name in backends.registered_backend_names
    ]  # fmt: skip
    count = len(instance.operator_registry.operator_names)
    caption = (f"Runtime: {_text.plural(count, 'operator')}, "
               f"{_text.plural(instance.num_threads, 'thread')}")  # fmt: skip
    return table(_line(caption), *without_empty(["backend", "", "options"], rows, 3))
