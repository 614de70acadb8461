"""Limits of the logits of language models, and the verdict on each position."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from executorch_c._arrays import Array
from executorch_c.compare.limits import (
    LOGIT_ERRORS,
    LOGIT_MIN_SQNR_DB,
    ONE_LAYER_SQNR_DB,
    POSITION_DB,
    ROUNDING_POSITION_DB,
    SELF_SQNR_DB,
)


@dataclass(frozen=True)
class LogitTolerance:
    """The largest error of the logits of a language model that counts as agreement."""

    relative: float
    """Of each token's largest error, relative to the RMS of all logits."""
    sqnr_db: float | None = None
    """Minimum ratio of logits to their error, over all positions, in place of `relative`."""
    position_db: float = POSITION_DB

    def outside(self, relative: Array, sqnr_db: Array, whole_db: float) -> Array:
        """Return a mask of the positions outside the limit, from the error and the SQNR of each
        and the SQNR of all."""
        if self.sqnr_db is None:
            wrong = relative > self.relative
        else:
            room = 0 if whole_db < self.sqnr_db else self.position_db
            wrong = sqnr_db < self.sqnr_db - room
        outside: Array = wrong | ~np.isfinite(relative)
        return outside

    def about(self) -> str:
        """Return the limit in words."""
        if self.sqnr_db is not None:
            each = self.sqnr_db - self.position_db
            return (
                f"error at least {self.sqnr_db:.3g} dB below the logits, {each:.3g} dB at each "
                "position (quantised)"
            )
        return f"largest error at most {self.relative:g} of the logits' RMS"


def between_runs(dtype: str, is_quantized: bool) -> LogitTolerance:
    """Return the limit between two ways to run one program."""
    return LogitTolerance(LOGIT_ERRORS[dtype], SELF_SQNR_DB if is_quantized else None)


def against_model(dtype: str, is_quantized: bool, layers: int | None = None) -> LogitTolerance:
    """Return the limit against a model; of a quantised program, against the float model, or the
    model after quantisation with a number of layers."""
    relative = LOGIT_ERRORS[dtype]
    if not is_quantized:
        return LogitTolerance(relative)
    if layers is None:
        return LogitTolerance(relative, LOGIT_MIN_SQNR_DB)
    minimum = max(ONE_LAYER_SQNR_DB - 10 * math.log10(max(layers, 1)), LOGIT_MIN_SQNR_DB)
    return LogitTolerance(relative, minimum, ROUNDING_POSITION_DB)
