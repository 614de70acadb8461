"""Delegated models on a busy machine: two processes per CPU compete with the two runtimes, which
run in turn. Each process loads, calls once, then many times."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks import IN_PLACE, ROOT
from benchmarks.common import CACHE, OFFICIAL, OURS, Report, Row, Table, seconds
from tests.busy import busy

NAMES = ("mobilenet_v2", "densenet121", "resnet18")
CALLS, EACH = 30, 2  # calls of a process; busy processes per CPU
SETTLING = 0.5  # seconds after the imports: the BLAS threads of NumPy spin for the first 0.1

CHILD = """
import json, statistics, sys, time
import numpy as np
calls, report = int(sys.argv[3]), {{}}
with np.load(sys.argv[2]) as file:
    inputs = [file[name] for name in file.files]
{imports}
print("ready", flush=True)
sys.stdin.readline()  # the machine is busy now
start = time.perf_counter()
method = Runtime.get().load_program(sys.argv[1]).load_method("forward")
loaded = time.perf_counter()
method.execute(inputs)
first = time.perf_counter()
times = []
for _ in range(calls):
    begin = time.perf_counter()
    method.execute(inputs)
    times.append(time.perf_counter() - begin)
report["load"] = loaded - start
report["first"] = first - loaded
report["both"] = first - start
report["call"] = statistics.median(times)
report["worst"] = max(times)
print(json.dumps(report), flush=True)
"""
CHILDREN = {
    OFFICIAL: CHILD.format(
        imports="import torch\nfrom executorch.runtime import Runtime\n"
        "inputs = [torch.from_numpy(x) for x in inputs]\nRuntime.get()"
    ),
    OURS: CHILD.format(
        # The name of a backend loads it; the official ones come with the import.
        imports="from executorch_c import Runtime\n"
        "assert 'XnnpackBackend' in Runtime.get().backend_registry.registered_backend_names"
    ),
}
SHOWN = (
    ("call", "a call"),
    ("worst", "the slowest call"),
    ("first", "the first call"),
    ("both", "load and first call"),
)


def child(code: str, args: list[str], each: int) -> Report:
    """Return the report of a process that imports first, and measures on the busy machine."""
    environ = os.environ | {"PYTHONWARNINGS": "ignore"}
    if IN_PLACE:
        environ["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-c", code, *args]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=CACHE,
        env=environ,
    ) as process:
        assert process.stdin and process.stdout
        line = process.stdout.readline()
        assert line == "ready\n", line
        time.sleep(SETTLING)
        with busy(each * len(os.sched_getaffinity(0))):
            process.stdin.write("go\n")
            process.stdin.flush()
            report: Report = json.loads(process.stdout.readline())
    return report


def rivals(model: Any, each: int, rounds: int) -> dict[str, list[Report]]:
    """Return the reports of both runtimes' processes, in turn, without the first round."""
    from benchmarks.xnnpack_models import program

    path, _ = program(model)
    args = [str(path), str(path.with_suffix(".npz")), str(CALLS)]
    reports: dict[str, list[Report]] = {OFFICIAL: [], OURS: []}
    for turn in range(rounds + 1):
        for name, code in CHILDREN.items():
            report = child(code, args, each)
            if turn:
                reports[name].append(report)
    return reports


def rows(model: Any, each: int, rounds: int) -> list[Row]:
    reports = rivals(model, each, rounds)
    when = f"{each} busy processes a CPU" if each else "idle"

    def middle(name: str, key: str) -> float:
        return statistics.median(report[key] for report in reports[name])

    return [
        Row(f"{model.title}, {when}: {what}", middle(OFFICIAL, key), middle(OURS, key), seconds)
        for key, what in SHOWN
    ]


def measure(quick: bool) -> Table:
    from benchmarks.xnnpack_models import MODELS

    how = (
        f"Each runtime with its default number of threads. Every process loads, then calls "
        f'{CALLS + 1} times; medians over processes, of "a call" of the medians of each.'
    )
    table = Table("Delegated models on a busy machine", how)
    for model in MODELS:
        if model.name in NAMES and model.scheme == "fp32":
            for each in (EACH, 0):
                table.rows += rows(model, each, 2 if quick else 9)
    return table


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--each", type=int, nargs="*", default=[EACH, 0])
    options = parser.parse_args()
    from benchmarks.xnnpack_models import MODELS

    for model in MODELS:
        if model.name in options.names and model.scheme == "fp32":
            for each in options.each:
                for row in rows(model, each, options.rounds):
                    print(
                        f"{row.what:60} {row.show(row.official):>9} {row.show(row.ours):>9} "
                        f"{row.ratio:5.2f}",
                        flush=True,
                    )
