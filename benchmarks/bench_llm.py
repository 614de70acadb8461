"""A language model beside the official runner, llama.cpp and onnxruntime-genai."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field

from benchmarks import ROOT
from benchmarks.common import Row, Table, megabytes, seconds
from benchmarks.llm_models import FLOAT32, INT4, environment, file_of, prepare, size_of
from benchmarks.llm_rivals import NEW, PROMPT, RIVALS

PYTHON = "EXECUTORCH_C_BENCH_PYTHON"
"""The environment variable of the Python that has the rivals' packages."""
THREADS = 2
Report = dict[str, float]


def tokens_per_second(value: float) -> str:
    return f"{1 / value:,.0f} tokens/s"


FIGURES = {
    "prefill": (f"prefill of {PROMPT} tokens", tokens_per_second),
    "decode": (f"decode of {NEW} tokens", tokens_per_second),
    "first": ("process start to first tokens", seconds),
    "memory": ("peak resident memory", megabytes),
}
SCHEMES = {INT4: "4 bits", FLOAT32: "float32"}


@dataclass
class Prepared:
    """The rivals that can be measured, by name with their Python; reasons for the others."""

    pythons: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def has_packages(python: str, packages: tuple[str, ...]) -> bool:
    """Return whether a Python can find all packages."""
    code = (
        "import sys, importlib.util as u; sys.exit(any(not u.find_spec(n) for n in sys.argv[1:]))"
    )
    done = subprocess.run([python, "-c", code, *packages], cwd=ROOT, capture_output=True)
    return done.returncode == 0


def python_of(name: str) -> str | None:
    """Return the first Python that has a rival's packages."""
    rival = RIVALS[name]
    needed = (rival.package,) if rival.package else ("executorch_c",)
    for python in (sys.executable, os.environ.get(PYTHON)):
        if python and has_packages(python, needed):
            return python
    return None


def prepared() -> Prepared:
    """Write the files of all rivals that are installed."""
    found = Prepared()
    for name, rival in RIVALS.items():
        python = python_of(name)
        writer = sys.executable if rival.kind == "pte" else python
        if python is None or writer is None:
            found.missing.append(
                f"{rival.title} is not measured: it is not installed (pip install "
                f"{rival.install}, here or in the Python that {PYTHON} names)."
            )
            continue
        try:
            for scheme in SCHEMES:
                prepare(rival.kind, scheme, writer)
        except RuntimeError as error:
            found.missing.append(f"{rival.title} is not measured: {error}")
            continue
        found.pythons[name] = python
    return found


def run(name: str, python: str, scheme: str, rounds: int) -> Report:
    """Measure a rival in a new process."""
    path = file_of(RIVALS[name].kind, scheme)
    command = [python, "-m", "benchmarks.llm_rivals", name, str(path), str(THREADS)]
    done = subprocess.run(
        [*command, repr(time.time()), str(rounds)],
        capture_output=True, text=True, env=environment(), cwd=ROOT, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()[-1000:]}")
    report: Report = json.loads(done.stdout.strip().splitlines()[-1])
    return report


def best(reports: list[Report]) -> Report:
    """Return the least of each figure: other load on the machine only adds to it."""
    return {key: min(report[key] for report in reports) for key in reports[0]}


def rows_of(scheme: str, found: dict[str, Report]) -> list[Row]:
    """Return the rows of a scheme: each figure, of each rival."""
    rows = []
    for key, (title, show) in FIGURES.items():
        for name, report in found.items():
            if name != "ours":
                what = f"{SCHEMES[scheme]}, {title}: {RIVALS[name].title}"
                rows.append(Row(what, report[key], found["ours"][key], show))
    return rows


def summary(scheme: str, found: dict[str, Report]) -> str:
    """Return a sentence with the ratios to the best rival, and of the memory to the file."""
    rivals = [report for name, report in found.items() if name != "ours"]
    ratios = [f"{title} {min(r[key] for r in rivals) / found['ours'][key]:.2f}"
              for key, (title, _) in FIGURES.items() if rivals]  # fmt: skip
    share = found["ours"]["memory"] / size_of("pte", scheme)
    least = f"Compared with the best rival, {SCHEMES[scheme]}: {', '.join(ratios)}. "
    return (least if rivals else "") + f"Peak memory is {share:.2f} of the .pte."


def measure(quick: bool) -> Table:
    how = (
        f"12 layers, dim 768, vocabulary of 32,000, random weights, {THREADS} threads: 8da4w with "
        "4-bit embeddings (Q4_0, int4), and float32. A process of each in turn; best of all turns."
    )
    table = Table("Language models", how, columns=("rival", "executorch_c", "ratio"))
    ready = prepared()
    table.notes += ready.missing
    for scheme in SCHEMES:
        reports: dict[str, list[Report]] = {}
        for _ in range(1 if quick else 3):
            for name, python in ready.pythons.items():
                reports.setdefault(name, []).append(run(name, python, scheme, 4 if quick else 8))
        found = {name: best(each) for name, each in reports.items()}
        table.rows += rows_of(scheme, found)
        table.notes.append(summary(scheme, found))
    return table
