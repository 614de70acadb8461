"""What `blame` says of a case: the verdict by outputs alone, and the node by values of probes."""

from __future__ import annotations

from dataclasses import dataclass

from executorch_c.blame.device import DeviceValues
from executorch_c.blame.run import blame
from tests.blame.planted import Case

RIGHT = {"ok": ("match", "precision"), "device": ("device",)}
"""Verdicts that are right; others stand for themselves."""


@dataclass(frozen=True)
class Answer:
    """A verdict, and the first wrong place."""

    fault: str
    place: str
    distance: int | None
    """Results between the place and that of the fault; None without a place."""
    finding: str

    def is_right(self, case: Case) -> bool:
        return self.fault in RIGHT.get(case.verdict, (case.verdict,))

    def is_near(self) -> bool:
        return self.distance is not None and self.distance <= 1


def ask(case: Case, with_values: bool) -> Answer:
    """Return what `blame` says of the runs of a case, without a model: with the outputs alone, or
    with the values of all nodes of the wrong run."""
    runs = [
        DeviceValues(
            f"run {number}",
            tuple(run.outputs),
            run.values if with_values and number == case.faulty else {},
        )
        for number, run in enumerate(case.runs)
    ]
    report = blame(None, case.inputs, program=case.unit.program, device=runs, progress=False)
    place = (report.first or "").split(" ")[0]
    distance = None
    if place in case.places and case.place in case.places:
        distance = abs(case.places.index(place) - case.places.index(case.place))
    return Answer(report.fault, place, distance, report.summary())
