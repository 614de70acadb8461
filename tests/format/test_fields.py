"""Each field of the schemas, set to unknown values: the use, an error, or neither, as its row in
the `.def` says."""

import copy
import functools
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import _core, _flatbuffers
from tests.backends.hostile_native import NATIVE
from tests.backends.hostile_tosa import TOSA
from tests.backends.hostile_vulkan import VULKAN
from tests.backends.payloads import Graph
from tests.backends.recorded import Recorded
from tests.format import fields
from tests.plans import Constants, Plan, build, schema

ONES = np.ones(4, np.float32)
FORMATS = {"Vulkan": VULKAN, "native": NATIVE, "TOSA": TOSA}
NUMBERS = {"1": (77, -1), "2": (77, -1), "4": (77, -1, 2**31 - 1), "8": (77, -1, 2**62)}
INSTANCES = 3
"""Maximum number of tables of a sample in which a field is changed."""
LIMITS = {"max_bytes": 1 << 26, "max_steps": 1 << 16}
Change = Callable[[Graph], None]
Edit = Callable[[Change], bytes]


# ---- samples ---------------------------------------------------------------------------------


def with_everything() -> bytes:
    """Return a program with all kinds of values, constants, state and places in the source."""
    constants, plan = Constants(), Plan()
    x, y = plan.input((4,)), plan.tensor((4,))
    state = plan.tensor((4,), buffer=constants.add_mutable(ONES), name="state")
    plan.call("aten::add.out", x, plan.constant(constants, 3 * ONES), 1, y)
    plan.call("aten::mul.Scalar_out", y, 2.5, y)
    plan.jump_false(plan.input((), "bool"), 4)
    plan.call("aten::add.out", y, state, 1, y)
    plan.call("aten::copy_", state, y, False, returns=[state])
    plan.call("aten::cat.out", [y, y], 0, plan.output((8,)))
    plan.call("aten::sum.IntList_out", y, [0], True, None, plan.output((1,)))
    image = plan.tensor((1, 1, 2, 2))
    plan.call("aten::view_copy.out", y, [1, 1, 2, 2], image)
    zero = plan.constant(constants, np.zeros(1, np.int64))
    plan.call("aten::index.Tensor_out", image, [None, zero], plan.output((1, 1, 2, 2)))
    large = plan.output((1, 1, 4, 4))
    plan.call("aten::upsample_nearest2d.vec_out", image, [4, 4], None, large)
    plan.move(plan.value(1), plan.take(0)[0])
    plan.take("text", True, 0.5, [True, False], [0.5])
    plan.plan.chains[0].stacktrace = [
        schema.FrameList([schema.Frame("net.py", 7, "forward", "y = x + 1")])
        for _ in plan.plan.chains[0].instructions
    ]
    plan.plan.non_const_buffer_device = [schema.NonConstBufferDevice(1, 0, 0)]
    plan.plan.container_meta_type = schema.ContainerMetadata("in", "out")
    return build(plan, constants=constants)


