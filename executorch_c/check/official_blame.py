"""Where the official runtime goes wrong: the first instruction whose result differs from this
runtime's, by an ETDump with values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import _core
from executorch_c._arrays import Array, dtype_of
from executorch_c.compare.limits import MIN_BLAMED_SHARE
from executorch_c.compare.metrics import rms
from executorch_c.inspect.structure import View

if TYPE_CHECKING:
    from executorch_c._core import Method, Program
    from executorch_c.check.official import Process
    from executorch_c.trace import Event, Trace

Key = tuple[int, int, int, int]
"""A result: number of the call, chain, instruction, number among its results."""

MAX_BUFFER_BYTES = 1 << 29
"""Maximum size of the values of all instructions."""
PER_VALUE_BYTES, SPARE_BYTES = 128, 1 << 20
"""Room in the debug buffer beside the values: it is the end of the process if it is too small."""


def find(
    process: Process,
    method: Method,
    program: Program,
    calls: Sequence[Sequence[Any]],
    packed: Sequence[Sequence[Any]],
    output: int,
    error: float,
    seconds: float,
) -> str:
    """Return the operator and instruction that first compute wrongly: "aten::amax.out, instruction
    3"; empty where the values do not tell.

    Args:
        calls, packed: The calls of a case, for this runtime and the official one.
        output: Index of an output that is wrong.
        error: Its relative error.
    """
    trace = _ours(method, calls)
    size = sum(value.nbytes + PER_VALUE_BYTES for event in trace.events for value in event.outputs)
    size = 2 * size + SPARE_BYTES
    if size > MAX_BUFFER_BYTES:
        return ""
    name = method.metadata.name()
    dump = process.trace(name, packed, size, seconds)
    if dump is None:
        return ""
    theirs = dict(_results(_read(dump[0]), dump[1]))
    limit, known = MIN_BLAMED_SHARE * min(error, 1.0), False
    for key, event, ours in _numbered(trace):
        other = theirs.get(key)
        if other is None or other.shape != ours.shape:
            continue
        known = True
        if relative_error(other, ours) > limit:
            return f"{event.name}, instruction {event.instruction}"
    ran = {(event.chain, event.instruction) for event in trace.events if not event.depth}
    return _moved(View(program, name), output, ran) if known else ""


def relative_error(actual: Array, expected: Array) -> float:
    """Return the RMS of the differences relative to that of the expected values; infinity where
    only one of both is finite."""
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(e)):
        return float("inf")
    both = np.isfinite(a)
    noise = rms(a[both] - e[both])
    return float(noise / (rms(e[both]) or 1.0)) if noise else 0.0


def _ours(method: Method, calls: Sequence[Sequence[Any]]) -> Trace:
    """Return the values of all instructions of calls from the initial state."""
    method.reset()
    with method.tracing(values=True) as trace:
        for inputs in calls:
            method.execute(list(inputs))
    method.reset()
    return trace


def _numbered(trace: Trace) -> Iterator[tuple[Key, Event, Array]]:
    """Yield the results of this runtime's instructions."""
    for event in trace.events:
        if event.depth or event.chain is None or event.instruction is None:
            continue
        for i, value in enumerate(event.outputs):
            if isinstance(value.data, np.ndarray) and value.data.dtype.kind in "biuf":
                yield (event.run, event.chain, event.instruction, i), event, value.data


def _read(dump: bytes) -> dict[str, Any]:
    """Return an ETDump as a dictionary, by the official schema."""
    from executorch.devtools.etdump.serialize import _convert_from_flatcc

    document: dict[str, Any] = json.loads(_convert_from_flatcc(dump))
    return document


def _results(dump: dict[str, Any], values: bytes) -> Iterator[tuple[Key, Array]]:
    """Yield the results of the official runtime's instructions; of a loop's, the last."""
    dtypes = {number: name for name, number in _core._scalar_types().items()}
    number = -1
    for run in dump["run_data"]:
        if run.get("name") != "Execute":
            continue
        number += 1
        counts: dict[tuple[int, int], int] = {}
        for event in run.get("events") or ():
            debug = event.get("debug_event") or {}
            chain, instruction = debug.get("chain_index", -1), debug.get("instruction_id", 0)
            entry = debug.get("debug_entry") or {}
            tensors = (
                [entry["tensor"]]
                if entry.get("tensor")
                else ((entry.get("tensor_list") or {}).get("tensors") or [])
            )
            for tensor in tensors:
                at = counts.get((chain, instruction), 0)
                counts[chain, instruction] = at + 1
                array = _array(tensor, dtypes, values)
                if array is not None:
                    yield (number, chain, instruction, at), array


def _array(tensor: dict[str, Any], dtypes: dict[int, str], values: bytes) -> Array | None:
    """Return the value of a tensor from the debug buffer; None without one."""
    kind = tensor.get("scalar_type")
    name = dtypes.get(kind) if isinstance(kind, int) else _NAMES.get(str(kind))
    if name is None:
        return None
    dtype, shape = dtype_of(name), tuple(tensor.get("sizes") or ())
    offset, count = tensor.get("offset", 0), int(np.prod(shape, dtype=np.int64))
    if offset < 0 or offset + count * dtype.itemsize > len(values):
        return None
    return np.frombuffer(values, dtype, count, offset).reshape(shape)


_NAMES = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "LONG": "int64",
    "INT": "int32",
    "SHORT": "int16",
    "CHAR": "int8",
    "BYTE": "uint8",
    "BOOL": "bool",
}
"""Dtypes by the schema's names."""


def _moved(view: View, output: int, ran: Set[tuple[int | None, int | None]]) -> str:
    """Return the move that an output comes from, of those that ran, if any: the result of each
    instruction is right, so that the memory of the move's source was written again."""
    value = view.structure["outputs"][output]
    moves = [
        step
        for step in view.steps
        if step.row["kind"] == "move" and value in step.writes and (step.chain, step.number) in ran
    ]
    return f"move, instruction {moves[-1].number}: its source was overwritten" if moves else ""
