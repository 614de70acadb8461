"""Snapshots of tests: outputs and figures that are stored beside them, for `pte_snapshot`.

A snapshot is written only on request (--pte-update), to a temporary file that replaces the old one:
tests in parallel processes do not see half a file.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from executorch_c._arrays import Array, as_array, dtype_of
from executorch_c._input_files import read_arrays
from executorch_c._paths import write_bytes
from executorch_c._render import text as _text
from executorch_c.compare.limits import ROUNDING_DB
from executorch_c.compare.policies import METRICS

FOLDER = "__pte_snapshots__"
ALLOWED_DB, ALLOWED_SHARE, ALLOWED_RATIO = 0.5, 0.001, 0.05
"""Default allowance of a figure: in dB, of cosines and shares, and of others as a ratio."""
SLOWER = 1.5
"""Ratio of latencies from which a warning is given."""
LATENCY = "relative_latency"
"""Name of the figure of a latency."""
LOAD_ELEMENTS = 100_000
"""Elements that the reference load sorts."""


class SnapshotError(AssertionError):
    """A snapshot is missing, or a figure is worse than the stored one."""


def path_of(test_file: Path, test: str, name: str, number: int, ending: str) -> Path:
    """Return the file of a snapshot: in a folder beside the test.

    Args:
        test: Name of the test in its file ("test_model[xnnpack]").
        name: Name of the snapshot; empty for those that are numbered.
        number: Number of the snapshot in its test, from 0.
    """
    whole = f"{test}-{name}" if name else f"{test}-{number}" if number else test
    safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", whole)
    if safe != whole or len(safe) > 100:  # another test may have the same name then
        safe = f"{safe[:90]}-{sha256(whole.encode()).hexdigest()[:8]}"
    return test_file.parent / FOLDER / test_file.stem / f"{safe}{ending}"


def write(path: Path, data: bytes) -> bool:
    """Write a file if it has other contents; return True then."""
    if path.is_file() and path.read_bytes() == data:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, data)
    return True


def missing(path: Path) -> SnapshotError:
    """Return the error for a snapshot that does not exist."""
    return SnapshotError(f"no snapshot {path}: write it with pytest --pte-update, and commit it")


# ---- outputs ----------------------------------------------------------------------------------


def packed(path: Path, outputs: Sequence[object]) -> bytes:
    """Return outputs as the bytes of an .npz file, which are the same for the same outputs."""
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for i, output in enumerate(outputs):
                array = _stored(path, i, output)
                entry = zipfile.ZipInfo(f"output_{i}.{array.dtype.name}.npy")  # without a date
                entry.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(entry, "w") as part:
                    bits = array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array
                    np.lib.format.write_array(part, np.asarray(bits), allow_pickle=False)
        file.seek(0)
        return file.read()


def _stored(path: Path, index: int, output: object) -> Array:
    if not (hasattr(output, "__array__") or isinstance(output, (bool, int, float, complex))):
        raise TypeError(f"output {index} is a {type(output).__name__}: {path.name} stores arrays")
    array: Array = np.ascontiguousarray(as_array(output)).reshape(np.shape(output))
    return array


def stored_outputs(path: Path) -> list[Array]:
    """Return the outputs of a snapshot. Raises SnapshotError without one, ValueError for another
    kind of file."""
    if not path.is_file():
        raise missing(path)
    arrays = []
    for name, array in read_arrays(str(path)).items():
        dtype = name.rpartition(".")[2]
        arrays.append(array if array.dtype.name == dtype else array.view(dtype_of(dtype)))
    return arrays


# ---- figures ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Allowance:
    """Permitted change of a figure, against the stored value."""

    is_better_large: bool | None
    """None: it may change in neither direction."""
    absolute: float
    ratio: float = 0.0

    def problem(self, name: str, value: float, stored: float) -> str:
        """Return a sentence if a value is worse than allowed; else an empty text."""
        room = self.absolute + self.ratio * abs(stored)
        low, high = stored - room, stored + room
        text = f"{name}: {value:.6g}, stored {stored:.6g}"
        if self.is_better_large is not False and not value >= low:
            return f"{text}, at least {low:.6g} is allowed"
        if self.is_better_large is not True and not value <= high:
            return f"{text}, at most {high:.6g} is allowed"
        return ""


def allowance(name: str, allowed: float | None) -> Allowance:
    """Return the allowance of a figure by its name; `allowed` is the caller's, absolute."""
    metric = METRICS.get(name)
    larger = True if name.endswith("_db") else metric.is_better_large if metric else None
    if name in ("bytes", "max_bytes", "peak_bytes"):
        larger = False
    if allowed is not None:
        return Allowance(larger, allowed)
    if name.endswith("_db"):
        return Allowance(larger, ALLOWED_DB)
    if metric is not None and larger:
        return Allowance(larger, ALLOWED_SHARE)
    return Allowance(larger, 0.0, ALLOWED_RATIO)


