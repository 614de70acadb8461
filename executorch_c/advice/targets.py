"""Targets of `advise`: "30dB", "top1>=0.99", or any requirement of `compare/policies.py`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from executorch_c._arrays import as_array
from executorch_c.compare import costs, policies
from executorch_c.compare.policies import Policies, Row

_DECIBEL = re.compile(r"\d+(?:\.\d+)?\s*db", re.IGNORECASE)


def targets_of(target: str | Iterable[str]) -> Policies:
    """Return the requirements of targets; "30dB" is "sqnr_db>=30". Raises ValueError."""
    texts = [target] if isinstance(target, str) else [*target]
    if not texts:
        raise ValueError("`target` is empty: expected 30dB or a requirement such as top1>=0.99")
    return policies.policies_of([_requirement(text) for text in texts])


def _requirement(text: str) -> str:
    if _DECIBEL.fullmatch(text.strip()):
        return f"sqnr_db>={text.strip()[:-2].strip()}"
    if not re.search("[<>]", text):
        raise ValueError(f"target {text!r}: expected 30dB, or {policies.SYNTAX}")
    return text


@dataclass(frozen=True)
class Reached:
    """Figures of outputs: of each target, and the noise."""

    rows: tuple[Row, ...]
    """A target on an output, over all cases: the worst value, or the share in all rows."""
    noise: float
    """Power of the error relative to the outputs': the worst of outputs and cases where a target is
    an SQNR, else the mean."""

    @property
    def ok(self) -> bool:
        """True if each target is reached."""
        return bool(self.rows) and all(row.ok for row in self.rows)

    @property
    def sqnr_db(self) -> float:
        """Signal-to-quantisation-noise ratio of this noise, in dB."""
        return costs.decibel(self.noise)

    def text(self) -> str:
        """Return the worst figure of each target: "sqnr_db 31.2"."""
        return ", ".join(
            f"{row.requirement.split(':')[-1].split('>')[0].split('<')[0]} {row.value:.4g}"
            for row in self.rows
        )


def reached(
    targets: Policies, outputs: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]]
) -> Reached:
    """Return the figures of the outputs of cases beside the expected ones. Raises ValueError for
    another number of outputs, and for a target on an unknown one."""
    values, noises = [], []
    for number, (actual, exact) in enumerate(zip(outputs, expected, strict=True)):
        a, e = ([as_array(one) for one in each] for each in (actual, exact))
        if [one.shape for one in a] != [one.shape for one in e]:
            shapes = [", ".join(str(one.shape) for one in each) for each in (a, e)]
            raise ValueError(f"outputs have the shapes {shapes[0]}, those of eager {shapes[1]}")
        targets.check_names([None] * len(e))
        asked = targets.of([(i, None, one.dtype) for i, one in enumerate(e)])
        for i, requirements in enumerate(asked):
            for one in requirements:
                values.append((str(number), str(i), policies.measured(one, a[i], e[i])))
        floats = [i for i, one in enumerate(e) if one.dtype.kind in "fcV"]
        noises += [costs.relative_noise(a[i], e[i]) for i in floats]
    known = [one for one in noises if not math.isnan(one)]
    counts_worst = any(one.metric.name == "sqnr_db" for one in targets.requirements)
    mean = sum(known) / len(known) if known else math.nan
    noise = max(known, default=math.nan) if counts_worst else mean
    return Reached(tuple(policies.summarized(values)), noise)
