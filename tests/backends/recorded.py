"""Programs of a backend in a folder, with inputs and the outputs of the lowered module in eager."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import executorch_c
from executorch_c import Error, Runtime

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Recorded:
    """A folder with NAME.pte and, in NAME.npz, arrays in0, in1, ..., out0, out1, ..."""

    folder: Path

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.pte"))

    def arrays(self, name: str) -> tuple[Arrays, Arrays]:
        """Return inputs, and outputs of the lowered module in eager PyTorch."""
        with np.load(self.folder / f"{name}.npz") as file:
            arrays = dict(file)
        return (
            [arrays[key] for key in sorted(arrays) if key.startswith("in")],
            [arrays[key] for key in sorted(arrays) if key.startswith("out")],
        )

    def method(self, source: str | bytes, **options: Any) -> executorch_c.Method:
        """Load a program by its name, or other bytes."""
        program = self.folder / f"{source}.pte" if isinstance(source, str) else source
        return Runtime.get().load_program(program).load_method("forward", **options)

    def error(self, source: str | bytes, name: str) -> float:
        """Return the largest difference from the outputs of `name`."""
        inputs, outputs = self.arrays(name)
        results = self.method(source).execute(inputs)
        assert [a.shape for a in results] == [a.shape for a in outputs]
        return max(
            float(np.abs(a.astype(np.float64) - b).max())
            for a, b in zip(results, outputs, strict=True)
        )

    def damaged(self, name: str, begin: int, end: int, cases: int) -> Iterator[bytes]:
        """Return copies with other bytes at random places from `begin` to `end`."""
        data = (self.folder / f"{name}.pte").read_bytes()
        source = random.Random(name)
        for _ in range(cases):
            copy = bytearray(data)
            for _ in range(source.choice((1, 1, 2, 8))):
                byte = source.choice((0, 1, 127, 128, 255, source.randrange(256)))
                copy[source.randrange(begin, end)] = byte
            yield bytes(copy)

    def check_damaged(self, name: str, begin: int, end: int, cases: int = 150) -> None:
        """Run damaged copies: each gives a result or an exception with a message."""
        inputs, _ = self.arrays(name)
        failures = 0
        for data in self.damaged(name, begin, end, cases):
            try:
                self.method(data).execute(inputs)
            except Error as found:
                failures += 1
                assert str(found)
        assert 0 < failures < cases
