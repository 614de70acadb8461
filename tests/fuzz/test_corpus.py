"""Replay of the corpus of coverage-guided fuzzing without clang: each file, and mutations of it."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests import process
from tests.fuzz import guided
from tests.fuzz.driver import ROOT, SANITIZERS, build, count
from tests.fuzz.seeds import CORPUS, PROGRAM, TARGETS, kept_files

MUTATIONS = int(os.environ.get("EXECUTORCH_C_FUZZ_MUTATIONS", "8"))
SEED = int(os.environ.get("EXECUTORCH_C_FUZZ_SEED", "1"))
LARGEST = 1 << 20

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="builds the C core with make")


def run(replay: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return process.run(
        replay, *map(str, arguments), timeout=1200, env={**os.environ, **SANITIZERS}, ok=False
    )


@pytest.mark.parametrize("target", TARGETS)
def test_corpus(replay: Path, target: str) -> None:
    if target == "xnnpack" and os.environ.get("EXECUTORCH_C_XNNPACK") == "0":
        pytest.skip("built without XNNPACK: EXECUTORCH_C_XNNPACK=0")
    files = kept_files(target)
    assert len(files) >= 10
    done = run(
        replay,
        f"--target={target}",
        f"--program={PROGRAM}",
        f"--mutate={MUTATIONS}",
        f"--seed={SEED}",
        *files,
    )
    # The last line names the failing file.
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-8000:]
    assert count(done.stdout, "cases") == len(files) * (1 + MUTATIONS)
    assert count(done.stdout, "calls ran") > 0
    if target == "bpte":
        assert count(done.stdout, "tensors read") > 0


def test_mutations_keep_files_whole(replay: Path) -> None:
    """Structural mutations leave most programs readable, so that later stages run."""
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


OVERRUN = """
#include <stdlib.h>
int main(int argc, char **argv) {
  (void)argv;
  void *at;
  if (posix_memalign(&at, 64, 4096)) return 2;
  ((volatile char *)at)[4094 + argc] = 1;
  free(at);
  return 0;
}
"""


def test_guard_pages(tmp_path: Path) -> None:
    """A read beyond a block ends the process; a read of its last byte does not."""
    source, program = tmp_path / "overrun.c", tmp_path / "overrun"
    source.write_text(OVERRUN)
    guard = ROOT / "csrc/testing/fuzz_guard.c"
    wrap = "-Wl,--wrap=posix_memalign,--wrap=free"
    command = ["gcc", str(source), str(guard), wrap, "-lpthread", "-o", str(program)]
    subprocess.run(command, check=True)
    assert subprocess.run([str(program)], check=False).returncode == 0
    assert subprocess.run([str(program), "x"], check=False).returncode == -signal.SIGSEGV


@pytest.mark.heavy  # a minute, only where clang is installed
def test_clang_compiles_everything(tmp_path: Path) -> None:
    """The C core and the backends of the fuzzer compile with clang, which libFuzzer needs."""
    try:
        clang = guided.find_clang()
    except guided.NoClang as error:
        pytest.skip(str(error))
    build(tmp_path, "fuzz", CC=clang, CFLAGS="-O0 -w")


def test_without_clang(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package to install."""
    monkeypatch.setenv("EXECUTORCH_C_CLANG", "no-such-clang")
    with pytest.raises(guided.NoClang, match="libclang-rt"):
        guided.find_clang()
    done = process.python("-m", "tests.fuzz", "--coverage-guided", cwd=ROOT, ok=False)
    assert done.returncode == 2
    assert "EXECUTORCH_C_CLANG" in done.stderr
    assert "Traceback" not in done.stderr
