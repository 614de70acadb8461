"""Builds the C core and the backends: one extension for csrc/, one for each folder of backends/.

Environment: EXECUTORCH_C_WERROR=1 makes warnings errors; EXECUTORCH_C_SANITIZE=address,undefined
builds with sanitizers; EXECUTORCH_C_JOBS is the number of compilers at once.
"""

from __future__ import annotations

import os
import shlex
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import MethodType

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

LAYERS = ("core", "format", "trace", "kernels", "backend", "runtime", "python")
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion"]
SANITIZE = os.environ.get("EXECUTORCH_C_SANITIZE", "")


def flags() -> list[str]:
    """Compiler flags: the same arithmetic everywhere, and no symbols but the module's."""
    out = ["-std=c11", "-D_GNU_SOURCE", "-fvisibility=hidden", "-ffp-contract=off"]
    out += ["-fno-math-errno", "-fno-trapping-math", *WARNINGS]
    if os.environ.get("EXECUTORCH_C_WERROR") == "1":
        out.append("-Werror")
    if SANITIZE:
        return [*out, "-O1", "-g", f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer"]
    return [*out, "-O3", "-g0"]


def sources(folder: Path) -> list[str]:
    """The C files below a folder, in an order that does not depend on the file system."""
    return sorted(path.as_posix() for path in folder.rglob("*.c"))


def extensions() -> list[Extension]:
    """`_core`, and `_backend_<name>` for every folder of backends/ that has C files."""
    link = [f"-fsanitize={SANITIZE}"] if SANITIZE else ["-Wl,-s"]
    # NumPy's and Python's headers are not ours to keep free of warnings.
    numpy_flags = ["-isystem", numpy.get_include()]
    core = Extension(
        "executorch_c._core",
        sources=[file for layer in LAYERS for file in sources(Path("csrc", layer))],
        include_dirs=["csrc", "csrc/include"],
        libraries=["m", "pthread"],
        extra_compile_args=[*flags(), *numpy_flags],
        extra_link_args=link,
    )
    backends = [
        Extension(
            f"executorch_c._backend_{folder.name}",
            sources=sources(folder),
            include_dirs=["csrc/include"],
            extra_compile_args=flags(),
            extra_link_args=link,
        )
        for folder in sorted(Path("backends").glob("*"))
        if folder.is_dir() and sources(folder) and folder.name != "xnnpack"  # needs its library
    ]
    return [core, *backends]


def is_fresh(target: str, flags_of_target: str) -> bool:
    """Whether an object is newer than all that it was made from, and made with these flags."""
    deps, stamp = Path(target + ".d"), Path(target + ".flags")
    try:
        made = Path(target).stat().st_mtime
        if stamp.read_text() != flags_of_target:
            return False
        names = shlex.split(deps.read_text().replace("\\\n", " ").partition(": ")[2])
        return all(Path(name).stat().st_mtime <= made for name in names)
    except OSError:
        return False


def compile_parallel(  # the signature is that of CCompiler.compile
    self,
    sources,
    output_dir=None,
    macros=None,
    include_dirs=None,
    debug=0,
    extra_preargs=None,
    extra_postargs=None,
    depends=None,
):
    """Compiles what is not fresh, several files at once."""
    _, objects, extra, pp_opts, build = self._setup_compile(
        output_dir, macros, include_dirs, sources, depends, extra_postargs
    )
    cc_args = self._get_cc_args(pp_opts, debug, extra_preargs)
    stamp = " ".join([*self.compiler_so, *cc_args, *extra])

    def one(target: str) -> None:
        source, suffix = build[target]
        if is_fresh(target, stamp):
            return
        listing = ["-MMD", "-MF", target + ".d"]
        self._compile(target, source, suffix, cc_args, [*extra, *listing], pp_opts)
        Path(target + ".flags").write_text(stamp)

    jobs = int(os.environ.get("EXECUTORCH_C_JOBS", os.cpu_count() or 1))
    with ThreadPool(jobs) as pool:
        pool.map(one, objects, chunksize=1)
    return objects


class BuildExt(build_ext):
    """build_ext whose compiler works on several files at once."""

    def build_extensions(self) -> None:
        self.compiler.compile = MethodType(compile_parallel, self.compiler)
        super().build_extensions()


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExt})
