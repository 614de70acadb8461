"""The C library, installed once for each state of the sources."""

import os
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

from executorch_c import _selective
from tests import ROOT, build_core, kept, process


SANITIZED = "-O1 -fsanitize=address,undefined -fno-sanitize-recover"
BUILD_SECONDS = 1800


def build_small(folder: Path, names: Collection[str], kept: Collection[str], flags: str) -> None:
    """Build a small library with operators and dtypes."""
    needs = _selective.SelectedOperators(frozenset(names), frozenset(kept), frozenset())
    _selective.write(folder, ROOT / "csrc", needs)
    options = (f"SELECT={folder}", f"BUILD={folder}/objects", f"CFLAGS={flags}", "selective")
    process.run("make", "-s", "-j2", "-C", ROOT / "csrc", *options, timeout=BUILD_SECONDS)


def install(prefix: Path) -> None:
    """Install with `make install`. Paths in the files are those of the kept folder."""
    final = prefix.parent.parent / prefix.name
    work = prefix.parent / "objects"
    process.run(
        *("make", "-C", str(ROOT / "csrc"), f"-j{os.cpu_count() or 1}", "WERROR=1"),
        *(f"BUILD={work}", f"DESTDIR={prefix}.part", f"PREFIX={final}", "install"),
    )
    Path(f"{prefix}.part{final}").replace(prefix)


def prefix() -> Path:
    """Return the folder where the library is installed."""
    return kept.file(f"c-library-{build_core.fingerprint(ROOT / 'backends')}", install)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run ec-run."""
    return process.run(str(prefix() / "bin/ec-run"), *map(str, arguments), timeout=60, ok=False)


def program(name: str, module: Any, *inputs: Any) -> Path:
    """Return a program without delegates."""
    from tests import exports

    key = kept.digest(packages=("torch", "executorch"))
    return kept.file(
        f"c-library-{name}-{key}.pte",
        lambda path: path.write_bytes(exports.lowered(module, *inputs)),
    )
