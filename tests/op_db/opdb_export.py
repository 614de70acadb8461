"""Samples as programs, by the official export flow, cached.

A record is the result of one sample in one dtype: a program with its inputs and eager's results, or
the reason why there is none. Records of a function and dtype share a file, which grows on demand.
"""

import logging
import os
import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests import kept, variation
from tests.kernels.eager import to_numpy
from tests.op_db import opdb_samples
from tests.op_db.opdb_samples import UNFILLED, Entry, Sample, plain, spread

WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
LONGEST = 400  # maximum length of a reason
LARGEST = 1 << 22  # maximum size of a program in bytes


@dataclass
class Record:
    """The export of a sample."""

    index: int
    pte: bytes | None = None
    inputs: tuple[Any, ...] = ()  # arrays
    wanted: tuple[Any, ...] = ()  # eager's results: arrays and numbers
    exact: tuple[Any, ...] | None = None  # the same in float64
    terms: tuple[Any, ...] | None = None  # their variation (variation.py)
    refused: str | None = None  # rejected by eager
    unexported: str | None = None  # rejected by the flow
    unasked: str | None = None  # not supported by the harness
    filled: bool = True  # False if values are random or undefined
    operators: tuple[str, ...] = ()


def reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:LONGEST]


def arrays(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return tensors as arrays: pickles of uint64 tensors cannot be read."""
    return tuple(to_numpy(plain(v)) if isinstance(v, torch.Tensor) else v for v in values)


def call(module: Sample, seed: int) -> tuple[Any, ...]:
    torch.manual_seed(seed)
    return module(*(t.clone() for t in module.tensors))


def is_random(module: Sample, wanted: tuple[Any, ...]) -> bool:
    """Return True if another seed gives other results."""
    again = zip(wanted, call(module, 1), strict=True)
    tensors = [(a, b) for a, b in again if isinstance(a, torch.Tensor)]
    return any(
        not torch.equal(a.nan_to_num(), b.nan_to_num())
        if a.is_floating_point()
        else a.shape != b.shape or not torch.equal(a, b)
        for a, b in tensors
    )


def in_wider(module: Sample) -> Any:
    """Return eager's results in float64."""
    leaves = [
        x.to(WIDER.get(x.dtype, x.dtype))
        if isinstance(x, torch.Tensor)
        else WIDER.get(x, x)
        if isinstance(x, torch.dtype)
        else x
        for x in module.leaves
    ]
    return call(Sample(module.function, pytree.tree_unflatten(leaves, module.spec)), 0)


def exactly(module: Sample) -> tuple[Any, Any]:
    """Return eager's results in float64 and their variation; None without float64 results."""
    try:
        exact = variation.exactly(lambda: in_wider(module))
        terms = variation.terms(lambda: in_wider(module), variation.arrays(exact))
    except Exception:
        return None, None
    return arrays(exact), tuple(terms)


def edge(module: Sample) -> Any:
    from executorch.exir import EdgeCompileConfig, to_edge

    exported = torch.export.export(module, module.tensors, strict=False)
    return to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))


def by_eager(module: Sample) -> list[Any]:
    """Return eager's results for the operators of the program, which may be another function."""
    torch.manual_seed(0)
    results = edge(module).exported_program().module()(*(t.clone() for t in module.tensors))
    return list(results) if isinstance(results, tuple | list) else [results]


def export(module: Sample) -> tuple[bytes, tuple[str, ...]]:
    """Return the program, and the operators that it calls."""
    program = edge(module).to_executorch()
    plan = program.executorch_program.execution_plan[0]
    names = sorted(
        {f"{op.name}.{op.overload}" if op.overload else op.name for op in plan.operators}
    )
    return bytes(program.buffer), tuple(names)


def record(entry: Entry, sample: Any, index: int) -> Record:
    result = Record(index)
    try:
        module = entry.module(sample)
    except Exception as error:  # tensors that have no NumPy equivalent
        result.unasked = reason(error)
        return result
    try:
        wanted = call(module, 0)
    except Exception as error:
        result.refused = reason(error)
        return result
    try:
        result.filled = not entry.name.startswith(UNFILLED) and not is_random(module, wanted)
        result.inputs, result.wanted = arrays(module.tensors), arrays(wanted)
        result.exact, result.terms = exactly(module)
    except Exception as error:
        result.unasked = reason(error)
        return result
    try:
        result.pte, result.operators = export(module)
    except Exception as error:
        result.unexported = reason(error)
    if result.pte and len(result.pte) > LARGEST:
        result.pte, result.unexported = None, "left out: a program over 4 MB"
    return result


def name_of(entry: Entry, dtype: str) -> str:
    sources = [Path(path) for path in (__file__, opdb_samples.__file__, variation.__file__)]
    key = kept.digest(entry.name, dtype, *sources, packages=("torch", "executorch", "numpy"))
    return f"{entry.name}-{dtype}-{key}"


def records(entry: Entry, dtype: str, count: int) -> list[Record]:
    """Up to `count` records, from the cache as far as it has them."""
    name = name_of(entry, dtype)
    path = kept.folder() / "op_db" / name
    with kept.locked(name):
        table = {"samples": None, "records": []}
        if path.exists():
            table = pickle.loads(path.read_bytes())
        if table["samples"] is None or len(table["records"]) < min(count, table["samples"]):
            extend(table, entry, dtype, count)
            path.parent.mkdir(exist_ok=True)
            partial = path.with_name(f"{name}.{os.getpid()}.part")
            partial.write_bytes(pickle.dumps(table))
            partial.replace(path)
    return table["records"][:count]


def extend(table: dict[str, Any], entry: Entry, dtype: str, count: int) -> None:
    """Adds the records that are missing up to `count`."""
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = entry.samples(dtype)
        wanted = list(spread(len(samples)))[:count]
        table["samples"] = len(samples)
        table["records"] += [record(entry, samples[i], i) for i in wanted[len(table["records"]) :]]
