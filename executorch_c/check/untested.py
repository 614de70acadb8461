"""Sentences about the weights and inputs of a model that change no output in any case of a check,
and its power."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set, Sized
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c.check.power import MAX_PRINTED_PARTS, Power, percent, ranges
from executorch_c.compare.limits import TESTED_ERROR

if TYPE_CHECKING:
    from executorch_c.check.gradients import Slices
    from executorch_c.check.trials import Trials

MIN_TOLD_SHARE = 0.01
"""Minimum share of the weights that is worth a sentence."""
PARTS = ("scale", "zero_point")
"""Constants beside the codes of a quantised weight."""
MAX_WEIGHTS = 1 << 29
"""Maximum number of weights of a model whose power is measured: wrong ones take memory."""
REFUSALS = (RuntimeError, NotImplementedError, TypeError, ValueError)
"""Exceptions of a reference that cannot be measured."""


def measured(
    cases: Sized, tensors: Collection[Any], unvaried: tuple[str, ...], measure: Callable[[], Power]
) -> Power:
    """Return the power that a measurement finds, or the reason why nothing is measured."""
    if (reason := _refusal(cases, tensors)) is not None:
        return Power(untested=unvaried, reason=reason)
    try:
        return measure()
    except REFUSALS as error:
        first = next(iter(str(error).strip().splitlines()), "")
        return Power(untested=unvaried, reason=f"{type(error).__name__}: {first}")


def _refusal(cases: Sized, tensors: Collection[Any]) -> str | None:
    """Return the reason why nothing is measured: empty without weights; None if it is."""
    if not tensors:
        return ""
    if not len(cases):
        return "no case matches"
    return (
        f"over {MAX_WEIGHTS:,} weights"
        if sum(one.numel() for one in tensors) > MAX_WEIGHTS
        else None
    )


def of_inputs(floats: Mapping[int, Slices], trials: Trials, names: Sequence[str]) -> Iterator[str]:
    """Yield "mask changes no output" for inputs of floats, measured, and of integers, tried."""
    idle = [i for i, one in floats.items() if one.is_untested]
    for i in sorted([*idle, *trials.idle_inputs(trials.tensors(is_float=False))]):
        yield f"{input_name(names, i)} changes no output"


def input_name(names: Sequence[str], i: int) -> str:
    """Return the name of an input."""
    return names[i] if i < len(names) else f"input {i}"


def power_of(
    weights: Mapping[str, Slices],
    inputs: Mapping[int, Slices],
    names: Sequence[str],
    lines: Sequence[str],
    is_least: bool = False,
) -> Power:
    """Return the power of measured weights and inputs.

    Args:
        names: Names of the inputs.
        lines: Sentences about what was not tested.
        is_least: Whether the check finds more than the outputs show.
    """
    size = sum(int(one.sizes.sum()) for one in weights.values())
    right = sum(int(one.sizes[one.is_found].sum()) for one in weights.values())
    return Power(
        share=right / size if size else None,
        weights=tuple(one.row(name) for name, one in weights.items()),
        inputs=tuple(one.row(input_name(names, i)) for i, one in inputs.items()),
        untested=(*lines, *within_limits(weights)),
        is_least=is_least,
    )


def sentences(weights: Mapping[str, Slices], model: Any, embeddings: Set[str]) -> Iterator[str]:
    """Yield "experts.3.* never routed", "rows 20..49 of emb never read", "channels 3, 5 of conv
    change no output".

    Args:
        weights: Weights by name, measured.
        model: The module that has them.
        embeddings: Names of the weights that embeddings look up.
    """
    yield from _modules(weights, model)
    yield from dict.fromkeys(_rows(weights, embeddings))
    yield from _columns(weights)
    unmeasured = [
        name if not one.is_measured else f"a part of {name}"
        for name, one in weights.items()
        if not one.is_known
    ]
    if unmeasured:
        yield f"{_several(unmeasured)}: not measured, for lack of time and of gradients"


def within_limits(weights: Mapping[str, Slices]) -> Iterator[str]:
    """Yield a sentence about the weights whose errors of 1 % stay within the limits."""
    names, size, total = [], 0, 0
    for name, one in weights.items():
        small = one.is_touched & ~one.is_found & ~one.is_open & (one.sizes > 0)
        total += int(one.sizes.sum())
        if one.is_measured and small.any():
            names.append(name)
            size += int(one.sizes[small].sum())
    if size >= MIN_TOLD_SHARE * total and names:
        share = percent(size / total)
        yield (
            f"errors of {percent(TESTED_ERROR)} in {share} of the weights stay within the limits: "
            f"{_several(names)}"
        )


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


def _rows(weights: Mapping[str, Slices], embeddings: Set[str]) -> Iterator[str]:
    """Yield a sentence for the slices of each weight that change no output, if others do."""
    for name, one in weights.items():
        untested = np.flatnonzero(one.untested).tolist()
        if not untested or one.is_untested or not one.is_measured:
            continue
        title = _titled(name, untested, weights)
        if not embeddings.isdisjoint((name, f"{title}.weight")):
            yield f"{_things('row', untested)} of {title.removesuffix('.weight')} never read"
            continue
        thing = "row" if title == name and len(one.shape) == 2 else "channel"
        yield f"{_things(thing, untested)} of {title} {_change(untested)} no output"


def _columns(weights: Mapping[str, Slices]) -> Iterator[str]:
    """Yield a sentence for the slices of the second axis of each weight that change no output, but
    those that multiply the results of channels that have a sentence."""
    known = {one.untested.tobytes() for one in weights.values()}
    for name, one in weights.items():
        untested = one.untested_columns
        if untested.any() and one.is_measured and untested.tobytes() not in known:
            thing = "column" if len(one.shape) == 2 else "input channel"
            indices = np.flatnonzero(untested).tolist()
            yield f"{_things(thing, indices)} of {name} {_change(indices)} no output"


def _things(noun: str, indices: list[int]) -> str:
    """Return "channel 3", "channels 3, 5-7"."""
    return f"{noun}{'' if len(indices) == 1 else 's'} {ranges(indices)}"


def _change(indices: list[int]) -> str:
    return "changes" if len(indices) == 1 else "change"


def _titled(name: str, untested: list[int], weights: Mapping[str, Slices]) -> str:
    """Return the module of a weight, and of what shares its untested slices; other names as they
    are."""
    path, _, last = name.rpartition(".")
    path = path.removesuffix(".weight") if last in PARTS else path
    main = weights.get(f"{path}.weight")
    if not path or last not in ("weight", "bias", "running_mean", "running_var", *PARTS):
        return name
    if last == "weight" or main is None:
        return path
    return path if untested == np.flatnonzero(main.untested).tolist() else name


def zeros(weights: Mapping[str, Slices], near: Collection[str]) -> list[str]:
    """Return the names of a few weights that are zeros, but biases, those in the modules of `near`
    first."""
    around = [set(_prefixes(name)) for name in near]

    def distance(name: str) -> int:
        own = set(_prefixes(name))
        return -max((len(own & other) for other in around), default=0)

    names = [
        name
        for name, one in weights.items()
        if len(one.sizes) and not one.sizes.any() and not name.endswith("bias")
    ]
    return sorted(names, key=distance)[:MAX_PRINTED_PARTS]
