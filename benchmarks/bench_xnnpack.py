"""Models delegated to XNNPACK: latency, load time and memory, with equal threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.common import OFFICIAL, OURS, Report, Row, Table, alternate, alternate_children
from benchmarks.common import geometric_mean, megabytes, open_official, rounds_for, seconds
from benchmarks.common import to_torch

CHILD = """
import numpy as np, statistics, time
threads, budget = int(sys.argv[3]), float(sys.argv[4])
def status(what):
    for line in open("/proc/self/status"):
        if line.startswith(what):
            return int(line.split()[1]) * 1024
with np.load(sys.argv[2]) as file:
    inputs = [file[name] for name in file.files]
{imports}
before, start = status("VmRSS:"), time.perf_counter()
method = Runtime.get().load_program(sys.argv[1]).load_method("forward"{options})
report["load"] = time.perf_counter() - start
method.execute(inputs)
report["growth"] = status("VmHWM:") - before
times, until = [], time.perf_counter() + budget
while len(times) < 5 or time.perf_counter() < until:
    start = time.perf_counter()
    method.execute(inputs)
    times.append(time.perf_counter() - start)
report["call"] = statistics.median(times)
"""
CHILDREN = {
    OFFICIAL: CHILD.format(
        imports="import torch\nfrom executorch.runtime import Runtime\n"
        "from executorch.extension.pybindings import portable_lib\n"
        "portable_lib._unsafe_reset_threadpool(threads)\n"
        "inputs = [torch.from_numpy(x) for x in inputs]\nRuntime.get()",
        options="",
    ),
    OURS: CHILD.format(
        # The name of a backend loads it; the official ones come with the import.
        imports="from executorch_c import Runtime\n"
        "assert 'XnnpackBackend' in Runtime.get().backend_registry.registered_backend_names",
        options=", num_threads=threads",
    ),
}


def open_ours(path: Path) -> Any:
    from executorch_c import Runtime

    return Runtime.get().load_program(path).load_method("forward", num_threads=1)


def check(official: list[Any], ours: list[Any]) -> None:
    """Check that both computed the same; the tests check the accuracy."""
    import numpy as np

    for a, b in zip(official, ours, strict=True):
        a = a.numpy()
        scale = max(1e-6, float(np.abs(a).max()))
        assert np.abs(a - b).max() <= 0.1 * scale, "the runtimes do not agree"


def latency(model: Any, budget: float) -> Row:
    """Measure at one thread, call by call in this process."""
    from executorch.extension.pybindings import portable_lib

    from benchmarks.xnnpack_models import program

    path, inputs = program(model)
    tensors = to_torch(inputs)
    portable_lib._unsafe_reset_threadpool(1)
    official, ours = open_official(path), open_ours(path)
    check(official.execute(tensors), ours.execute(inputs))
    calls = {OFFICIAL: lambda: official.execute(tensors), OURS: lambda: ours.execute(inputs)}
    times = alternate(calls, rounds_for(calls, budget, 5, 1000))
    return Row(f"{model.title}, 1 thread", times[OFFICIAL], times[OURS], seconds)


def children(model: Any, threads: int, rounds: int, budget: float) -> dict[str, Report]:
    """Return the reports of new processes, in turn."""
    from benchmarks.xnnpack_models import program

    path, _ = program(model)
    inputs = path.with_suffix(".npz")
    return alternate_children(CHILDREN, rounds, str(path), str(inputs), str(threads), str(budget))


def two_threads(model: Any, rounds: int, budget: float) -> Row:
    """Measure in separate processes: after a call, the pools of both runtimes spin for a while, so
    that in one process each would take the other's cores."""
    reports = children(model, 2, rounds, budget)
    return Row(
        f"{model.title}, 2 threads", reports[OFFICIAL]["call"], reports[OURS]["call"], seconds
    )


def memory(model: Any, rounds: int) -> list[Row]:
    reports = children(model, 1, rounds, 0)
    return [
        Row(f"{model.title}: {what}", reports[OFFICIAL][key], reports[OURS][key], show)
        for what, key, show in (
            ("load, in a new process", "load", seconds),
            ("growth of peak memory by loading and a call", "growth", megabytes),
        )
    ]


def summary(threads: str, rows: list[Row], models: list[Any]) -> str:
    sequence = [row for row, model in zip(rows, models, strict=True) if model.sequence]
    every, these = geometric_mean(rows), geometric_mean(sequence)
    worst = min(rows, key=lambda row: row.ratio)
    return (
        f"Geometric means at {threads}: {every:.2f} over all, {these:.2f} over "
        f"transformers and recurrent nets; minimum {worst.ratio:.2f} ({worst.what})."
    )


def measure(quick: bool) -> Table:
    from benchmarks.xnnpack_models import MODELS

    how = (
        "Equal numbers of threads. Programs from the official `XnnpackPartitioner`, random "
        "weights. With one thread, calls in turn in one process; with two, processes in turn."
    )
    table = Table("Models delegated to XNNPACK", how)
    one = [latency(model, 0.5 if quick else 5.0) for model in MODELS]
    two = [two_threads(model, 1 if quick else 3, 0.2 if quick else 1.0) for model in MODELS]
    for threads, rows in (("one thread", one), ("two threads", two)):
        table.rows += rows
        table.notes.append(summary(threads, rows, list(MODELS)))
    for model in MODELS:
        if model.name in ("mobilenet_v2", "deit_tiny", "llama_15m, 64 tokens"):
            table.rows += memory(model, 1 if quick else 3)
    return table
