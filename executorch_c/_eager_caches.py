"""Caches of kvcache::update_and_attend: in eager ExecuTorch's registry of the process, for programs
that are compared an empty one.

Copies of a model and of its buffers do not include them, and every call appends. A program that is
compared with such a model gets a cache with the same configuration, or a copy of --kv-cache.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from executorch_c import KVCache, Program

EagerCaches: TypeAlias = "dict[str, dict[str, Any]]"
"""Members of the installed caches, by key."""


def _registry() -> Any:
    """Return ExecuTorch's registry; None if its module is not imported."""
    module = sys.modules.get("executorch.extension.llm.cache.update_and_attend")
    return getattr(module, "REGISTRY", None)


def _installed() -> dict[str, Any]:
    caches: dict[str, Any] = getattr(_registry(), "_caches", {})
    return caches


def save_caches() -> EagerCaches:
    """Return copies of all caches of the registry."""
    return {key: copy.deepcopy(vars(cache)) for key, cache in _installed().items()}


def restore_caches(saved: EagerCaches) -> None:
    """Set the caches of the registry to copies of saved ones."""
    for key, cache in _installed().items():
        if key in saved:
            vars(cache).update(copy.deepcopy(saved[key]))


@contextmanager
def kept_caches() -> Iterator[None]:
    """Restore the caches of the registry at the end."""
    saved = save_caches()
    try:
        yield
    finally:
        restore_caches(saved)


@contextmanager
def empty_caches() -> Iterator[None]:
    """Empty those of the registry's caches that have positions; restore them at the end."""
    with kept_caches():
        for cache in _installed().values():
            if any(getattr(cache, "_used", ())):
                cache.reset()
        yield


def like_active_cache() -> KVCache | None:
    """Return an empty cache with the configuration of the registry's active one; None without."""
    registry = _registry()
    config = getattr(_installed().get(getattr(registry, "_active", "")), "config", None)
    if config is None:
        return None
    from executorch_c import KVCache

    return KVCache(
        config.capacity,
        n_layers=config.n_layers,
        n_kv_heads=config.n_kv_heads,
        head_dim=config.head_dim,
        dtype=config.dtype,
        window=[config.policy_for(i).window or None for i in range(config.n_layers)],
    )


def check_active_cache() -> None:
    """Raise the registry's RuntimeError if it has no active cache for eager's calls."""
    registry = _registry()
    if registry is not None:
        registry.current()


def methods_with_cache(program: Program) -> set[str]:
    """Return the methods whose calls need a cache."""
    return {one["name"] for one in program.info()["methods"] if one["uses_kv_cache"]}


_default: list[KVCache] = []
"""The cache of `default_cache`, or nothing."""


@contextmanager
def default_cache(cache: KVCache | None) -> Iterator[None]:
    """Make `cache_for` return copies of a cache; None: no change."""
    _default[:] = [] if cache is None else [cache]
    try:
        yield
    finally:
        _default.clear()


def cache_for(program: Program, method: str | None = None) -> KVCache | None:
    """Return an empty cache for loading a method, or any method, in a comparison: a copy of
    `default_cache`'s; else one like eager's active cache if the method uses one; else None."""
    if _default:
        return _default[0].copy()
    cache = like_active_cache()
    if cache is None:
        return None
    names = methods_with_cache(program)
    return cache if (method in names if method else names) else None
