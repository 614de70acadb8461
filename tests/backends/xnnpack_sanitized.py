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

import get_xnnpack

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "csrc"))
import ninja_build

SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def build(folder: Path) -> Path:
    """The extension, in a folder."""
    library = get_xnnpack.find()
    for name, path in library.shared.items():
        shutil.copy(path, folder / name)
    target = folder / f"_backend_xnnpack{sysconfig.get_config_var('EXT_SUFFIX')}"
    flags = [*ninja_build.language(), "-O1", "-g", *SANITIZE, *ninja_build.includes()]
    flags += [f"-I{sysconfig.get_path('include')}", *library.compile_args]
    sources = ninja_build.backend_sources(ROOT / "backends" / "xnnpack")
    objects = ninja_build.Objects("xnnpack", sources, flags)
    link_args = [*SANITIZE, *library.link_args]
    ninja_build.build([ninja_build.SharedObject(target, [objects], link_args)], folder / "objects")
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
