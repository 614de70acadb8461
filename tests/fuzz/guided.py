"""Coverage-guided fuzzing: build csrc/testing/fuzz_guided.c with clang and run libFuzzer."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.driver import DEFINES, QUICK_TO_RUN, SANITIZE, build, with_xnnpack
from tests.fuzz.seeds import PROGRAM, TARGETS, write_seeds

FLAGS = [
    "-timeout=60",  # of wall time on a loaded machine: the slowest inputs take 3 s of CPU time
    "-rss_limit_mb=2048",
    "-max_len=65536",
    "-print_final_stats=1",
    "-entropic=0",
]  # the entropic schedule costs four fifths of the time for small inputs

HELP = """coverage-guided fuzzing needs clang with its runtime libraries (libFuzzer):
on Debian, clang-14 and libclang-rt-14-dev. EXECUTORCH_C_CLANG names another one.
Without it: python -m tests.fuzz"""


class NoClang(RuntimeError):
    """No installed clang can link libFuzzer."""


def find_clang() -> str:
    """Return the first clang that links a libFuzzer program."""
    names = [f"clang-{version}" for version in range(22, 11, -1)]
    result = os.environ.get("EXECUTORCH_C_CLANG")
    source = "int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && 0 * n; }"
    for name in [result] if result else ["clang", *names]:
        if not shutil.which(name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            command = [name, "-x", "c", "-", "-fsanitize=fuzzer,address", "-o", f"{folder}/probe"]
            outputs = subprocess.run(command, input=source, capture_output=True, text=True)
            if outputs.returncode == 0:
                return name
    raise NoClang(HELP)


def build_guided(folder: Path) -> Path:
    """Build the harness of all targets, with XnnpackBackend unless EXECUTORCH_C_XNNPACK=0."""
    # Not pointer-overflow: clang reports NULL + 0 for empty tensors; gcc's covers the rest.
    checks = f"{SANITIZE} -fsanitize=fuzzer-no-link -fno-sanitize=pointer-overflow"
    flags = f"{QUICK_TO_RUN} {checks} {DEFINES}"
    clang = find_clang()
    return build(folder, "guided", "fuzz_guided", CC=clang, CFLAGS=flags, **with_xnnpack(folder))


def fuzz(
    fuzzer: Path, target: str, corpus: list[Path], options: argparse.Namespace, seconds: float
) -> tuple[bool, int]:
    """Run libFuzzer on a target; return True if no input failed, and the number of inputs."""
    options.out.mkdir(parents=True, exist_ok=True)
    command = [
        str(fuzzer),
        f"--target={target}",
        f"--program={PROGRAM}",
        *FLAGS,
        f"-seed={options.seed}",
        f"-max_total_time={max(int(seconds), 1)}",
        f"-artifact_prefix={options.out}/{target}-",
        *map(str, corpus),
    ]
    tail: list[str] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace") as child:
        assert child.stderr is not None
        for line in child.stderr:
            tail = [*tail[-200:], line]
            if re.match(r"#\d+\s+(pulse|INITED)", line):
                print(f"{target}: {line.strip()}", flush=True)
    text = "".join(tail)
    match = re.search(r"number_of_executed_units: (\d+)", text)
    if child.returncode:
        print(text[-8000:])
    return child.returncode == 0, int(match[1]) if match else 0


def run(options: argparse.Namespace) -> int:
    """Fuzz each target for its share of the time; return the exit code."""
    try:
        with tempfile.TemporaryDirectory() as work:
            return run_in(Path(work), options)
    except NoClang as error:
        print(error, file=sys.stderr)
        return 2


def run_in(work: Path, options: argparse.Namespace) -> int:
    fuzzer = build_guided(work / "build")
    targets = options.target or [t for t in TARGETS if t != "xnnpack" or with_xnnpack(work)]
    fine = True
    for target in targets:
        seeds = work / "seeds" / target
        print(f"{target}: exporting seeds (cached, the first time takes minutes)", flush=True)
        print(f"{target}: {write_seeds(target, seeds)} seeds", flush=True)
        corpus = (options.corpus or work / "corpus") / target
        corpus.mkdir(parents=True, exist_ok=True)
        seconds = options.seconds / len(targets)
        passed, inputs = fuzz(fuzzer, target, [corpus, seeds], options, seconds)
        print(f"{target}: {inputs} inputs, {'no failure' if passed else 'FAILED'}", flush=True)
        fine = fine and passed
    return 0 if fine else 1
