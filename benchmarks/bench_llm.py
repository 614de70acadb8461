"""A language model beside the official runner, llama.cpp and onnxruntime-genai.

`python -m benchmarks.bench_llm --schemes int4 --rivals ours genai` runs a process of each and adds
its figures to results/llm.json; `--report` writes the page of that file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

from benchmarks import ROOT
from benchmarks.common import PYTHON, Row, Table, has_packages, megabytes, paragraph, seconds
from benchmarks.common import environment as machine
from benchmarks.llm_models import FLOAT32, INT4, environment, file_of, prepare, size_of
from benchmarks.llm_rivals import NEW, PROMPT, RIVALS

THREADS = 2
PAUSE = 0.05
"""Seconds between turns: threads of some runtimes spin for a while."""
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
class PreparedRivals:
    """The rivals that can be measured, by name with their Python; reasons for the others."""

    pythons: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def python_of(name: str) -> str | None:
    """Return the first Python that has a rival's packages."""
    rival = RIVALS[name]
    needed = (rival.package,) if rival.package else ("executorch_c",)
    for python in (sys.executable, os.environ.get(PYTHON)):
        if python and has_packages(python, needed):
            return python
    return None


def prepared(names: Iterable[str] = RIVALS, schemes: Iterable[str] = SCHEMES) -> PreparedRivals:
    """Write the files of all rivals that are installed."""
    models = PreparedRivals()
    for name in names:
        rival, python = RIVALS[name], python_of(name)
        writer = sys.executable if rival.kind == "pte" else python
        if python is None or writer is None:
            models.missing.append(
                f"{rival.title} is not measured: it is not installed (pip install "
                f"{rival.install}, here or in the Python that {PYTHON} names)."
            )
            continue
        try:
            for scheme in schemes:
                prepare(rival.kind, scheme, writer)
        except RuntimeError as error:
            models.missing.append(f"{rival.title} is not measured: {error}")
            continue
        models.pythons[name] = python
    return models


