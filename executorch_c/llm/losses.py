"""Perplexity of a text program, with a confidence interval.

    from executorch_c.llm import perplexity

    print(perplexity("model.pte", text, tokenizer="tokenizer.json"))

Every token is predicted from those before it in its window. Windows overlap by `stride` tokens less
than their length, so that few tokens have a short context.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._programs import title_of
from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c.llm.runner import TextRunner, as_ids
from executorch_c.llm.sampling import check_finite, log_softmax
from executorch_c.progress import Progress
from executorch_c.report import Report

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c._programs import ProgramSource
    from executorch_c._types import Data, FilePath
    from executorch_c.llm.tokenizers import Tokenizer

Z = 1.96
"""Standard errors of a 95 % confidence interval."""
BATCHES = 32
"""Parts of a text for its standard error: neighbouring tokens are not independent."""


def interval(losses: Array) -> tuple[float, float]:
    """Return mean and standard error of losses in order, from the means of consecutive parts."""
    count = min(BATCHES, losses.size // 2)
    mean = float(losses.mean()) if losses.size else math.nan
    if count < 2:
        return mean, math.inf
    means = np.array([part.mean() for part in np.array_split(losses, count)])
    return mean, float(means.std(ddof=1) / math.sqrt(count))


def losses_of(logits: Array, targets: Sequence[int]) -> Array:
    """Return -log p of each target, float64, from the logits [n, V] before it."""
    rows: Array = -log_softmax(logits)[np.arange(len(targets)), list(targets)]
    return rows


@dataclass(frozen=True)
class PerplexityReport(Report):
    """Perplexity of a program on a text."""

    losses: Array
    """-log p of each predicted token, in nats."""
    windows: int
    window: int
    """Tokens of a window."""
    seconds: float
    title: str = "a program"
    text_bytes: int = 0
    """Bytes of the text in UTF-8, if it was one."""

    @property
    def ok(self) -> bool:
        """True if the perplexity is finite."""
        return math.isfinite(self.perplexity)

    @property
    def tokens(self) -> int:
        """The number of predicted tokens."""
        return int(self.losses.size)

    @property
    def perplexity(self) -> float:
        """exp of the mean loss of a token."""
        return math.exp(min(interval(self.losses)[0], 700.0))

    @property
    def confidence(self) -> tuple[float, float]:
        """The 95 % confidence interval of the perplexity."""
        mean, error = interval(self.losses)
        return math.exp(min(mean - Z * error, 700.0)), math.exp(min(mean + Z * error, 700.0))

    @property
    def bits_per_byte(self) -> float | None:
        """Bits of the predicted tokens for each byte of the text; comparable between tokenizers.
        None for token ids."""
        return float(self.losses.sum()) / math.log(2) / self.text_bytes if self.text_bytes else None

    def figures(self) -> dict[str, float | int | None]:
        """Return all figures."""
        low, high = self.confidence
        return {
            "perplexity": self.perplexity,
            "low": low,
            "high": high,
            "tokens": self.tokens,
            "bits_per_byte": self.bits_per_byte,
            "windows": self.windows,
            "window": self.window,
            "seconds": self.seconds,
            "tokens_per_second": self.tokens / max(self.seconds, 1e-9),
        }

    def summary(self) -> str:
        """Return the finding in a sentence."""
        low, high = self.confidence
        bits = self.bits_per_byte
        more = f", {bits:.3f} bits per byte" if bits is not None else ""
        return (
            f"perplexity {self.perplexity:.4g} (95 % confidence {low:.4g} to {high:.4g})"
            f"{more}: {self.tokens:,} tokens in {_text.plural(self.windows, 'window')} of "
            f"{self.window}"
        )

    def _rows(self) -> list[list[object]]:
        return [
            [name, "" if value is None else f"{value:.6g}"]
            for name, value in self.figures().items()
        ]

    def table(self) -> str:
        """Return all figures as a table of text."""
        return _text.table(self._rows(), ("figure", "value"), width=_text.width())

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return one row with all figures."""
        return [dict(self.figures())]

    def as_dict(self) -> dict[str, Any]:
        """Return all figures, for JSON."""
        return {"ok": self.ok, "summary": self.summary(), **self.figures()}

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"Perplexity of {self.title}"

    def sections(self) -> Iterator[object]:
        """Yield the parts of its page after the finding."""
        yield _html.table("figures", ("figure", "value"), self._rows(), 1)

    def __str__(self) -> str:
        rate = self.tokens / max(self.seconds, 1e-9)
        return f"{self.summary()}; {_text.seconds(self.seconds)}, {rate:,.0f} tokens/s"

    def __repr__(self) -> str:
        return f"<PerplexityReport: {self.summary()}>"

    def _repr_html_(self) -> str:
        return _html.tag("p", self.summary())


