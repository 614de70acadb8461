"""Cases: runs of a simulated device, healthy or with one fault that its outputs show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from executorch_c.rewrite.points import Dataflow
from tests.blame import faults
from tests.blame.devices import Arithmetic, Device, Run, draw
from tests.blame.units import SCHEMES, Unit

TRIES = 200
"""Draws of a fault until the outputs show it."""
SHOWN = {"float32": 0.01, "float16": 0.05, "int8": 0.1}
"""The least change of an output that counts, in parts of the outputs' RMS. Smaller ones are not
planted: nobody could tell them from the arithmetic of a device."""
NOT_FINITE = 10.0
"""The change of an output that is not finite."""


@dataclass
class Case:
    """Runs of a device on the same inputs."""

    unit: Unit
    inputs: list[np.ndarray]
    arithmetic: Arithmetic
    kind: str
    """Of the fault; empty: the device is healthy."""
    runs: list[Run]
    place: str = ""
    """Id of the place of the fault."""
    faulty: int = 0
    """Number of the run with the fault."""
    size: float = 0.0
    """The largest change of an output without other errors, in parts of its RMS."""
    places: list[str] = field(default_factory=list)
    """Ids of all places, in order."""

    @property
    def verdict(self) -> str:
        """The right verdict; "ok" stands for "match" and "precision"."""
        return {"": "ok", "sometimes": "nondeterministic"}.get(self.kind, "device")

    @property
    def title(self) -> str:
        return f"{self.kind or 'healthy'}: {self.unit.name} at {self.place or '-'}"


def _inputs(unit: Unit, rng: np.random.Generator) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return inputs, and those of an earlier call: larger ones, if a dimension varies."""
    seeds = int(rng.integers(2**31)), int(rng.integers(2**31))
    if unit.varies is None:
        return unit.inputs(seeds[0]), unit.inputs(seeds[1])
    largest = unit.varies[1]
    extent = int(rng.integers(2, largest - 1))
    return unit.inputs(seeds[0], extent), unit.inputs(seeds[1], largest)


def healthy(unit: Unit, seed: int, runs: int = 1) -> Case:
    """Return runs of a healthy device."""
    rng = np.random.default_rng([seed, 1])
    arithmetic = draw(str(rng.choice(SCHEMES[unit.scheme])), rng)
    inputs, _ = _inputs(unit, rng)
    device = Device(unit.program, arithmetic, rng)
    run = device.run(inputs)
    return Case(unit, inputs, arithmetic, "", [run] * runs, places=[*run.values])


def planted(unit: Unit, kind: str, seed: int) -> Case | None:
    """Return runs of a device with a fault; None if no fault of this kind shows in the outputs."""
    rng = np.random.default_rng([seed, 2])
    name = str(rng.choice(SCHEMES[unit.scheme]))
    arithmetic = draw(name, rng)
    inputs, earlier = _inputs(unit, rng)
    plain = Device(unit.program, Arithmetic(), rng)
    old, clean = plain.run(earlier), plain.run(inputs)
    device = Device(unit.program, arithmetic, rng)
    if kind == faults.EXTENTS:
        return _extents(unit, device, inputs, earlier, rng)
    shown = SHOWN[name]
    if kind == faults.FINE:
        if name != "float32":
            return None  # its arithmetic is as coarse
        shown /= 10
    found = _fault(plain, inputs, kind, clean, old, shown, rng)
    if found is None:
        return None
    place, fault, size = found
    if kind == "sometimes":
        healthy_run = device.run(inputs)
        runs, faulty = [healthy_run] * 5, int(rng.integers(5))
        runs[faulty] = _same_noise(device, inputs, healthy_run, place, fault)
    else:
        runs, faulty = [device.run(inputs, (place, fault))], 0
    return Case(unit, inputs, arithmetic, kind, runs, place, faulty, size, [*clean.values])


