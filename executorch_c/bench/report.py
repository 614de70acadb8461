"""The result of `bench`: times, ratios with their intervals, memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from executorch_c._names import visible
from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c.report import JudgedReport

RESAMPLES, CONFIDENCE = 1000, 95.0
"""Resamples of turns, and percent of them between the ends of a ratio's interval."""
MAX_SAMPLES = 200
"""Times of a turn that intervals are computed of: quantiles of more calls."""
PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}
HEAD = (
    *("", "engine", "threads", "p50", "p90", "ratio", "", "load", "first", "memory", "calls/s"),
    *("difference", "error"),
)
TEXT_COLUMNS = 2
OPTIONAL = ("engine", "p90", "difference", "first", "load")
"""Columns that a narrow terminal leaves out, in this order."""


@dataclass
class Measured:
    """An engine at a number of threads; times are in seconds."""

    name: str
    engine: str
    path: str
    threads: int
    import_seconds: float = 0.0
    load_seconds: float = 0.0
    first_seconds: float = 0.0
    """Time of the first call."""
    peak_bytes: int = 0
    """Largest resident size of the process, up to the first call."""
    turns: list[list[float]] = field(default_factory=list)
    """Times of calls, by turn."""
    ratio: tuple[float, float, float] | None = None
    """Median time relative to the first program's, and the ends of its interval."""
    concurrency: int = 1
    calls_per_second: float | None = None
    """Calls per second of `concurrency` threads."""
    difference: float | None = None
    """Largest relative RMS difference of an output from the first program's."""
    error: str = ""
    outputs: list[Any] = field(default_factory=list, repr=False)

    @property
    def times(self) -> np.ndarray:
        """All times of calls."""
        return np.asarray([time for turn in self.turns for time in turn])

    def as_dict(self) -> dict[str, object]:
        """Return the row for JSON: times in seconds, sizes in bytes."""
        times = self.times
        spread: dict[str, float] = {}
        if times.size and not self.error:
            spread = {name: float(np.percentile(times, p)) for name, p in PERCENTILES.items()}
            spread |= {"min": float(times.min()), "mean": float(times.mean())}
        return {
            "name": self.name,
            "engine": self.engine,
            "file": self.path,
            "threads": self.threads,
            "calls": int(times.size),
            "seconds": spread or None,
            "ratio": None if self.ratio is None else self.ratio[0],
            "ratio_interval": None if self.ratio is None else [*self.ratio[1:]],
            "import_seconds": self.import_seconds,
            "load_seconds": self.load_seconds,
            "first_call_seconds": self.first_seconds,
            "peak_bytes": self.peak_bytes,
            "concurrency": self.concurrency,
            "calls_per_second": self.calls_per_second,
            "difference": self.difference,
            "error": self.error or None,
        }


def ratio_interval(
    turns: Sequence[Sequence[float]], first: Sequence[Sequence[float]]
) -> tuple[float, float, float]:
    """Return the ratio of the medians of all calls, and the ends of the interval that resampling
    of turns gives it: other load on the machine changes whole turns."""
    count = min(len(turns), len(first))
    rng = np.random.default_rng(0)
    picked = rng.integers(0, count, (RESAMPLES, count))
    multiples = np.stack([np.bincount(row, minlength=count) for row in picked])
    whole = np.ones((1, count))
    ours, theirs = _Medians(turns[:count]), _Medians(first[:count])
    ratios = ours.of(multiples) / theirs.of(multiples)
    low, high = np.percentile(ratios, ((100 - CONFIDENCE) / 2, (100 + CONFIDENCE) / 2))
    return float((ours.of(whole) / theirs.of(whole))[0]), float(low), float(high)


class _Medians:
    """Medians of the calls of turns that count several times, or not at all."""

    def __init__(self, turns: Sequence[Sequence[float]]) -> None:
        shares = np.linspace(0, 1, MAX_SAMPLES)
        kept = [np.quantile(turn, shares) if len(turn) > MAX_SAMPLES else turn for turn in turns]
        values = np.concatenate([np.asarray(one, np.float64) for one in kept])
        order = np.argsort(values)
        self._values = values[order]
        self._turn = np.repeat(np.arange(len(kept)), [len(one) for one in kept])[order]
        self._weight = np.asarray([len(a) / len(b) for a, b in zip(turns, kept)])[self._turn]

    def of(self, multiples: np.ndarray) -> np.ndarray:
        """Return a median for each row of multiples (rows, turns)."""
        found = []
        for row in multiples:
            sums = np.cumsum(self._weight * row[self._turn])
            found.append(self._values[np.searchsorted(sums, sums[-1] / 2)])
        return np.asarray(found)


