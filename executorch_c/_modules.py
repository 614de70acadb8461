"""Copies of torch.nn.Module."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any


def fresh(module: Any, replaced: Mapping[int, Any] | None = None) -> Any:
    """Return a copy of a module that shares parameters and has its own buffers; `replaced` are
    other tensors, by the ids of those that they replace."""
    return copy.deepcopy(module, {id(p): p for p in module.parameters()} | dict(replaced or {}))
