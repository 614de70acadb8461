"""Damaged programs: errors or results, never a crash, a hang or a leak. CI runs more of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from driver import REGRESSION, count, run
from make_programs import write_all

CASES = int(os.environ.get("EXECUTORCH_C_FUZZ_CASES", "3000"))
SEED = int(os.environ.get("EXECUTORCH_C_FUZZ_SEED", "1"))

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="builds the C core with make")


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    assert write_all(folder, SEED) > 300
    return folder


def test_programs_as_they_are(fuzzer: Path, programs: Path, tmp_path: Path) -> None:
    """Hostile as they are, many compute something; none does harm."""
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
    """Whole models alone: where damage is survived, something is computed."""
    files = sorted(programs.glob("model_*.pte"))
    assert len(files) >= 10
    fine, report = run(fuzzer, files, CASES, SEED + 1, tmp_path)
    assert fine, report
    assert count(report, "calls ran") > CASES / 25
