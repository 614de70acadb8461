"""Bytes of the C core by layer, and of the installed package by part."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from benchmarks.common import CACHE, ROOT, Row, Table

LAYERS = ("core", "format", "trace", "backend", "runtime", "kernels")
SMALL, FAST = "-Os", "-O2"


def kilobytes(value: float) -> str:
    return f"{value / 1e3:.1f} kB"


def flags() -> list[str]:
    """Return the flags of csrc/build.mk that change code."""
    text = (ROOT / "csrc" / "build.mk").read_text()
    words = text.replace("\\\n", " ")  # continued lines
    language = next(line for line in words.splitlines() if line.startswith("LANGUAGE"))
    return [*language.partition("=")[2].split(), "-DNDEBUG", "-g0", "-I.", "-Iinclude"]


def text_of(objects: Iterable[Path]) -> int:
    """Return the bytes of code and constants, which remain in a stripped library."""
    table = subprocess.run(
        ["size", *map(str, objects)], check=True, capture_output=True, text=True
    ).stdout
    return sum(int(line.split()[0]) for line in table.splitlines()[1:])


def compiled(layer: str, option: str) -> int:
    folder = CACHE / "sizes" / option / layer
    folder.mkdir(parents=True, exist_ok=True)
    source, objects = ROOT / "csrc", []
    for path in sorted((source / layer).rglob("*.c")):
        objects.append(folder / f"{'_'.join(path.relative_to(source).parts)}.o")
        command = ["gcc", *flags(), option, "-c", str(path), "-o", str(objects[-1])]
        subprocess.run(command, check=True, cwd=source, capture_output=True)
    return text_of(objects)


def package() -> list[str]:
    """Return a line for each part of the installed package."""
    import executorch_c

    folder = Path(executorch_c.__file__).parent
    files = [
        path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in str(path)
    ]
    lines = [
        f"{path.name} {kilobytes(path.stat().st_size)}" for path in sorted(folder.glob("*.so"))
    ]
    rest = sum(path.stat().st_size for path in files if path.suffix != ".so")
    return [*lines, f"Python files and data {kilobytes(rest)}"]


def measure(quick: bool) -> Table:
    table = Table(
        "Sizes",
        "Code and constants of each layer of the C core (`size`), without symbols. A device needs "
        "all layers, and of `kernels` the operators of its programs.",
        columns=(f"gcc {FAST}", f"gcc {SMALL}", "ratio"),
    )
    layers = LAYERS[:-1] if quick else LAYERS
    builds = {layer: (compiled(layer, FAST), compiled(layer, SMALL)) for layer in layers}
    for layer, sizes in builds.items():
        table.rows.append(Row(f"`{layer}/`", *sizes, kilobytes))
    fast, small = (sum(builds[layer][i] for layer in LAYERS[:-1]) for i in (0, 1))
    table.rows.append(Row("without kernels and Python", fast, small, kilobytes))
    table.notes.append(f"Installed package: {', '.join(package())}.")
    return table
