"""Each field of the schemas, set to unknown values: the use, an error, or neither, as its row in
the `.def` says."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

import executorch_c
from tests.backends.payloads import Graph
from tests.format import fields
from tests.format.field_samples import SAMPLES, Sample, Tables

NUMBERS = {"1": (77, -1, 0), "2": (77, -1), "4": (77, -1, 2**31 - 1), "8": (77, -1, 2**62)}
INSTANCES = 3
"""Maximum number of tables of a sample in which a field is changed."""
RESULTS = 4
"""Number of values with an effect after which a field is left out."""
UNSEEN = {
    "Vulkan": "DoubleList SymInt",
    "native": "AffineGroup PackedQuant StringArg ScalarTypeArg FloatListArg BoolListArg"
    " OptionalTensorListArg MutableBufferSpec",
    "TOSA": "Nan AvgPool AvgPoolAdaptive TransposeConv Fft Rfft RightShift Resize Custom CondIf"
    " WhileLoop BlockScaled AssertEqual",
    "Core ML": "EnumeratedShapes Shape FunctionDescription",
}
"""Tables of no sample, which tests/backends/ runs, and damages, in exported programs."""
EXPECTED = {
    "used": {"error", "other"},
    "ignored": {"same"},
    "checked": {"error"},
    "refused": {"error"},
}


def owner(tables: Tables, name: str) -> str:
    """Return the first table with the fields of a table: members of unions share them."""
    return next(one for one, entries in tables.items() if entries is tables[name])


def tables_of(tables: Tables, name: str, graph: Graph) -> Iterator[tuple[str, Graph]]:
    """Yield the name and fields of each table below one."""
    yield name, graph
    for field, value in graph.items():
        kind = tables[name][field]
        if kind.startswith("|"):
            yield from tables_of(tables, *value)
        for item in value if kind[0] == "[" and kind[1:-1] in tables else [value]:
            if isinstance(item, dict):
                yield from tables_of(tables, kind.strip("[]"), item)


def is_union_type(entries: dict[str, str], field: str) -> bool:
    return entries.get(field.removesuffix("_type"), "").startswith("|")


def is_structural(tables: Tables, table: str, field: str) -> bool:
    """Return True for tables and for the types of unions: their fields are used."""
    kind = tables[table][field]
    return kind.strip("[]") in tables or kind[0] == "|" or is_union_type(tables[table], field)


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
    return [[*(value or []), {}]] if kind[0] == "[" else []


def outcome(sample: Sample, file: bytes) -> str:
    """Return all that the library shows of a file, or the error."""
    try:
        return sample.shown(file)
    except (executorch_c.Error, ValueError, TypeError, MemoryError, LookupError) as error:
        return f"error: {error}"


def results_of(sample: Sample, seen: dict[Any, int]) -> Iterator[tuple[Any, Any]]:
    """Yield each field of the sample's tables, and what its unknown values give: "same", "other"
    or "error"; `seen` counts those with an effect."""
    tables = sample.tables
    changes: dict[Any, list[tuple[int, list[Any]]]] = {}

    def collect(graph: Graph) -> None:
        for at, (name, entries) in enumerate(tables_of(tables, sample.root, graph)):
            for field, kind in tables[name].items():
                key = owner(tables, name), field, field in entries
                if not field.startswith("_") and not is_union_type(tables[name], field):
                    values = values_of(kind, entries.get(field))
                    changes.setdefault(key, []).append((at, values))

    usual = outcome(sample, sample.edited(collect))
    assert not usual.startswith("error"), usual
    for key, every in changes.items():
        spread = every[:: max(1, len(every) // INSTANCES)] + every[-1:]
        for at, value in ((at, value) for at, values in spread for value in values):
            if seen.get(key, 0) >= RESULTS:
                break

            def change(graph: Graph) -> None:
                table = list(tables_of(tables, sample.root, graph))[at][1]  # noqa: B023
                table[key[1]] = copy.copy(value)  # noqa: B023

            result = outcome(sample, sample.edited(change))
            seen[key] = seen.get(key, 0) + (result != usual)
            same = "same" if result == usual else "other"
            yield key[:2], "error" if result.startswith("error") else same


def is_accepted(sample: Sample, name: str) -> bool:
    """Return whether a member of a union in place of the first one gives no error."""

    def change(graph: Graph) -> None:
        for _, entries in tables_of(sample.tables, sample.root, graph):
            for value in entries.values():
                if isinstance(value, list) and value and isinstance(value[0], str):
                    value[:] = [name, {}]
                    return

    return not outcome(sample, sample.edited(change)).startswith("error")


@pytest.mark.parametrize("form", fields.FILES)
def test_each_field_is_used_checked_or_ignored_as_its_row_says(form: str) -> None:
    results: dict[Any, set[str]] = {}
    seen: dict[Any, int] = {}
    tables: Tables = {}
    wrong: list[str] = []
    for sample in SAMPLES[form]():
        tables = sample.tables
        wrong += [name for name in fields.refused(form) if is_accepted(sample, name)]
        for key, result in results_of(sample, seen):
            results.setdefault(key, set()).add(result)
    unseen = UNSEEN.get(form, "").split()
    wrong += [table for table, _ in results if table in unseen]
    for row in fields.fields(form):
        found = results.get((row.table, row.name), set())
        if row.table in unseen:
            continue
        elsewhere = row.reason.startswith("only ") or is_structural(tables, row.table, row.name)
        if row.status == "used" and elsewhere:
            continue
        if not found & EXPECTED[row.status] or (row.status == "ignored" and found != {"same"}):
            wrong.append(f"{row.table}.{row.name} {row.status}: {found or 'in no sample'}")
    assert not wrong, "\n".join(wrong)


def test_the_table_is_not_stale() -> None:
    assert fields.table() in fields.README.read_text()
