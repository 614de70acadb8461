"""The extension of XnnpackBackend under AddressSanitizer and UndefinedBehaviorSanitizer.

XNNPACK itself and the rest of the package stay as they are: what reads untrusted payloads is the
backend. `build` compiles it, `environment` is that of a Python process which can load it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-fvisibility=hidden", "-fPIC", "-shared", "-O1", "-g",
         "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]  # fmt: skip


def build(folder: Path) -> Path:
    """The extension, in a folder."""
    sys.path.insert(0, str(ROOT / "backends" / "xnnpack"))
    try:
        import get_xnnpack
    finally:
        sys.path.pop(0)
    library = get_xnnpack.find()
    for name, path in library.shared.items():
        shutil.copy(path, folder / name)
    sources = sorted((ROOT / "backends" / "xnnpack").glob("*.c"))
    sources += [ROOT / "csrc" / "core" / "error.c", ROOT / "csrc" / "format" / "fb.c"]
    places = [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc' / 'include'}"]
    places += [f"-I{sysconfig.get_path('include')}", *library.compile_args]
    target = folder / f"_backend_xnnpack{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiler = os.environ.get("CC", "gcc")
    command = [compiler, *FLAGS, *places, *map(str, sources), *library.link_args]
    subprocess.run([*command, "-o", str(target)], check=True)
    return target


def environment() -> dict[str, str]:
    """Preloads the sanitizers' runtime, which must come before everything else."""
    runtimes = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libstdc++.so.6")  # the latter: torch's and NumPy's exceptions
    ]
    options = "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=2000"
    return {**os.environ, "LD_PRELOAD": " ".join(runtimes), "ASAN_OPTIONS": options}
