"""The most used operators beside torch eager, with the same number of threads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.common import Row, Table, seconds

THREADS = 1


def floats(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def indices(limit: int, *shape: int) -> Tensor:
    return torch.randint(0, limit, shape, generator=torch.Generator().manual_seed(0))


IMAGE = floats(1, 64, 64, 64)
OTHER = floats(1, 64, 64, 64) + 1
LOGITS, MASK = floats(256, 1000), IMAGE > 0


@dataclass(frozen=True)
class Case:
    """A call of one operator."""

    name: str
    call: Callable[..., Tensor]
    inputs: tuple[Tensor, ...] = (IMAGE,)
    weight: Tensor | None = None  # a constant, the last argument


PAIR, ROWS = (IMAGE, OTHER), floats(128, 512)
CASES = (
    Case("add", torch.add, PAIR),
    Case("add, a row", torch.add, (IMAGE, floats(64))),
    Case("sub", torch.sub, PAIR),
    Case("mul", torch.mul, PAIR),
    Case("div", torch.div, PAIR),
    Case("mul, a number", lambda x: x * 0.5),
    Case("maximum", torch.maximum, PAIR),
    Case("relu", torch.relu),
    Case("gelu", F.gelu),
    Case("silu", F.silu),
    Case("gelu, tanh", lambda x: F.gelu(x, approximate="tanh")),
    Case("sigmoid", torch.sigmoid),
    Case("tanh", torch.tanh),
    Case("hardswish", F.hardswish),
    Case("leaky_relu", F.leaky_relu),
    Case("clamp", lambda x: x.clamp(-1, 1)),
    Case("exp", torch.exp),
    Case("log", torch.log, (IMAGE.abs(),)),
    Case("sqrt", torch.sqrt, (IMAGE.abs(),)),
    Case("rsqrt", torch.rsqrt, (IMAGE.abs(),)),
    Case("sin", torch.sin),
    Case("cos", torch.cos),
    Case("erf", torch.erf),
    Case("abs", torch.abs),
    Case("neg", torch.neg),
    Case("reciprocal", torch.reciprocal),
    Case("pow 1.7", lambda x: x**1.7, (IMAGE.abs(),)),
    Case("pow 2", lambda x: x**2),
    Case("eq", torch.eq, PAIR),
    Case("lt, a number", lambda x: x < 0),
    Case("logical_not", torch.logical_not, (MASK,)),
    Case("where", torch.where, (MASK, IMAGE, OTHER)),
    Case("to int64", lambda x: x.to(torch.int64)),
    Case("to float16", lambda x: x.half()),
    Case("int64 to float32", lambda x: x.float(), (indices(64, 1, 64, 64, 64),)),
    Case("softmax, rows of 64", lambda x: x.softmax(-1)),
    Case("softmax, rows of 1000", lambda x: x.softmax(-1), (LOGITS,)),
    Case("softmax, dim 1", lambda x: x.softmax(1)),
    Case("log_softmax, rows of 64", lambda x: x.log_softmax(-1)),
    Case("log_softmax, rows of 1000", lambda x: x.log_softmax(-1), (LOGITS,)),
    Case("layer_norm", lambda x: F.layer_norm(x, (64,))),
    Case("group_norm", lambda x: F.group_norm(x, 8)),
    Case("sum, rows of 64", lambda x: x.sum(-1)),
    Case("sum, dim 1", lambda x: x.sum(1)),
    Case("mean, dims 2 and 3", lambda x: x.mean((2, 3))),
    Case("var", lambda x: x.var(-1)),
    Case("amax, rows of 64", lambda x: x.amax(-1)),
    Case("amax, dim 1", lambda x: x.amax(1)),
    Case("argmax", lambda x: x.argmax(-1)),
    Case("any", lambda x: x.any(-1), (MASK,)),
    Case("cumsum", lambda x: x.cumsum(-1)),
    Case("topk", lambda x: x.topk(5, -1)[0]),
    Case("cat", lambda x, y: torch.cat([x, y], 1), PAIR),
    Case("permute", lambda x: x.permute(0, 2, 3, 1).contiguous()),
    Case("transpose", lambda x: x.transpose(2, 3).contiguous()),
    Case("slice", lambda x: x[:, :, 1:, ::2].clone()),
    Case("pad", lambda x: F.pad(x, (1,) * 4)),
    Case("index_select", lambda x, i: x.index_select(2, i), (IMAGE, torch.arange(0, 64, 2))),
    Case("gather", lambda x, i: x.gather(3, i), (IMAGE, indices(64, 1, 64, 64, 64))),
    Case("embedding", lambda i, w: F.embedding(i, w), (indices(1000, 512),), floats(1000, 64)),
    Case("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1)),
    Case("avg_pool2d", lambda x: F.avg_pool2d(x, 2)),
    Case("bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    Case("nearest", lambda x: F.interpolate(x, scale_factor=2)),
    Case("mm", torch.mm, (floats(256, 256), floats(256, 256))),
    Case("bmm", torch.bmm, (floats(12, 128, 64), floats(12, 64, 128))),
    Case("linear", F.linear, (ROWS,), floats(512, 512)),
    Case("linear, one row", F.linear, (ROWS[:1].clone(),), floats(512, 512)),
    Case("conv2d 1 x 1", F.conv2d, weight=floats(64, 64, 1, 1)),
    Case("conv2d 3 x 3", lambda x, w: F.conv2d(x, w, padding=1), weight=floats(64, 64, 3, 3)),
    Case(
        "conv2d 3 x 3, depthwise",
        lambda x, w: F.conv2d(x, w, padding=1, groups=64),
        weight=floats(64, 1, 3, 3),
    ),
)


class Module(torch.nn.Module):
    weight: Tensor | None

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.call = case.call
        self.register_buffer("weight", case.weight)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.call(*inputs) if self.weight is None else self.call(*inputs, self.weight)


def measure_case(case: Case, budget: float) -> Row:
    """Return the best times of calls in turn: other load makes calls slower, never faster."""
    from executorch.exir import to_edge
    from executorch_c import Runtime

    module = Module(case)
    exported = to_edge(torch.export.export(module, case.inputs))
    program = Runtime.get().load_program(bytes(exported.to_executorch().buffer))
    method = program.load_method("forward", num_threads=THREADS, delegate_at_load=False)
    arrays: list[Any] = [x.numpy() for x in case.inputs]
    best = {"torch eager": 1e9, "executorch_c": 1e9}
    calls: dict[str, Callable[[], object]] = {
        "torch eager": lambda: module(*case.inputs),
        "executorch_c": lambda: method.execute(arrays),
    }
    until = perf_counter() + budget
    while perf_counter() < until:
        for name, call in calls.items():
            for _ in range(3):  # the first one finds the caches as the other has left them
                start = perf_counter()
                call()
                best[name] = min(best[name], perf_counter() - start)
    return Row(case.name, best["torch eager"], best["executorch_c"], seconds)


def measure(quick: bool, names: tuple[str, ...] = ()) -> Table:
    torch.set_num_threads(THREADS)
    how = (
        "One call on some hundred thousand elements, one thread each, programs without "
        "delegates and without load-time delegation; best calls, in turn."
    )
    table = Table(
        "Operators beside torch eager",
        how,
        geometric_mean=True,
        columns=("torch eager", "executorch_c", "ratio"),
    )
    for case in CASES:
        if not names or any(name in case.name for name in names):
            table.rows.append(measure_case(case, 0.1 if quick else 0.6))
    table.rows.sort(key=lambda row: row.ratio)
    slower = sum(row.ratio < 0.97 for row in table.rows)
    table.notes.append(f"{slower} of {len(table.rows)} are slower than eager.")
    return table


if __name__ == "__main__":
    print(measure("--quick" in sys.argv, tuple(a for a in sys.argv[1:] if a[0] != "-")).markdown())
