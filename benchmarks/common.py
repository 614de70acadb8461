"""Common parts of the benchmarks: programs, alternating timers, child processes, tables."""

from __future__ import annotations

import functools
import gc
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import IN_PLACE, ROOT

CACHE = Path(__file__).parent / ".cache"

PYTHON = "EXECUTORCH_C_BENCH_PYTHON"
"""The environment variable of the Python that has the rivals' packages."""

COLUMNS = 120

OFFICIAL, OURS = "official", "executorch_c"
Calls = dict[str, Callable[[], Any]]
Report = dict[str, float]


@dataclass
class Row:
    """A comparison; smaller is better. `note` is a remark for the reader."""

    what: str
    official: float
    ours: float
    show: Callable[[float], str]
    note: str = ""

    @property
    def ratio(self) -> float:
        return self.official / self.ours


def geometric_mean(rows: Iterable[Row]) -> float:
    """Return the geometric mean of the rows' ratios."""
    return math.exp(statistics.fmean(math.log(row.ratio) for row in rows))


@dataclass
class Table:
    """The rows of one area and a sentence about the measurement."""

    title: str
    how: str
    rows: list[Row] = field(default_factory=list)
    geometric_mean: bool = False
    notes: list[str] = field(default_factory=list)
    columns: tuple[str, str, str] = ("official", "executorch_c", "ratio")

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", paragraph(self.how), ""]
        lines += [f"| | {' | '.join(self.columns)} | |", "|---|--:|--:|--:|---|"]
        for row in self.rows:
            cells = [row.what, row.show(row.official), row.show(row.ours), f"{row.ratio:.2f}"]
            lines.append("| " + " | ".join([*cells, row.note]) + " |")
        if self.geometric_mean and self.rows:
            lines.append(f"| geometric mean | | | {geometric_mean(self.rows):.2f} | |")
        return "\n".join([*lines, *("\n" + paragraph(note) for note in self.notes)])


def paragraph(text: str) -> str:
    """Return a text in lines of a page."""
    return textwrap.fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def seconds(value: float) -> str:
    """Return a time with a suitable unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-6:.3g} µs"


def megabytes(value: float) -> str:
    return f"{value / 1e6:.4g} MB"


def environment() -> str:
    """Return a paragraph about the machine and the versions."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = models[0].partition(": ")[2] if models else cpu
    packages = []
    for name in ("executorch", "torch", "numpy"):
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            packages.append(f"no {name}")
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    machine = f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}"
    legend = "Medians; ratio = official / executorch_c: executorch_c is better above 1."
    return f"{machine}, {', '.join(packages)}; load average before the run {load}. {legend}"


# ---- timing in this process ------------------------------------------------------------------


def alternate(calls: Calls, rounds: int, batch: int = 1) -> dict[str, float]:
    """Return the median seconds of one call of each, measured in turn so that noise affects all
    equally."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()  # first calls allocate and page in
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, call in calls.items():
                start = perf_counter()
                for _ in range(batch):
                    call()
                times[name].append((perf_counter() - start) / batch)
    finally:
        gc.enable()
    return {name: statistics.median(samples) for name, samples in times.items()}


def rounds_for(calls: Calls, budget: float, minimum: int, maximum: int) -> int:
    """Return the number of rounds of all calls that fit into `budget` seconds."""
    start = perf_counter()
    for call in calls.values():
        call()
    return max(minimum, min(maximum, int(budget / (perf_counter() - start))))


# ---- both runtimes ---------------------------------------------------------------------------


def open_official(path: Path, method: str = "forward") -> Any:
    """Return a loaded method of the official runtime."""
    import torch
    from executorch.runtime import Runtime

    torch.set_num_threads(1)
    program = Runtime.get().load_program(path)
    loaded = program.load_method(method)
    assert loaded is not None
    return loaded


def open_ours(path: Path, method: str = "forward") -> Any:
    """Return a loaded method of executorch_c."""
    from executorch_c import Runtime

    return Runtime.get().load_program(path).load_method(method)


def to_torch(values: Sequence[Any]) -> list[Any]:
    """Return arrays as tensors that share their memory, and everything else unchanged."""
    import numpy as np
    import torch

    return [torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in values]


# ---- programs --------------------------------------------------------------------------------


def zoo_program(name: str) -> tuple[Path, str, list[Any]]:
    """Return a model of the zoo as a file, its first method, and the inputs of that method's first
    call."""
    from tests.models import zoo

    CACHE.mkdir(exist_ok=True)
    exported = zoo.load(name)
    path = CACHE / f"{name}.pte"
    if not path.exists() or path.read_bytes() != exported.pte:
        path.write_bytes(exported.pte)
    method = next(iter(exported.calls))
    return path, method, exported.calls[method][0].inputs


# ---- child processes -------------------------------------------------------------------------


@functools.cache
def has_packages(python: str, packages: tuple[str, ...]) -> bool:
    """Return whether a Python can find all packages."""
    code = (
        "import sys, importlib.util as u; sys.exit(any(not u.find_spec(n) for n in sys.argv[1:]))"
    )
    process = subprocess.run([python, "-c", code, *packages], cwd=ROOT, capture_output=True)
    return process.returncode == 0


REPORT = """
import json
# Not getrusage: its maximum includes the parent's memory at the fork.
for line in open("/proc/self/status"):
    if line.startswith("VmHWM:"):
        report["rss"] = int(line.split()[1]) * 1024
print(json.dumps(report))
"""


def run_child(code: str, *args: str) -> Report:
    """Run `code` (which fills the dict `report`) in a new interpreter; add "wall" and "rss"."""
    source = f"import sys\nreport = {{}}\n{code}\n{REPORT}"
    environ = os.environ | {"PYTHONWARNINGS": "ignore"}
    if IN_PLACE:
        environ["PYTHONPATH"] = str(ROOT)
    start = perf_counter()
    process = subprocess.run(
        [sys.executable, "-c", source, *args],
        capture_output=True,
        text=True,
        cwd=CACHE,
        env=environ,
        check=False,
    )
    wall = perf_counter() - start
    if process.returncode:
        raise RuntimeError(f"child process failed: {process.stderr.strip()[-1000:]}")
    return {"wall": wall, **json.loads(process.stdout.strip().splitlines()[-1])}


def alternate_children(codes: dict[str, str], rounds: int, *args: str) -> dict[str, Report]:
    """Return medians of the reports of each code, run in turn; the first round only warms the disk
    cache."""
    reports: dict[str, list[Report]] = {name: [] for name in codes}
    for i in range(rounds + 1):
        for name, code in codes.items():
            report = run_child(code, *args)
            if i:
                reports[name].append(report)
    return {
        name: {key: statistics.median(r[key] for r in each) for key in each[0]}
        for name, each in reports.items()
    }
