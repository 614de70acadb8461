"""Loading: small programs and one of 100 MB, with one of their methods."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common import CACHE, OFFICIAL, OURS, Row, Table, alternate, alternate_children
from benchmarks.common import megabytes, open_official, open_ours, rounds_for
from benchmarks.common import seconds, zoo_program

MODELS = ("mlp", "mobilenet_v2", "bert", "gpt2", "llama")
LAYERS, WIDTH = 25, 1000
"""Weights of 25 linear layers: 100 MB."""

LOAD = {
    OFFICIAL: """
from executorch.runtime import Runtime
before = resident()
program = Runtime.get().load_program(sys.argv[1])
method = program.load_method("forward")
report["growth"] = resident() - before
""",
    OURS: """
from executorch_c import Runtime
before = resident()
program = Runtime.get().load_program(sys.argv[1])
method = program.load_method("forward")
report["growth"] = resident() - before
""",
}
RESIDENT = """
def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
"""


def large_program() -> Path:
    """Return a program with 100 MB of weights, exported by the official flow."""
    import torch
    from benchmarks.exports import write
    from executorch.exir import to_edge

    CACHE.mkdir(exist_ok=True)
    path = CACHE / "linear_100mb.pte"
    if not path.exists():
        torch.manual_seed(0)
        net = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
        program = torch.export.export(net.eval(), (torch.zeros(1, WIDTH),))
        write(path, to_edge(program).to_executorch().buffer)
    return path


def open_both(path: Path) -> dict[str, Callable[[], Any]]:
    return {OFFICIAL: lambda: open_official(path), OURS: lambda: open_ours(path)}


def load_row(what: str, path: Path, budget: float) -> Row:
    calls = open_both(path)
    rounds = rounds_for(calls, budget, 3, 300)
    times = alternate(calls, rounds)
    return Row(what, times[OFFICIAL], times[OURS], seconds)


def verify_share(path: Path, load: float) -> str:
    """Return the share of load time that the structural checks take, which are always on."""
    from tests import build_core

    library = os.environ.get("EXECUTORCH_C_CORE_LIB") or str(build_core.build("-O2"))
    time_verify = ctypes.CDLL(library).ec_testing_time_verify
    time_verify.restype = ctypes.c_double
    spent = time_verify(os.fsencode(path), 100)
    assert spent > 0
    return (
        f"The structural checks of the {path.stat().st_size / 1e6:.0f} MB program take "
        f"{seconds(spent)}, {100 * spent / load:.1f} % of its load time."
    )


def measure(quick: bool) -> Table:
    how = (
        '`load_program(path)` and `load_method("forward")`, in turn, one process, files in '
        "the page cache."
    )
    table = Table("Load time", how)
    budget = 0.3 if quick else 3.0
    for name in MODELS:
        path, _, _ = zoo_program(name)
        size = path.stat().st_size
        table.rows.append(load_row(f"{name} ({size / 1e3:.0f} kB)", path, budget))
    large = large_program()
    what = f"{LAYERS} linear layers ({large.stat().st_size / 1e6:.0f} MB)"
    table.rows.append(load_row(what, large, 2 * budget))
    table.notes.append(verify_share(large, table.rows[-1].ours))
    codes = {who: RESIDENT + code for who, code in LOAD.items()}
    reports = alternate_children(codes, 1 if quick else 3, str(large))
    growth = [max(reports[who]["growth"], 4096) for who in (OFFICIAL, OURS)]
    table.rows.append(Row(f"{what}: growth of resident memory by loading", *growth, megabytes))
    return table
