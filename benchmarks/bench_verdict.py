"""Processor time of a verdict: `check_model` and `explain` beyond eager and the export, forty small
models beside their exports, and the peak memory of a check by flow beside the weights.

    python -m benchmarks verdict --quick
    python -m benchmarks.bench_verdict times mobilenet_v2 224       # one part, as JSON
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks import ROOT, exports
from benchmarks.common import CACHE, Row, Table, seconds

NETWORKS = (("mobilenet_v2", 224), ("encoder", 128))
FLOWS = ("portable", "xnnpack", "xnnpack-int8", "xnnpack-dynamic", "vulkan")
SMALL = 40
CALLS = 3
"""Calls of which the fastest counts."""
LAYERS = 15
"""Linear layers of WIDTH inputs and outputs, of the check whose memory is measured."""
WIDTH = 4096

# ---- the child process -----------------------------------------------------------------------


class ExportClock:
    """Processor time inside the functions of the export, while it is active."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            start = processor_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1
                self.seconds += 0.0 if self._depth else processor_time() - start

        return timed

    @contextmanager
    def active(self) -> Iterator[None]:
        """Time torch.export.export and the calls of executorch.exir that the tools use."""
        import torch
        from executorch import exir
        from executorch.exir.program import EdgeProgramManager

        places = [
            (torch.export, "export"),
            (exir, "to_edge"),
            (exir, "to_edge_transform_and_lower"),
            (EdgeProgramManager, "to_executorch"),
        ]
        saved = [(owner, name, getattr(owner, name)) for owner, name in places]
        for owner, name, function in saved:
            setattr(owner, name, self._timed(function))
        try:
            yield
        finally:
            for owner, name, function in saved:
                setattr(owner, name, function)


def processor_time() -> float:
    """Return the processor time of this process and of the official runtime's."""
    from benchmarks.bench_check import _official_seconds

    return time.process_time() + _official_seconds()


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Return the processor time of a call, and of the export in it."""
    gc.collect()
    clock, start = ExportClock(), processor_time()
    with clock.active():
        str(call())
    return processor_time() - start, clock.seconds


def times(name: str, size: str) -> dict[str, Any]:
    """Return the times of both tools for a network: the least, and what is export and eager."""
    import torch

    from benchmarks.bench_check import built
    from executorch_c.devtools import explain
    from executorch_c.testing import check_model

    small = torch.nn.Linear(4, 4).eval(), (torch.randn(1, 4),)
    explain(*small, program=check_model(*small, flow="xnnpack").program)  # imports everything
    net, inputs = built(name, int(size))
    path = CACHE / f"verdict_{name}_{size}.pte"
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        exports.write(path, exports.program(net, inputs, "fp32"))
    with torch.no_grad():
        eager = min(timed(lambda: net(*inputs))[0] for _ in range(2 * CALLS))
    report: dict[str, Any] = {"eager": eager}
    for tool in (check_model, explain):
        calls = [timed(lambda: tool(net, inputs, program=path)) for _ in range(CALLS)]
        whole, export = min(calls, key=lambda call: call[0] - call[1])
        report[tool.__name__] = {"whole": whole, "export": export}
    return report


def small_models() -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield small models in eval mode, and their inputs."""
    from tests.advice import small_models
    from tests.models import flow_models

    for name in flow_models.MODELS:
        model, calls = flow_models.make(name)
        yield model, (calls[0],)
    for seed in range(SMALL):
        for name in small_models.MODELS:
            model, calls = small_models.made(name)
            yield (small_models.seeded(model, seed) if seed else model), calls[0]


def many(count: str) -> dict[str, float]:
    """Return the time of checks of small models by each flow, and of the exports in them."""
    from executorch_c.check import by_flow
    from executorch_c.testing import check_model

    models = [pair for pair, _ in zip(small_models(), range(int(count)))]
    total, export = 0.0, 0.0
    for flow in FLOWS:
        check_model(*models[0], flow=flow)
    for model, inputs in models:
        for flow in FLOWS:
            export += timed(lambda: by_flow.make(model, inputs, flow))[0]
            total += timed(lambda: check_model(model, inputs, flow=flow))[0]
    return {"whole": total, "export": export}


def memory(layers: str) -> dict[str, float]:
    """Return the peak memory of a check by flow beyond that of the imports, and the bytes of the
    weights."""
    import torch
    from torch import nn

    from executorch_c.testing import check_model

    check_model(nn.Linear(4, 4).eval(), (torch.randn(1, 4),), flow="xnnpack")  # imports all
    before = peak_bytes()
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(int(layers)))).eval()
    check_model(net, (torch.randn(1, WIDTH),), flow="xnnpack")
    return {"peak": peak_bytes() - before, "weights": 4.0 * WIDTH * (WIDTH + 1) * int(layers)}


def peak_bytes() -> float:
    """Return the peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


# ---- the table -------------------------------------------------------------------------------


def run(*args: str) -> dict[str, Any]:
    """Return the output of a part, which runs in a new process on one thread."""
    command = [sys.executable, "-m", "benchmarks.bench_verdict", *args]
    environ = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        command, env=environ, text=True, capture_output=True, cwd=ROOT, check=False
    )
    if process.returncode:
        raise RuntimeError(process.stderr[-1000:])
    report: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return report


def measure(quick: bool) -> Table:
    how = (
        "Processor time of the call, with that of the official runtime's process, on one thread; "
        "the least of three calls in a process that has imported everything. The first column is "
        "the export inside the call, with one eager call; the second what the rest of it takes."
    )
    table = Table("Time to a verdict", how, columns=("export and eager", "beyond", "ratio"))
    for name, size in NETWORKS:
        report = run("times", name, str(size))
        for tool in ("check_model", "explain"):
            outside = report[tool]["export"] + report["eager"]
            beyond = report[tool]["whole"] - outside
            table.rows.append(Row(f"`{tool}`: {name}, {size}", outside, beyond, seconds))
    count = 4 if quick else SMALL
    report = run("many", str(count))
    ratio = report["whole"] / report["export"]
    table.notes.append(
        f"{count} small models by {len(FLOWS)} flows in one process: checks take "
        f"{seconds(report['whole'])}, their exports alone {seconds(report['export'])} "
        f"({ratio:.2f} times as long)."
    )
    report = run("memory", str(4 if quick else LAYERS))
    table.notes.append(
        f"Peak memory of a check by flow, without the imports: "
        f"{report['peak'] / report['weights']:.2f} times {report['weights'] / 1e9:.2f} GB of "
        "weights."
    )
    return table


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.bench_verdict", description=__doc__)
    parser.add_argument("part", choices=("times", "many", "memory"))
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    parts = {"times": times, "many": many, "memory": memory}
    print(json.dumps(parts[options.part](*options.arguments)))


if __name__ == "__main__":
    main()
