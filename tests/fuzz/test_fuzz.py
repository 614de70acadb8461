"""Damaged programs: errors or results, never a crash, a hang or a leak. CI runs more of them
(`python -m tests.fuzz`)."""

import os
import shutil
from pathlib import Path

import pytest

from tests import build_core, kept
from tests.fuzz.driver import REGRESSION, ROOT, count, run
from tests.fuzz.make_programs import write_all

CASES = int(os.environ.get("EXECUTORCH_C_FUZZ_CASES", "3000"))
SEED = int(os.environ.get("EXECUTORCH_C_FUZZ_SEED", "1"))

pytestmark = [
    pytest.mark.heavy,  # test_corpus.py needs no programs of a minute
    pytest.mark.skipif(not shutil.which("make"), reason="builds the C core with make"),
]


@pytest.fixture(scope="session")
def programs() -> Path:
    """Made from samples of all operators and from models: by much of tests/."""
    sources = sorted((ROOT / "tests").rglob("*.py"))
    key = kept.digest(SEED, build_core.fingerprint(), *sources, packages=("torch", "executorch"))
    folder = kept.file(f"programs-{key}", lambda path: write_all(path, SEED))
    assert len(list(folder.iterdir())) > 300
    return folder


def test_unmodified_programs(fuzzer: Path, programs: Path, tmp_path: Path) -> None:
    """Hostile programs without further damage: many compute a result, none does harm."""
    files = sorted(programs.glob("*.pte")) + sorted(REGRESSION.glob("*.pte"))
    fine, report = run(fuzzer, files, len(files), SEED, tmp_path)
    assert fine, report
    assert count(report, "cases") == len(files)
    assert count(report, "calls ran") > 1000


def test_damaged(fuzzer: Path, programs: Path, tmp_path: Path) -> None:
    files = sorted(programs.glob("*.pte"))
    fine, report = run(fuzzer, files, CASES, SEED, tmp_path)
    assert fine, report
    assert count(report, "cases") == CASES
    assert CASES / 10 < count(report, "opened") < CASES


def test_damaged_models(fuzzer: Path, programs: Path, tmp_path: Path) -> None:
    """Whole models: some of the damaged programs compute a result."""
    files = sorted(programs.glob("model_*.pte"))
    assert len(files) >= 10
    fine, report = run(fuzzer, files, CASES, SEED + 1, tmp_path)
    assert fine, report
    assert count(report, "calls ran") > CASES / 25


@pytest.mark.parametrize("backend", ["coreml", "mlx", "vulkan"])
def test_damaged_payloads(fuzzer: Path, tmp_path: Path, backend: str) -> None:
    """Payloads with parts that are no FlatBuffers: directories, protobuf, headers, weights."""
    files = sorted((ROOT / f"tests/backends/{backend}_programs").glob("*.pte"))
    fine, report = run(fuzzer, files, CASES, SEED, tmp_path, "--payload", "1")
    assert fine, report
    assert CASES / 10 < count(report, "calls ran")
