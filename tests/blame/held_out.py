"""Faults and programs that `blame` was not fitted on: models, kinds and devices of their own.

Faults of operators are real ones: a second program of the same structure computes something else
at one layer (`held_out_models.py`). Faults of results change one in place, and so do what healthy
devices do.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tests.blame.devices import Arithmetic, Device, Fault, Run, draw
from tests.blame.held_out_models import LIMITS, MODELS, OPERATORS, HeldOut
from tests.blame.planted import SHOWN, Case, change_of
from tests.blame.units import SCHEMES, Unit

# ---- faults of results ------------------------------------------------------------------------


def _layout(old: np.ndarray, rng: np.random.Generator) -> Fault:
    """Channels are stored last, and read first."""

    def change(array: np.ndarray) -> None:
        if array.ndim > 2:
            array[...] = np.moveaxis(array, 1, -1).reshape(array.shape)

    return change


def _rows(old: np.ndarray, rng: np.random.Generator) -> Fault:
    """The last rows of the batch are lost: they are those of the first."""

    def change(array: np.ndarray) -> None:
        array[array.shape[0] // 2 :] = array[:1]

    return change


def _slice(old: np.ndarray, rng: np.random.Generator) -> Fault:
    """One of four threads has not run: a quarter of the memory is what it was."""
    part = int(rng.integers(4))

    def change(array: np.ndarray) -> None:
        flat = array.reshape(-1)
        quarter = slice(flat.size * part // 4, flat.size * (part + 1) // 4)
        flat[quarter] = old.reshape(-1)[quarter] if old.size == flat.size else 0
        array[...] = flat.reshape(array.shape)

    return change


def _stale(old: np.ndarray, rng: np.random.Generator) -> Fault:
    def change(array: np.ndarray) -> None:
        if old.shape == array.shape:
            array[...] = old

    return change


def _zero_point(old: np.ndarray, rng: np.random.Generator) -> Fault:
    """Integers have another zero point; floats are off by as much."""
    steps = int(rng.choice([-9, -6, 6, 9]))

    def change(array: np.ndarray) -> None:
        if array.dtype.kind == "i":
            limits = np.iinfo(array.dtype)
            array[...] = np.clip(array.astype(np.int64) + steps, limits.min, limits.max)
        else:
            array += (steps * np.abs(array).max() / 127).astype(array.dtype)

    return change


def _overflow(old: np.ndarray, rng: np.random.Generator) -> Fault:
    """Sums of integers wrap where they should end at the range's limit; of floats, large ones
    change their sign."""

    def change(array: np.ndarray) -> None:
        limit = np.quantile(np.abs(array.astype(np.float64)), 0.9)
        large = np.abs(array.astype(np.float64)) > limit
        array[large] = -array[large]

    return change


RESULTS: dict[str, Callable[[np.ndarray, np.random.Generator], Fault]] = {
    "layout": _layout,
    "lost rows of the batch": _rows,
    "a thread's slice": _slice,
    "stale outputs": _stale,
    "wrong zero point": _zero_point,
    "overflow": _overflow,
}
"""Kinds of faults of one result, from what it was in the call before."""


def _half_up(array: np.ndarray) -> None:
    """Round up integers of which one in 64 is halfway between two."""
    if array.dtype == np.int8 and array.size:
        rng = np.random.default_rng(array.size)
        inside = (array > array.min()) & (array < array.max())
        array += (inside & (rng.random(array.shape) < 1 / 64)).astype(np.int8)


def _clamped(array: np.ndarray) -> None:
    if array.dtype.kind == "f":
        np.clip(array, -65504, 65504, out=array)


def _flushed(array: np.ndarray) -> None:
    if array.dtype.kind == "f":
        array[np.abs(array) < np.finfo(array.dtype).tiny] = 0


HEALTHY: dict[str, Callable[[np.ndarray], None]] = {
    "halves rounded up": _half_up,
    "clamped at 65504": _clamped,
    "denormals flushed": _flushed,
}
"""Changes of all results that are no faults."""
CLAMP = "results clamped at 65504"
"""Kind of a fault, of programs with larger results (`Loud`)."""
KINDS = (*OPERATORS, *RESULTS, CLAMP)


# ---- cases ------------------------------------------------------------------------------------


def _plain(unit: Unit, inputs: list[np.ndarray]) -> Run:
    return Device(unit.program, Arithmetic(), np.random.default_rng(0)).run(inputs)


def _same_structure(a: Run, b: Run) -> bool:
    return [(k, v.shape, v.dtype) for k, v in a.values.items()] == [
        (k, v.shape, v.dtype) for k, v in b.values.items()
    ]


def _first_change(clean: Run, other: Run) -> str | None:
    """Return the first place whose value is another."""
    for key, value in clean.values.items():
        a, b = value.astype(np.float64), other.values[key].astype(np.float64)
        if np.abs(a - b).max(initial=0.0) > 1e-3 * (np.abs(a).max(initial=0.0) or 1.0):
            return key
    return None


def operator_fault(scheme: str, kind: str, seed: int) -> Case | None:
    """Return a run of a device that computes an operator wrongly; None if its program has another
    structure (an axis that needs a transposition), or its outputs do not show it."""
    rng = np.random.default_rng([seed, 6])
    model = OPERATORS[kind][0]
    unit, faulty = HeldOut(scheme, model, 0), HeldOut(scheme, model, 0, kind)
    if not (is_exported(unit) and is_exported(faulty)):
        return None
    inputs = unit.inputs(int(rng.integers(2**31)))
    (name,) = SCHEMES[scheme]
    clean, plain = _plain(unit, inputs), _plain(faulty, inputs)
    place = _first_change(clean, plain) if _same_structure(clean, plain) else None
    size = change_of(clean, plain)
    if place is None or size < SHOWN[name]:
        return None
    arithmetic = draw(name, rng)
    run = Device(faulty.program, arithmetic, rng).run(inputs)
    return Case(unit, inputs, arithmetic, kind, [run], place, 0, size, [*clean.values])


def result_fault(unit: Unit, kind: str, seed: int) -> Case | None:
    """Return a run of a device with a fault of a random result; None if no output shows it."""
    rng = np.random.default_rng([seed, 7])
    (name,) = SCHEMES[unit.scheme]
    inputs, earlier = (unit.inputs(int(rng.integers(2**31))) for _ in range(2))
    clean, old = _plain(unit, inputs), _plain(unit, earlier)
    places = [key for key, value in clean.values.items() if value.ndim and value.size >= 8]
    for place in rng.permutation(places)[:20]:
        place = places[-1] if kind == "stale outputs" else str(place)
        fault = _clamped if kind == CLAMP else RESULTS[kind](old.values[place], rng)
        plain = Device(unit.program, Arithmetic(), rng).run(inputs, (place, fault))
        size = change_of(clean, plain)
        if size >= SHOWN[name]:
            arithmetic = draw(name, rng)
            run = Device(unit.program, arithmetic, rng).run(inputs, (place, fault))
            return Case(unit, inputs, arithmetic, kind, [run], place, 0, size, [*clean.values])
    return None


def healthy_run(unit: Unit, habit: str, seed: int) -> Case | None:
    """Return a run of a device with a habit of healthy ones; None where it would be a fault."""
    rng = np.random.default_rng([seed, 8])
    (name,) = SCHEMES[unit.scheme]
    inputs = unit.inputs(int(rng.integers(2**31)))
    clean = _plain(unit, inputs)
    if habit == "clamped at 65504" and any(
        np.abs(v).max(initial=0) > 65504 for v in clean.values.values() if v.dtype.kind == "f"
    ):
        return None
    arithmetic = draw(name, rng)
    device = Device(unit.program, arithmetic, rng, HEALTHY[habit])
    run = device.run(inputs)
    return Case(unit, inputs, arithmetic, "", [run], habit, places=[*run.values])


@functools.cache
def is_exported(unit: HeldOut) -> bool:
    """Return True if the flow makes the program, and it loads here."""
    try:
        return unit.program is not None
    except Exception as error:  # exporters raise many kinds
        print(f"\n{unit.name}: {error}"[:200], file=sys.stderr)
        return False


def programs(schemes: Sequence[str]) -> list[HeldOut]:
    """Return the programs without faults, of those that flows make."""
    chosen = [
        HeldOut(scheme, model, 0)
        for scheme in schemes
        for model in MODELS
        if model not in LIMITS or SCHEMES[scheme] == ("float32",)
    ]
    return [*filter(is_exported, chosen)]


def cases(schemes: list[str], rounds: int, seed: int = 0) -> Iterator[Case]:
    """Yield `rounds` cases of each kind in each scheme, where the kind can be planted."""
    for number in range(rounds):
        for scheme in schemes:
            for kind in OPERATORS if SCHEMES[scheme] != ("int8",) else ():
                case = operator_fault(scheme, kind, seed + number)
                if case is not None:
                    yield case
            chosen = programs([scheme])
            for at, kind in enumerate((*RESULTS, CLAMP)):
                unit = chosen[(number + at) % len(chosen)]
                unit = HeldOut(scheme, "loud", 0) if kind == CLAMP else unit
                if unit in chosen:
                    case = result_fault(unit, kind, seed + number)
                    if case is not None:
                        yield case


def healthy_cases(units: Sequence[Unit], rounds: int, seed: int = 0) -> Iterator[Case]:
    """Yield `rounds` healthy runs of each program with each habit."""
    for number in range(rounds):
        for unit in units:
            for habit in HEALTHY:
                case = healthy_run(unit, habit, seed + number)
                if case is not None:
                    yield case
