"""The extension of XnnpackBackend under AddressSanitizer and UndefinedBehaviorSanitizer.

Only the backend reads untrusted payloads, so XNNPACK and the rest of the package are not
instrumented. `build` compiles the backend, `environment` returns the environment that loads it.
"""

import os
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import get_xnnpack
from tests import ROOT, build_core, kept, process

sys.path.insert(0, str(ROOT / "csrc"))
import ninja_build

FOLDER = ROOT / "backends" / "xnnpack"
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
FLAGS = ["-O0", "-g1"]  # quick to build
NAME = f"_backend_xnnpack{sysconfig.get_config_var('EXT_SUFFIX')}"


def build(sanitize: Sequence[str] = SANITIZE) -> Path:
    """Return the extension with these arguments of the compiler, in the cache."""
    library = get_xnnpack.find()
    key = kept.digest(FLAGS, sanitize, str(library.root), sysconfig.get_path("include"))
    name = f"sanitized-{build_core.fingerprint(ROOT / 'backends')}-{key}"
    return kept.file(name, lambda folder: compile_into(folder, library, sanitize)) / NAME


def compile_into(folder: Path, library: get_xnnpack.Library, sanitize: Sequence[str]) -> None:
    folder.mkdir()
    for name, path in library.shared.items():
        shutil.copy(path, folder / name)
    target = folder / NAME
    flags = [*ninja_build.language(), *FLAGS, *sanitize]
    flags += [*ninja_build.includes(), *ninja_build.includes(FOLDER)]
    flags += [f"-I{sysconfig.get_path('include')}", *library.compile_args]
    sources = ninja_build.backend_sources(FOLDER)
    objects = ninja_build.Objects("xnnpack", sources, flags)
    link_args = [*sanitize, *library.link_args]
    ninja_build.build([ninja_build.SharedObject(target, [objects], link_args)], folder / "objects")
    shutil.rmtree(folder / "objects")


def environment() -> dict[str, str]:
    """Return an environment that preloads the sanitizers' runtime."""
    runtimes = [
        process.run("gcc", f"-print-file-name={name}").stdout.strip()
        for name in ("libasan.so", "libstdc++.so.6")  # for exceptions of torch and NumPy
    ]
    options = "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=2000"
    return {**os.environ, "LD_PRELOAD": " ".join(runtimes), "ASAN_OPTIONS": options}
