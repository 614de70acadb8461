"""Heavy operators beside the roofline: a loop of multiply-adds in registers, and a copy."""

from __future__ import annotations

import ctypes
import math
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.common import CACHE, Row, Table, seconds

SOURCE = Path(__file__).parent / "roofline.c"
COPIED = 64 << 20  # bytes of a thread's copy: more than the caches hold
THREADS = (1, 2)


@dataclass(frozen=True)
class Operator:
    """A call: its arguments, the shape of its result, its multiply-adds or the bytes it moves."""

    title: str
    name: str
    arguments: Callable[[], list[Any]]
    shape: tuple[int, ...]
    multiply_adds: float = 0
    moved: float = 0
    more: tuple[tuple[int, ...], ...] = ()  # shapes of further results


def array(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def conv(title: str, n: int, cin: int, cout: int, side: int, kernel: int, groups: int) -> Operator:
    pad = kernel // 2

    def arguments() -> list[Any]:
        return [
            array(n, cin, side, side),
            array(cout, cin // groups, kernel, kernel),
            None,
            [1, 1],
            [pad, pad],
            [1, 1],
            False,
            [0, 0],
            groups,
        ]

    count = n * cout * side * side * cin / groups * kernel * kernel
    return Operator(title, "aten::convolution.out", arguments, (n, cout, side, side), count)


WIDE = (4096, 1024)
SIZE = 4.0 * math.prod(WIDE)
OPERATORS = (
    Operator(
        "mm 1024 x 1024 x 1024",
        "aten::mm.out",
        lambda: [array(1024, 1024), array(1024, 1024)],
        (1024, 1024),
        1024**3,
    ),
    Operator(
        "bmm 16 x 256 x 64 x 256",
        "aten::bmm.out",
        lambda: [array(16, 256, 64), array(16, 64, 256)],
        (16, 256, 256),
        16 * 256 * 64 * 256,
    ),
    Operator(
        "addmm 128 x 1024 x 1024",
        "aten::addmm.out",
        lambda: [array(1024), array(128, 1024), array(1024, 1024), 1.0, 1.0],
        (128, 1024),
        128 * 1024 * 1024,
    ),
    conv("convolution 3x3, 256 to 256, 14 x 14", 1, 256, 256, 14, 3, 1),
    conv("convolution 1x1, 64 to 256, 56 x 56", 1, 64, 256, 56, 1, 1),
    conv("convolution 3x3, 256 in 16 groups, 28 x 28", 1, 256, 256, 28, 3, 16),
    conv("depthwise 3x3, 144 channels, 56 x 56", 1, 144, 144, 56, 3, 144),
    conv("depthwise 7x7, 192 channels, 28 x 28", 1, 192, 192, 28, 7, 192),
    Operator("add", "aten::add.out", lambda: [array(*WIDE), array(*WIDE), 1.0], WIDE, 0, 3 * SIZE),
    Operator("gelu", "aten::gelu.out", lambda: [array(*WIDE), "none"], WIDE, 0, 2 * SIZE),
    Operator("softmax", "aten::_softmax.out", lambda: [array(*WIDE), -1, False], WIDE, 0, 2 * SIZE),
    Operator(
        "layer norm",
        "aten::native_layer_norm.out",
        lambda: [array(*WIDE), [1024], array(1024), array(1024), 1e-5],
        WIDE,
        0,
        2 * SIZE,
        ((4096, 1), (4096, 1)),
    ),
    Operator(
        "permute_copy, transposed",
        "aten::permute_copy.out",
        lambda: [array(*WIDE), [1, 0]],
        WIDE[::-1],
        0,
        2 * SIZE,
    ),
    Operator(
        "mean over rows",
        "aten::mean.out",
        lambda: [array(*WIDE), [0], False, None],
        WIDE[1:],
        0,
        SIZE,
    ),
)


def library() -> ctypes.CDLL:
    path = CACHE / "roofline.so"
    flags = ["-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC"]
    CACHE.mkdir(exist_ok=True)
    subprocess.run(["gcc", *flags, "-o", str(path), str(SOURCE)], check=True)
    library = ctypes.CDLL(str(path))
    for name in ("multiply_adds", "int8_multiply_adds", "copy"):
        getattr(library, name).restype = ctypes.c_double
    return library


def rate(call: Callable[[int], float], threads: int, rounds: int) -> float:
    """Return the units per second of `threads` threads at once: the sum of their best calls."""
    best, gate = [0.0] * threads, threading.Barrier(threads)

    def work(i: int) -> None:
        gate.wait()
        for _ in range(rounds):
            start = perf_counter()
            units = call(i)  # releases the GIL
            best[i] = max(best[i], units / (perf_counter() - start))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(best)


def ceilings(threads: int, rounds: int) -> dict[str, float]:
    """Return multiply-adds in float32 and int8, and bytes of a copy, per second."""
    c, sink = library(), ctypes.c_float()
    buffers = [(np.zeros(COPIED, np.uint8), np.ones(COPIED, np.uint8)) for _ in range(threads)]

    def copied(i: int) -> float:
        to, source = (ctypes.c_void_p(x.ctypes.data) for x in buffers[i])
        return float(c.copy(ctypes.c_size_t(1), to, source, ctypes.c_size_t(COPIED)))

    def added(function: Any) -> Callable[[int], float]:
        return lambda i: float(function(ctypes.c_size_t(1 << 16), ctypes.byref(sink)))

    return {
        "float32": rate(added(c.multiply_adds), threads, 20 * rounds),
        "int8": rate(added(c.int8_multiply_adds), threads, 20 * rounds),
        "copy": rate(copied, threads, rounds),
    }


def best_time(operator: Operator, threads: int, rounds: int) -> float:
    from executorch_c import Runtime
    from tests.single_op import Out, SingleOps

    ops = SingleOps()
    results = [Out(shape, "float32") for shape in (operator.shape, *operator.more)]
    ops.add(operator.name, *operator.arguments(), *results)
    method = Runtime.get().load_program(ops.build()).load_method("op_0", num_threads=threads)
    inputs, times = ops.inputs["op_0"], []
    outputs = method.execute(inputs)
    for _ in range(rounds):
        start = perf_counter()
        method.execute(inputs, out=outputs)
        times.append(perf_counter() - start)
    return min(times)


def measure(quick: bool) -> Table:
    rounds = 5 if quick else 25
    table = Table(
        "Roofline",
        "Time of an operator at the roofline / its time, undelegated: the share that it reaches. "
        "Products are limited by multiply-adds in registers, everything else by a copy. Best of "
        f"{rounds} calls, which write into the same arrays.",
        columns=("at the roofline", "executorch_c", "share"),
    )
    for threads in THREADS:
        top = ceilings(threads, rounds)
        title = f"{threads} thread{'s' * (threads > 1)}"
        table.notes.append(
            f"Roofline with {title}: {top['float32'] / 1e9:.0f} G multiply-adds/s in float32, "
            f"{top['int8'] / 1e9:.0f} G/s in int8, copy {top['copy'] / 1e9:.1f} GB/s (read and "
            "written)."
        )
        for operator in OPERATORS:
            limit = (
                operator.multiply_adds / top["float32"]
                if operator.multiply_adds
                else operator.moved / top["copy"]
            )
            spent = best_time(operator, threads, rounds)
            table.rows.append(Row(f"{operator.title}, {title}", limit, spent, seconds))
    return table
