"""Sentences about the weights of a model that change no output in any case of a check."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c.check.power import SHOWN, percent, ranges
from executorch_c.compare.tolerance import ERROR

if TYPE_CHECKING:
    from executorch_c.check.gradients import Slices

LEAST_SHARE = 0.01
"""Minimum share of the weights that is worth a sentence."""


def sentences(
    weights: Mapping[str, Slices], model: Any, embeddings: Collection[str]
) -> Iterator[str]:
    """Yield "experts.3.* never routed", "rows 20..49 of emb never read", "channels 3, 5 of conv
    change no output".

    Args:
        weights: Weights by name, measured.
        model: The module that has them.
        embeddings: Names of the weights that embeddings look up.
    """
    yield from _modules(weights, model)
    yield from dict.fromkeys(_rows(weights, embeddings))
    unmeasured = [name for name, one in weights.items() if not one.is_measured]
    if unmeasured:
        yield f"{_several(unmeasured)}: not measured, without a gradient"


def within_limits(weights: Mapping[str, Slices]) -> Iterator[str]:
    """Yield a sentence about the weights whose errors of 1 % stay within the limits."""
    names, size, total = [], 0, 0
    for name, one in weights.items():
        small = one.is_touched & ~one.is_found & (one.sizes > 0)
        total += int(one.sizes.sum())
        if one.is_measured and small.any():
            names.append(name)
            size += int(one.sizes[small].sum())
    if size >= LEAST_SHARE * total and names:
        share = percent(size / total)
        yield (f"errors of {percent(ERROR)} in {share} of the weights stay within the limits: "
               f"{_several(names)}")  # fmt: skip


def _several(names: list[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}"


def _modules(weights: Mapping[str, Slices], model: Any) -> Iterator[str]:
    """Yield a sentence for each largest module, or weight of one, that changes no output."""
    counted = {name: one for name, one in weights.items() if one.sizes.any()}
    idle = {name for name, one in counted.items() if one.is_measured and one.is_untested}
    busy = {prefix for name in set(counted) - idle for prefix in _prefixes(name)}
    places = dict[str, list[str]]()
    for name in counted:
        if name in idle:
            place = next((one for one in _prefixes(name) if one not in busy), name)
            places.setdefault(place, []).append(name)
    if not busy and idle:
        yield "no weight changes an output"
        return
    for place, names in places.items():
        title = f"{place}.*" if len(names) > 1 else names[0]
        yield f"{title} {'never routed' if _is_choice(place, busy, model) else 'changes no output'}"


def _prefixes(name: str) -> Iterator[str]:
    """Yield the modules around a weight, the outermost first."""
    parts = name.split(".")
    for end in range(1, len(parts)):
        yield ".".join(parts[:end])


def _is_choice(place: str, busy: Collection[str], model: Any) -> bool:
    """Return True if a module is one of a list, of whose like others change outputs."""
    from torch import nn

    path, _, last = place.rpartition(".")
    try:
        parent, own = model.get_submodule(path), model.get_submodule(place)
    except AttributeError:
        return False
    if not isinstance(parent, (nn.ModuleList, nn.ModuleDict)):
        return False
    others = (name for name, one in parent.named_children() if type(one) is type(own))
    return any(f"{path}.{name}" in busy for name in others if name != last)


def _rows(weights: Mapping[str, Slices], embeddings: Collection[str]) -> Iterator[str]:
    """Yield a sentence for the slices of each weight that change no output, if others do."""
    for name, one in weights.items():
        untested = np.flatnonzero(one.untested).tolist()
        if not untested or one.is_untested or not one.is_measured:
            continue
        if name in embeddings:
            yield f"rows {ranges(untested)} of {name.removesuffix('.weight')} never read"
            continue
        path, _, last = name.rpartition(".")
        title = path if path and last in ("weight", "bias", "running_mean", "running_var") else name
        thing = "rows" if title == name and len(one.shape) == 2 else "channels"
        yield f"{thing} {ranges(untested)} of {title} change no output"


def zeros(weights: Mapping[str, Slices], near: Collection[str]) -> list[str]:
    """Return the names of a few weights that are zeros, but biases, those in the modules of `near`
    first."""
    around = [set(_prefixes(name)) for name in near]

    def distance(name: str) -> int:
        own = set(_prefixes(name))
        return -max((len(own & other) for other in around), default=0)

    found = [
        name
        for name, one in weights.items()
        if len(one.sizes) and not one.sizes.any() and not name.endswith("bias")
    ]
    return sorted(found, key=distance)[:SHOWN]
