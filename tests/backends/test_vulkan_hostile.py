"""Payloads of VulkanBackend that no exporter writes: one exception, or a result; never a crash."""

import os
import struct
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from executorch_c import Error, Runtime
from tests import ROOT, build_core, kept, process

sys.path.insert(0, str(ROOT / "csrc"))
import ninja_build

PROGRAMS = Path(__file__).parent / "vulkan_programs"
CASES = int(os.environ.get("EXECUTORCH_C_FUZZ_CASES", "3000"))
SEED = int(os.environ.get("EXECUTORCH_C_FUZZ_SEED", "1"))
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
EXTENSIONS = ("interpreted", "operators")


def write_programs(folder: Path) -> None:
    """Write each program with its inputs, as xnnpack_mutate.py reads them."""
    folder.mkdir()
    for path in sorted(PROGRAMS.glob("*.pte")):
        with np.load(path.with_suffix(".npz")) as file:
            inputs = {f"x{key[2:]}": file[key] for key in sorted(file) if key.startswith("in")}
        np.savez(folder / path.stem, pte=np.frombuffer(path.read_bytes(), np.uint8), **inputs)


def programs() -> Path:
    paths = sorted(PROGRAMS.glob("*"))
    return kept.file(f"vulkan-damaged-{kept.digest(Path(__file__), *paths)}", write_programs)


def compile_into(folder: Path) -> None:
    folder.mkdir()
    include = f"-I{sysconfig.get_path('include')}"
    flags = [*ninja_build.language(), "-O0", "-g1", *SANITIZE, *ninja_build.includes(), include]
    targets = []
    for name in EXTENSIONS:
        sources = ninja_build.backend_sources(ROOT / "backends" / name)
        objects = ninja_build.Objects(name, sources, flags)
        target = folder / f"_backend_{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
        targets.append(ninja_build.SharedObject(target, [objects], [*SANITIZE, "-lm"]))
    ninja_build.build(targets, folder / "objects")


def run(cases: int, *extensions: str, env: dict[str, str] | None = None) -> None:
    worker = Path(__file__).with_name("xnnpack_mutate.py")
    command = [sys.executable, str(worker), str(programs()), str(cases), str(SEED), *extensions]
    done = process.run(*command, timeout=900, env=env, cwd=programs())
    loaded, ran = map(int, done.stdout.split()[-2:])
    assert cases / 50 < ran <= loaded < cases


def test_damaged_under_sanitizers() -> None:
    from tests.backends import xnnpack_sanitized

    key = kept.digest(Path(__file__), sysconfig.get_path("include"))
    name = f"vulkan-sanitized-{build_core.fingerprint(ROOT / 'backends')}-{key}"
    folder = kept.file(name, compile_into)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    extensions = [str(folder / f"_backend_{name}{suffix}") for name in EXTENSIONS]
    run(CASES, *extensions, env=xnnpack_sanitized.environment())


# ---- single faults ---------------------------------------------------------------------------


def payload(pte: bytearray) -> int:
    return pte.index(b"VH00") - 4


def set_u32(pte: bytearray, at: int, value: int) -> None:
    struct.pack_into("<I", pte, payload(pte) + at, value)


def replace(pte: bytearray, old: bytes, new: bytes) -> None:
    assert len(old) == len(new) and old in pte
    pte[:] = pte.replace(old, new)


FAULTS: dict[str, tuple[Callable[[bytearray], None], str]] = {
    "magic": (lambda p: p.__setitem__(payload(p) + 4, 0), "without the header of a Vulkan graph"),
    "offset": (lambda p: set_u32(p, 10, 5), "states a graph"),
    "size": (lambda p: set_u32(p, 14, 1 << 30), "states a graph"),
    "bytes": (lambda p: set_u32(p, 18, 33), "bytes of constants at offset"),
    "identifier": (lambda p: replace(p, b"VK00", b"VK01"), "'VK01', expected 'VK00'"),
    "operator": (
        lambda p: replace(p, b"aten.relu.default", b"aten.rulu.default"),
        r"node \d+ \(aten.rulu.default\): the operator is not known",
    ),
    "training": (lambda p: replace(p, b"aten.linear.default", b"et_vk.linear_dW.def"), "not known"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_named(name: str) -> None:
    damage, message = FAULTS[name]
    pte = bytearray((PROGRAMS / "mlp.pte").read_bytes())
    damage(pte)
    with pytest.raises(Error, match=message):
        Runtime.get().load_program(bytes(pte)).load_method("forward")


def test_missing_named_data() -> None:
    pte = bytearray((PROGRAMS / "mlp.pte").read_bytes())
    start = payload(pte)
    at = next(
        i
        for i in range(start, len(pte))
        if bytes(pte[i : i + 64]).isalnum() and pte[i - 4 : i] == (64).to_bytes(4, "little")
    )
    pte[at] = ord("x")
    with pytest.raises(Error, match="is neither in the program nor in a data file"):
        Runtime.get().load_program(bytes(pte)).load_method("forward")
