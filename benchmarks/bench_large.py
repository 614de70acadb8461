"""Large files: six linear layers of one row, 1.6 GB in float32; 8.5 billion weights of 4 bits, 4.8
GB. Load, calls and peak memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import CACHE, OFFICIAL, OURS, Row, Table, alternate_children, megabytes
from benchmarks.common import seconds

LAYERS, WIDTH, QUICK_WIDTH = 6, 8192, 2048
BLOCKS, QUICK_BLOCKS, VOCABULARY = 45, 2, 128256
"""Of the program of 4 bits: gated feed-forward blocks and a last layer of Llama 3 8B's sizes."""
BLOCK_WIDTH, HIDDEN = 4096, 14336

CODE = """
from time import perf_counter
import numpy
{imports}
path, width, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
x = {array}(numpy.ones((1, width), numpy.float32))
start = perf_counter()
method = Runtime.get().load_program(path).load_method("forward")
report["load"] = perf_counter() - start
times = []
for _ in range(1 + calls):
    start = perf_counter()
    method.execute([x])
    times.append(perf_counter() - start)
report["first"], report["third"], report["call"] = times[0], times[2], min(times[1:])
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
    "third": ("third call", seconds),
    "call": ("later calls, best", seconds),
    "rss": ("peak resident memory of the process (VmHWM)", megabytes),
}


@dataclass(frozen=True)
class Program:
    """A file, the width of its input, and the calls after the first one."""

    what: str
    path: Path
    width: int
    calls: int


def layers(quick: bool, delegated: bool) -> Program:
    """Return a program of linear layers, exported by the official flow."""
    width = QUICK_WIDTH if quick else WIDTH
    path = CACHE / f"linear_{width}_{'delegated' if delegated else 'kernels'}.pte"
    if not path.exists():
        export(path, width, delegated)
    if delegated:
        return Program("XNNPACK", path, width, 20)
    # The official kernels take 12 s for a call.
    return Program("without delegates", path, width, 20 if quick else 2)


def export(path: Path, width: int, delegated: bool) -> None:
    import torch
    from benchmarks.exports import write
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    torch.manual_seed(0)
    net = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(LAYERS)))
    exported = torch.export.export(net.eval(), (torch.zeros(1, width),))
    edge = to_edge_transform_and_lower(
        exported, partitioner=[XnnpackPartitioner()] if delegated else []
    )
    write(path, edge.to_executorch().buffer)


def bits(quick: bool) -> Program:
    """Return a program of 4-bit weights with scales of groups of 32, written block by block."""
    from tests.backends.xnnpack_layers import Sizes, write

    sizes = Sizes(QUICK_BLOCKS if quick else BLOCKS, BLOCK_WIDTH, HIDDEN, VOCABULARY)
    path = CACHE / f"bits_{sizes.blocks}.pte"
    if not path.exists():
        part = path.with_suffix(".part")
        write(part, sizes, {"forward": 1})
        part.rename(path)
    what = f"XNNPACK, {sizes.weights / 1e9:.1f} billion weights of 4 bits"
    return Program(what, path, BLOCK_WIDTH, 20)


def measure(quick: bool) -> Table:
    table = Table(
        "Large files",
        f"{LAYERS} linear layers of {QUICK_WIDTH if quick else WIDTH} in float32, and feed-forward "
        "blocks with 4-bit weights and dynamically quantised inputs; one row, two threads; a new "
        "process for each turn, the file in the page cache. Peak memory counts the file's mapped "
        "pages.",
    )
    CACHE.mkdir(exist_ok=True)
    for one in (layers(quick, False), layers(quick, True), bits(quick)):
        arguments = str(one.path), str(one.width), str(one.calls)
        reports = alternate_children(CODES, 1 if quick else 3, *arguments)
        for key, (name, show) in FIGURES.items():
            official, ours = reports[OFFICIAL][key], reports[OURS][key]
            note = ""
            if key == "rss":
                size = one.path.stat().st_size
                note = f"{official / size:.2f}, {ours / size:.2f} of the file"
            table.rows.append(Row(f"{one.what}: {name}", official, ours, show, note))
    return table
