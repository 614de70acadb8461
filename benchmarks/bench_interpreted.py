"""Latency of delegates that are interpreted on the CPU, beside the same model without a delegate.

Both programs run on executorch_c. `undelegated` is the better of kernels and load-time delegation.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.common import CACHE, Row, Table, alternate, rounds_for, seconds
from benchmarks.exports import key, write
from benchmarks.networks import NETWORKS

FLOATS = ("vulkan", "coreml", "tosa")
MODELS = ("mlp", "small_cnn", "mobilenet_v2", "resnet18", "deit_tiny", "bert_mini", "lstm")
SOURCES = [
    ROOT / "executorch_c/check/flows.py",
    *sorted((ROOT / "benchmarks/networks").glob("*.py")),
]
QUICK = ("mlp", "small_cnn")


def program(model: str, flow: str) -> Path:
    """Return the cached program of a network in a flow of `check_model`."""
    from executorch_c.check import flows

    path = CACHE / "interpreted" / f"{model}-{flow}-{key(SOURCES)}.pte"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        module, inputs = NETWORKS[model].build()
        exported = flows.export(module, (inputs, {}), None)
        write(path, bytes(flows._lower(exported, flows.FLOWS[flow], "forward").buffer))
    return path


def call(path: Path, arrays: list[Any], delegation: bool = True) -> Callable[[], Any]:
    from executorch_c import Runtime

    program = Runtime.get().load_program(path)
    method = program.load_method("forward", num_threads=1, delegate_at_load=delegation)
    return lambda: method.execute(arrays)


def row(model: str, flow: str, budget: float) -> Row:
    _, inputs = NETWORKS[model].build()
    arrays = [x.numpy() for x in inputs]
    plain = program(model, "portable")
    calls = {
        "kernels": call(plain, arrays, delegation=False),
        "delegates": call(plain, arrays),
        "interpreted": call(program(model, flow), arrays),
    }
    times = alternate(calls, rounds_for(calls, budget, 3, 500))
    best = min(times["kernels"], times["delegates"])
    return Row(
        f"{model}, {flow}",
        best,
        times["interpreted"],
        seconds,
        f"kernels {seconds(times['kernels'])}",
    )


def measure(quick: bool) -> Table:
    from executorch_c.check import flows

    how = (
        "One call with one thread, in turn. Programs of the flows of `check_model` whose "
        "payload is interpreted; the ratio is undelegated / interpreted."
    )
    table = Table(
        "Interpreted delegates",
        how,
        geometric_mean=True,
        columns=("undelegated", "interpreted", "ratio"),
    )
    for flow in FLOATS:
        if not flows.FLOWS[flow].is_installed:
            table.notes.append(f"{flow}: needs {', '.join(flows.FLOWS[flow].packages)}")
            continue
        for model in QUICK if quick else MODELS:
            try:
                table.rows.append(row(model, flow, 0.2 if quick else 2.0))
            except Exception as problem:  # exporters raise anything
                table.notes.append(f"{model}, {flow}: {type(problem).__name__}: {problem}"[:200])
    return table
