"""Build XNNPACK, pthreadpool and their dependencies into a cached prefix."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from get_xnnpack import series
from get_xnnpack.debian import PACKAGES, fetch
from get_xnnpack.log import Log, XnnpackError

COMMON = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DCMAKE_INSTALL_LIBDIR=lib",
    "-DCMAKE_POLICY_VERSION_MINIMUM=3.5",
    "-DCMAKE_POSITION_INDEPENDENT_CODE=ON",
)
PTHREADPOOL = (
    "-DPTHREADPOOL_LIBRARY_TYPE=static",
    "-DPTHREADPOOL_BUILD_TESTS=OFF",
    "-DPTHREADPOOL_BUILD_BENCHMARKS=OFF",
)
XNNPACK = (
    "-DXNNPACK_LIBRARY_TYPE=static",
    "-DXNNPACK_USE_SYSTEM_LIBS=ON",
    "-DXNNPACK_BUILD_TESTS=OFF",
    "-DXNNPACK_BUILD_BENCHMARKS=OFF",
    "-DXNNPACK_BUILD_ALL_MICROKERNELS=OFF",
    "-DXNNPACK_ENABLE_KLEIDIAI=OFF",
)
CPUINFO = (b"libcpuinfo.so.0\0", b"libcpuinfoec.so\0")
"""The soname of Debian's shared library, and one unique in the process."""


def cache() -> Path:
    """Return the folder of cached prefixes."""
    folder = os.environ.get("EXECUTORCH_C_CACHE")
    if folder:
        return Path(folder).expanduser().resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "executorch_c"


def compiler() -> str:
    """Return the C compiler for Python extensions."""
    return os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"


def cached() -> Path:
    """Return the path of the prefix for this recipe, machine and compiler."""
    try:
        command = [*shlex.split(compiler()), "--version"]
        version = subprocess.run(command, capture_output=True, text=True).stdout
    except OSError:
        version = ""
    flags = [os.environ.get(name, "") for name in ("CFLAGS", "CXXFLAGS")]
    texts = [path.read_text() for path in (*series.patches(), *series.sources())]
    texts = [text[max(text.find("\ndiff --git "), 0) :] for text in texts]  # without messages
    texts = [text[max(text.find("\ndiff --git "), 0) :] for text in texts]  # without messages
    options = (COMMON, PTHREADPOOL, XNNPACK, texts, CPUINFO)
    recipe = (PACKAGES, *options, os.uname().machine, version, flags)
    digest = hashlib.sha256(repr(recipe).encode()).hexdigest()[:12]
    return cache() / f"xnnpack-{PACKAGES[0].version.partition('git')[2][:8]}-{digest}"


def tool(name: str) -> str:
    """Return the path of a program in PATH or in the folder of this Python."""
    places = [os.environ.get("PATH", ""), str(Path(sys.executable).parent)]
    path = shutil.which(name, path=os.pathsep.join(places))
    if not path:
        raise XnnpackError(f"building it needs {name}, which is not on PATH (pip install {name})")
    return path


def build(prefix: Path, log: Log) -> None:
    """Build the prefix atomically: it is moved into place when complete."""
    cmake, ninja = tool("cmake"), tool("ninja")
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=prefix.name + ".", dir=prefix.parent))
        log = Log(prefix.with_name(prefix.name + ".log"))
    except OSError as error:
        raise XnnpackError(
            f"{prefix.parent} cannot be written to ({error.strerror}); "
            "EXECUTORCH_C_CACHE=<folder> names another one"
        ) from None
    try:
        log.say(f"Building XNNPACK, once: some 2 minutes on two cores (log: {log.path})")
        source = fetch(work, log)
        stage = work / "prefix"
        copy_cpuinfo(source, stage)
        shutil.copytree(source["fp16"] / "include", stage / "include", dirs_exist_ok=True)
        base = [cmake, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", *COMMON]
        base.append(f"-DCMAKE_INSTALL_PREFIX={stage}")
        jobs = os.environ.get("EXECUTORCH_C_JOBS") or str(os.cpu_count() or 1)

        def compile_in(name: str, *options: str) -> None:
            log.say(f"Compiling {name} ...")
            log.run(*base, *options, "-S", source[name], "-B", work / f"b-{name}", cwd=work)
            log.run(ninja, "-C", work / f"b-{name}", "-j", jobs, "install", cwd=work)

        series.prepare(source["xnnpack"], source["pthreadpool"])
        compile_in("pthreadpool", *PTHREADPOOL, f"-DFXDIV_SOURCE_DIR={source['fxdiv']}")
        compile_in("xnnpack", *XNNPACK, *places(stage))
        settle(stage, prefix)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def places(stage: Path) -> list[str]:
    """Return the cmake options with the locations of XNNPACK's dependencies."""
    include = f"-isystem {stage / 'include'}"
    return [
        f"-DCPUINFO_SOURCE_DIR={stage}",
        f"-DCPUINFO_LIBRARY={stage / 'lib' / 'libcpuinfo.so'}",
        f"-DPTHREADPOOL_SOURCE_DIR={stage}",
        f"-DFXDIV_SOURCE_DIR={stage}",
        f"-DCMAKE_C_FLAGS={include} {os.environ.get('CFLAGS', '')}".rstrip(),
        f"-DCMAKE_CXX_FLAGS={include} {os.environ.get('CXXFLAGS', '')}".rstrip(),
    ]


def copy_cpuinfo(source: dict[str, Path], stage: Path) -> None:
    """Copy cpuinfo, which Debian has only as a shared library, to ship it with the extension.

    It gets a unique name, because a process loads one library per name: a Debian torch may load an
    older libcpuinfo.so.0, whose tables differ.
    """
    for name in ("include", "lib"):
        (stage / name).mkdir(parents=True)
    shutil.copy(source["libcpuinfo-dev"] / "usr/include/cpuinfo.h", stage / "include")
    file = next(source["libcpuinfo0"].glob("usr/lib/*/libcpuinfo.so.0"))
    binary = file.read_bytes()
    if binary.count(CPUINFO[0]) == 1:
        binary = binary.replace(*CPUINFO)
    (stage / "lib" / "libcpuinfo.so").write_bytes(binary)


def settle(stage: Path, prefix: Path) -> None:
    """Move the complete prefix into place, unless another build was first."""
    try:
        stage.rename(prefix)
    except OSError:
        if not prefix.is_dir():
            raise
