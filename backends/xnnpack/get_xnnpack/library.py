"""A prefix with XNNPACK: the files to link with, and the test that they are usable."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from get_xnnpack.log import XnnpackError

NEEDED = ("XNNPACK", "pthreadpool", "cpuinfo")
PARTS = (
    "XNNPACK",
    "microkernels-prod",
    "xnnpack-microkernels-prod",  # its name since 2025
    "kleidiai",
    "pthreadpool",
    "cpuinfo",
    "clog",
)
"""The libraries of XNNPACK, dependents first; not every build has all of them."""

FUNCTIONS = (
    "xnn_create_runtime_v4",
    "xnn_create_workspace",
    "xnn_define_argmax_pooling_2d",
    "xnn_define_batch_matrix_multiply",
    "xnn_define_binary",
    "xnn_define_blockwise_quantized_tensor_value",
    "xnn_define_channelwise_quantized_tensor_value_v2",
    "xnn_define_concatenate5",
    "xnn_define_deconvolution_2d",
    "xnn_define_dynamically_quantized_tensor_value",
    "xnn_define_static_resize_bilinear_2d",
    "xnn_define_unary",
    "xnn_get_external_value_shape",
    "xnn_get_runtime_profiling_info",
    "xnn_reshape_external_value",
    "xnn_reshape_runtime",
    "xnn_setup_runtime_v2",
)
"""Functions of the backend that old versions lack; the probe refers to them."""

PROBE = """
#include <pthreadpool.h>
#include <xnnpack.h>
#if XNN_EXTRA_QUANTIZATION_PARAMS < 15
#error "XNNPACK with a wrong last row of dynamically quantized linears (fixed in 2025)"
#endif
typedef void (*function)(void);
function const executorch_c_functions[] = {FUNCTIONS};
int executorch_c_probe(void)
{
    pthreadpool_t pool = pthreadpool_create(1);
    pthreadpool_destroy(pool);
    return xnn_initialize(0) == xnn_status_success ? 0 : 1;
}
""".replace("{FUNCTIONS}", f"{{{', '.join(f'(function){name}' for name in FUNCTIONS)}}}")

RUN = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).executorch_c_probe())"


@dataclass(frozen=True)
class Library:
    """An XNNPACK that passed the probe."""

    root: Path
    libraries: tuple[Path, ...]

    @property
    def compile_args(self) -> list[str]:
        """The compiler arguments for the headers, as system headers to suppress warnings."""
        return ["-isystem", str(self.root / "include")]

    @property
    def link_args(self) -> list[str]:
        """The linker arguments; static libraries are hidden: torch may load its own XNNPACK."""
        return link(self.libraries)

    @property
    def pthreadpool_args(self) -> list[str]:
        """The linker arguments for the thread pool alone, for the core."""
        return link([path for path in self.libraries if part(path) == "pthreadpool"])

    @property
    def shared(self) -> dict[str, Path]:
        """The shared libraries by soname."""
        return {soname(path): path for path in self.libraries if path.suffix != ".a"}


def part(path: Path) -> str:
    """Return the name of a library: 'XNNPACK' for libXNNPACK.a."""
    return path.name.removeprefix("lib").partition(".")[0]


def link(libraries: list[Path] | tuple[Path, ...]) -> list[str]:
    """Return linker arguments; shared libraries are searched in the extension's folder."""
    out = ["-Wl,--exclude-libs,ALL"]
    if any(path.suffix != ".a" for path in libraries):
        # RPATH, unlike RUNPATH, also applies to the dependencies of these libraries.
        out += ["-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN"]
    return [*out, "-Wl,--start-group", *map(str, libraries), "-Wl,--end-group", "-lm", "-lpthread"]


def soname(path: Path) -> str:
    """Return the soname of a shared library."""
    try:
        text = subprocess.run(
            ["readelf", "-d", str(path)], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise XnnpackError(f"the soname of {path} cannot be read with readelf: {error}") from None
    match = re.search(r"\(SONAME\).*\[(.+)\]", text)
    return match[1] if match else path.name


def folders(root: Path) -> list[Path]:
    """Return the library folders of a prefix."""
    multiarch = sysconfig.get_config_var("MULTIARCH") or f"{os.uname().machine}-linux-gnu"
    return [root / "lib", root / "lib" / multiarch, root / "lib64"]


def libraries(root: Path, kinds: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the files of PARTS below a prefix, each of the first existing kind ('.a', '.so')."""
    out = []
    for name in PARTS:
        paths = (at / f"lib{name}{kind}" for kind in kinds for at in folders(root))
        library = next((path for path in paths if path.exists()), None)
        if library:
            out.append(library)
        elif name in NEEDED:
            raise XnnpackError(f"{root} has no lib{name}.a or lib{name}.so")
    return tuple(out)


def load(root: Path) -> Library:
    """Return the library of a prefix, static if possible; XnnpackError names the fault."""
    if not (root / "include" / "xnnpack.h").is_file():
        raise XnnpackError(f"{root} has no include/xnnpack.h")
    static = Library(root, libraries(root, (".a", ".so")))
    shared = Library(root, libraries(root, (".so", ".a")))
    fault = probe(static)
    if fault is None:
        return static
    if shared != static and probe(shared) is None:
        return shared
    raise XnnpackError(f"the XNNPACK in {root} is not usable: {fault}")


def probe(library: Library) -> str | None:
    """Return the fault of a library, or None if a module linked with it runs."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    with tempfile.TemporaryDirectory() as folder:
        source, module = Path(folder, "probe.c"), Path(folder, "probe.so")
        source.write_text(PROBE)
        places = [f"-Wl,-rpath,{path.parent}" for path in library.libraries]
        command = [*shlex.split(compiler), "-std=c11", "-fPIC", "-shared", "-o", str(module)]
        command += [*library.compile_args, str(source), *library.link_args, *places, "-Wl,-z,defs"]
        for name, path in library.shared.items():
            Path(folder, name).symlink_to(path.resolve())
        try:
            for step in (command, [sys.executable, "-c", RUN, str(module)]):
                done = subprocess.run(step, capture_output=True, text=True, errors="replace")
                if done.returncode != 0:
                    return reason(done.stderr)
        except OSError as error:
            return f"{compiler}: {error.strerror}"
    return None


def reason(output: str) -> str:
    """Return the most informative line of an error output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|undefined|GLIBC|recompile", line)]
    return (telling or lines or ["it does not initialise on this processor"])[0]
