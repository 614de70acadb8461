"""Runs of a device: outputs, and values of nodes where the device has logged them.

    read_runs(["run1.npz", "run2.npz"], expected)       a run in each file
    read_runs(["out-0.bin", "out-1.bin"], expected)     a run of executor_runner --output_file=out
    read_dump("run.etdp", "run.bin", expected, places)  the runs of an ETDump

An .npz has outputs by the program's names, as output_0, output_1, ... or in order, and values of
nodes by their ids ("d0.3"). A .bin is raw: the elements in C order, in the program's dtype.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from executorch_c._arrays import Array
from executorch_c._input_files import read_arrays
from executorch_c._paths import read_bytes
from executorch_c._render.text import listed, plural
from executorch_c.inspect.etdump_events import DebugEvent, ProfileEvent
from executorch_c.inspect.etdump_report import CALL, TICKS_PER_SECOND, read_etdump
from executorch_c.inspect.where import ID

if TYPE_CHECKING:
    from executorch_c._types import FilePath, MethodInfo
    from executorch_c.blame.places import Place
    from executorch_c.inspect.etdump_events import Run


@dataclass(frozen=True)
class DeviceValues:
    """One run of a device."""

    source: str
    """Origin, for messages: the file, and the run in it."""
    outputs: tuple[Array | None, ...]
    """Outputs of the method, in order; None for one that the device has not returned."""
    values: Mapping[str, Array] = field(default_factory=dict)
    """Values of nodes by the id of their place (`places.py`): "d0.3", "i7", "i7:1"."""
    seconds: float | None = None
    """Duration of the call on the device."""
    node_seconds: Mapping[str, float] = field(default_factory=dict)
    """Durations of nodes and instructions on the device, by id."""


DeviceRun: TypeAlias = "FilePath | DeviceValues | Sequence[Any] | Mapping[str, Any]"
"""A run: the path of an .npz, .npy or .bin, values, or outputs in order or by name."""


@dataclass(frozen=True)
class Expected:
    """The outputs that a run should have."""

    names: tuple[str, ...]
    """Of all outputs: the program's, or "output_0", ..."""
    outputs: tuple[Any, ...]
    """Results of the payload here: arrays, and numbers, which runs do not have."""
    bounds: tuple[tuple[int, ...] | None, ...] = ()
    """Upper bounds of the shapes that vary; None of others."""

    @classmethod
    def of(cls, info: MethodInfo, outputs: Sequence[Any]) -> Expected:
        """Return what is expected of a method, from Program.info() and its outputs here."""
        rows = info["outputs"]
        names = [one.get("name") or f"output_{i}" for i, one in enumerate(rows)]
        varies = [one.get("dynamism", "static") != "static" for one in rows]
        bounds = [tuple(one["shape"]) if is_wide else None for one, is_wide in zip(rows, varies)]
        return cls(tuple(names), tuple(outputs), tuple(bounds))

    def bound(self, output: int) -> tuple[int, ...] | None:
        """Return the upper bound of an output's shape; None of a shape that does not vary."""
        return self.bounds[output] if output < len(self.bounds) else None

    @property
    def arrays(self) -> dict[int, Array]:
        """The outputs that are arrays, by number."""
        return {i: one for i, one in enumerate(self.outputs) if isinstance(one, np.ndarray)}


def read_runs(runs: Iterable[DeviceRun], expected: Expected) -> list[DeviceValues]:
    """Return the runs of a device.

    Args:
        runs: Files or arrays. Files NAME-0.bin, NAME-1.bin, ... are one run.
        expected: The outputs of the program here.

    Raises ValueError for files that do not have the method's outputs: the file, what was found and
    what was expected; TypeError for other objects; OSError.
    """
    out: list[DeviceValues] = []
    raw: dict[str, list[str]] = {}
    for number, run in enumerate(runs):
        if isinstance(run, DeviceValues):
            out.append(run)
        elif not isinstance(run, (str, os.PathLike)):
            source = f"device run {number}"
            if isinstance(run, bytes) or not isinstance(run, Iterable):
                found = type(run).__name__
                raise TypeError(
                    f"{source}: {found}, expected a path, or arrays in order or by name"
                )
            named = run if isinstance(run, Mapping) else _numbered(run)
            out.append(_run(source, {str(k): np.asarray(v) for k, v in named.items()}, expected))
        elif os.fspath(run).endswith(".bin"):
            path = str(os.fspath(run))
            raw.setdefault(re.sub(r"[-_]?\d+\.bin$", "", path), []).append(path)
        else:
            out.append(_run(str(os.fspath(run)), _arrays(str(os.fspath(run))), expected))
    return out + [_raw_run(paths, expected) for paths in raw.values()]


def _numbered(arrays: Sequence[Any]) -> dict[str, Any]:
    return {f"output_{i}": array for i, array in enumerate(arrays)}


