"""Programs of a folder (see export_programs.py), run here and compared with eager's outputs."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from executorch_c import Runtime
from executorch_c.bundled import BundledProgram

Kernels = Literal["default", "reference"]
Arrays = list[np.ndarray]
SUFFIXES = (".pte", ".bpte")
PORTABLE_LIMIT = 1e-6
"""Largest error of a program without a delegate, relative to the largest value."""
LIMITS = {
    "xnnpack_8da4w": 2e-2,
    "xnnpack_dynamic": 2e-2,
    "xnnpack_int8": 1e-2,
    "xnnpack": 1e-6,
    "vulkan": 1e-6,
    "coreml": 1e-6,
    "mlx": 1e-6,
    "tosa": 1e-6,
}
"""Limits by the beginnings of names, most special first. Activations that a delegate quantises may
be a step apart, of 256 over the range of a tensor, in each of two layers."""


@dataclass(frozen=True)
class Program:
    """A program of a folder, with the arrays of its calls."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def is_delegated(self) -> bool:
        return self.name.startswith(tuple(LIMITS))

    @property
    def limit(self) -> float:
        rows = (limit for begin, limit in LIMITS.items() if self.name.startswith(begin))
        return next(rows, PORTABLE_LIMIT)

    def arrays(self) -> Iterator[tuple[Arrays, Arrays]]:
        """Yield the inputs and eager's outputs of each call."""
        with np.load(self.path.with_suffix(".npz")) as file:
            arrays = dict(file)
        step, head = 0, ""
        while f"{head}out0" in arrays:
            yield tuple(  # type: ignore[misc]
                [
                    arrays[f"{head}{side}{i}"]
                    for i in range(len(arrays))
                    if f"{head}{side}{i}" in arrays
                ]
                for side in ("in", "out")
            )
            step, head = step + 1, f"step{step + 1}_"

    def method(self, kernels: Kernels = "default") -> Any:
        """Load the method as it is written."""
        if self.path.suffix == ".bpte":
            program = BundledProgram.load(self.path).program
        else:
            data = self.path.with_suffix(".ptd")
            options = {"data_path": data} if data.exists() else {}
            program = Runtime.get().load_program(self.path, **options)
        return program.load_method("forward", kernels=kernels, delegate_at_load=False)

    def outputs(self, kernels: Kernels = "default") -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield outputs of all calls, and eager's; bfloat16 as its bits."""
        method = self.method(kernels)
        for inputs, expected in self.arrays():
            actual = [np.asarray(value) for value in method.execute(inputs)]
            assert len(actual) == len(expected), f"{len(actual)} outputs, {len(expected)} of eager"
            for ours, theirs in zip(actual, expected, strict=True):
                yield (ours.view(np.uint16) if ours.dtype.name == "bfloat16" else ours), theirs

    def error(self, kernels: Kernels = "default") -> float:
        """Return the largest error, relative to the largest value of an output.

        Raises AssertionError if numbers, dtypes or shapes differ, or cases of a bundle.
        """
        errors = [0.0]
        for ours, theirs in self.outputs(kernels):
            kinds = (ours.dtype, ours.shape), (theirs.dtype, theirs.shape)
            assert kinds[0] == kinds[1], f"an output is {kinds[0]}, eager's {kinds[1]}"
            if ours.size:
                difference = np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max()
                errors.append(float(difference / max(np.abs(theirs).max(), 1e-30)))
        if self.path.suffix == ".bpte":
            assert all(BundledProgram.load(self.path).verify()), "a case of the bundle differs"
        return max(errors)

    def digest(self) -> str:
        """Return a digest of the bits of all outputs of the plain loops."""
        hashed = hashlib.sha256()
        for ours, _ in self.outputs("reference"):
            hashed.update(
                f"{ours.dtype}{ours.shape}".encode() + np.ascontiguousarray(ours).tobytes()
            )
        return hashed.hexdigest()[:16]

    def fault(self) -> str:
        """Return what is wrong with the program's results here; empty: nothing."""
        try:
            error = self.error()
        except Exception as exception:
            return f"{type(exception).__name__}: {exception}"
        if not error <= self.limit:
            return f"differs from eager by {error:.1e} of the largest value, limit {self.limit:.0e}"
        return ""


def programs(folder: Path) -> list[Program]:
    """Return the programs of a folder."""
    return [Program(path) for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES]


def refusals(folder: Path) -> dict[str, str]:
    """Return the rows that the release could not export, with its errors."""
    return {path.stem: path.read_text().strip() for path in sorted(folder.glob("*.error"))}
