"""A large file: six linear layers of one row, 1.6 GB: load, calls and peak memory."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common import CACHE, OFFICIAL, OURS, Row, Table, alternate_children, megabytes
from benchmarks.common import seconds

LAYERS, WIDTH, QUICK_WIDTH = 6, 8192, 2048

CODE = """
from time import perf_counter
import numpy
{imports}
path, width, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
x = {array}(numpy.ones((1, width), numpy.float32))
start = perf_counter()
method = Runtime.get().load_program(path).load_method("forward")
report["load"] = perf_counter() - start
start = perf_counter()
method.execute([x])
report["first"] = perf_counter() - start
times = []
for _ in range(calls):
    start = perf_counter()
    method.execute([x])
    times.append(perf_counter() - start)
report["call"] = min(times)
"""
CODES = {
    OFFICIAL: CODE.format(
        imports="import torch\nfrom executorch.runtime import Runtime\ntorch.set_num_threads(2)",
        array="torch.from_numpy",
    ),
    OURS: CODE.format(imports="from executorch_c import Runtime", array=""),
}
FIGURES = {
    "load": ("load", seconds),
    "first": ("first call", seconds),
    "call": ("later calls, best", seconds),
    "rss": ("peak resident memory of the process (VmHWM)", megabytes),
}


def program(width: int, delegated: bool) -> Path:
    """Return a program of linear layers, exported by the official flow."""
    import torch
    from benchmarks.exports import write
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    CACHE.mkdir(exist_ok=True)
    path = CACHE / f"linear_{width}_{'delegated' if delegated else 'kernels'}.pte"
    if not path.exists():
        torch.manual_seed(0)
        net = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(LAYERS)))
        exported = torch.export.export(net.eval(), (torch.zeros(1, width),))
        edge = to_edge_transform_and_lower(
            exported, partitioner=[XnnpackPartitioner()] if delegated else []
        )
        write(path, edge.to_executorch().buffer)
    return path


def measure(quick: bool) -> Table:
    table = Table(
        "A large file",
        f"{LAYERS} linear layers of {QUICK_WIDTH if quick else WIDTH}, one row, two threads; a new "
        "process for each turn, the file in the page cache. Peak memory counts the file's mapped "
        "pages.",
    )
    width = QUICK_WIDTH if quick else WIDTH
    for delegated in (False, True):
        path = program(width, delegated)
        what = "XNNPACK" if delegated else "without delegates"
        calls = "20" if delegated or quick else "2"  # of the official kernels: 12 s each
        reports = alternate_children(CODES, 1 if quick else 3, str(path), str(width), calls)
        for key, (name, show) in FIGURES.items():
            official, ours = reports[OFFICIAL][key], reports[OURS][key]
            note = ""
            if key == "rss":
                size = path.stat().st_size
                note = f"{official / size:.2f}, {ours / size:.2f} of the file"
            table.rows.append(Row(f"{what}: {name}", official, ours, show, note))
    return table