def _arrays(path: str) -> dict[str, Array]:
    """Return the arrays of a file by name."""
    return {name or "output_0": array for name, array in read_arrays(path).items()}


# ---- outputs ----------------------------------------------------------------------------------


def _run(source: str, arrays: Mapping[str, Array], expected: Expected) -> DeviceValues:
    """Return the run of arrays by name."""
    values = {name: array for name, array in arrays.items() if ID.fullmatch(name)}
    named = {name: array for name, array in arrays.items() if name not in values}
    outputs: list[Array | None] = [None] * len(expected.outputs)
    if not named and values:
        return DeviceValues(source, tuple(outputs), values)
    wanted = expected.arrays
    places = _order(list(named), {expected.names[i]: i for i in wanted})
    if places is None:
        known = listed(expected.names[i] for i in wanted)
        raise ValueError(
            f"{source}: {plural(len(named), 'output')} ({listed(named) or 'none'}), expected "
            f"{len(wanted)}: {known}"
        )
    for i, array in zip(places, named.values()):
        outputs[i] = check_output(f"{source}: output {i}", array, wanted[i], expected.bound(i))
    return DeviceValues(source, tuple(outputs), values)


def _order(names: Sequence[str], known: Mapping[str, int]) -> list[int] | None:
    """Return the outputs that arrays are: by the program's names, by the numbers at the end of
    theirs, or in order; None if there are more or fewer."""
    tensors = list(known.values())
    if len(names) != len(tensors):
        return None
    if set(names) == set(known):
        return [known[name] for name in names]
    numbers = [int(found[0]) if (found := re.findall(r"\d+$", name)) else -1 for name in names]
    if sorted(numbers) == tensors:
        return numbers
    if sorted(numbers) == list(range(len(tensors))):
        return [tensors[number] for number in numbers]
    return tensors


def check_output(
    where: str, array: Array, wanted: Array, bound: Sequence[int] | None = None
) -> Array:
    """Return an output of a device. Raises ValueError for another shape or kind of dtype than
    `wanted` has: floats of other precision are accepted, because apps return what they like, and
    other extents of a shape that varies, up to its bound, because they may be the fault."""
    if array.dtype.kind == "V" and array.dtype.itemsize == wanted.dtype.itemsize:
        array = array.view(wanted.dtype)  # .npy files do not store the name of bfloat16
    floats = _is_float(array.dtype) and _is_float(wanted.dtype)
    if array.dtype != wanted.dtype and not floats:
        raise ValueError(f"{where} has dtype {array.dtype.name}, expected {wanted.dtype.name}")
    if bound is not None and _is_another_call(array.shape, wanted.shape, bound):
        return array
    if _squeezed(array.shape) != _squeezed(wanted.shape):
        raise ValueError(f"{where} has shape {list(array.shape)}, expected {list(wanted.shape)}")
    shaped: Array = array.reshape(wanted.shape)
    return shaped


def _is_another_call(shape: Sequence[int], wanted: Sequence[int], bound: Sequence[int]) -> bool:
    """Return True for the shape that an output has in another call."""
    if len(shape) != len(bound) or tuple(shape) == tuple(wanted):
        return False
    return all(
        extent == now or 0 < extent <= most for extent, now, most in zip(shape, wanted, bound)
    )


def _squeezed(shape: Sequence[int]) -> list[int]:
    return [extent for extent in shape if extent != 1]


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype.name == "bfloat16"


def _raw_run(paths: Sequence[str], expected: Expected) -> DeviceValues:
    """Return the run of raw files: one for each output, in the order of their numbers, or one with
    all of them."""
    wanted = list(expected.arrays.values())
    ordered = sorted(paths, key=lambda path: int((re.findall(r"(\d+)\.bin$", path) or [0])[0]))
    blobs = [read_bytes(path) for path in ordered]
    source = ", ".join(ordered)
    if len(blobs) == 1 < len(wanted) and len(blobs[0]) == sum(one.nbytes for one in wanted):
        ends = np.cumsum([0, *(one.nbytes for one in wanted)])
        blobs = [blobs[0][begin:end] for begin, end in zip(ends, ends[1:])]
        ordered *= len(wanted)
    if len(blobs) != len(wanted):
        raise ValueError(
            f"{source}: {plural(len(blobs), 'file')}, expected {plural(len(wanted), 'output')}"
        )
    outputs: dict[str, Array] = {}
    bounds = [expected.bound(i) for i in expected.arrays]
    for number, (path, blob, one) in enumerate(zip(ordered, blobs, wanted)):
        shape = one.shape
        if len(blob) != one.nbytes:
            shape = bounds[number] or shape
            if len(blob) != math.prod(shape) * one.itemsize:
                raise ValueError(
                    f"{path}: {len(blob)} bytes, expected {one.nbytes} of output {number}, "
                    f"{one.dtype.name} {list(one.shape)}"
                )
        outputs[f"output_{number}"] = np.frombuffer(blob, one.dtype).reshape(shape)
    return _run(source, outputs, expected)


