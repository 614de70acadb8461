"""HTML: tables for notebooks (what _repr_html_ of the types in C shows) and pages of reports."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from executorch_c._core import Method, MethodMeta, Program, Runtime, TensorInfo


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
    left = ' style="text-align: left; white-space: pre"'
    names = (f"<th{left if i < text_columns else ''}>{escape(name)}</th>"
             for i, name in enumerate(head))  # fmt: skip
    cells = ["<tr>" + "".join(names) + "</tr>"]
    for row in rows:
        cells.append("<tr>" + "".join(
            f"<td{left if i < text_columns else ''}>{_cell(item)}</td>"
            for i, item in enumerate(row)
        ) + "</tr>")  # fmt: skip
    return f"<table><caption>{caption}</caption>{''.join(cells)}</table>"


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


def _value(role: str, index: int, kind: str, value: object) -> list[object]:
    if not isinstance(value, TensorInfo):
        return [f"{role} {index}", kind, "" if value is None else repr(value), "", ""]
    shape = tuple(f"≤{size}" for size in value.shape) if value.is_dynamic else value.shape
    text = "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
    return [f"{role} {index}", kind, value.numpy_dtype, text, value.name or ""]


def method_meta(meta: MethodMeta) -> str:
    """Inputs, outputs and attributes of a method."""
    rows = [_value("input", i, *item) for i, item in enumerate(meta.inputs)]
    rows += [_value("output", i, *item) for i, item in enumerate(meta.outputs)]
    attributes = [meta.attribute_tensor_meta(i) for i in range(meta.num_attributes())]
    rows += [_value("attribute", i, "Tensor", item) for i, item in enumerate(attributes)]
    head = ["", "kind", "dtype or value", "shape", "name"]
    return table(f"Method <b>{escape(meta.name())}</b>", head, rows)


def method(loaded: Method) -> str:
    """A loaded method: its metadata and memory."""
    memory = ", ".join(f"{name} {size:,}" for name, size in loaded.memory().items())
    return method_meta(loaded.metadata) + f"<p>bytes of memory: {escape(memory)}</p>"


def program(loaded: Program) -> str:
    """The methods of a program, and what it needs that is missing."""
    rows = [
        [
            one["name"],
            len(one["inputs"]),
            len(one["outputs"]),
            one["instructions"],
            sum(one["arenas"]),
            ", ".join(use["id"] for use in one["delegates"]),
        ]
        for one in loaded.info()["methods"]
    ]
    head = ["method", "inputs", "outputs", "instructions", "planned bytes", "delegates"]
    needs = loaded.requirements()
    missing = needs["missing_operators"] + needs["missing_backends"]
    note = f"<p>missing here: {escape(', '.join(missing))}</p>" if missing else ""
    return table("Program", head, rows) + note


def runtime(instance: Runtime) -> str:
    """What the runtime can run."""
    backends = instance.backend_registry
    rows = [
        [name, "available" if backends.is_available(name) else "not available on this machine"]
        for name in backends.registered_backend_names
    ]
    count = len(instance.operator_registry.operator_names)
    return table(f"Runtime with {count} operators and these backends", ["backend", ""], rows)
