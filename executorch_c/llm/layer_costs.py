"""Which layers of a quantised language model cost how much.

    from executorch_c.llm import quantization_cost

    print(quantization_cost(model, prompts, quantized=quantized, program="model.pte"))

Each quantised layer takes the place of its float layer in the float model, one at a time. The cost
is the noise of the logits, as in `quantization_error`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import _extras
from executorch_c._order import model_first
from executorch_c._programs import title_of
from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c.compare import costs as _costs
from executorch_c.compare.logits import LogitTolerance
from executorch_c.llm import agreement as _agreement
from executorch_c.llm.reference import ModelReference
from executorch_c.llm.runner import TextRunner, as_ids
from executorch_c.progress import Progress
from executorch_c.report import Report

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c._programs import ProgramSource

HEAD = ("layer", "type", "cost dB", "gain dB", "perplexity", "change", "KL", "top 1")
ALL, PROGRAM = "all layers", "the program"


@dataclass(frozen=True)
class LayerCost:
    """The cost of quantising one layer, with all others in float."""

    layer: str
    type: str
    loss: float
    """Mean loss of a token, in nats."""
    increase: float
    """Against that of the float model."""
    divergence: float
    """Mean KL divergence from the float model, in nats."""
    same_top: float
    """Share of positions with the same most likely token."""
    cost_db: float = math.nan
    """Signal-to-noise ratio of the logits: the smaller, the more expensive."""
    gain_db: float = math.nan
    """Increase of the ratio of the quantised model without the errors of this layer."""

    @property
    def perplexity(self) -> float:
        """exp of the loss."""
        return math.exp(min(self.loss, 700.0))

    def cells(self) -> list[object]:
        """Return the cells of the report's table."""
        change = math.expm1(min(self.increase, 700.0))
        gain = "" if math.isnan(self.gain_db) else f"{self.gain_db:+.1f}"
        return [
            self.layer,
            self.type,
            f"{self.cost_db:.1f}",
            gain,
            f"{self.perplexity:.5g}",
            f"{100 * change:+.3g} %",
            f"{self.divergence:.2g}",
            f"{100 * self.same_top:.4g} %",
        ]


