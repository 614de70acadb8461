"""Builds the C core and the backends: one extension for csrc/, one for each folder of backends/.

Environment: EXECUTORCH_C_WERROR=1 makes warnings errors, EXECUTORCH_C_SANITIZE=address,undefined
adds sanitizers, EXECUTORCH_C_JOBS is the number of compilers at once, EXECUTORCH_C_XNNPACK=0 leaves
XnnpackBackend out, EXECUTORCH_C_XNNPACK=corrections what makes XNNPACK faster; XNNPACK_ROOT,
EXECUTORCH_C_CACHE: backends/xnnpack/get_xnnpack. CC, CFLAGS, ...
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

import numpy
from setuptools import Extension, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.egg_info import write_entries, write_pkg_info
from setuptools.errors import CompileError

ROOT = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT / "csrc"), str(ROOT / "backends" / "xnnpack")]
import ninja_build
from get_xnnpack import Library, XnnpackError, find, is_pinned, sbom

SANITIZE = os.environ.get("EXECUTORCH_C_SANITIZE", "")
XNNPACK = os.environ.get("EXECUTORCH_C_XNNPACK", "1") != "0"
"""Whether XnnpackBackend is built; without it, the core does not need pthreadpool either."""
STABLE = sys.version_info >= (3, 12) and not sysconfig.get_config_var("Py_GIL_DISABLED")
"""Whether extensions have the stable ABI of 3.12: one wheel for it and later versions. That of 3.11
has no vectorcall, by which methods are called."""


def flags() -> list[str]:
    """Returns compiler flags of all extensions; those of Python itself among them."""
    out = [*ninja_build.language(), "-fwrapv", "-DNDEBUG", *ninja_build.includes()]
    if os.environ.get("EXECUTORCH_C_WERROR") == "1":
        out.append("-Werror")
    if SANITIZE:
        return [*out, "-O1", "-g", f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer"]
    return [*out, "-O3", "-g0"]


def extensions() -> list[Extension]:
    """Returns `_core`, and `_backend_<name>` for every folder of backends/ that has a module.c."""
    sources = {"_core": [*ninja_build.core_sources(), *ninja_build.sources(ROOT / "csrc/python")]}
    for folder in sorted(path for path in (ROOT / "backends").iterdir() if path.is_dir()):
        if (folder / "module.c").exists() and (XNNPACK or folder.name != "xnnpack"):
            sources[f"_backend_{folder.name}"] = ninja_build.backend_sources(folder)
    return [
        Extension(
            f"executorch_c.{name}",
            [ninja_build.relative(file) for file in files],
            py_limited_api=STABLE,
        )
        for name, files in sources.items()
    ]


def includes_python(source: Path) -> bool:
    """Returns whether a source needs Python.h (see tests/test_architecture.py)."""
    return source.is_relative_to(ROOT / "csrc/python") or source.name == "module.c"


class BuildPy(build_py):
    """build_py that begins with an empty folder: a wheel has no files of an earlier build."""

    def run(self) -> None:
        shutil.rmtree(Path(self.build_lib, "executorch_c"), ignore_errors=True)
        super().run()


class BuildExt(build_ext):
    """build_ext by ninja, which also gets XNNPACK."""

    library: Library | None = None

    def build_extensions(self) -> None:
        try:
            self.library = find() if XNNPACK else None
            targets = [self.target(extension) for extension in self.extensions]
            build = self.get_finalized_command("build")  # build_temp is /tmp/... if editable
            ninja_build.build(targets, Path(build.build_base) / "ninja")
        except (XnnpackError, ninja_build.BuildError) as error:
            raise CompileError(str(error)) from None
        self.copy_shared(targets[0].target.parent)

    def target(self, extension: Extension) -> ninja_build.SharedObject:
        """Returns what ninja builds; objects without Python.h are the same for every Python."""
        args = [*flags(), *ninja_build.from_environment("CFLAGS")]
        link_args = [f"-fsanitize={SANITIZE}"] if SANITIZE else ["-Wl,-s"]
        name = extension.name.rpartition(".")[2]
        if name.startswith("_backend_"):
            args += ninja_build.includes(ROOT / "backends" / name.removeprefix("_backend_"))
        if self.library and name in ("_core", "_backend_xnnpack"):
            core = name == "_core"  # shares XNNPACK's thread pool
            args += ["-DEC_HAVE_PTHREADPOOL=1", *self.library.compile_args]
            link_args += self.library.pthreadpool_args if core else self.library.link_args
        folders = [f"-I{folder}" for folder in self.compiler.include_dirs]
        # NumPy's headers are not ours to keep free of warnings.
        python_args = [*args, *folders, "-isystem", numpy.get_include()]
        if STABLE:
            python_args.append("-DPy_LIMITED_API=0x030C0000")
        files = [ROOT / source for source in extension.sources]
        target = Path(self.get_ext_fullpath(extension.name)).resolve()
        objects = (
            ninja_build.Objects(name, [f for f in files if not includes_python(f)], args),
            ninja_build.Objects(target.name, list(filter(includes_python, files)), python_args),
        )
        link_args += ["-lm", "-lpthread", "-ldl"]
        libraries = self.library.libraries if self.library else ()
        return ninja_build.SharedObject(target, objects, link_args, libraries)

    def copy_extensions_to_source(self) -> None:
        """Copies what an editable installation imports into the source tree, with the tree's entry
        points: those of a copy that is installed, too, may be others."""
        super().copy_extensions_to_source()
        self.copy_shared(ROOT / "executorch_c")
        info = self.get_finalized_command("egg_info")
        info.mkpath(info.egg_info)
        for name, write in (("PKG-INFO", write_pkg_info), ("entry_points.txt", write_entries)):
            write(info, name, f"{info.egg_info}/{name}")

    def copy_shared(self, package: Path) -> None:
        """Copies shared libraries of XNNPACK next to the extensions."""
        for name, path in (self.library.shared if self.library else {}).items():
            shutil.copyfile(path, package / name)


class BdistWheel(bdist_wheel):
    """bdist_wheel with a bill of materials (PEP 770)."""

    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        super().egg2dist(egginfo_path, distinfo_path)
        about = self.distribution.metadata
        name, version = about.get_name(), about.get_version()
        parts = sbom.components(is_pinned()) if XNNPACK else []
        text = sbom.document(name, version, about.license_expression, parts)
        folder = Path(distinfo_path, "sboms")
        folder.mkdir()
        (folder / f"{name}.cdx.json").write_text(text, encoding="utf-8")


HEADERS = ["executorch_c.include", "executorch_c.include.executorch_c"]
setup(
    packages=[*find_packages(include=["executorch_c*"]), *HEADERS],
    ext_modules=extensions(),
    cmdclass={"bdist_wheel": BdistWheel, "build_ext": BuildExt, "build_py": BuildPy},
    options={"bdist_wheel": {"py_limited_api": "cp312"}} if STABLE else {},
)
