"""Selective builds: a C library with the operators and dtypes of some programs only."""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from executorch_c._core import Program
from executorch_c._files import is_package

ALWAYS = {"bool", "int64", "float32"}
"""Dtypes of masks, positions and scalars, in which kernels compute."""

HALVES = {"float16", "bfloat16"}
UNSIGNED_AND_SIGNED = ("uint8", {"int8": "int16", "int16": "int16", "int32": "int32"})


@dataclass(frozen=True)
class SelectedOperators:
    """What programs use: operators, and dtypes closed under promotion."""

    operators: frozenset[str]
    dtypes: frozenset[str]
    backends: frozenset[str]


def promoted(dtypes: Iterable[str]) -> frozenset[str]:
    """Return dtypes with those to which pairs of them are promoted."""
    names = ALWAYS | set(dtypes)
    unsigned, wider = UNSIGNED_AND_SIGNED
    if unsigned in names:
        names |= {wider[name] for name in names & set(wider)}
    if "complex64" in names and "float64" in names:
        names.add("complex128")
    if "complex128" in names:
        names.add("float64")
    return frozenset(names)


def needs_of(programs: Iterable[Program]) -> SelectedOperators:
    """Return the operators, dtypes and backends of all methods of programs."""
    operators, dtypes, backends = set[str](), set[str](), set[str]()
    for program in programs:
        required = program.requirements()
        operators |= set(required["operators"])
        backends |= set(required["backends"])
        for name in program.method_names:
            values = program._structure(name)["values"]
            dtypes |= {value["dtype"] for value in values if value["kind"] == "Tensor"}
    return SelectedOperators(frozenset(operators), promoted(dtypes), frozenset(backends))


def check_loadable(model: str, program: Program) -> None:
    """Raise ValueError for a program that no small library runs: it opens no .ptn, and no program
    inside a payload, which is what interpreted backends make of theirs."""
    if is_package(model):
        raise ValueError(
            f"{model}: small libraries load a .pte, not a native package: export the same module "
            "with to_edge(...).to_executorch(), or use the whole library (csrc/api/README.md)"
        )
    uses = [use for method in program.info()["methods"] for use in method["delegates"]]
    inside = sorted({use["id"] for use in uses if use["engine"] == "interpreted on the CPU"})
    if inside:
        raise ValueError(
            f"{model}: small libraries leave the interpreter of {', '.join(inside)} out: lower the "
            "same module to XNNPACK or to no backend, or use the whole library "
            "(csrc/api/README.md)"
        )


def source_tree(folder: str | None) -> Path:
    """Return the folder of the C sources. Raises FileNotFoundError if there is none."""
    root = Path(folder) if folder else Path(__file__).resolve().parent.parent
    if not (root / "csrc/kernels/ops.def").is_file():
        raise FileNotFoundError(
            f"{root} has no csrc/kernels/ops.def; a selective build needs the source tree of "
            "executorch_c: --source DIR"
        )
    return root / "csrc"


def rows_of(csrc: Path, operators: Iterable[str]) -> list[str]:
    """Return the rows of ops.def for operators. Raises LookupError with those that have none."""
    text = (csrc / "kernels/ops.def").read_text()
    rows = {m[1]: m[0] for m in re.finditer(r'^EC_OP\(\w+, "([^"(]+)\(.*$', text, re.M)}
    wanted = set(operators)
    if missing := sorted(wanted - set(rows)):
        raise LookupError(f"no kernels for {', '.join(missing)}")
    return [row for name, row in rows.items() if name in wanted]


def ids_of(csrc: Path) -> dict[str, int]:
    """Return the ids of dtypes by name."""
    text = (csrc / "core/dtype.def").read_text()
    return {
        m[2]: int(m[1]) for m in re.finditer(r'^EC_DTYPE\(\w+, *(\d+), *\d+, *"(\w+)"', text, re.M)
    }


def write(folder: Path, csrc: Path, needs: SelectedOperators) -> None:
    """Write the tables of a selective build: ops.def and dtypes.h."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = rows_of(csrc, needs.operators)
    ids = ids_of(csrc)
    mask = sum(1 << ids[name] for name in needs.dtypes)
    names = ", ".join(sorted(needs.dtypes, key=ids.__getitem__))
    (folder / "ops.def").write_text("\n".join(rows) + "\n")
    (folder / "dtypes.h").write_text(f"/* {names} */\n#define EC_KEPT_DTYPES {mask:#x}u\n")


def build(folder: Path, csrc: Path, jobs: int) -> None:
    """Compile the library and ec-run into a folder with tables. Raises RuntimeError with the
    compiler's last lines."""
    objects = folder / "objects"
    environment = {k: v for k, v in os.environ.items() if k not in ("CFLAGS", "MAKEFLAGS")}
    command = [
        "make",
        "-C",
        str(csrc),
        f"-j{jobs}",
        f"SELECT={folder.absolute()}",
        f"BUILD={objects.absolute()}",
        "selective",
    ]
    process = subprocess.run(command, capture_output=True, text=True, env=environment)
    if process.returncode:
        raise RuntimeError("make failed: " + "\n".join(process.stderr.splitlines()[-5:]))


SECTION = re.compile(
    r"^ \.(?P<section>text|rodata|data\.rel\.ro|data|bss)\S*\s+0x[0-9a-f]+\s+"
    r"0x(?P<size>[0-9a-f]+) (?P<file>\S+)$",
    re.M,
)


def sizes(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return bytes of code, constants and memory by part of the library, from the linker's map."""
    text = (folder / "objects/sizes.map").read_text()
    totals: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    text = re.sub(r"^( \.\S+)\n +", r"\1 ", text, flags=re.M)  # long names have their own line
    for match in SECTION.finditer(text[text.index("Linker script and memory map") :]):
        name = re.sub(r"^.*?objects/", "", match["file"])
        parts = name.split("/")
        inside = len(parts) > 2 and parts[0] == "kernels"
        part = "compiler" if name == match["file"] else "/".join(parts[: 2 if inside else 1])
        column = {"text": 0, "rodata": 1, "data.rel.ro": 1}.get(match["section"], 2)
        totals[part][column] += int(match["size"], 16)
    return {part: (row[0], row[1], row[2]) for part, row in totals.items() if any(row)}


CORE = {"core", "format", "trace", "backend", "runtime", "api"}
"""Parts that every build has."""


def totals(parts: dict[str, tuple[int, int, int]]) -> list[tuple[str, int, int, int]]:
    """Return rows for a table: kernels by family, the core, and all."""
    rows = [(name, *row) for name, row in sorted(parts.items()) if name not in CORE]
    core = [parts[name] for name in sorted(CORE & set(parts))]
    return [*rows, ("core", *_sum(core)), ("all", *_sum(parts.values()))]


def _sum(rows: Iterable[tuple[int, int, int]]) -> tuple[int, int, int]:
    code, constants, memory = map(sum, zip(*rows))
    return code, constants, memory


def run_once(folder: Path, models: Sequence[str]) -> None:
    """Run each method of the models on ones, with the library. Raises RuntimeError if one fails."""
    for model in models:
        for name in _method_names(model):
            command = [str(folder / "ec-run"), "--method", name, model]
            process = subprocess.run(command, capture_output=True, text=True)
            if process.returncode:
                why = process.stderr.strip() or f"exit code {process.returncode}"
                raise RuntimeError(f"{model}, method {name!r}: {why}")


def _method_names(model: str) -> list[str]:
    from executorch_c import load

    return sorted(load(model).method_names)
