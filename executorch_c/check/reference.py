"""Eager's side of a check: a PyTorch model that starts from the same state in each case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import as_array
from executorch_c.check.flows import Call
from executorch_c.compare.arrays import flatten, names_of
from executorch_c.compare.limits import NOISE_RUNS

if TYPE_CHECKING:
    from executorch_c.noise.rounding import RandomRounding


MAX_SEPARATE_BUFFERS = 16
"""Maximum number of buffers that are examined one by one, by a run each; more are examined
together."""


@dataclass(frozen=True)
class _KnownCall:
    """A call that ran alone, from the model's own state."""

    call: Call
    outputs: list[Any]
    names: list[str | None]
    changed: tuple[str, ...]
    """Names of the buffers that it changes."""


class Eager:
    """A PyTorch model and the outputs of its calls, flat, as arrays and Python values. The first
    are the new values of inputs that it changes in place, as in an exported program."""

    def __init__(self, model: Any) -> None:
        from executorch_c.check.copies import Copies

        self.model = model
        self.copies = Copies(model)
        self.names: list[str | None] = []
        """Names of the outputs of the last call: keys, if the model returns dicts."""
        self.watched: tuple[str, ...] = ()
        """Buffers whose values after each call are outputs, too: the last ones."""
        self.completed: list[list[Any]] = []
        """Outputs of those of the last calls that did not raise."""
        self._known: _KnownCall | None = None

    def __call__(
        self,
        calls: Sequence[Call],
        mode: RandomRounding | None = None,
        replaced: Mapping[int, Any] | None = None,
    ) -> list[list[Any]]:
        """Return the outputs of calls in a row; `mode` rounds at random, `replaced` are other
        weights, by the ids of those that they replace."""
        return self._outputs(self.copies.fresh(replaced), calls, mode)

    def _outputs(
        self, module: Any, calls: Sequence[Call], mode: RandomRounding | None = None
    ) -> list[list[Any]]:
        """Return the outputs of calls in a row of a copy of the model."""
        import torch
        from torch.utils import _pytree

        outputs = self.completed = []
        with torch.no_grad():
            for call in calls:
                args, kwargs = _pytree.tree_map(_cloned, call)
                if mode is not None:
                    args, kwargs = _pytree.tree_map(mode.rounded, (args, kwargs))
                with mode or nullcontext():
                    values = self.run(module, (args, kwargs))
                outputs.append([array(value) for value in values])
        return outputs

    def run(self, module: Any, call: Call) -> list[Any]:
        """Return the outputs of one call of a copy of the model, as tensors and Python values."""
        from torch.utils import _pytree

        args, kwargs = call
        leaves = _pytree.tree_leaves(call)
        before = [(leaf, leaf._version) for leaf in leaves if hasattr(leaf, "_version")]
        tree = module(*args, **kwargs)
        flat = [v for leaf in _pytree.tree_leaves(tree) for v in flatten(leaf)]
        changed = [leaf for leaf, version in before if leaf._version != version]
        state = [module.get_buffer(name) for name in self.watched]
        self.names = [
            *["a changed input"] * len(changed),
            *names_of(tree),
            *(f"buffer {name}" for name in self.watched),
        ]
        return [*changed, *flat, *state]

    def noise(
        self,
        calls: Sequence[Call],
        epsilon: float = 0.0,
        seeds: Iterable[int] = range(NOISE_RUNS),
    ) -> list[list[list[Any]]] | None:
        """Return the outputs of runs with random rounding; None if the model cannot run with it."""
        from executorch_c.noise.rounding import samples

        return samples(lambda mode: self(calls, mode), seeds, epsilon)

    def first(self, call: Call) -> list[Any]:
        """Return the outputs of a call, which runs now, and is `known` from then on."""
        module = self.copies.fresh()
        before = _buffers(module)
        [outputs] = self._outputs(module, [call])
        self._known = _KnownCall(call, outputs, self.names, tuple(_changed(before, module)))
        return outputs

    def known(self, calls: Sequence[Call]) -> list[list[Any]]:
        """Return the outputs of calls in a row; of a call that was the `first` one, those."""
        known = self._known
        if known is None or self.watched or len(calls) != 1 or calls[0] is not known.call:
            return self(calls)
        self.names, self.completed = known.names, [known.outputs]
        return self.completed

    def changed_buffers(self, call: Call) -> list[str]:
        """Return the names of the buffers that a call changes."""
        if self._known is None or self._known.call is not call:
            self.first(call)
        assert self._known is not None
        return [*self._known.changed]

    def holds_itself(self) -> bool:
        """Return True if a function of the model refers to a module of it by a closure or a global
        name: a copy of the model calls the original's then, and other weights change nothing."""
        own = {id(one) for one in self.model.modules()}
        return any(
            id(value) in own
            for module in self.model.modules()
            for function in [type(module).forward, *vars(module).values()]
            if isinstance(function, FunctionType)
            for value in _held(function)
        )

    def unread(self, calls: Sequence[Call], names: Sequence[str]) -> list[str]:
        """Return those of the buffers `names`, which calls change, whose changed elements no output
        of a later call depends on: eager with other numbers in them has the same outputs."""
        import torch

        groups = [[name] for name in names] if len(names) <= MAX_SEPARATE_BUFFERS else [list(names)]
        right, unread_names = list(self._disturbed(calls, ())), []
        for group in groups:
            try:  # stops at the first call that reads
                pairs = zip(right, self._disturbed(calls, group))
                is_read = any(not torch.equal(x, y) for a, b in pairs for x, y in zip(a, b))
            except Exception:  # an index out of range, for example: the number is read
                continue
            if not is_read:
                unread_names += group
        return unread_names

    def _disturbed(self, calls: Sequence[Call], names: Sequence[str]) -> Iterator[list[Any]]:
        """Yield the tensors of the outputs of calls in a row; each changes the elements of some
        buffers that the one before it has changed."""
        import torch
        from torch.utils import _pytree

        module = self.copies.fresh()
        for call in calls:
            results = list[Any]()
            changed = _changes(module, call, results)
            leaves = _pytree.tree_leaves(results)
            yield [torch.nan_to_num(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]
            with torch.no_grad():
                for name in set(names) & set(changed):
                    buffer = module.get_buffer(name)
                    buffer.copy_(torch.where(changed[name], _other(buffer), buffer))


def _changes(module: Any, call: Call, results: list[Any]) -> dict[str, Any]:
    """Call a module, and return which elements of its buffers have changed, by name. Its outputs,
    and inputs that it may have changed, go to `results`."""
    import torch
    from torch.utils import _pytree

    before = _buffers(module)
    with torch.no_grad():
        args, kwargs = _pytree.tree_map(_cloned, call)
        tree = module(*args, **kwargs)
    results.append(_pytree.tree_map(_cloned, (tree, args, kwargs)))
    return _changed(before, module)


def _buffers(module: Any) -> dict[str, Any]:
    """Return copies of the buffers of a module, by name."""
    return {name: buffer.clone() for name, buffer in module.named_buffers()}


def _changed(before: Mapping[str, Any], module: Any) -> dict[str, Any]:
    """Return which elements of the buffers of a module differ from those before, by name; of a
    buffer that it has replaced by another shape, or removed, all."""
    import torch

    after, buffers = dict(module.named_buffers()), {}
    for name, value in before.items():
        new = after.get(name)
        if new is None or new.shape != value.shape or not torch.equal(value, new):
            same = new is not None and new.shape == value.shape
            buffers[name] = value != new if same else torch.tensor(True)
    return buffers


def _held(function: FunctionType) -> Iterator[Any]:
    """Yield what a function refers to by its closure and by global names."""
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # an empty one
            yield cell.cell_contents
    yield from (function.__globals__.get(name) for name in function.__code__.co_names)


def _other(buffer: Any) -> Any:
    """Return other numbers of a buffer's dtype, of like size."""
    if buffer.dtype.is_floating_point or buffer.dtype.is_complex:
        return buffer * 1.5 + 0.5
    return ~buffer if str(buffer.dtype) == "torch.bool" else buffer + 1


def _cloned(leaf: Any) -> Any:
    is_tensor = type(leaf).__module__.startswith("torch") and hasattr(leaf, "clone")
    return leaf.detach().clone() if is_tensor else leaf


def array(value: Any) -> Any:
    """Return a tensor as an array that shares nothing with it; anything else unchanged."""
    return np.copy(as_array(value), order="K") if hasattr(value, "detach") else value
