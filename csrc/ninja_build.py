"""Compile the C code with ninja, in parallel and incrementally.

setup.py uses it for the extensions, tests/ for libraries for ctypes and for sanitizers. build.mk
lists folders, sources and flags, also for csrc/Makefile. Ninja tracks the headers of a source, the
command lines and the linked libraries.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CSRC = ROOT / "csrc"
RULES = """\
builddir = {folder}
rule compile
  command = $tool -MMD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = compile $in
rule link
  command = $tool -o $out $in $libraries
  description = link $out
"""


class BuildError(Exception):
    """The compiler, the linker or ninja failed, or ninja is missing."""


def variables() -> dict[str, list[str]]:
    """Return the variables of build.mk, each as words."""
    text = (CSRC / "build.mk").read_text().replace("\\\n", " ")
    rows = re.findall(r"^(\w+) = (.*)$", text, re.MULTILINE)
    return {name: words.split() for name, words in rows}


def compiler() -> list[str]:
    """Return the C compiler's command: CC, or the one that Python was built with."""
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def from_environment(name: str) -> list[str]:
    """Return the words of an environment variable such as CFLAGS."""
    return shlex.split(os.environ.get(name, ""))


def sources(*folders: Path) -> list[Path]:
    """Return the C files below folders, in an order independent of the file system.

    Those of third_party are compiled with the library that they belong to.
    """
    return [
        path
        for folder in folders
        for path in sorted(folder.rglob("*.c"))
        if "third_party" not in path.relative_to(folder).parts
    ]


def core_sources() -> list[Path]:
    """Return the sources of the C library."""
    return sources(*(CSRC / layer for layer in variables()["LAYERS"]))


def backend_sources(folder: Path) -> list[Path]:
    """Return the sources of a backend's extension, including shared ones."""
    shared = [CSRC / name for name in variables().get(f"SHARED_{folder.name}", [])]
    return [*sources(folder), *shared]


def language() -> list[str]:
    """Return the compiler flags of all objects."""
    return [*variables()["LANGUAGE"], *variables()["WARNINGS"]]


def includes(*folders: Path) -> list[str]:
    """Return compiler arguments for folders of headers, by default those of the C library."""
    return [f"-I{relative(folder)}" for folder in folders or (CSRC, CSRC / "include")]


def relative(path: Path) -> str:
    """Return a path relative to ROOT, so that no binary contains the path of its build."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.as_posix()


@dataclass(frozen=True)
class Objects:
    """Sources compiled with the same arguments into a separate folder."""

    folder: str
    sources: Sequence[Path]
    compile_args: Sequence[str]


@dataclass(frozen=True)
class SharedObject:
    """An extension module or another shared library, with its objects and libraries."""

    target: Path
    objects: Sequence[Objects]
    link_args: Sequence[str] = ()
    libraries: Sequence[Path] = ()
    """Files among link_args; a change of one relinks."""

    def edges(self, folder: Path) -> Iterable[str]:
        """Yield the lines of build.ninja."""
        inputs = []
        for objects in self.objects:
            tool = quoted([*compiler(), *objects.compile_args])
            for source in objects.sources:
                inputs.append(escaped(folder / objects.folder / f"{relative(source)}.o"))
                yield f"build {inputs[-1]}: compile {escaped(source)}\n  tool = {tool}"
        libraries = " ".join(map(escaped, self.libraries))
        yield f"build {escaped(self.target)}: link {' '.join(inputs)} | {libraries}"
        # sysconfig's LDSHARED may contain run paths of the machine that built Python.
        linker = [*compiler(), "-shared", *from_environment("CFLAGS")]
        yield f"  tool = {quoted([*linker, *from_environment('LDFLAGS')])}"
        yield f"  libraries = {quoted(self.link_args)}"


def escaped(path: Path) -> str:
    """Return a path, escaped for build.ninja."""
    return re.sub(r"([$ :])", r"$\1", relative(path))


def quoted(words: Sequence[str]) -> str:
    """Return the words of a command line, quoted for build.ninja."""
    return shlex.join(words).replace("$", "$$")


def build(targets: Sequence[SharedObject], folder: Path) -> None:
    """Build shared objects; `folder` keeps build.ninja and the objects."""
    places = [str(Path(sys.executable).parent), sysconfig.get_path("scripts")]
    path = os.pathsep.join([*places, os.environ.get("PATH", os.defpath)])
    ninja = shutil.which("ninja", path=path)
    if not ninja:
        raise BuildError("ninja is not on PATH (pip install ninja)")
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    lines = [line for target in targets for line in target.edges(folder)]
    text = RULES.format(folder=escaped(folder)) + "\n".join(lines) + "\n"
    file = folder / "build.ninja"
    file.write_text(text)
    jobs = os.environ.get("EXECUTORCH_C_JOBS") or str(os.cpu_count() or 1)
    sys.stdout.flush()
    if subprocess.run([ninja, "-f", file, "-j", jobs], cwd=ROOT, check=False).returncode:
        raise BuildError("the C code does not compile: see the output above")
