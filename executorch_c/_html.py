"""Tables for notebooks: what _repr_html_ of the types in C shows. Imported when first needed."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from executorch_c._core import Method, MethodMeta, Program, Runtime, TensorInfo


def _table(caption: str, head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """An HTML table; the caption is HTML, cells are text."""
    cells = ["<tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>"]
    for row in rows:
        cells.append("<tr>" + "".join(f"<td>{escape(str(item))}</td>" for item in row) + "</tr>")
    return f"<table><caption>{caption}</caption>{''.join(cells)}</table>"


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
    return _table(f"Method <b>{escape(meta.name())}</b>", head, rows)


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
    return _table("Program", head, rows) + note


def runtime(instance: Runtime) -> str:
    """What the runtime can run."""
    backends = instance.backend_registry
    rows = [
        [name, "available" if backends.is_available(name) else "not available on this machine"]
        for name in backends.registered_backend_names
    ]
    count = len(instance.operator_registry.operator_names)
    return _table(f"Runtime with {count} operators and these backends", ["backend", ""], rows)
