"""Costs of layers' errors: noise at the outputs in dB, one layer at a time.

Errors of layers are independent, but for saturation, so that the powers of their noise at the
outputs add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from executorch_c.compare.scale import unmasked, widened

if TYPE_CHECKING:
    from executorch_c._arrays import Array

MIN_GAIN_DB = 0.5
"""Gain of the outputs from which a layer is worth keeping in float."""


def relative_noise(actual: Array, exact: Array) -> float:
    """Return the power of the error of finite elements but mask values, relative to theirs; NaN if
    all of them are zero."""
    a, e = widened(actual), widened(exact)
    body = unmasked(exact) & np.isfinite(a)
    signal = float(np.sum(np.abs(e[body]) ** 2))
    return float(np.sum(np.abs(a[body] - e[body]) ** 2)) / signal if signal else math.nan


def decibel(noise: float) -> float:
    """Return a relative power of noise as a signal-to-noise ratio in dB."""
    return math.inf if noise == 0 else -10 * math.log10(noise) if noise > 0 else math.nan


@dataclass(frozen=True)
class Costs:
    """The costs of layers by name, in dB; NaN where no output can tell."""

    whole: float
    """SQNR of the outputs with the errors of all layers."""
    alone: dict[str, float]
    """SQNR of the outputs with the errors of one layer."""
    gains: dict[str, float]
    """Increase of the SQNR without the errors of one layer: by the sum of the layers' noise."""


def costs_of(layers: Iterable[str], noise_of: Callable[[str], float], whole: float) -> Costs:
    """Return what the errors of layers cost.

    Args:
        noise_of: Returns the relative power of the outputs' noise with the errors of one layer.
        whole: The same with the errors of all.
    """
    noise = {name: noise_of(name) for name in layers}
    total = sum(noise.values())
    gains = {
        name: decibel(max(1 - one / total, 0.0)) if total > 0 else math.nan
        for name, one in noise.items()
    }
    return Costs(decibel(whole), {name: decibel(one) for name, one in noise.items()}, gains)


def advice(name: str, gain_db: float, more: str = "") -> str:
    """Return which layer to keep in float, and what that gains; `more`: what is kept with it."""
    if not gain_db >= MIN_GAIN_DB:
        return f"No layer gains {MIN_GAIN_DB:g} dB in float: none costs much more than others"
    return f"Keep {name} in float{more}: {gain_db:+.1f} dB"
