"""Failed allocations, each in turn: one MemoryError, no leak, the next call works.

The C core alone, under AddressSanitizer: csrc/testing/test_runtime.c. Here the whole package, with
XNNPACK's allocator among others, in separate processes (refuse_allocations.py).
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests import ROOT, process
from tests.plans import BOUNDED, Constants, Plan, build
from tests.runtime.entry_points import everything


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "csrc" / "testing" / "preload_alloc.c"
    path = tmp_path_factory.mktemp("preload") / "preload_alloc.so"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-fPIC", "-shared"]
    compiler = os.environ.get("CC", "gcc")
    subprocess.run([compiler, *flags, "-o", path, source, "-lpthread"], check=True)
    return path


def at_load() -> bytes:
    """Return a program whose operators are delegated when it is loaded."""
    constants, plan = Constants(), Plan()
    x, s = plan.input((64, 8), dynamism=BOUNDED), plan.input((1,))
    weight = plan.constant(constants, np.full((8, 8), 0.5, np.float32))
    y, z = (plan.tensor((64, 8), dynamism=BOUNDED) for _ in range(2))
    plan.call("aten::mm.out", x, weight, y)
    plan.call("aten::sigmoid.out", y, z)
    plan.call("aten::mul.out", z, s, plan.output((64, 8), dynamism=BOUNDED))
    return build(plan, constants=constants)


def delegated() -> tuple[bytes, list[np.ndarray], list[np.ndarray]]:
    """Return a convolution in XNNPACK, with a small and a large image."""
    pytest.importorskip("executorch_c._backend_xnnpack")
    from tests.backends.xnnpack_kinds import conv

    make = conv("ConvTranspose2d", "fp32", (3, 4), (2, 3), (1, 0, 0, 1))
    small, large = make((2, 5, 6, 8)), make((3, 20, 20, 8))
    bounds = {
        index: large.tensor(other)["dims"]
        for index, other in zip(
            [*small.inputs, *small.outputs], [*large.inputs, *large.outputs], strict=True
        )
    }
    shapes = (2, 5, 6, 8), tuple(large.tensor(large.inputs[0])["dims"])
    inputs = [np.linspace(-1, 1, int(np.prod(s)), dtype=np.float32).reshape(s) for s in shapes]
    return small.program(bounds), [inputs[0]], [inputs[1]]


def refuse(folder: Path, library: Path, how: str) -> list[int]:
    """Return the numbers of sessions, failed steps and leaked blocks: the extensions', and
    Python's."""
    script = Path(__file__).with_name("refuse_allocations.py")
    env = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "MALLOC_PERTURB_": "165",
        "EXECUTORCH_C_DELEGATE_AT_LOAD": "always",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": "",
    }
    done = process.python(script, folder, how, env=env, cwd=folder, timeout=500)
    return [int(number) for number in done.stdout.split()]


CASES = [
    (model, how)
    for model in ("everything", "delegated", "at_load")
    for how in ("c", "c-onwards", "python")
    if (model, how) != ("at_load", "python")
]
"""FakeDelegate are made and run without Python."""


@pytest.mark.sweep(2)
@pytest.mark.parametrize(("model", "how"), CASES)
def test_each_allocation_is_refused(tmp_path: Path, library: Path, model: str, how: str) -> None:
    if model != "delegated":
        two = np.full(1, 2, np.float32)
        rng = np.random.default_rng(0)
        small, large = ([rng.random((n, 8), np.float32), two] for n in (3, 64))
        pte = everything() if model == "everything" else at_load()
    else:
        pte, small, large = delegated()
    (tmp_path / "model.pte").write_bytes(pte)
    np.savez(tmp_path / "small", *small)
    np.savez(tmp_path / "large", *large)
    sessions, failed, blocks, objects = refuse(tmp_path, library, how)
    assert sessions > 15 and failed > 30
    assert blocks == 0, f"{blocks} blocks of the extensions stay"
    assert objects < failed / 2, f"{objects} blocks of Python's stay"
