"""Search of inputs that reach what the cases of a check do not: larger ranges, saturation, ties,
boundaries, numbers that are not finite, units that are dead, experts that are never chosen, other
sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from executorch_c.check import flows
from executorch_c.check.cases import CallSequence, leaves

if TYPE_CHECKING:
    from executorch_c.check.case_source import CaseSource
    from executorch_c.check.copies import Copies
    from executorch_c.check.flows import Call
    from executorch_c.check.result import CheckedCase
    from executorch_c.check.roles import InputRole
    from executorch_c.check.run import Check
    from executorch_c.check.watch import Reach

SEARCH_SECONDS = 30.0
"""Time limit of search=True."""
MAX_KEPT = 8
"""Maximum number of matching cases that are in the result."""
SCALES = (1.0, 4.0, 16.0, 64.0, 0.25, 256.0, 1024.0, 4096.0, 0.0)
"""Factors of floats."""
SHAPES = ("normal", "positive", "negative", "ties", "spikes", "half", "equal", "channels", "halves")
"""Distributions of floats."""
FACTORS = (1.0, 1.0, 0.5, 2.0, 0.25, -1.0)
"""Factors of the numbers at which a graph's results change, for what is computed from inputs."""
MAX_INTEGER = 2**53
"""Largest integer."""
RARE_PERIOD = 8
"""One of this many elements is not finite, or at the bound of its range."""
OLD_PERIOD = 4
"""One of this many inputs that reach nothing new is compared, too."""


def seconds_of(search: bool | float) -> float:
    """Return the time limit of an argument `search`; 0 for none. Raises ValueError for a negative
    one."""
    if isinstance(search, bool):
        return SEARCH_SECONDS if search else 0.0
    if not search >= 0:
        raise ValueError(f"`search` is {search}, expected True or a number of seconds")
    return float(search)


