"""Files, pipes, processes and threads that fail, each call in turn: one exception that names the
file, no half file, and the next call works (fail_calls.py, in separate processes)."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import executorch_c
from executorch_c.bundled import BundledProgram
from tests import ROOT, process
from tests.format.test_data_files import WEIGHT, data_file, external
from tests.python.digits import DIGITS, EXPECTED, IMAGES

PACKAGES = ROOT / "tests" / "backends" / "native_packages"
SESSIONS = (
    "load load_data load_bundled load_package save_trace read_evidence save_reports save_arrays"
    " save_bundled run validate trace bench"
).split()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "csrc" / "testing" / "preload_io.c"
    path = tmp_path_factory.mktemp("preload") / "preload_io.so"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    compiler = os.environ.get("CC", "gcc")
    subprocess.run([compiler, *flags, "-o", path, source, "-ldl"], check=True)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the sessions read."""
    folder = tmp_path_factory.mktemp("files")
    images, expected = IMAGES[:2], EXPECTED[:2]
    shutil.copy(DIGITS, folder / "model.pte")
    np.savez(folder / "inputs.npz", images)
    np.savez(folder / "outputs.npz", expected)
    BundledProgram(DIGITS.read_bytes(), {"forward": [([images], [expected])]}).save(
        folder / "model.bpte"
    )
    (folder / "split.pte").write_bytes(external())
    (folder / "split.ptd").write_bytes(data_file(weight=WEIGHT))
    for ending in ("ptn", "npz"):
        shutil.copy(PACKAGES / f"topk.{ending}", folder / f"package.{ending}")
    method = executorch_c.load(DIGITS).load_method("forward")
    with method.tracing(values=True) as trace:
        method.execute([images])
    trace.to_etdump(folder / "run.etdp", folder / "run.bin")
    return folder


@pytest.mark.sweep(4)
@pytest.mark.parametrize("session", SESSIONS)
def test_each_call_fails(library: Path, files: Path, session: str) -> None:
    script = Path(__file__).with_name("fail_calls.py")
    env = {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": "", "OPENBLAS_NUM_THREADS": "1"}
    done = process.python(script, files, session, env=env, cwd=files, timeout=500)
    cases, raised, faults = map(int, done.stdout.split()[-3:])
    assert not faults, done.stdout
    assert cases >= 8  # of a small file
    assert raised >= 3
