"""A campaign: mutants of all targets for hours, which goes on where it stopped.

Each round takes some files of a target, and runs mutations of them in the build without
sanitizers, each in two ways that must agree (`csrc/testing/fuzz_agree.c`). A target's first round
has the files of the tree; its seeds are exported before the second one, when each target has had
its first. The folder has the seeds, the failing inputs and `state.json`, the counts by target.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from executorch_c._paths import write_text
from tests.fuzz.driver import FAST, kept_build, with_xnnpack
from tests.fuzz.seeds import PROGRAM, TARGETS, kept_files, write_seeds

MUTATIONS = 240
"""Mutants of a file in a round."""
FILES = 100
"""Files of a target in a round."""
MAX_PRINTED = 4000


@dataclass
class Counts:
    """Counts of a target."""

    rounds: int = 0
    executions: int = 0
    opened: int = 0
    loaded: int = 0
    """Methods."""
    compared: int = 0
    """Calls with results in two ways."""
    rounding: int = 0
    """Calls whose difference rounding of the inputs explains."""
    findings: int = 0
    seconds: float = 0.0

    def add(self, other: "Counts") -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


State = dict[str, Counts]
PATTERNS = {
    "executions": r"(\d+) cases:",
    "opened": r"cases: (\d+) opened",
    "loaded": r"(\d+) of \d+ methods loaded",
    "compared": r"(\d+) calls compared",
    "rounding": r"differ, (\d+) by rounding",
}


def read(folder: Path) -> State:
    """Return the state of a folder; counts of 0 in a new one."""
    path = folder / "state.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    return {name: Counts(**kept.get(name, {})) for name in TARGETS}


def write(folder: Path, state: State) -> None:
    """Replace the state at once."""
    kept = {name: asdict(counts) for name, counts in state.items()}
    write_text(folder / "state.json", json.dumps(kept, indent=1))


def seeds_of(target: str, folder: Path) -> list[Path]:
    """Return the seeds of a target, which are written once."""
    done = folder / "seeds" / f"{target}.done"
    if not done.exists():
        print(f"{target}: exporting seeds, once", file=sys.stderr, flush=True)
        write_seeds(target, folder / "seeds" / target)
        done.touch()
    return sorted((folder / "seeds" / target).iterdir())


def chosen(target: str, folder: Path, number: int) -> Iterator[Path]:
    """Yield the files of a round."""
    files = seeds_of(target, folder) if number else kept_files(target)
    for i in range(min(FILES, len(files))):
        yield files[(number * FILES + i) % len(files)]


def counts_in(report: str) -> Counts:
    """Return the counts that fuzz_replay printed."""
    found = {name: re.search(pattern, report) for name, pattern in PATTERNS.items()}
    result = Counts(**{name: int(match[1]) for name, match in found.items() if match})
    result.findings = report.count("FAILED: ")
    return result


def run_round(fuzzer: Path, target: str, folder: Path, number: int) -> tuple[Counts, str]:
    """Run mutants of a target; return the counts, and the output if an input failed."""
    out = folder / "findings" / target
    out.mkdir(parents=True, exist_ok=True)
    command = [
        str(fuzzer),
        f"--target={target}",
        f"--program={PROGRAM}",
        f"--mutate={MUTATIONS}",
        f"--seed={number * FILES + 1}",
        f"--out={out}",
        *map(str, chosen(target, folder, number)),
    ]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    result = counts_in(done.stdout)
    result.rounds, result.seconds = 1, time.monotonic() - started
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    text = "\n".join([*failed, done.stderr[-MAX_PRINTED:]])
    return result, text if done.returncode else ""


def table(state: State) -> str:
    """Return the counts as a table of Markdown."""
    names = [one.name for one in fields(Counts) if one.name != "rounds"]
    total = Counts()
    for counts in state.values():
        total.add(counts)
    lines = [f"| target | {' | '.join(names)} |", "|---" + "|--:" * len(names) + "|"]
    for target, counts in [*state.items(), ("all", total)]:
        lines.append(f"| {target} | {' | '.join(f'{getattr(counts, n):,.0f}' for n in names)} |")
    return "\n".join(lines)


def run(options: argparse.Namespace) -> int:
    """Run rounds until the time is over, at least one; return 1 if an input failed."""
    folder: Path = options.campaign
    folder.mkdir(parents=True, exist_ok=True)
    fuzzer = kept_build(FAST) / "fuzz_replay"
    state, started, failed = read(folder), time.monotonic(), False
    with tempfile.TemporaryDirectory() as work:
        targets = options.target or [
            t for t in TARGETS if t != "xnnpack" or with_xnnpack(Path(work))
        ]
    is_over = False
    while not is_over:
        # The target with the least time is next: a round of some takes many times as long.
        target = min(targets, key=lambda name: state[name].seconds)
        counts, text = run_round(fuzzer, target, folder, state[target].rounds)
        state[target].add(counts)
        write(folder, state)
        total = sum(one.executions for one in state.values())
        print(f"{target}: {counts.executions:,}; {total:,} in all", file=sys.stderr, flush=True)
        if text:
            failed = True
            print(f"{target}:\n{text}", flush=True)
        is_over = time.monotonic() - started > options.seconds
    print(table(state))
    return int(failed)
