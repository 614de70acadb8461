"""Time of `check_model` beyond export, before and after a change: two source trees, in turn.

    python -m benchmarks.bench_check --before TREE      # built in place, of an earlier commit
    python -m benchmarks.bench_check --before TREE --made mobilenet_v2 encoder

Both trees check the same programs. With `--made`, `check_model` exports by itself, and the time of
the same export, just before and in the same process, is subtracted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks import ROOT, exports
from benchmarks.common import CACHE, seconds
from benchmarks.networks import NETWORKS, Made

BEFORE, AFTER, OFFICIAL = "before", "after", "after, official process"
CHILD = """
import logging, sys, warnings
warnings.simplefilter("ignore"); logging.disable(logging.WARNING)
import executorch_c  # of the tree on the path; benchmarks of this one
sys.path.insert(0, {root!r})
from benchmarks.bench_check import child
child(*sys.argv[1:])
"""


def encoder(length: int) -> Made:
    """Return an encoder of 12 layers."""
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False), (
        torch.randn(1, length, 256),
    )


def bert(length: int) -> Made:
    """Return a BERT of 12 layers."""
    from transformers import BertConfig, BertModel

    from tests.models.blocks import Fn

    net = BertModel(
        BertConfig(
            vocab_size=1000,
            hidden_size=256,
            intermediate_size=1024,
            num_hidden_layers=12,
            num_attention_heads=4,
        )
    )
    ids = torch.randint(0, 1000, (1, length))
    return Fn(lambda x, net: net(x, return_dict=False)[0], net=net), (ids,)


SUBJECTS = (
    ("mobilenet_v2", 32),
    ("mobilenet_v2", 64),
    ("mobilenet_v2", 224),
    ("encoder", 32),
    ("encoder", 128),
    ("bert", 32),
    ("llama_15m", 16),
)


def built(name: str, size: int) -> Made:
    """Return a network in eval mode and its inputs, always the same."""
    if (make := {"encoder": encoder, "bert": bert}.get(name)) is not None:
        torch.manual_seed(0)
        net, inputs = make(size)
        return net.eval(), inputs
    net, inputs = NETWORKS[name].build(size)
    norms = [one for one in net.modules() if isinstance(one, nn.BatchNorm2d)]
    if norms:  # else outputs hardly depend on the input: inconclusive
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None
        with torch.no_grad():
            net.train()(torch.randn(8, *inputs[0].shape[1:]))
    return net.eval(), inputs


# ---- the process of a tree -------------------------------------------------------------------


class Clock:
    """Seconds since it was made: this process's, the official runtime's process's, and all."""

    def __init__(self) -> None:
        self.start = self.now()

    def now(self) -> tuple[float, float, float]:
        times = os.times()
        return times.user + times.system, _official_seconds(), times.elapsed

    def __call__(self) -> dict[str, float]:
        here, official, wall = (b - a for a, b in zip(self.start, self.now()))
        return {"here": here, "official": official, "wall": wall}


def _official_seconds() -> float:
    """Return the processor time of the official runtime's process, which waits for the next check;
    0 if there is none (on Linux only)."""
    try:
        from executorch_c.check import official

        path = Path(f"/proc/{official._idle[0]._process.pid}/stat")
    except (ImportError, IndexError):
        return 0.0
    fields = path.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def child(name: str, size: str, mode: str, calls: str, engines: str) -> None:
    """Print the times of some checks, after one of a small model, which imports everything."""
    from executorch_c.testing import check_model

    options = {"engines": tuple(engines.split(","))} if engines else {}
    check_model(nn.Linear(4, 4).eval(), (torch.randn(1, 4),), flow="xnnpack", **options)
    net, inputs = built(name, int(size))
    path = CACHE / f"check_{name}_{size}.pte"
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        exports.write(path, exports.program(net, inputs, "fp32"))
    if mode:
        exports.program(net, inputs, "fp32")  # fills caches of torch
    rows = []
    for _ in range(int(calls)):
        clock = Clock()
        if mode:
            exports.program(net, inputs, "fp32")
        exporting, clock = clock(), Clock()
        kind = {} if mode else {"program": path.read_bytes()}
        verdict = check_model(
            net, inputs, *(["xnnpack"] if mode else []), **kind, **options
        ).verdict
        checked = clock()
        beyond = {key: checked[key] - exporting[key] for key in checked}
        rows.append(beyond | {"verdict": verdict})
    print(json.dumps(rows))


# ---- both trees ------------------------------------------------------------------------------


def run(tree: Path, *args: str) -> list[dict[str, Any]]:
    """Return what `child` prints in a process that imports executorch_c of a tree."""
    environ = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        [sys.executable, "-c", CHILD.format(root=str(ROOT)), *args],
        env=environ,
        text=True,
        capture_output=True,
        cwd=tree,
        check=False,
    )
    if process.returncode:
        raise RuntimeError(process.stderr[-1000:])
    rows: list[dict[str, Any]] = json.loads(process.stdout.splitlines()[-1])
    return rows


def measure(name: str, size: int, before: Path, options: argparse.Namespace) -> None:
    """Print the row of a network: medians (and least) of all checks of all rounds."""
    mode = "made" if name in options.made else ""
    reports: dict[str, list[dict[str, Any]]] = {BEFORE: [], AFTER: []}
    for _ in range(options.rounds):
        for when, tree in ((BEFORE, before), (AFTER, ROOT)):
            engines = options.engines if when == AFTER else ""
            reports[when] += run(tree, name, str(size), mode, str(options.calls), engines)
    cells = [f"{name} {size}{', ' + mode if mode else ''}"]
    for key in ("here", "wall"):
        pair = [[one[key] for one in reports[when]] for when in (BEFORE, AFTER)]
        middles, minima = [statistics.median(one) for one in pair], [min(one) for one in pair]
        cells += [
            *map(seconds, middles),
            f"{middles[1] / middles[0]:.2f}",
            f"{minima[1] / minima[0]:.2f}",
        ]
    cells += [seconds(statistics.median(one["official"] for one in reports[AFTER]))]
    cells += ["/".join(sorted({one["verdict"] for one in reports[when]})) for when in reports]
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.bench_check", description=__doc__)
    parser.add_argument("names", nargs="*", default=sorted({name for name, _ in SUBJECTS}))
    parser.add_argument("--before", type=Path, required=True, help="a source tree, built in place")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=3, help="checks of each process")
    parser.add_argument("--made", nargs="*", default=[], help="networks that are exported, too")
    parser.add_argument("--engines", default="", help="of the tree after: here; default: both")
    options = parser.parse_args()
    print(
        "| network | processor: before | after | ratio | of the least | wall: before | after "
        "| ratio | of the least | official process | verdicts | |"
    )
    print("|---|" + "--:|" * 9 + "---|---|")
    for name, size in SUBJECTS:
        if name in options.names:
            measure(name, size, options.before.resolve(), options)


if __name__ == "__main__":
    main()
