"""Programs of a flow with layers in float: what they reach, their size and time."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from executorch_c._programs import method_of
from executorch_c.advice.configuration import Configuration
from executorch_c.advice.targets import Reached, reached, targets_of
from executorch_c.bench.turns import bench
from executorch_c.check import flows
from executorch_c.check.cases import leaves
from executorch_c.check.flows import Call, Flow
from executorch_c.check.reference import array
from executorch_c.compare.policies import Policies


@dataclass(frozen=True)
class Made:
    """A program, and what it reaches."""

    name: str
    """"all quantised", "advised" or "float"."""
    count: int
    """Number of layers in float."""
    data: bytes
    reached: Reached
    seconds: float | None = None
    """Median time of a call; None if it was not measured."""

    def as_dict(self) -> dict[str, object]:
        """Return the row for JSON: times in seconds, sizes in bytes."""
        return {
            "program": self.name,
            "in_float": self.count,
            "reached": {row.requirement: row.value for row in self.reached.rows},
            "ok": self.reached.ok,
            "sqnr_db": self.reached.sqnr_db,
            "seconds": self.seconds,
            "bytes": len(self.data),
        }


@dataclass(frozen=True)
class Maker:
    """Makes programs of a flow with layers in float."""

    flow: Flow
    configuration: Configuration
    exported: Any
    samples: Sequence[Call]
    """Calls that calibrate."""
    calls: Sequence[Call]
    """Calls on which targets are measured."""
    expected: Sequence[Sequence[Any]]
    """Outputs of the float model."""
    targets: Policies
    method: str

    def for_targets(self, target: str | Iterable[str]) -> Maker:
        """Return a maker with other targets."""
        return replace(self, targets=targets_of(target))

    def quantizer(self, names: Iterable[str]) -> Any:
        """Return the flow's quantiser with modules in float."""
        return self.configuration.quantizer(names)

    def quantized(self, name: str, names: Iterable[str], count: int) -> Made:
        """Return the program with modules in float."""
        names = [*names]
        flow = replace(self.flow, quantizer=lambda: self.quantizer(names))
        return self._made(name, count, flow)

    def in_float(self, count: int) -> Made:
        """Return the program of the flow without its quantiser."""
        return self._made("float", count, replace(self.flow, quantizer=None))

    def _made(self, name: str, count: int, flow: Flow) -> Made:
        subject = flows.subject(
            flow,
            None,
            lambda: self.exported,
            dynamic_shapes=None,
            samples=self.samples,
            method=self.method,
            data_path=None,
            say=lambda text: None,
        )
        assert subject.opened is not None
        method = method_of(subject.opened, self.method)
        outputs = []
        for call in self.calls:
            method.reset()
            outputs.append(method.execute([array(leaf) for leaf in leaves(call)]))
        data: Any = subject.opened.source
        return Made(name, count, bytes(data), reached(self.targets, outputs, self.expected))


def timed(programs: Sequence[Made], call: Call, method: str, min_time: float) -> list[Made]:
    """Return programs with the times of a call, measured in turns."""
    inputs = [array(leaf) for leaf in leaves(call)]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{i}.pte" for i in range(len(programs))]
        for path, one in zip(paths, programs, strict=True):
            path.write_bytes(one.data)
        report = bench(paths, inputs, method=method, min_time=min_time, progress=False)
    return [
        replace(one, seconds=None if row.error else statistics.median(row.times.tolist()))
        for one, row in zip(programs, report, strict=True)
    ]
