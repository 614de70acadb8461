"""Types of numeric arguments."""

from __future__ import annotations

import numpy as np

WHOLE: tuple[type, ...] = int, np.integer
REAL: tuple[type, ...] = *WHOLE, float, np.floating


def check_type(name: str, value: object, types: tuple[type, ...] = WHOLE) -> None:
    """Raise TypeError with the argument's name unless a value has one of the types."""
    if not isinstance(value, types):
        kind = "an int" if types is WHOLE else "a number"
        raise TypeError(f"`{name}` must be {kind}, not {type(value).__name__}")