@dataclass(frozen=True)
class CostReport(Report):
    """Costs of quantised layers, the most expensive one first. It has no verdict: `ok` is always
    true."""

    title: str
    loss: float
    """Mean loss of the float model."""
    rows: tuple[LayerCost, ...]
    whole: tuple[LayerCost, ...]
    """The quantised model, and the program."""

    @property
    def ok(self) -> bool:
        """True: costs are figures, not faults."""
        return True

    def __iter__(self) -> Iterator[LayerCost]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def summary(self) -> str:
        """Return the most expensive layer and the total in a sentence."""
        total = ", ".join(f"{row.layer} {row.perplexity:.5g}" for row in self.whole)
        base = f"perplexity {math.exp(min(self.loss, 700.0)):.5g} in float, {total}"
        if not self.rows:
            return f"{base}; no layer is quantised"
        first = self.rows[0]
        return (
            f"{base}; of {_text.plural(len(self.rows), 'quantised layer')}, '{first.layer}' "
            f"costs most: perplexity {first.perplexity:.5g}, KL divergence "
            f"{first.divergence:.2g}. {self.advice()}"
        )

    def advice(self) -> str:
        """Return which layer to keep in float, and what that gains."""
        first = self.rows[0] if self.rows else None
        return _costs.advice(
            f"'{first.layer}'" if first else "", first.gain_db if first else math.nan
        )

    def _cells(self) -> list[list[object]]:
        return [row.cells() for row in (*self.rows, *self.whole)]

    def table(self) -> str:
        """Return a row for each layer as text."""
        return _text.table(self._cells(), HEAD, width=_text.width(), optional=("type",))

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each layer, the quantised model and the program."""
        return [
            {
                "layer": r.layer,
                "type": r.type,
                "loss": r.loss,
                "increase": r.increase,
                "perplexity": r.perplexity,
                "kl": r.divergence,
                "top1": r.same_top,
                "cost_db": r.cost_db,
                "gain_db": r.gain_db,
            }
            for r in (*self.rows, *self.whole)
        ]

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"Costs of quantised layers of {self.title}"

    def sections(self) -> Iterator[object]:
        """Yield the parts of its page after the finding."""
        yield _html.table("layers", HEAD, self._cells(), 2)

    def __str__(self) -> str:
        return f"{_text.wrapped(self.summary())}\n{self.table()}"

    def __repr__(self) -> str:
        return f"<CostReport: {self.summary()}>"

    def _repr_html_(self) -> str:
        return _html.table(self.summary(), HEAD, self._cells(), 2)


def quantized_layers(model: Any, quantized: Any) -> list[str]:
    """Return the names of the innermost modules that differ: another type, or other weights."""
    others = dict(quantized.named_modules())
    names = [
        name
        for name, module in model.named_modules()
        if name and name in others and _differs(module, others[name])
    ]
    return [n for n in names if not any(o.startswith(f"{n}.") for o in names)]


def _differs(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return True
    mine, theirs = (dict(m.named_parameters(recurse=False)) for m in (a, b))
    if set(mine) != set(theirs):
        return True
    return any(
        type(p) is not type(theirs[n])
        or p.shape != theirs[n].shape
        or not bool((p == theirs[n]).all())
        for n, p in mine.items()
    )


def _replace(model: Any, name: str, module: Any) -> Any:
    """Replace a submodule and return the old one."""
    parent, _, last = name.rpartition(".")
    owner = model.get_submodule(parent)
    old = getattr(owner, last)
    setattr(owner, last, module)
    return old


@model_first
def quantization_cost(
    model: Any,
    prompts: Sequence[Any],
    *,
    quantized: Any,
    program: ProgramSource | TextRunner,
    tokenizer: Any = None,
    progress: bool | None = None,
) -> CostReport:
    """Return what each quantised layer costs, alone in the float model.

    Args:
        model: The float torch.nn.Module; it is the same after the call.
        prompts: Texts, or sequences of ids, of at least 2 tokens each.
        quantized: A copy of the model with quantised layers of the same names.
        program: The quantised program, as for `TextRunner`, or a TextRunner.
        tokenizer: As for `TextRunner`.
        progress: Show progress on stderr. Default: on a terminal.

    Raises ValueError for prompts of less than 2 tokens, ImportError without torch.
    """
    _extras.require("quantization_cost", "torch")
    runner = (
        program
        if isinstance(program, TextRunner)
        else TextRunner(program, tokenizer, delegate_at_load=False)
    )
    runner.reset()
    ids = [
        runner.encode(one) if isinstance(one, str) else as_ids(one, runner.vocabulary)
        for one in prompts
    ]
    if not ids or min(map(len, ids)) < 2:
        raise ValueError("`prompts`: pass at least 2 tokens in one of them")
    measure = _Measure(ModelReference(model, runner.signature), ids)
    noise, both = measure.cost(ModelReference(quantized, runner.signature), ALL, "")
    with Progress("quantization_cost", progress) as say:
        rows = measure.layers(model, quantized, noise, say)
    whole = (both, measure.program_cost(runner))
    report = CostReport(title_of(runner.source, "a program"), measure.loss, rows, whole)
    report.set_origins(program=runner.source.origin)
    return report


class _Measure:
    """The float model's logits, and costs against them."""

    def __init__(self, reference: ModelReference, ids: Sequence[list[int]]) -> None:
        self.reference, self.ids = reference, ids
        self.expected = [self._logits(reference, one) for one in ids]
        self.loss = self._loss(self.expected)

    @staticmethod
    def _logits(reference: ModelReference, ids: Sequence[int]) -> Array:
        logits = reference.logits(ids)
        assert logits is not None
        return logits

    def _loss(self, logits: Sequence[Array]) -> float:
        counts = np.array([len(one) - 1 for one in self.ids])
        losses = [_agreement.mean_loss(rows, one) for rows, one in zip(logits, self.ids)]
        return float(np.average(losses, weights=counts))

    def cost(self, reference: ModelReference, name: str, type_: str) -> tuple[float, LayerCost]:
        """Return the relative power of a model's noise, and its cost."""
        return self._row([self._logits(reference, one) for one in self.ids], name, type_)

    def layers(
        self, model: Any, quantized: Any, noise: float, say: Progress
    ) -> tuple[LayerCost, ...]:
        """Return the cost of each quantised layer in the float model, the most expensive first.
        `noise`: relative power of the quantised model's."""
        names, known = quantized_layers(model, quantized), dict[str, LayerCost]()

        def noise_of(name: str) -> float:
            say(f"{name}, {len(known) + 1} of {len(names)}")
            module = quantized.get_submodule(name)
            old = _replace(model, name, module)
            try:
                noise, known[name] = self.cost(self.reference, name, type(module).__name__)
            finally:
                _replace(model, name, old)
            return noise

        gains = _costs.costs_of(names, noise_of, noise).gains
        rows = [replace(row, gain_db=gains[name]) for name, row in known.items()]
        return tuple(sorted(rows, key=lambda row: row.cost_db))

    def program_cost(self, runner: TextRunner) -> LayerCost:
        """Return the cost of a program."""
        rows = []
        for one in self.ids:
            runner.reset()
            rows.append(runner.all_logits(one))
        runner.reset()
        return self._row(rows, PROGRAM, "")[1]

    def _row(self, logits: Sequence[Array], name: str, type_: str) -> tuple[float, LayerCost]:
        noise = _costs.relative_noise(np.concatenate(logits), np.concatenate(self.expected))
        limit = LogitTolerance(math.inf)
        parts = [_agreement.measure(a, e, limit) for a, e in zip(logits, self.expected)]
        loss = self._loss(logits)
        row = LayerCost(
            name,
            type_,
            loss,
            loss - self.loss,
            float(np.concatenate([p.divergence for p in parts]).mean()),
            float(np.concatenate([p.same_top for p in parts]).mean()),
            _costs.decibel(noise),
        )
        return noise, row
