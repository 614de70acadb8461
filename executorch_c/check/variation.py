"""What changed between the cases of a check: an input that keeps one value, or an output that no
input changes, shows no error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from executorch_c._arrays import Array, as_array
from executorch_c.check.flows import Call
from executorch_c.compare import tolerance, verdicts
from executorch_c.compare.comparison import Comparison, OutputComparison
from executorch_c.compare.tolerance import Tolerance


def input_names(model: Any, call: Call) -> list[str]:
    """Return a name for each input of the program: "mask", "cache.0" of nested arguments."""
    import inspect

    from torch.utils import _pytree

    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(model.forward).parameters.values()
        known = [one.name for one in parameters if one.kind in positional]
    except (TypeError, ValueError):
        known = []
    names = []
    for (kind, first, *rest), _ in _pytree.tree_flatten_with_path(call)[0]:
        place = _key(first)
        if _key(kind) == 0:
            place = known[place] if place < len(known) else f"input {place}"
        names.append(".".join([str(place), *(str(_key(one)) for one in rest)]))
    return names


def _key(entry: Any) -> Any:
    """Return the index, the key or the attribute of an entry of a pytree's path."""
    return next(
        value
        for name in ("idx", "key", "name")
        if (value := getattr(entry, name, None)) is not None
    )


class _Output:
    """One output in all calls: the first one decides, and whether a later one differs from it."""

    def __init__(self, title: str, values: Array, limits: Tolerance) -> None:
        self.title, self.first, self.limits = title, values, limits
        self.varies = False

    def see(self, values: Array) -> None:
        if not self.varies:
            self.varies = not verdicts.is_unchanged(self.first, values, self.limits)


class _Input:
    """One input in all calls."""

    def __init__(self, values: Array) -> None:
        self.first, self.count = values, 0
        self.varies = False

    def see(self, values: Array) -> None:
        self.count += 1
        if not self.varies:
            self.varies = not _has_the_same_values(self.first, values)


def _has_the_same_values(first: Array, other: Array) -> bool:
    """Return True if arrays are equal, or all their elements are one number, in any shapes."""
    if first.shape == other.shape:
        return bool(np.array_equal(first, other, equal_nan=first.dtype.kind in "fc"))
    if not first.size or not other.size:
        return False
    value = first.reshape(-1)[0]
    return bool((first == value).all() and (other == value).all())


class Variation:
    """The inputs and the reference's outputs of all calls of a check."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        """Names of the inputs."""
        self._inputs: dict[int, _Input] = {}
        self._outputs: dict[int, _Output] = {}
        self.calls = 0

    def see(
        self,
        inputs: Sequence[Any],
        expected: Sequence[Any],
        comparison: Comparison,
        exact: bool = False,
    ) -> None:
        """Add one call; the outputs of a quantised graph are compared `exact` to a rounding."""
        self.calls += 1
        for i, value in enumerate(inputs):
            if isinstance(value, np.ndarray):
                self._inputs.setdefault(i, _Input(value)).see(value)
        for output in comparison:
            if (limits := _limits(output)) is None:
                continue
            values = as_array(expected[output.index])
            if exact:
                limits = tolerance.rounding(values, values)
            first = self._outputs.setdefault(output.index, _Output(output.title, values, limits))
            first.see(values)

    @property
    def _is_told(self) -> bool:
        """True if an input differs between calls."""
        return any(one.varies for one in self._inputs.values())

    def blind(self) -> str:
        """Return the reason why no output can show an error of an input, or an empty text."""
        outputs = self._outputs.values()
        if not outputs or not self._is_told or any(one.varies for one in outputs):
            return ""
        return (
            f"the outputs have the same values, up to rounding, in all {self.calls} calls, "
            "although their inputs differ: add `real_inputs` that change them"
        )

    def notes(self) -> Iterator[str]:
        """Yield a note for each output that no input changes, if others change."""
        if not self._is_told or self.blind():
            return
        for one in self._outputs.values():
            if not one.varies:
                yield (
                    f"{one.title} has the same values, up to rounding, in all calls, although "
                    "their inputs differ"
                )

    def unvaried(self) -> Iterator[str]:
        """Yield "mask had the same values in every case" for inputs of several calls."""
        for i, one in self._inputs.items():
            if not one.varies and one.count > 1 and one.first.size:
                name = self.names[i] if i < len(self.names) else f"input {i}"
                yield f"{name} had the same values in every case"


def _limits(output: OutputComparison) -> Tolerance | None:
    """Return the limits that an output was conclusively judged by; None for the caller's, which
    decide without any other rule."""
    limits = output.tolerance
    if output.verdict == "inconclusive" or limits is None or limits.kind == "caller":
        return None
    return limits
