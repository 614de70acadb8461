"""Measurements for the limits of check_llm for quantised programs.

`python -m tests.llm.calibration` prints, in dB, the ratio of logits to error: of
right programs against the float model and against the model after quantisation, and of the same
programs with planted faults. docs/howto/llm.md has a summary.
"""

import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from executorch_c.compare.logits import LogitTolerance
from executorch_c.llm import TextRunner
from executorch_c.llm.agreement import Agreement, measure
from tests.llm.exported_llm import CONTEXT, VOCABULARY, load
from tests.llm.exported_rows import BY_NAME, model_of

NAMES = ("llama-8da4w", "qwen2.5-8da4w", "qwen3-8da4w", "phi4-8da4w", "gemma3-8da4w", "lfm2-8da4w")
IDS = np.random.default_rng(3).integers(4, VOCABULARY, CONTEXT).tolist()
LAYERS = 6
"""Approximate number of layers that get each fault, one at a time."""


@torch.no_grad()
def logits_of(model: Any) -> np.ndarray:
    """Return the logits after each token, from an empty state."""
    fresh = copy.deepcopy(model)
    rows = [
        fresh(torch.tensor([[token]]), {"input_pos": torch.tensor([i])}).float()
        for i, token in enumerate(IDS)
    ]
    return torch.cat([row.reshape(1, -1) for row in rows]).numpy()


# ---- faults ----------------------------------------------------------------------------------


def _swap_nibbles(weight: Any) -> None:
    data = weight.qdata
    data.copy_(data.view(len(data), -1, 2).flip(-1).reshape(data.shape))


def _zero_point(weight: Any) -> None:
    weight.qdata.add_(1).clamp_(-8, 7)


def _one_group(weight: Any) -> None:
    weight.scale.view(-1)[weight.scale.numel() // 2] *= 4


def _some_groups(weight: Any) -> None:
    weight.scale[: len(weight.scale) // 8] *= 2


def _all_groups(weight: Any) -> None:
    weight.scale.mul_(1.25)


FAULTS: dict[str, Callable[[Any], None]] = {
    "nibbles swapped": _swap_nibbles,
    "zero point off by 1": _zero_point,
    "scale of a group x 4": _one_group,
    "scales of an eighth of the rows x 2": _some_groups,
    "scales of a layer x 1.25": _all_groups,
}


@torch.no_grad()
def double_theta(model: Any) -> None:
    """Make the tables of rotary embeddings those of twice the theta."""
    for name, cosines in model.named_buffers():
        if name.endswith("rope.freqs_cos"):
            sines = model.get_buffer(name.replace("_cos", "_sin"))
            count = cosines.shape[1] // (2 if model.params.use_hf_rope else 1)
            exponents = torch.arange(cosines.shape[1]) % count / count
            angles = torch.atan2(sines[1], cosines[1]) * 2**-exponents
            angles = torch.outer(torch.arange(len(cosines)), angles)
            gain = torch.hypot(sines[1], cosines[1])
            cosines.copy_(angles.cos() * gain)
            sines.copy_(angles.sin() * gain)


def has_norm(model: Any, name: str) -> bool:
    """Return True if a norm follows a layer, so that a factor of its weights has no effect."""
    return bool(model.params.use_qk_norm) and name.endswith((".wq", ".wk"))


def faulty(model: Any, layers: int = LAYERS) -> Iterator[tuple[str, Any]]:
    """Yield copies of a quantised model with each fault in some layers, one at a time."""
    linear = ((n, m) for n, m in model.named_modules() if isinstance(m, torch.nn.Linear))
    names = [name for name, module in linear if hasattr(module.weight, "qdata")]
    for fault, plant in FAULTS.items():
        for name in names[:: max(len(names) // layers, 1)]:
            if plant is _all_groups and has_norm(model, name):
                continue
            wrong = copy.deepcopy(model)
            with torch.no_grad():
                plant(wrong.get_submodule(name).weight)
            yield fault, wrong
    wrong = copy.deepcopy(model)
    double_theta(wrong)
    yield "rope theta x 2", wrong


def stale(runner: TextRunner) -> np.ndarray:
    """Return the logits of a program whose caches lose one call of many."""
    runner.reset()
    rows = []
    for i, token in enumerate(IDS):
        before = runner.snapshot() if i == 5 else None
        rows.append(runner.forward([token])[-1])
        if before is not None:
            known = list(runner._session.ids)
            runner.restore(before)
            runner._session.ids = known
    return np.stack(rows)


# ---- tables ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Logits of one program, or of one with a fault, against a reference."""

    row: str
    fault: str
    against: str
    all_db: float
    """Over all positions."""
    least_db: float
    """At the worst position."""
    top1: float


def compared(
    row: str, fault: str, actual: np.ndarray, references: dict[str, Any]
) -> list[Measured]:
    results = []
    for name, expected in references.items():
        one: Agreement = measure(actual, expected, LogitTolerance(np.inf))
        error = np.mean((actual - expected) ** 2)
        ratio = 10 * np.log10(np.mean(expected**2) / max(error, 1e-30))
        results.append(
            Measured(
                row, fault, name, float(ratio), float(one.sqnr_db.min()), float(one.same_top.mean())
            )
        )
    return results


def measured(name: str) -> list[Measured]:
    """Return all measurements of a row."""
    row, model = BY_NAME[name], load(BY_NAME[name])
    runner = TextRunner(model.program)
    quantised = model_of(row, True)
    references = {"float": logits_of(model_of(row, False))}
    if "quantization.pt2e_quantize" not in row.options:  # it quantises the graph
        references["quantised"] = logits_of(quantised)
    results = compared(name, "", runner.all_logits(IDS), references)
    results += compared(name, "stale state", stale(runner), references)
    for fault, wrong in faulty(quantised):
        results += compared(name, fault, logits_of(wrong), references)
    return results


def table(rows: list[Measured]) -> str:
    """Return a row for each program, fault and reference: ranges of dB over layers."""
    lines = [
        "| program | fault | against | dB, all positions | dB, worst position | top 1 |",
        "|---|---|---|--:|--:|--:|",
    ]
    for key in dict.fromkeys((r.row, r.fault, r.against) for r in rows):
        these = [r for r in rows if (r.row, r.fault, r.against) == key]

        def between(values: list[float], places: int = 1) -> str:
            shown = [f"{v:.{places}f}" for v in (min(values), max(values))]
            return shown[0] if shown[0] == shown[1] else " to ".join(shown)

        lines.append(
            f"| {key[0]} | {key[1] or 'none'} | {key[2]} "
            f"| {between([r.all_db for r in these])} "
            f"| {between([r.least_db for r in these])} "
            f"| {between([r.top1 for r in these], 2)} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        print(table(measured(name)), flush=True)
