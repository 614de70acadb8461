"""Eager's side of a check: a PyTorch model that starts from the same state in each case."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import as_array
from executorch_c.check.flows import Call, fresh
from executorch_c.compare import tolerance
from executorch_c.compare.arrays import flatten, names_of

if TYPE_CHECKING:
    from executorch_c.check.noise import RandomRounding


class Eager:
    """A PyTorch model and the outputs of its calls, flat, as arrays and Python values. The first
    are the new values of inputs that it changes in place, as in an exported program."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.names: list[str | None] = []
        """Names of the outputs of the last call: keys, if the model returns dicts."""

    def __call__(
        self, calls: Sequence[Call], mode: RandomRounding | None = None
    ) -> list[list[Any]]:
        """Return the outputs of calls in a row; `mode` rounds at random."""
        import torch
        from torch.utils import _pytree

        module = fresh(self.model)
        outputs = []
        with torch.no_grad():
            for call in calls:
                args, kwargs = _pytree.tree_map(_cloned, call)
                if mode is not None:
                    args, kwargs = _pytree.tree_map(mode.rounded, (args, kwargs))
                leaves = _pytree.tree_leaves((args, kwargs))
                given = [(leaf, leaf._version) for leaf in leaves if hasattr(leaf, "_version")]
                with mode or nullcontext():
                    tree = module(*args, **kwargs)
                flat = [v for leaf in _pytree.tree_leaves(tree) for v in flatten(leaf)]
                changed = [leaf for leaf, version in given if leaf._version != version]
                outputs.append([array(value) for value in [*changed, *flat]])
                self.names = [*["a changed input"] * len(changed), *names_of(tree)]
        return outputs

    def noise(self, calls: Sequence[Call], epsilon: float = 0.0) -> list[list[list[Any]]] | None:
        """Return the outputs of runs with random rounding; None if the model cannot run with it."""
        from executorch_c.check.noise import samples

        return samples(lambda mode: self(calls, mode), tolerance.SAMPLES, epsilon)

    def changes_state(self, call: Call) -> bool:
        """Return True if a call changes a buffer."""
        import torch
        from torch.utils import _pytree

        module = fresh(self.model)
        before = {name: buffer.clone() for name, buffer in module.named_buffers()}
        with torch.no_grad():
            args, kwargs = _pytree.tree_map(_cloned, call)
            module(*args, **kwargs)
        after = dict(module.named_buffers())
        return any(
            name not in after or not torch.equal(value, after[name])
            for name, value in before.items()
        )


def _cloned(leaf: Any) -> Any:
    is_tensor = type(leaf).__module__.startswith("torch") and hasattr(leaf, "clone")
    return leaf.detach().clone() if is_tensor else leaf


def array(value: Any) -> Any:
    """Return a tensor as an array that shares nothing with it; anything else as it is."""
    return np.copy(as_array(value), order="K") if hasattr(value, "detach") else value