def header(flat: bytes, pte: bytes) -> bytes:
    """Return a .pte of tables and of another one's segments."""
    if pte[8:12] != b"eh00":
        return flat
    base, size = struct.unpack_from("<QQ", pte, 24)
    start = -(-(len(flat) + 32) // 128) * 128
    head = struct.pack("<4sIQQQ", b"eh00", 32, len(flat) + 32, start, size)
    root = struct.pack("<I", struct.unpack_from("<I", flat)[0] + 32)
    whole = root + flat[4:8] + head + flat[8:]
    return whole.ljust(start, b"\0") + pte[base : base + size]


def edit_program(pte: bytes) -> Edit:
    tables = _core._file_tables("pte")

    def edit(change: Change) -> bytes:
        root = _flatbuffers.read(pte, tables, "Program")
        change(root)
        flat = _flatbuffers.write(root, tables, "Program", "a test", identifier=b"ET12")
        return header(flat, pte)

    return edit


def samples(form: str) -> Iterator[tuple[dict[str, dict[str, str]], str, Edit, list[Any]]]:
    """Yield tables and root of a schema, an editor of a sample, and the sample's inputs."""
    if form == ".pte":
        inputs = [ONES, np.array(True)]
        yield _core._file_tables("pte"), "Program", edit_program(with_everything()), inputs
        return
    layout = FORMATS[form]
    for name in Recorded(layout.folder).names():
        if not name.startswith("vgf"):
            edit = functools.partial(layout.edited, name)
            yield layout.tables, layout.root, edit, Recorded(layout.folder).arrays(name)[0]


# ---- changes ---------------------------------------------------------------------------------


def tables_of(tables: Any, name: str, graph: Graph) -> Iterator[tuple[str, Graph]]:
    """Yield the name and fields of each table below one."""
    yield name, graph
    for field, value in graph.items():
        kind = tables[name][field]
        if kind.startswith("|"):
            yield from tables_of(tables, *value)
        for item in value if kind[0] == "[" and kind[1:-1] in tables else [value]:
            if isinstance(item, dict):
                yield from tables_of(tables, kind.strip("[]"), item)


def values_of(kind: str, value: Any) -> list[Any]:
    """Return unknown values of a field."""
    if kind in NUMBERS:
        return [number for number in NUMBERS[kind] if number != value]
    if kind == "string":
        return ["unknown"]
    if kind == "[string]":
        return [[*(value or []), "unknown"]]
    if kind == "[1]":
        return [b"M" * max(len(value or b""), 1)]
    if kind[1:-1] in NUMBERS:
        return [[77] * max(len(value or []), 1), [*(value or []), 77]]
    return []


def outcome(pte: bytes, inputs: list[Any]) -> str:
    """Return all that a program gives: outputs and what is shown of it, or the error."""
    try:
        program = executorch_c.load(pte)
        method = program.load_method("forward", **LIMITS)
        outputs = [np.asarray(out).tobytes() for out in method.execute(inputs)]
        count = len(program.info()["methods"][0]["delegates"])
        inside = [program._delegate("forward", i) for i in range(count)]
        return f"{outputs} {inside} {program._structure('forward')} {method.metadata}"
    except (executorch_c.Error, ValueError, TypeError, MemoryError) as error:
        return f"error: {error}"


def outcomes(edit: Edit, tables: Any, root: str, inputs: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each field of the sample's tables, and what its unknown values give: "same", "other"
    or "error"."""
    found: dict[Any, list[tuple[int, list[Any]]]] = {}

    def collect(graph: Graph) -> None:
        for at, (name, entries) in enumerate(tables_of(tables, root, graph)):
            for field, kind in tables[name].items():
                if not kind.startswith("|") and not field.endswith("_type"):
                    values = values_of(kind, entries.get(field))
                    found.setdefault((name, field, field in entries), []).append((at, values))

    usual = outcome(edit(collect), inputs)
    assert not usual.startswith("error"), usual
    for (name, field, _), every in found.items():
        spread = every[:: max(1, len(every) // INSTANCES)] + every[-1:]
        for at, value in ((at, value) for at, values in spread for value in values):

            def change(graph: Graph) -> None:
                list(tables_of(tables, root, graph))[at][1][field] = copy.copy(value)  # noqa: B023

            result = outcome(edit(change), inputs)
            same = "same" if result == usual else "other"
            yield (name, field), "error" if result.startswith("error") else same


@pytest.mark.parametrize("form", [".pte", *FORMATS])
def test_each_field_is_used_checked_or_ignored_as_its_row_says(form: str) -> None:
    results: dict[Any, set[str]] = {}
    for tables, root, edit, inputs in samples(form):
        for key, result in outcomes(edit, tables, root, inputs):
            results.setdefault(key, set()).add(result)
    wrong = []
    for row in fields.fields(form):
        seen = results.get((row.table, row.name))
        expected = {"used": {"error", "other"}, "ignored": {"same"}, "checked": {"error"}}
        if seen and not row.reason.startswith("only ") and not seen & expected[row.status]:
            wrong.append((row, seen))
        if seen and row.status == "ignored" and seen != {"same"}:
            wrong.append((row, seen))
    assert not wrong, "\n".join(f"{row.table}.{row.name} {row.status}: {s}" for row, s in wrong)


def test_the_table_is_not_stale() -> None:
    assert fields.table() in fields.README.read_text()
