"""The corpus of coverage-guided fuzzing, replayed without clang: each file, and mutations of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import guided
import pytest
from driver import REGRESSION, ROOT, SANITIZERS, build, count, with_xnnpack
from seeds import CORPUS, PROGRAM, TARGETS

MUTATIONS = int(os.environ.get("EXECUTORCH_C_FUZZ_MUTATIONS", "8"))
SEED = int(os.environ.get("EXECUTORCH_C_FUZZ_SEED", "1"))
LARGEST = 1 << 20

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="builds the C core with make")


@pytest.fixture(scope="session")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay")
    return build(folder, "fuzz", "fuzz_replay", **with_xnnpack(folder))


def run(replay: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(replay), *map(str, arguments)], capture_output=True, text=True, timeout=1200,
        env={**os.environ, **SANITIZERS},
    )  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_corpus(replay: Path, target: str) -> None:
    if target == "xnnpack" and os.environ.get("EXECUTORCH_C_XNNPACK") == "0":
        pytest.skip("built without XNNPACK: EXECUTORCH_C_XNNPACK=0")
    files = [*sorted((CORPUS / target).glob("*")), *sorted(REGRESSION.glob(f"*.{target}"))]
    assert len(files) >= 10
    done = run(replay, f"--target={target}", f"--program={PROGRAM}", f"--mutate={MUTATIONS}",
               f"--seed={SEED}", *files)  # fmt: skip
    # The last line is the file that failed.
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-8000:]
    assert count(done.stdout, "cases") == len(files) * (1 + MUTATIONS)
    assert count(done.stdout, "calls ran") > 0
    if target == "bpte":
        assert count(done.stdout, "tensors read") > 0


def test_mutations_keep_files_whole(replay: Path, tmp_path: Path) -> None:
    """Structural damage leaves most programs readable: the rest of the code sees them."""
    model = ROOT / "executorch_c/examples/digits.pte"
    done = run(replay, "--mutate=400", f"--seed={SEED}", model)
    assert done.returncode == 0, done.stderr[-4000:]
    assert count(done.stdout, "opened") > count(done.stdout, "cases") / 3


def test_unknown_options_are_refused(replay: Path, tmp_path: Path) -> None:
    assert "no such target" in run(replay, "--target=zip").stderr
    assert "--target=ptd needs --program" in run(replay, "--target=ptd").stderr
    missing = run(replay, tmp_path / "nothing.pte")
    assert missing.returncode == 2
    assert "cannot read" in missing.stderr


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < LARGEST


def test_without_clang(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says what to install."""
    monkeypatch.setenv("EXECUTORCH_C_CLANG", "no-such-clang")
    with pytest.raises(guided.NoClang, match="libclang-rt"):
        guided.find_clang()
    done = subprocess.run([sys.executable, "-m", "tests.fuzz", "--coverage-guided"], cwd=ROOT,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 2
    assert "EXECUTORCH_C_CLANG" in done.stderr
    assert "Traceback" not in done.stderr
