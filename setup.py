"""Builds the C core and the backends: one extension for csrc/, one for each folder of backends/.

Environment: EXECUTORCH_C_WERROR=1 makes warnings errors; EXECUTORCH_C_SANITIZE=address,undefined
builds with sanitizers; EXECUTORCH_C_JOBS is the number of compilers at once;
EXECUTORCH_C_XNNPACK=0 leaves XnnpackBackend out, XNNPACK_ROOT and EXECUTORCH_C_CACHE say where
XNNPACK is (backends/xnnpack/get_xnnpack).
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import MethodType

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import PlatformError

sys.path.insert(0, str(Path(__file__).resolve().parent / "backends" / "xnnpack"))
from get_xnnpack import Library, XnnpackError, find  # noqa: E402

LAYERS = ("core", "format", "trace", "kernels", "backend", "runtime", "python")
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion"]
SANITIZE = os.environ.get("EXECUTORCH_C_SANITIZE", "")
SHARED_SOURCES = {"xnnpack": ["csrc/core/error.c", "csrc/format/fb.c"]}
"""What a backend uses of the core, compiled into it: it links to nothing of ours."""


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
            sources=[*sources(folder), *SHARED_SOURCES.get(folder.name, [])],
            include_dirs=["csrc/include", *(["csrc"] if folder.name in SHARED_SOURCES else [])],
            extra_compile_args=flags(),
            extra_link_args=link,
        )
        for folder in sorted(Path("backends").glob("*"))
        if folder.is_dir() and sources(folder) and (folder.name != "xnnpack" or with_xnnpack())
    ]
    return [core, *backends]


def with_xnnpack() -> bool:
    """Whether XnnpackBackend is built; without it, the core has no need of pthreadpool either."""
    return os.environ.get("EXECUTORCH_C_XNNPACK", "1") != "0"


def link_with(library: Library, extension: Extension) -> None:
    """Links XnnpackBackend with XNNPACK, and the core with the thread pool that XNNPACK uses."""
    if extension.name == "executorch_c._backend_xnnpack":
        extension.extra_compile_args += library.compile_args
        extension.extra_link_args += library.link_args
    elif extension.name == "executorch_c._core":
        extension.define_macros.append(("EC_HAVE_PTHREADPOOL", "1"))
        extension.extra_compile_args += library.compile_args
        extension.extra_link_args += library.pthreadpool_args


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
    """build_ext whose compiler works on several files at once, and that brings XNNPACK."""

    library: Library | None = None

    def build_extensions(self) -> None:
        self.compiler.compile = MethodType(compile_parallel, self.compiler)
        self.force = True  # to link; what is compiled again is for compile_parallel to say
        package = Path(self.get_ext_fullpath("executorch_c._core")).parent
        for stale in package.glob("_backend_xnnpack.*"):
            stale.unlink()
        if with_xnnpack():
            try:
                self.library = find()
            except XnnpackError as error:
                raise PlatformError(str(error)) from None
            for extension in self.extensions:
                link_with(self.library, extension)
        super().build_extensions()
        self.bring_companions()

    def build_extension(self, ext: Extension) -> None:
        """Keeps the objects of a backend apart: it may compile the same sources in another way."""
        base = self.build_temp
        if ext.name != "executorch_c._core":
            self.build_temp = str(Path(base, ext.name))
        super().build_extension(ext)
        self.build_temp = base

    def copy_extensions_to_source(self) -> None:
        """For --inplace."""
        super().copy_extensions_to_source()
        self.bring_companions()

    def bring_companions(self) -> None:
        """Puts shared libraries of XNNPACK, and its licences, beside the extensions."""
        if not self.library:
            return
        package = Path(self.get_ext_fullpath("executorch_c._core")).parent
        (package / "licenses").mkdir(parents=True, exist_ok=True)
        for name, path in self.library.shared.items():
            shutil.copyfile(path, package / name)
        for path in self.library.licenses:
            shutil.copyfile(path, package / "licenses" / path.name)


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExt})