def _extents(
    unit: Unit,
    device: Device,
    inputs: list[np.ndarray],
    earlier: list[np.ndarray],
    rng: np.random.Generator,
) -> Case | None:
    """Return a run that has the extents of a larger call in all results that depend on a place,
    and its values where the inputs have none."""
    run, old = device.run(inputs), device.run(earlier)
    flow = Dataflow(unit.program, "forward")
    places = [key for key in run.values if run.values[key].shape != old.values[key].shape]
    if unit.varies is None or not places:
        return None
    place = str(rng.choice(places))
    after = {key for key in run.values if place in flow.before(key)}
    if not any(a.shape != b.shape for a, b in zip(run.outputs, old.outputs)):
        return None
    values = {
        key: _over(old.values[key], value) if key in after else value
        for key, value in run.values.items()
    }
    outputs = [_over(a, b) for a, b in zip(old.outputs, run.outputs, strict=True)]
    kind = faults.EXTENTS
    return Case(
        unit, inputs, device.arithmetic, kind, [Run(outputs, values)], place, 0, 1.0, [*run.values]
    )


def _over(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return values in the place of the first ones of an earlier call."""
    result = old.copy()
    result[tuple(slice(0, size) for size in new.shape)] = new
    return result


def _same_noise(
    device: Device, inputs: list[np.ndarray], run: Run, place: str, fault: faults.Fault
) -> Run:
    """Return the run with a fault: a device adds in the same order each time, so that the results
    before the fault are those of its other runs."""
    exact = Device(device.program, Arithmetic(), device.rng)
    before = dict(list(run.values.items())[: [*run.values].index(place) + 1])

    def change(array: np.ndarray) -> None:
        array[...] = before[place]
        fault(array)

    faulty = exact.run(inputs, (place, change))
    faulty.values.update({key: value for key, value in before.items() if key != place})
    return faulty


def _fault(
    device: Device,
    inputs: list[np.ndarray],
    kind: str,
    clean: Run,
    old: Run,
    shown: float,
    rng: np.random.Generator,
) -> tuple[str, faults.Fault, float] | None:
    """Return place, fault and size of a random fault that the outputs show."""
    places = [key for key, value in clean.values.items() if value.ndim and value.size >= 8]
    for _ in range(TRIES):
        place = places[-1] if kind == "halved" else str(rng.choice(places))
        value = clean.values[place]
        simple = str(rng.choice([*faults.SIMPLE])) if kind == "sometimes" else kind
        if simple in faults.STALE:
            fault = faults.STALE[simple](value.shape, rng, old.values[place])
        else:
            fault = {**faults.SIMPLE, **faults.OTHERS}[simple](value.shape, rng)
        if kind == "halved" and rng.random() < 0.5:  # not the last: the one before a softmax, say
            place = str(rng.choice(places[-4:]))
        run = device.run(inputs, (place, fault))
        size = change_of(clean, run)
        if size >= shown:
            return place, fault, size
    return None


def change_of(clean: Run, run: Run) -> float:
    """Return the largest change of an output, in parts of its RMS."""
    largest = 0.0
    for a, b in zip(clean.outputs, run.outputs, strict=True):
        if not a.size or a.dtype.kind not in "fiu":
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        if not np.isfinite(b).all():
            return NOT_FINITE
        scale = np.sqrt(np.mean(a**2)) or 1.0
        largest = max(largest, float(np.abs(a - b).max()) / scale)
    return largest


def drawn(
    units: list[Unit], count: int, seed: int = 0, kinds: Sequence[str] = faults.KINDS
) -> Iterator[Case]:
    """Yield `count` cases with faults: kinds, backends and models in turn."""
    rng = np.random.default_rng([seed, 3])
    schemes = sorted({unit.scheme for unit in units})
    made = 0
    while made < count:
        kind = kinds[made % len(kinds)]
        scheme = schemes[int(rng.integers(len(schemes)))]
        choices = [unit for unit in units if unit.scheme == scheme]
        if kind in ("stale", faults.EXTENTS) and any(unit.varies for unit in choices):
            choices = [unit for unit in choices if unit.varies]
        unit = choices[int(rng.integers(len(choices)))]
        case = planted(unit, kind, int(rng.integers(2**31)))
        if case is not None:
            made += 1
            yield case


def drawn_healthy(units: list[Unit], count: int, seed: int = 0) -> Iterator[Case]:
    """Yield `count` runs of healthy devices of float16 and int8."""
    rng = np.random.default_rng([seed, 4])
    narrow = [unit for unit in units if SCHEMES[unit.scheme] != ("float32",)]
    for _ in range(count):
        unit = narrow[int(rng.integers(len(narrow)))]
        yield healthy(unit, int(rng.integers(2**31)))
