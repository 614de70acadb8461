"""HTML tables for notebooks: `_repr_html_` of the types in C calls these functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from executorch_c._core import Method, MethodMeta, Program, Runtime, TensorInfo
from executorch_c._render import text as _text
from executorch_c._render.html import Markup, Rows, table, tag, together, without_empty

if TYPE_CHECKING:
    from executorch_c._types import DelegateUse, Requirements, ValueInfo


def _line(*caption: object) -> Markup:
    """Return a caption that may be wider than its table."""
    return tag("span", *caption, style="white-space: nowrap")


def _shape(sizes: Sequence[int], is_dynamic: bool) -> str:
    return _text.sizes(sizes, "≤" if is_dynamic else "")


def _value(role: str, index: int, kind: str, value: object) -> list[object]:
    if not isinstance(value, TensorInfo):
        return [f"{role} {index}", kind, "" if value is None else repr(value), "", "", ""]
    shape = _shape(value.shape, value.is_dynamic)
    return [
        f"{role} {index}",
        "",
        value.numpy_dtype,
        shape,
        _text.size(value.nbytes()),
        value.name or "",
    ]


def _caption(meta: MethodMeta, note: str = "") -> Markup:
    counts = [_text.plural(meta.num_inputs(), "input"), _text.plural(meta.num_outputs(), "output")]
    return _line("Method ", tag("b", meta.name()), f": {', '.join(counts)}{note}")


def _meta_table(meta: MethodMeta, caption: Markup) -> Markup:
    rows = [_value("input", i, *item) for i, item in enumerate(meta.inputs)]
    rows += [_value("output", i, *item) for i, item in enumerate(meta.outputs)]
    attributes = [meta.attribute_tensor_meta(i) for i in range(meta.num_attributes())]
    rows += [_value("attribute", i, "Tensor", item) for i, item in enumerate(attributes)]
    head = ["", "kind", "dtype or value", "shape", "size", "name"]
    return table(caption, *without_empty(head, rows, 4))


def method_meta(meta: MethodMeta) -> str:
    """Return inputs, outputs and attributes of a method."""
    return _meta_table(meta, _caption(meta))


MEMORY = {
    "planned": "planned",
    "shared": "shared with other methods",
    "native": "instructions",
    "folded": "constants computed at load",
    "packed": "packed weights",
    "merged": "merged copies",
    "recorded": "recorded calls",
    "scratch": "scratch",
    "heap": "unplanned tensors",
}
"""Titles of the sizes in Method.memory()."""


def method(loaded: Method) -> str:
    """Return inputs, outputs and memory of a loaded method, and the figures of its delegates."""
    memory = [
        f"{_text.size(int(str(size)))} {MEMORY.get(name, name)}"
        for name, size in loaded.memory().items()
        if size
    ]
    note = f"; {_text.plural(loaded.num_threads, 'thread')}; memory: {', '.join(memory) or 'none'}"
    rows: Rows = []
    for index, report in enumerate(loaded.backend_report()):
        figures = ", ".join(
            f"{name.replace('_', ' ')} {number:,}" for name, number in report["figures"].items()
        )
        rows.append([index, report["backend"], figures])
    delegates = table("Delegates", ["", "backend", "figures"], rows, 3) if rows else ""
    return together(_meta_table(loaded.metadata, _caption(loaded.metadata, note)), delegates)


def _signature(values: list[ValueInfo]) -> str:
    """Return the first values of a signature: "float32 (1, 3), Int"."""
    texts = [
        f"{value['dtype']} {_shape(value['shape'], value['dynamism'] != 'static')}"
        if value["kind"] == "Tensor"
        else value["kind"]
        for value in values[:MAX_LISTED]
    ]
    return "\n".join(
        [*texts, *([f"... {len(values) - MAX_LISTED} more"] if len(values) > MAX_LISTED else [])]
    )


MAX_LISTED = 4
"""Maximum number of listed inputs, outputs and missing operators."""


def _delegates(uses: list[DelegateUse]) -> str:
    counts: dict[str, int] = {}
    for use in uses:
        counts[use["id"]] = counts.get(use["id"], 0) + 1
    return "\n".join(f"{name} × {count}" if count > 1 else name for name, count in counts.items())


def _verdict(needs: Requirements) -> Markup:
    """Return missing operators and backends in red, or a sentence that nothing is missing."""
    parts = []
    for noun, names in (
        ("operator", needs["missing_operators"]),
        ("backend", needs["missing_backends"]),
        ("device", needs["missing_devices"]),
    ):
        if names:
            more = f", ... {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
            listed = ", ".join(names[:MAX_LISTED]) + more
            parts.append(f"{noun}{'s' if len(names) > 1 else ''} {listed}")
    if not parts:
        return Markup("can run here" + (" with kv_cache=" if needs["uses_kv_cache"] else ""))
    return tag("b", f"missing here: {'; '.join(parts)}", style="color: #b3261e")


def program(loaded: Program) -> str:
    """Return the methods of a program, and missing operators and backends."""
    info = loaded.info()
    rows: Rows = [
        [
            one["name"],
            _signature(one["inputs"]),
            _signature(one["outputs"]),
            _delegates(one["delegates"]),
            one["instructions"],
            len(one["operators"]),
            _text.size(one["constant_bytes"]),
            _text.size(sum(one["arenas"])),
        ]
        for one in info["methods"]
    ]
    head = [
        "method",
        "inputs",
        "outputs",
        "delegates",
        "instructions",
        "operators",
        "constants",
        "planned memory",
    ]
    data = sum(named["size"] for named in info["named_data"])
    note = f", {_text.size(data)} of named data" if data else ""
    caption = _line(
        f"Program of {_text.size(info['file_size'])}{note}: ", _verdict(loaded.requirements())
    )
    return table(caption, *without_empty(head, rows, 4))


def runtime(instance: Runtime) -> str:
    """Return the operators and backends of the runtime."""
    backends = instance.backend_registry
    rows: Rows = [
        [
            name,
            "available" if backends.is_available(name) else "not available on this machine",
            ", ".join(backends.option_keys(name)),
        ]
        for name in backends.registered_backend_names
    ]
    count = len(instance.operator_registry.operator_names)
    caption = (
        f"Runtime: {_text.plural(count, 'operator')}, "
        f"{_text.plural(instance.num_threads, 'thread')}"
    )
    return table(_line(caption), *without_empty(["backend", "", "options"], rows, 3))
