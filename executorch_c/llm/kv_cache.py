"""KVCache, and the caches of ExecuTorch's eager reference of the same operator.

    runner = TextRunner("model.pte", kv_cache=KVCache(1024))

The attention of such a program is kvcache::update_and_attend, whose cache the runner holds. In
eager it is in a registry of the process, which a copy of the model's buffers does not include.
"""

from __future__ import annotations

import copy
import sys
from typing import Any, TypeAlias

from executorch_c._core import KVCache

__all__ = ["EagerCaches", "KVCache", "restore_caches", "save_caches"]

EagerCaches: TypeAlias = "dict[str, dict[str, Any]]"
"""Members of the installed caches, by key."""


def _installed() -> dict[str, Any]:
    """Return the caches of ExecuTorch's registry; none if its module is not imported."""
    module = sys.modules.get("executorch.extension.llm.cache.update_and_attend")
    registry = getattr(module, "REGISTRY", None)
    caches: dict[str, Any] = getattr(registry, "_caches", {})
    return caches


def save_caches() -> EagerCaches:
    """Return copies of all caches of the registry."""
    return {key: copy.deepcopy(vars(cache)) for key, cache in _installed().items()}


def restore_caches(saved: EagerCaches) -> None:
    """Set the caches of the registry to copies of saved ones."""
    for key, cache in _installed().items():
        if key in saved:
            vars(cache).update(copy.deepcopy(saved[key]))
