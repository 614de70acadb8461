"""Checks of decompositions whose factors are unique only up to signs, phases or order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

CHECKS: dict[str, Callable[[list, list, list], None]] = {}