# ---- ETDumps ----------------------------------------------------------------------------------


def read_dump(
    path: FilePath,
    debug_buffer: FilePath | None,
    expected: Expected,
    places: Mapping[str, Place],
    time_scale: str = "ns",
) -> list[DeviceValues]:
    """Return the calls in an ETDump: outputs, values of nodes and times.

    Args:
        debug_buffer: The file with the values; without it there are only times.
        expected: The outputs of the program here.
        places: The places of the program, by id.
        time_scale: Unit of the device's clock.

    Raises the exceptions of `read_etdump`; ValueError for a dump of another program.
    """
    dump = read_etdump(path, debug_buffer, time_scale=time_scale)
    ticks = TICKS_PER_SECOND[time_scale]
    out = []
    for number, run in enumerate(dump.runs):
        source = f"{os.fspath(path)!s}, run {number}"
        values, seconds = _logged(run, places), _durations(run, places, ticks)
        calls = [e.duration for e in run.events if isinstance(e, ProfileEvent) and e.name == CALL]
        total = calls[0] / ticks if calls and ticks else None
        logged = [one for one in run.outputs if isinstance(one, np.ndarray)]
        if not (values or logged or calls):
            continue  # loading
        outputs = _run(source, _numbered(logged), expected).outputs if logged else ()
        out.append(DeviceValues(source, outputs, values, total, seconds))
    if not out:
        raise ValueError(f"{os.fspath(path)!s}: no run of a method, expected one or more")
    return out


def _groups(places: Mapping[str, Place]) -> dict[tuple[int, int], list[Place]]:
    """Return the places of an instruction and of the nodes in it, by chain and instruction."""
    groups: dict[tuple[int, int], list[Place]] = {}
    for place in places.values():
        groups.setdefault((place.chain, place.instruction), []).append(place)
    return groups


def _logged(run: Run, places: Mapping[str, Place]) -> dict[str, Array]:
    """Return the logged values of nodes and instructions by id."""
    logged: dict[tuple[int, int], list[DebugEvent]] = {}
    for event in run.events:
        if isinstance(event, DebugEvent) and not event.is_output:
            logged.setdefault((event.chain, event.instruction), []).append(event)
    values: dict[str, Array] = {}
    groups = _groups(places)
    for key, events in logged.items():
        group = groups.get(key, [])
        nodes = [e for e in events if e.delegate_id is not None]
        own = [e for e in events if e.delegate_id is None]
        values.update(_paired(nodes, [p for p in group if p.kind == "node"]))
        results = [p for p in group if p.kind != "node"]
        arrays = [a for e in own for a in _as_arrays(e.value)]
        # The official runtime logs all arguments of a delegate: its results are the last.
        for place, array in zip(reversed(results), reversed(arrays)):
            if _fits(array, place):
                values[place.id] = array
    return values


def _as_arrays(value: object) -> list[Array]:
    several = value if isinstance(value, list) else [value]
    return [one for one in several if isinstance(one, np.ndarray)]


def _fits(array: Array, place: Place) -> bool:
    return array.size == math.prod(place.shape)


def _paired(events: Sequence[DebugEvent], nodes: Sequence[Place]) -> dict[str, Array]:
    """Return the values of nodes by id: by debug handle where the delegate has logged these, by
    order where it has logged as many values with names."""
    out: dict[str, Array] = {}
    named = [(e, a) for e in events for a in _as_arrays(e.value)]
    if all(isinstance(e.delegate_id, int) for e in events):
        left = list(nodes)
        for event, array in named:
            place = next((p for p in left if p.debug_handle == event.delegate_id), None)
            if place is not None:
                left.remove(place)
                if _fits(array, place):
                    out[place.id] = array
    elif len(named) == len(nodes):
        for (_, array), place in zip(named, nodes):
            if _fits(array, place):
                out[place.id] = array
    return out


def _durations(run: Run, places: Mapping[str, Place], ticks: float | None) -> dict[str, float]:
    """Return the durations of instructions and of nodes with handles, by id, in seconds."""
    out: dict[str, float] = {}
    for event in run.events:
        if not isinstance(event, ProfileEvent) or ticks is None or event.instruction < 0:
            continue
        for place in places.values():
            if (place.chain, place.instruction) != (event.chain, event.instruction):
                continue
            is_node = place.kind == "node"
            same = place.debug_handle == event.delegate_id if is_node else not event.delegate_id
            if same and place.id not in out and (is_node or event.delegate_id is None):
                out[place.id] = event.duration / ticks
                break
    return out