def windows_of(count: int, size: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Yield start, first predicted token, and end of windows that predict tokens 1 to count - 1
    once each."""
    start, first = 0, 1
    while first < count:
        end = min(start + size, count)
        yield start, first, end
        first, start = end, start + stride


def perplexity(
    program: ProgramSource | TextRunner,
    text: str | Sequence[int],
    *,
    tokenizer: FilePath | Tokenizer | None = None,
    data_path: Data | Sequence[Data] | None = None,
    window: int | None = None,
    stride: int | None = None,
    bos: bool | None = None,
    progress: bool | None = None,
    **options: Any,
) -> PerplexityReport:
    """Return the perplexity of a program on a text or on token ids.

    Args:
        program: As for `TextRunner`, or a TextRunner (which is reset).
        text: A text, which needs a tokenizer, or token ids.
        tokenizer, data_path, options: As for `TextRunner`.
        window: Tokens of a window. Default: the context.
        stride: Distance of windows. Default: half a window.
        bos: Begin with BOS. Default: the tokenizer's habit.
        progress: Show progress on stderr. Default: on a terminal.

    Raises ValueError for less than 2 tokens, for a window or stride out of range, and for logits
    that are NaN.
    """
    runner = program
    if not isinstance(runner, TextRunner):
        runner = TextRunner(runner, tokenizer, data_path, **options)
    return _measured(runner, text, window, stride, bos, progress)


def _measured(
    runner: TextRunner,
    text: str | Sequence[int],
    window: int | None,
    stride: int | None,
    bos: bool | None,
    progress: bool | None,
) -> PerplexityReport:
    runner.reset()
    ids = runner.encode(text, bos) if isinstance(text, str) else as_ids(text, runner.vocabulary)
    size = runner.context if window is None else window
    step = max(size // 2, 1) if stride is None else stride
    if not 2 <= size <= runner.context:
        raise ValueError(f"`window` is {size}, expected 2 to {runner.context} (the context)")
    if not 1 <= step < size:
        raise ValueError(f"`stride` is {step}, expected 1 to {size - 1}")
    if len(ids) < 2:
        raise ValueError(f"the text has {_text.plural(len(ids), 'token')}, expected 2 or more")
    started, losses = perf_counter(), []
    parts = list(windows_of(len(ids), size, step))
    with Progress("perplexity", progress) as say:
        show = say.count("tokens")
        for start, first, end in parts:
            runner.reset()
            losses.append(_window(runner, ids, start, first, end))
            show(end, len(ids))
    runner.reset()
    report = PerplexityReport(
        np.concatenate(losses),
        len(parts),
        size,
        perf_counter() - started,
        title_of(runner.source.source, "a program"),
        len(text.encode()) if isinstance(text, str) else 0,
    )
    report.set_origins(program=runner.source.origin)
    return report


def _window(runner: TextRunner, ids: Sequence[int], start: int, first: int, end: int) -> Array:
    """Return the losses of the tokens `first` to `end` of a window."""
    if first - 1 > start:
        runner.prefill(ids[start : first - 1])
    logits = runner.all_logits(ids[first - 1 : end - 1])
    for i, row in enumerate(logits):
        check_finite(row, first - 1 + i)
    return losses_of(logits, ids[first:end])