def share_of(text: str) -> float:
    """Return 0.1 of "10%" or "0.1". Raises ValueError."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)(%?)", text.strip())
    if not found:
        raise ValueError(f"{text!r}: expected a share such as 10% or 0.1")
    return float(found[1]) / (100 if found[2] else 1)


@dataclass(frozen=True)
class BenchReport(JudgedReport[Measured]):
    """The result of `bench`. `print(report)` shows the table."""

    rows: tuple[Measured, ...]
    min_time: float
    allowed: float | None = None
    """Largest accepted share by which a row is slower; None: none is judged."""
    notes: tuple[str, ...] = ()
    """A sentence for each backend whose times here are not those of a device."""

    ROWS: ClassVar[str] = "rows"

    @property
    def verdict(self) -> Literal["match", "differ", "error"]:
        """ "error" if an engine failed; "differ" if a program is slower than allowed."""
        if any(row.error for row in self.rows):
            return "error"
        return "differ" if self.allowed is not None and self.slower_than(self.allowed) else "match"

    def slower_than(self, share: float) -> list[str]:
        """Return a sentence for each program that is slower than the first one, and for each rival
        that is faster than the first program, by more than a share: all of the ratio's interval."""
        found = []
        for row in self.rows:
            if row.ratio is None:
                continue
            ratio, low, high = row.ratio
            at = _text.plural(row.threads, "thread")
            if row.engine == "here" and low > 1 + share:
                found.append(f"{row.name} takes {ratio:.2f} of {self.rows[0].name}'s time, {at}")
            elif row.engine != "here" and high < 1 / (1 + share):
                found.append(
                    f"{self.rows[0].name} takes {1 / ratio:.2f} of {row.name}'s time, {at}"
                )
        return found

    def problems(self) -> list[str]:
        """Return a sentence for each engine that failed, and for each program that is slower than
        allowed."""
        errors = [f"{row.name}: {row.error}" for row in self.rows if row.error]
        return errors + ([] if self.allowed is None else self.slower_than(self.allowed))

    def summary(self) -> str:
        """Return what was measured, and the first problem."""
        names = ", ".join(dict.fromkeys(visible(row.name) for row in self.rows))
        text = f"{names}: {self.min_time:g} s of calls each, in turns"
        return "; ".join([text, *self.problems()[:1]])

    def _cells(self) -> Iterator[list[str]]:
        for row in self.rows:
            times = row.times
            measured = ["", ""]
            if times.size and not row.error:
                measured = [_text.seconds(float(np.percentile(times, p))) for p in (50, 90)]
            ratio = ["", ""]
            if row.ratio is not None:
                ratio = [f"{row.ratio[0]:.2f}", f"{row.ratio[1]:.2f}-{row.ratio[2]:.2f}"]
            rate = row.calls_per_second
            yield [
                row.name,
                "" if row.engine in ("here", row.name) else row.engine,
                str(row.threads),
                *measured,
                *ratio,
                _text.seconds(row.load_seconds) if row.load_seconds else "",
                _text.seconds(row.first_seconds) if row.first_seconds else "",
                _text.size(row.peak_bytes) if row.peak_bytes else "",
                "" if rate is None else f"{rate:,.0f} by {row.concurrency}",
                "" if row.difference is None else f"{row.difference:.1e}",
                row.error,
            ]

    def table(self) -> str:
        """Return a row for each engine and number of threads as text: median and 90th percentile
        of a call, ratio of the median to the first program's with its 95 % interval, time of
        loading and of the first call, peak memory of the process."""
        return _text.table(self._cells(), HEAD, indent=0, width=_text.width(), optional=OPTIONAL)

    def __str__(self) -> str:
        notes = map(_text.wrapped, self.notes)
        return "\n".join([_text.wrapped(self.summary()), self.table(), *notes])

    def __repr__(self) -> str:
        return f"<executorch_c.devtools.BenchReport: {self.summary()}>"

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each engine and number of threads: times in seconds, sizes in bytes."""
        return [row.as_dict() for row in self.rows]

    def heading(self) -> str:
        """Return the heading of its page."""
        return "Benchmark"

    def sections(self) -> Iterator[object]:
        """Yield the parts of its page after the finding."""
        yield self._html_table("")

    def _html_table(self, caption: object) -> _html.Markup:
        cells: _html.Rows = [[*row] for row in self._cells()]
        head, rows, columns = _html.without_empty(HEAD, cells, TEXT_COLUMNS)
        return _html.table(caption, head, rows, columns)

    def _repr_html_(self) -> str:
        return self._html_table(self.summary())
