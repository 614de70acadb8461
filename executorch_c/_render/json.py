"""JSON, including numbers that JSON does not support."""

from __future__ import annotations

import json
import math


def plain(value: object) -> object:
    """Return a value with infinities as "inf" and "-inf", NaN as None, and complex numbers as
    text."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return str(value) if isinstance(value, complex) else value


def dumps(value: object) -> str:
    """Return indented JSON."""
    return json.dumps(plain(value), indent=2)