def rounded(name: str, value: float) -> float:
    """Return a figure as it is stored: 6 digits, and ratios in dB up to ROUNDING_DB."""
    value = float(value)
    if name.endswith("_db") and value > ROUNDING_DB:
        return ROUNDING_DB
    return float(f"{value:.6g}")


def figures_text(figures: Mapping[str, float]) -> bytes:
    """Return figures as JSON, a line for each. Raises ValueError for NaN and infinities."""
    known = {name: rounded(name, value) for name, value in figures.items()}
    wrong = [name for name, value in known.items() if not math.isfinite(value)]
    if wrong:
        raise ValueError(f"{wrong[0]} is {known[wrong[0]]}: no figure to store")
    return (json.dumps(known, indent=2, sort_keys=True) + "\n").encode()


def stored_figures(path: Path) -> dict[str, float]:
    """Return the figures of a snapshot. Raises SnapshotError without one, ValueError for another
    kind of file."""
    if not path.is_file():
        raise missing(path)
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): float(value) for name, value in known.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path}: not a snapshot of figures ({error})") from error


def stored_latency(path: Path) -> float:
    """Return the latency of a snapshot. Raises SnapshotError without one, ValueError for other
    figures."""
    figures = stored_figures(path)
    if LATENCY not in figures:
        raise ValueError(f"{path}: not a snapshot of a latency, but of {', '.join(figures)}")
    return figures[LATENCY]


def compare_figures(
    path: Path, figures: Mapping[str, float], allow: Mapping[str, float]
) -> list[str]:
    """Return a sentence for each figure that is worse than the stored one, missing, or new."""
    stored = stored_figures(path)
    problems = []
    for name in sorted({*stored, *figures}):
        if name not in figures:
            problems.append(f"{name}: missing, stored {stored[name]:.6g}")
        elif name not in stored:
            problems.append(f"{name}: {figures[name]:.6g}, not stored")
        else:
            value = rounded(name, figures[name])
            problems.append(allowance(name, allow.get(name)).problem(name, value, stored[name]))
    return [problem for problem in problems if problem]


def check_names(allow: Mapping[str, float], figures: Mapping[str, float]) -> None:
    """Raise ValueError for an allowance of an unknown figure."""
    for name in allow:
        if name not in figures:
            raise ValueError(f"`allow`: no figure {_text.unknown(name, figures)}")


# ---- latency ----------------------------------------------------------------------------------


def relative_latency(call: Callable[[], object], repeat: int) -> float:
    """Return the time of a call in units of a reference load on this machine, which takes turns
    with it: the median of the ratios of `repeat` turns, after one that does not count. Raises
    ValueError for a `repeat` below 1."""
    if repeat < 1:
        raise ValueError(f"`repeat` is {repeat}, expected 1 or more")
    values = np.random.default_rng(0).standard_normal(LOAD_ELEMENTS)

    def seconds(work: Callable[[], Any]) -> float:
        start = perf_counter()
        work()
        return perf_counter() - start

    turns = [(seconds(call), seconds(lambda: np.sort(values))) for _ in range(repeat + 1)]
    return median(ours / load for ours, load in turns[1:])
