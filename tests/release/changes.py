"""Differences of two snapshots, and which of them are unknown here.

A change is known if the tables of this repository have it (fields of the formats, operators,
backends), or if a row of reviewed.tsv says why it is of no consequence.
"""

import ast
import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.format import fields

Snapshot = dict[str, Any]
PARTS = ("schemas", "operators", "backends", "passes", "dialects", "api", "uses")
REVIEWED = Path(__file__).with_name("reviewed.tsv")
FORMATS = {
    "program.fbs": ".pte",
    "flat_tensor.fbs": ".ptd",
    "bundled_program_schema.fbs": ".bpte",
    "etdump_schema_flatcc.fbs": "ETDump",
    "xnnpack/serialization/runtime_schema.fbs": "XNNPACK",
    "mlx/serialization/schema.fbs": "MLX",
    "native/serialization/native_graph.fbs": "native",
    "vulkan/serialization/schema.fbs": "Vulkan",
    "tosa/schemas/tosa_1.0.fbs": "TOSA",
    "tosa/schemas/tosa_1.1.fbs": "TOSA",
}
"""Ends of the paths of schemas, and their formats in tests/format/fields.py; the other schemas are
of payloads for compilers that are not here."""
TORCH = {
    "aten",
    "torchao",
    "prim",
    "prims",
    "quantized",
    "inductor",
    "profiler",
    "_test",
    "_c10d_functional",
}
"""Namespaces of the operators of torch and torchao, which have other versions."""
GENERIC = ("kernel ", "runtime ")


@dataclass(frozen=True)
class Change:
    """A difference of one name."""

    part: str
    name: str
    what: str
    """New, gone or changed, from the installed release to the other one; or a fault."""
    detail: str = ""
    reason: str = ""
    """Why it is known; empty: it is unknown."""


# ---- what is known here ----------------------------------------------------------------------


def fields_here(schema: str) -> set[tuple[str, str]] | None:
    """Return the fields that are read of a schema, by its path; None: nothing reads it."""
    for end, form in FORMATS.items():
        if schema.endswith(end):
            return {(row.table, row.name) for row in fields.rows(form)}
    return None


def operators_here() -> dict[str, str]:
    """Return the schemas of the operators of this runtime."""
    import executorch_c

    return {row["name"]: row["schema"] for row in executorch_c.operators()}


def backends_here() -> set[str]:
    """Return the ids that are run or named here."""
    import executorch_c

    text = (ROOT / "csrc/backend/known.def").read_text()
    known = set(re.findall(r'^EC_KNOWN_BACKEND\("(\w+)"', text, re.M))
    return known | set(executorch_c.Runtime.get().backend_registry.registered_backend_names)


def uses(folders: tuple[str, ...] = ("executorch_c", "tests")) -> list[str]:
    """Return the names of executorch that the package and its tests import: "module:name"."""
    names = set()
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    names |= {f"{node.module}:{alias.name}" for alias in node.names}
                elif isinstance(node, ast.Import):
                    names |= {f"{alias.name}:" for alias in node.names}
    return sorted(name for name in names if re.match(r"executorch[.:]", name))


# ---- differences -----------------------------------------------------------------------------


def differences(part: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Change]:
    """Yield the differences of a part by name."""
    for name in sorted({*old, *new}):
        if name not in old:
            yield Change(part, name, "new", shown(new[name]))
        elif name not in new:
            yield Change(part, name, "gone")
        elif old[name] != new[name] and part != "passes" and part != "dialects":
            yield Change(part, name, "changed", f"{shown(old[name])} -> {shown(new[name])}")


def shown(value: Any) -> str:
    return " ".join(str(value).split())


def declarations(schemas: dict[str, dict[str, list[str]]]) -> dict[str, str]:
    """Return the fields and members of schemas by "path table T.field"; a field's value has its
    number, because a format only grows at the ends of its tables."""
    rows = {}
    for path, entries in schemas.items():
        for declaration, lines in entries.items():
            for number, line in enumerate(lines):
                head, _, rest = re.sub(r"\s", "", line).partition(":")
                name, _, value = head.partition("=")
                place = f"= {value}" if value and not rest else f"{number} {rest}"
                rows[f"{path} {declaration}.{name}"] = place
    return rows


def all_differences(old: Snapshot, new: Snapshot) -> Iterator[Change]:
    """Yield the differences of all parts, and what only the new snapshot could not read."""
    for name in sorted({*new.get("errors", {})} - {*old.get("errors", {})}):
        yield Change("errors", name, "not read", shown(new["errors"][name]))
    for part in PARTS:
        before, after = old[part], new[part]
        if part == "schemas":
            before, after = declarations(before), declarations(after)
        yield from differences(part, before, after)


# ---- judgement -------------------------------------------------------------------------------


@dataclass
class Known:
    """The tables of this repository, and the rows of reviewed.tsv."""

    operators: dict[str, str]
    backends: set[str]
    rows: list[tuple[str, str, str, str]]
    """Part, pattern of a name, pattern of a release, reason."""

    @classmethod
    def here(cls) -> "Known":
        lines = REVIEWED.read_text().splitlines()
        cells = [line.split("\t") for line in lines if line and not line.startswith("#")]
        return cls(operators_here(), backends_here(), [(a, b, c, d) for a, b, c, d in cells])

    def by_table(self, change: Change) -> str:
        """Return the table that has a change, or nothing."""
        if change.what == "gone" and change.part != "uses":
            return "nothing here needs it of the release: programs of it are in golden/"
        if change.what == "not run by either":
            return "the installed release does not run it here, either"
        if change.part == "schemas":
            path, _, declaration = change.name.partition(" ")
            known = fields_here(path)
            if known is None:
                return "a schema that nothing here reads"
            kind, _, field = declaration.partition(" ")
            if kind == "table" and change.what == "new" and tuple(field.split(".")) in known:
                return "a field of the tables here"
        if change.part == "operators":
            name = change.name.split()[-1]
            schema = self.operators.get(name, "")
            if name.split("::")[0] in TORCH and not change.name.startswith(GENERIC):
                return "an operator of torch"
            if change.name.startswith(GENERIC) and schema:
                return "an operator of this runtime"
            if schema and change.detail.endswith(schema):
                return "an operator of this runtime, with this schema"
        if change.part == "backends" and change.name.split()[-1] in self.backends:
            return "an id of known.def or of a backend here"
        return ""

    def reason(self, change: Change, release: str) -> str:
        """Return why a change is known, or nothing."""
        reason = self.by_table(change)
        for part, pattern, releases, why in self.rows:
            if reason:
                break
            if part == change.part and fnmatch.fnmatchcase(release, releases):
                reason = why if fnmatch.fnmatchcase(change.name, pattern) else ""
        return reason

    def judged(self, row: Change, release: str) -> Change:
        """Return a change with its reason."""
        return replace(row, reason=self.reason(row, release))