class Process:
    """A rival in a process of its own, which has generated its first tokens."""

    def __init__(self, name: str, python: str, scheme: str) -> None:
        path = file_of(RIVALS[name].kind, scheme)
        self.command = [python, "-m", "benchmarks.llm_rivals", name, str(path), str(THREADS)]
        self.log = TemporaryFile("w+")
        self.child = subprocess.Popen(
            [*self.command, repr(time.time())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=environment(),
            cwd=ROOT,
        )
        self.reports = [self.read()]

    def read(self) -> Report:
        """Return the next figures; a runtime may print lines of its own."""
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if line.startswith("{"):
                report: Report = json.loads(line)
                return report
        self.log.seek(0)
        raise RuntimeError(f"{' '.join(self.command)} failed: {self.log.read().strip()[-1000:]}")

    def turn(self) -> None:
        """Generate once."""
        assert self.child.stdin is not None
        print(file=self.child.stdin, flush=True)
        self.reports.append(self.read())
        time.sleep(PAUSE)

    def end(self) -> Report:
        """End the process and return its least figures, of memory the largest."""
        self.child.communicate()
        fastest = best(self.reports)
        return fastest | {"memory": max(report["memory"] for report in self.reports)}


def run(pythons: dict[str, str], scheme: str, rounds: int) -> dict[str, Report]:
    """Start a process of each rival; they generate in turn, so that other load and the machine's
    speed, which changes within seconds, are the same for all."""
    processes = {name: Process(name, python, scheme) for name, python in pythons.items()}
    for _ in range(rounds):
        for process in processes.values():
            process.turn()
    return {name: process.end() for name, process in processes.items()}


def best(reports: list[Report]) -> Report:
    """Return the least of each figure: other load on the machine only adds to it."""
    keys = dict.fromkeys(key for report in reports for key in report)
    return {key: min(report[key] for report in reports if key in report) for key in keys}


def rows_of(scheme: str, reports: dict[str, Report]) -> list[Row]:
    """Return the rows of a scheme: each figure, of each rival."""
    rows = []
    for key, (title, show) in FIGURES.items():
        for name, report in reports.items():
            if name != "ours":
                what = f"{SCHEMES[scheme]}, {title}: {RIVALS[name].title}"
                rows.append(Row(what, report[key], reports["ours"][key], show))
    return rows


def summary(scheme: str, reports: dict[str, Report]) -> str:
    """Return a sentence with the ratios to the best rival, and of the memory to the file."""
    rivals = [report for name, report in reports.items() if name != "ours"]
    ratios = [
        f"{title} {min(r[key] for r in rivals) / reports['ours'][key]:.2f}"
        for key, (title, _) in FIGURES.items()
        if rivals
    ]
    share = reports["ours"]["memory"] / size_of("pte", scheme)
    least = f"Compared with the best rival, {SCHEMES[scheme]}: {', '.join(ratios)}. "
    return (least if rivals else "") + f"Peak memory is {share:.2f} of the .pte."


HOW = (
    f"12 layers, dim 768, vocabulary of 32,000, random weights, {THREADS} threads: 8da4w with "
    "4-bit embeddings (Q4_0, int4), and float32. Processes take turns; best of all turns."
)
Reports = dict[str, dict[str, list[Report]]]
"""Of each process, by scheme and rival."""


def table_of(reports: Reports) -> Table:
    """Return the table of all processes that ran."""
    table = Table("Language models", HOW, columns=("rival", "executorch_c", "ratio"))
    for scheme, by_name in reports.items():
        fastest = {name: best(each) for name, each in by_name.items()}
        table.rows += rows_of(scheme, fastest)
        table.notes.append(summary(scheme, fastest))
    return table


def measure(quick: bool) -> Table:
    ready, reports = prepared(), Reports()
    for scheme in SCHEMES:
        for _ in range(1 if quick else 3):
            for name, report in run(ready.pythons, scheme, 4 if quick else 8).items():
                reports.setdefault(scheme, {}).setdefault(name, []).append(report)
    table = table_of(reports)
    table.notes += ready.missing
    return table


# ---- parts of the measurement ----------------------------------------------------------------

RESULTS = Path(__file__).parent / "results" / "llm.json"


def measure_parts(options: argparse.Namespace) -> None:
    """Run a process of each rival, scheme by scheme, and add its figures to the file."""
    ready = prepared(options.rivals, options.schemes)
    print(*ready.missing, sep="\n", end="")
    saved = json.loads(options.save.read_text()) if options.save.exists() else {}
    for scheme in options.schemes:
        for name, report in run(ready.pythons, scheme, options.rounds).items():
            by_name = saved.setdefault("reports", {}).setdefault(scheme, {})
            by_name.setdefault(name, []).append(report)
            shown = (f"{title} {show(report[key])}" for key, (title, show) in FIGURES.items())
            print(f"{scheme} {name}: {', '.join(shown)}", flush=True)
        saved["machine"] = machine()
        options.save.write_text(json.dumps(saved, indent=1) + "\n")


def write_report(path: Path) -> None:
    """Write the page of a file of results beside it."""
    saved = json.loads(path.read_text())
    command = "`python -m benchmarks.bench_llm --report` makes this page from `llm.json`."
    where = paragraph(saved["machine"].partition(" Medians;")[0])
    table = table_of(saved["reports"]).markdown().partition("\n\n")[2]
    page = f"# Language models\n\n{command}\n\n{where}\n\n{table}"
    path.with_suffix(".md").write_text(page + "\n")


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.bench_llm", description=__doc__)
    parser.add_argument("--schemes", nargs="+", choices=SCHEMES, default=list(SCHEMES))
    parser.add_argument("--rivals", nargs="+", choices=RIVALS, default=list(RIVALS))
    parser.add_argument("--rounds", type=int, default=8, help="generations of a process")
    parser.add_argument("--save", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true", help="write the page of --save")
    options = parser.parse_args()
    if options.report:
        write_report(options.save)
    else:
        measure_parts(options)


if __name__ == "__main__":
    main()