class InputSearch:
    """A search by coverage: inputs that reach something new are varied further."""

    def __init__(self, check: Check, source: CaseSource, seconds: float) -> None:
        import torch

        self.check, self.source = check, source
        self.end = time.monotonic() + seconds
        self.generator = torch.Generator().manual_seed(source.seed)
        self.calls: list[Call] = [source.example]
        self.tried = self.news = 0
        self._finite: Any = None
        self._module: Any = None
        self._copies: Copies | None = None
        self.reached: Reach | None = None
        self.boundaries: list[float] = []
        self.shapes: tuple[str, ...] = SHAPES
        with suppress(Exception):  # without a graph, inputs are drawn without a guide
            self._watch(source)

    def _watch(self, source: CaseSource) -> None:
        from executorch_c.check.copies import Copies
        from executorch_c.check.watch import Reach, boundaries, treats_non_finite

        exported = source.exported
        if exported is None:
            exported = flows.export(source.eager.model, source.example, None)
        self._module, self.reached = exported.module(), Reach()
        self._copies = Copies(self._module)
        self.boundaries = boundaries(self._module)
        self.shapes += ("boundaries",) if self.boundaries else ()
        self.shapes += ("not finite",) if treats_non_finite(self._module) else ()

    def _number(self, count: int) -> int:
        import torch

        return int(torch.randint(count, (1,), generator=self.generator))

    # ---- candidates -----------------------------------------------------------------------

    def _candidates(self) -> Iterator[tuple[str, Call]]:
        """Yield names and calls: all scales, all distributions, then at random or by gradients."""
        for number, scale in enumerate(SCALES):
            yield f"x{scale:g}", self._varied(number, "normal", scale)
        for number, shape in enumerate(self.shapes[1:]):
            yield shape, self._varied(number, shape, 4.0)
        while True:
            number = self.tried
            if number % 2 and self.reached is not None and (targets := self.reached.targets()):
                target = targets[self._number(len(targets))]
                yield f"toward {target.node.name}", self._toward(target)
                continue
            shape = self.shapes[self._number(len(self.shapes))]
            scale = SCALES[self._number(len(SCALES))]
            yield f"{shape} x{scale:g}", self._varied(number, shape, scale)

    def _varied(self, number: int, shape: str, scale: float) -> Call:
        """Return a random call with floats of a distribution, of random sizes if they may vary."""
        import torch
        from torch.utils import _pytree

        sizes = self.source.symbols.sample(self._number) if number % 3 == 2 else None
        call = self.source.draw(100_000 + number, sizes)
        flat, spec = _pytree.tree_flatten(call)
        tensors = [i for i, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)]
        if number % 2 and len(tensors) > 1:  # one of several inputs
            tensors = [tensors[self._number(len(tensors))]]
        for i in tensors:
            floats = flat[i].is_floating_point()
            change = self._distributed if floats else self._of_integers
            if flat[i].numel():
                flat[i] = change(flat[i], shape, scale, self.source.roles.inputs[i])
        whole: Call = _pytree.tree_unflatten(flat, spec)
        return whole

    def _in_range(self, call: Call) -> Iterator[Call]:
        """Yield a call with more and more of the integers of unknown range in the example's range,
        in random order: they may be indices."""
        import torch
        from torch.utils import _pytree

        from executorch_c.check.roles import is_integer

        flat, spec = _pytree.tree_flatten(call)
        shapes = [leaf.shape if isinstance(leaf, torch.Tensor) else None for leaf in flat]
        unknown = [
            i
            for i, role in enumerate(self.source.roles.inputs)
            if role is not None and role.high is None and is_integer(flat[i])
        ]
        drawn = leaves(self.source.call_of(self.tried, shapes)) if unknown else []
        while unknown:
            i = unknown.pop(self._number(len(unknown)))
            flat[i] = drawn[i]
            inputs: Call = _pytree.tree_unflatten(flat, spec)
            yield inputs

    def _distributed(self, leaf: Any, shape: str, scale: float, role: InputRole | None) -> Any:
        """Return floats of another distribution; masks stay."""
        import torch

        if role is not None and role.is_mask:
            return leaf
        x = leaf.double() * scale
        if shape in ("positive", "negative"):
            x = x.abs() if shape == "positive" else -x.abs()
        elif shape in ("ties", "halves"):
            x = x.round() if shape == "ties" else (2 * x).round() / 2
        elif shape == "spikes":
            keep = torch.rand(leaf.shape, generator=self.generator) < 4 / leaf.numel()
            x = torch.where(keep, x, torch.zeros_like(x))
        elif shape == "half":
            x = x * (torch.rand(leaf.shape, generator=self.generator) < 0.5)
        elif shape == "equal":
            x = torch.full_like(x, float(x.flatten()[0]))
        elif shape == "channels" and leaf.ndim:
            size = leaf.shape[-1]
            x = x * torch.exp(2 * torch.randn(size, generator=self.generator).double())
        elif shape == "boundaries":
            x = self._at_boundaries(x)
        limit = torch.finfo(leaf.dtype).max / 4
        x = x.clamp(-limit, limit)
        return (self._not_finite(x) if shape == "not finite" else x).to(leaf.dtype)

    def _at_boundaries(self, x: Any) -> Any:
        """Return whole numbers, and numbers at which the graph's results change, times a factor."""
        import torch

        at = torch.randint(len(self.boundaries), x.shape, generator=self.generator)
        chosen = torch.tensor(self.boundaries, dtype=torch.float64)[at]
        chosen *= FACTORS[self._number(len(FACTORS))]
        return torch.where(self._some(x, 2), chosen, x.double().round()).to(x.dtype)

    def _some(self, x: Any, of: int) -> Any:
        """Return a random mask that is true for one of `of` elements in the mean."""
        import torch

        return torch.randint(of, x.shape, generator=self.generator) == 0

    def _not_finite(self, x: Any) -> Any:
        """Return numbers of which a few are NaN, infinite, or either."""
        import torch

        kinds = torch.tensor([float("nan"), float("inf"), -float("inf")], dtype=x.dtype)
        kind = self._number(len(kinds) + 1)
        kinds = kinds[kind : kind + 1] if kind < len(kinds) else kinds
        at = torch.randint(len(kinds), x.shape, generator=self.generator)
        return torch.where(self._some(x, RARE_PERIOD), kinds[at], x)

    def _of_integers(self, leaf: Any, shape: str, scale: float, role: InputRole | None) -> Any:
        """Return integers of another distribution, within the range of indices; masks, positions
        and unique indices stay."""
        import torch

        if role is None or role.is_unique or role.is_mask or role.length is not None:
            return leaf
        if role.is_scalar or leaf.dtype == torch.bool or leaf.is_complex():
            return leaf
        limits, is_index = torch.iinfo(leaf.dtype), role.high is not None
        low = max(-MAX_INTEGER if role.low is None else role.low, limits.min)
        high = min(MAX_INTEGER if role.high is None else role.high, limits.max)
        if shape == "boundaries":
            x = self._at_boundaries(leaf.double())
        elif shape == "equal":
            x = torch.full_like(leaf, int(leaf.flatten()[0]))
        elif shape == "ties":
            at = torch.randint(min(3, leaf.numel()), leaf.shape, generator=self.generator)
            x = leaf.flatten()[at]
        elif is_index:
            ends = torch.randint(2, leaf.shape, generator=self.generator) * (high - low) + low
            x = (
                torch.where(self._some(leaf, RARE_PERIOD), ends, leaf)
                if shape == "spikes"
                else leaf
            )
        else:
            x = self._distributed(leaf.double(), shape, scale, None)
        return x.round().clamp(low, high).to(leaf.dtype)

    def _toward(self, target: Any) -> Call:
        from torch.utils import _pytree

        from executorch_c.check.watch import toward

        start = self.calls[self._number(len(self.calls))]
        if self._number(2):
            start = self._varied(self.tried * 3, "normal", 1.0)
        flat, spec = _pytree.tree_flatten(start)
        flat = toward(self._module, flat, target, self.generator)
        moved: Call = _pytree.tree_unflatten(flat, spec)
        return moved

    # ---- cases ----------------------------------------------------------------------------

    def _is_new(self, call: Call) -> bool | None:
        """Return True if a call reaches something new; None if it is of no use: eager raises, or
        its outputs are not finite although the example's are. What such a call reaches is untested.
        """
        if self.source.refused(call) is not None:
            return None
        reached, before = self.reached, None if self.reached is None else self.reached.copy()
        with suppress(Exception):
            if reached is None:
                self.source.eager([call])
                return True
            if _is_finite(self._outputs(call)) or not _is_finite(self._of_example()):
                return reached.fresh > 0
        self.reached = before
        return None

    def _outputs(self, call: Call) -> Any:
        """Return the exported graph's outputs of a call, and mark what it reaches."""
        import torch

        from executorch_c.check.watch import Watch

        assert self._copies is not None and self.reached is not None
        self.reached.fresh = 0
        with torch.no_grad():
            return Watch(self._copies.fresh(), self.reached).run(*leaves(call))

    def _useful(self, call: Call) -> tuple[Call, bool | None]:
        """Return a call, or else one with integers of a smaller range, that is of use, and True if
        it reaches something new; None if none is of use."""
        for one in chain([call], self._in_range(call)):
            if (new := self._is_new(one)) is not None:
                return one, new
        return call, None

    def _of_example(self) -> Any:
        import torch

        if self._finite is None and self._copies is not None:
            with torch.no_grad():
                args, kwargs = self.source.example
                self._finite = self._copies.fresh()(*args, **kwargs)
        return self._finite

    def cases(self, say: Callable[[str], None]) -> Iterator[CheckedCase]:
        """Yield cases until the time is over or one does not match: the first few that reach
        something new, and one that differs. All that are compared count for the power of the check.
        """
        kept = 0
        for name, candidate in self._candidates():
            if time.monotonic() > self.end:
                return
            self.tried += 1
            say(f"search {self.tried}: {name}")
            call, new = self._useful(candidate)
            if new is None or not (new or self.tried % OLD_PERIOD == 0):
                continue
            case = self.check.run(CallSequence("search", name, (call,)))
            if not case.ok:
                yield case
                return
            if new and case.skipped is None:
                self.news += 1
                self.calls = [*self.calls[-31:], call]
                if kept < MAX_KEPT:
                    kept += 1
                    yield case

    def note(self) -> str:
        """Return a sentence about what was tried."""
        guide = "" if self._module is not None else "; without a guide: the model has no export"
        return f"search: {self.tried} calls tried, {self.news} reached something new{guide}"


def _is_finite(outputs: Any) -> bool:
    import torch
    from torch.utils import _pytree

    return all(
        bool(leaf.isfinite().all())
        for leaf in _pytree.tree_leaves(outputs)
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    )
