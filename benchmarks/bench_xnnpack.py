"""Models that are delegated to XNNPACK: latency, load time and memory, threads alike."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.common import OFFICIAL, OURS, Row, Table, alternate, alternate_children
from benchmarks.common import megabytes, open_official, rounds_for, seconds, to_torch

THREADS = (1,)
"""Not more: pools of both runtimes spin for a while after a call, so that in one process each takes
the other's cores; that wants processes of their own."""
CHILD = """
import numpy as np, time
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
"""
CHILDREN = {
    OFFICIAL: CHILD.format(
        imports="import torch\nfrom executorch.runtime import Runtime\n"
        "from executorch.extension.pybindings import portable_lib\n"
        "portable_lib._unsafe_reset_threadpool(1)\n"
        "inputs = [torch.from_numpy(x) for x in inputs]\nRuntime.get()",
        options="",
    ),
    OURS: CHILD.format(
        # Names of backends are what loads them; the official ones come with the import.
        imports="from executorch_c import Runtime\n"
        "assert 'XnnpackBackend' in Runtime.get().backend_registry.registered_backend_names",
        options=", num_threads=1",
    ),
}


def open_ours(path: Path, threads: int) -> Any:
    from executorch_c import Runtime

    return Runtime.get().load_program(path).load_method("forward", num_threads=threads)


def check(official: list[Any], ours: list[Any]) -> None:
    """Both have computed the same; how well, the tests say."""
    import numpy as np

    for a, b in zip(official, ours, strict=True):
        a = a.numpy()
        scale = max(1e-6, float(np.abs(a).max()))
        assert np.abs(a - b).max() <= 0.1 * scale, "the runtimes do not agree"


def latency(model: Any, threads: int, budget: float) -> Row:
    from executorch.extension.pybindings import portable_lib

    from benchmarks.xnnpack_models import program

    path, inputs = program(model)
    tensors = to_torch(inputs)
    portable_lib._unsafe_reset_threadpool(threads)
    official, ours = open_official(path), open_ours(path, threads)
    check(official.execute(tensors), ours.execute(inputs))
    calls = {OFFICIAL: lambda: official.execute(tensors), OURS: lambda: ours.execute(inputs)}
    found = alternate(calls, rounds_for(calls, budget, 5, 1000))
    return Row(model.title, found[OFFICIAL], found[OURS], seconds)


def mean(rows: Iterable[Row]) -> float:
    return math.exp(statistics.fmean(math.log(row.ratio) for row in rows))


def memory(model: Any, rounds: int) -> list[Row]:
    from benchmarks.xnnpack_models import program

    path, _ = program(model)
    found = alternate_children(CHILDREN, rounds, str(path), str(path.with_suffix(".npz")))
    return [
        Row(f"{model.title}: {what}", found[OFFICIAL][key], found[OURS][key], show)
        for what, key, show in (
            ("load, in a new process", "load", seconds),
            ("peak memory that loading and a call add", "growth", megabytes),
        )
    ]


def measure(quick: bool) -> Table:
    from benchmarks.xnnpack_models import MODELS

    how = ("One call, in turn, one process, the same number of threads; programs from the "
           "official `XnnpackPartitioner`, random weights.")  # fmt: skip
    table = Table("Models delegated to XNNPACK", how)
    for threads in THREADS:
        rows = [latency(model, threads, 0.5 if quick else 5.0) for model in MODELS]
        named = [Row(f"{r.what}, {threads} thr.", r.official, r.ours, r.show) for r in rows]
        table.rows += named
        sequence = [row for row, model in zip(rows, MODELS, strict=True) if model.sequence]
        worst = min(named, key=lambda row: row.ratio)
        table.notes.append(
            f"Geometric means at {threads} thread(s): {mean(rows):.2f} over all, "
            f"{mean(sequence):.2f} over transformers and recurrent ones; least {worst.ratio:.2f} "
            f"({worst.what})."
        )
    for model in MODELS:
        if model.name in ("mobilenet_v2", "deit_tiny", "llama_15m, 64 tokens"):
            table.rows += memory(model, 1 if quick else 3)
    return table
