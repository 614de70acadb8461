"""Changes of outputs by errors of weights and inputs, by reverse mode: random signs in units of the
limits of the outputs are a sample for each slice in each pass."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from executorch_c._arrays import Array
from executorch_c.check.cases import CallSequence
from executorch_c.check.constants import counted, like
from executorch_c.check.power import TestedWeight
from executorch_c.check.reference import Eager
from executorch_c.compare.limits import CERTAIN_CHANGE, TESTED_ERROR
from executorch_c.compare.tolerance import Tolerance

_NORM = ("input", "weight", "bias", "running_mean", "running_var")
BATCH_NORMS = {
    torch.nn.functional.batch_norm: (
        "input",
        "running_mean",
        "running_var",
        "weight",
        "bias",
        "training",
        "momentum",
        "eps",
    ),
    torch.batch_norm: (*_NORM, "training", "momentum", "eps"),
    torch.ops.aten.batch_norm.default: (*_NORM, "training", "momentum", "eps"),
    torch.ops.aten._native_batch_norm_legit_no_training.default: (*_NORM, "momentum", "eps"),
}
"""Arguments of the operators whose running mean and variance have no gradient."""
SIGN_SPREAD = 0.5
"""Range of the sizes of random signs."""
FIRST_ROWS = 4
"""Rows of a gradient that are looked at before all."""


@dataclass
class Slices:
    """The samples of one weight or input, by slice."""

    tensor: Any
    """The leaf of the differentiable model; None of an input, which has one in each call."""
    shape: tuple[int, ...]
    sizes: Array
    """Number of elements but zeros in each slice."""
    means: Array = field(default_factory=lambda: np.zeros(1))
    """Squared change by an error of 1 %, in units of the limit: the mean over all elements of the
    outputs, summed over the passes,"""
    passes: Array = field(default_factory=lambda: np.zeros(1, int))
    """the number of passes in which it is not 0,"""
    best: Array = field(default_factory=lambda: np.zeros(1))
    """the largest sum over all elements in a pass,"""
    where: Array = field(default_factory=lambda: np.zeros(1, int))
    """and the number of the case of that pass."""
    is_sampled: bool = False
    """True after a pass."""
    is_touched: Array = field(default_factory=lambda: np.zeros(1, bool))
    """Slices with a gradient in some pass."""
    is_found: Array = field(default_factory=lambda: np.zeros(1, bool))
    is_open: Array = field(default_factory=lambda: np.zeros(1, bool))
    """Slices of which nothing is known, for lack of time: they count as touched, not as found."""
    is_measured: bool = True
    columns: Array = field(default_factory=lambda: np.zeros(0, int))
    """Number of elements but zeros in each slice of the second axis; empty without one."""
    is_column_touched: Array = field(default_factory=lambda: np.zeros(0, bool))
    """Slices of the second axis with a gradient in some pass."""

    @classmethod
    def of(cls, value: Any, leaf: Any = None, whole: bool = False) -> Slices:
        """Return the slices of a tensor; `whole` is one slice."""
        rows, columns = _counts(value, whole)
        count = len(rows)
        return cls(
            leaf,
            tuple(value.shape),
            rows,
            np.zeros(count),
            np.zeros(count, int),
            np.zeros(count),
            np.zeros(count, int),
            is_touched=np.zeros(count, bool),
            is_found=np.zeros(count, bool),
            is_open=np.zeros(count, bool),
            columns=columns,
            is_column_touched=np.zeros(len(columns), bool),
        )

    def see(self, value: Any, gradient: Any, scale: float) -> tuple[Array, bool]:
        """Return the change of one pass by each slice, and whether all gradients are finite."""
        whole = len(self.sizes) == 1
        values, gradients = _rows(value.detach(), whole), _rows(gradient, whole)
        # without a tensor of the products, which takes most of the time
        sums: Array | None = None
        if value.itemsize >= 4:
            sums = torch.linalg.vecdot(values, gradients).double().numpy()
        is_finite = sums is not None and bool(np.isfinite(sums).all())
        if sums is None or not is_finite:
            is_finite = bool(gradient.sum().isfinite())
            rows = (values * gradients).nan_to_num(0.0, 0.0, 0.0)
            sums = rows.sum(1, dtype=torch.float64).numpy()
        self.is_touched |= sums != 0
        if not self.is_touched.all():
            unsure = np.flatnonzero(~self.is_touched)
            products = (values[unsure] * gradients[unsure]).nan_to_num()  # of NaN, nothing is known
            self.is_touched[unsure] = (products != 0).any(1).numpy()
        self._see_columns(gradient)
        return sums * (TESTED_ERROR * scale), is_finite

    def _see_columns(self, gradient: Any) -> None:
        """Mark the slices of the second axis that have a gradient."""
        for count in (FIRST_ROWS, len(self.sizes)):  # a few show most columns
            if not self.is_column_touched.all():
                left = np.flatnonzero(~self.is_column_touched)
                some = _columns(gradient[:count])[:, left].nan_to_num()
                is_touched = (some != 0).any(2).any(0)
                self.is_column_touched[left] = is_touched.numpy()

    def add(self, changes: Array, count: int, number: int) -> None:
        """Add the change by each slice in one pass, through the case of a number; the outputs
        have `count` elements."""
        self.is_sampled, squares = True, changes**2
        self.means += squares / count
        self.passes += squares > 0
        is_better = squares > self.best
        self.best[is_better], self.where[is_better] = squares[is_better], number

    def leave(self, mask: Array) -> None:
        """Mark slices of which nothing is known."""
        self.is_measured = self.is_measured and not (self.is_untested and bool(mask.any()))
        self.is_touched, self.is_open = self.is_touched | mask, self.is_open | mask

    @property
    def is_known(self) -> bool:
        """True if something is known of all slices."""
        return self.is_measured and not self.is_open.any()

    @property
    def untested(self) -> Array:
        """Slices with numbers but zeros, and no gradient in any pass."""
        mask: Array = ~self.is_touched & (self.sizes > 0)
        return mask

    @property
    def untested_columns(self) -> Array:
        """A mask of the untested slices of the second axis; none of a tensor that is untested."""
        mask: Array = ~self.is_column_touched & (self.columns > 0)
        return mask & (not self.is_untested)

    @property
    def untested_places(self) -> Array:
        """A mask of the untested slices of both axes: for the first one, or both."""
        columns = self.untested_columns
        return self.untested[:, None] | columns if columns.any() else self.untested

    @property
    def is_untested(self) -> bool:
        """True if it has numbers but zeros, and no gradient at all."""
        return bool(self.sizes.any()) and bool((self.untested | (self.sizes == 0)).all())

    @property
    def changes(self) -> Array:
        """RMS change of the outputs by each slice, in units of the limit, over the passes in which
        it changes them."""
        sizes: Array = np.sqrt(self.means / np.maximum(self.passes, 1))
        return sizes

    @property
    def is_left(self) -> bool:
        """True if some slices are not found yet."""
        return bool((~self.is_found & (self.sizes > 0)).any())

    def decide(self) -> Array:
        """Mark the slices that are certainly found, and return those that may be."""
        self.is_found |= self.changes >= CERTAIN_CHANGE
        mask: Array = self.is_touched & ~self.is_found & (self.best >= 1)
        return mask

    def row(self, name: str) -> TestedWeight:
        """Return the row of the report."""
        some = self.changes[self.sizes > 0]
        known = self.is_measured
        return TestedWeight(
            name,
            self.shape,
            self.share if known else None,
            float(np.median(some)) if known and self.is_sampled and len(some) else None,
        )

    @property
    def share(self) -> float | None:
        """Share of the elements that are found; None without any."""
        count = int(self.sizes.sum())
        return float(self.sizes[self.is_found].sum() / count) if count else None


def _counts(value: Any, whole: bool) -> tuple[Array, Array]:
    """Return the number of elements but zeros in each slice of the first axis, and of the second
    one: empty without it, and of one slice (`whole`)."""
    size, columns = value.numel(), np.zeros(0, int)
    has_columns = value.ndim > 1 and value.shape[1] > 1 and size and not whole
    if size and int(torch.count_nonzero(value)) == size:  # in a sixth of the time of each slice
        count = 1 if whole or not value.ndim else value.shape[0]
        if has_columns:
            columns = np.full(value.shape[1], size // value.shape[1])
        return np.full(count, size // count), columns
    counts = counted(value)
    if has_columns:
        columns = _columns(counts).sum((0, 2)).numpy()
    return _rows(counts, whole).sum(1).numpy(), columns


def _rows(value: Any, whole: bool) -> Any:
    """Return a tensor as a row for each slice."""
    return value.reshape(1 if whole or not value.ndim else value.shape[0], -1)


def _columns(value: Any) -> Any:
    """Return a tensor of three axes: its first two, and the others as one."""
    return value.reshape(value.shape[0], value.shape[1], -1)


class _Watch(TorchFunctionMode):
    """A mode that computes batch normalisation from its formula, with gradients of the running mean
    and variance, and lists the weights of embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "_overloadpacket", func).__name__
        if name == "embedding" and args and isinstance(args[0], torch.Tensor):
            first = args[0] if args[0].is_floating_point() else args[1]
            self.embeddings.add(id(first))
        if func in BATCH_NORMS:
            result = _normalized(func, args, kwargs or {})
            if result is not None:
                return result
        return func(*args, **(kwargs or {}))


def _normalized(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of a batch normalisation in eval mode; None in training mode."""
    values = {**dict(zip(BATCH_NORMS[func], args)), **kwargs}
    x, mean, var = values["input"], values["running_mean"], values["running_var"]
    if values.get("training", False) or mean is None or var is None:
        return None
    scale = (var + values.get("eps", 1e-5)).rsqrt()
    scale = scale if values.get("weight") is None else scale * values["weight"]
    shift = -mean * scale if values.get("bias") is None else values["bias"] - mean * scale
    shape = (1, -1, *[1] * (x.ndim - 2))
    result = torch.addcmul(shift.reshape(shape), x, scale.reshape(shape)).to(x.dtype)
    has_three = len(BATCH_NORMS[func]) == len(_NORM) + 2
    return (result, x.new_empty(0), x.new_empty(0)) if has_three else result


class Differentiable:
    """A model whose parameters, buffers and inputs have gradients."""

    def __init__(self, eager: Eager, frozen: Sequence[str], wide: bool, plain: bool) -> None:
        """`frozen` are the buffers that calls change; `wide` computes halves in float32; a `plain`
        model runs without a mode (torch.cond needs it), and its buffers have no gradient."""
        self.eager, self.wide, self.watch = eager, wide, _Watch()
        self.mode = nullcontext() if plain else self.watch
        self.weights: dict[str, Slices] = {}
        self._leaves: dict[int, Any] = {}
        """Leaves by the ids of the model's tensors."""
        self._states: list[Any] = []
        """Buffers of the model without a gradient."""
        for name, parameter in eager.model.named_parameters():
            self._add(name, parameter)
        for name, buffer in eager.model.named_buffers():
            if buffer.is_floating_point() and not plain and name not in frozen:
                self._add(name, buffer)
            else:
                self._states.append(buffer)
        self.inputs: dict[int, Slices] = {}

    def _add(self, name: str, tensor: Any) -> None:
        """Make a leaf of a parameter or buffer of floats."""
        if tensor.is_floating_point():
            value = self._widened(tensor.detach())
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            leaf = like(tensor, value if is_parameter else value.clone()).requires_grad_()
            self._leaves[id(tensor)] = leaf
            self.weights[name] = Slices.of(leaf, leaf)

    def _widened(self, value: Any) -> Any:
        is_half = value.is_floating_point() and value.itemsize < 4
        return value.float() if self.wide and is_half else value

    def outputs(self, case: CallSequence) -> tuple[list[list[Any]], list[tuple[int, Any]]]:
        """Return the outputs of each call, with gradients, and the inputs with theirs."""
        states = {id(one): self._widened(one.detach().clone()) for one in self._states}
        module, results = self.eager.copies.fresh(self._leaves | states), []
        inputs = list[tuple[int, Any]]()
        with torch.enable_grad(), self.mode, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for call in case.calls:
                flat, spec = _pytree.tree_flatten(call)
                for i, leaf in enumerate(flat):
                    if not isinstance(leaf, torch.Tensor):
                        continue
                    flat[i] = self._widened(leaf.detach().clone())
                    if flat[i].is_floating_point():
                        inputs.append((i, flat[i].requires_grad_()))
                        flat[i] = flat[i] * 1  # the model may write to it
                results.append(self.eager.run(module, _pytree.tree_unflatten(flat, spec)))
                _renew_state(module)
        return results, inputs

    def sample(
        self, number: int, case: CallSequence, limits: Sequence[Sequence[Any]], seed: int
    ) -> bool:
        """Run one backward pass through the case of a number, and add the squared changes by
        each slice; False if no output has a gradient, or some gradient is no finite number."""
        outputs, inputs = self.outputs(case)
        ends, cotangents = _cotangents(outputs, limits, torch.Generator().manual_seed(seed))
        if not ends:
            return False
        scale = max(float(one.abs().max()) for one in cotangents if one.numel()) or 1.0
        cotangents = [(one / scale).to(end.dtype) for one, end in zip(cotangents, ends)]
        count = max(sum(end.numel() for end in ends), 1)
        named = [(one, one.tensor) for one in self.weights.values()]
        for i, leaf in inputs:
            self.inputs.setdefault(i, Slices.of(leaf, whole=True))
            named.append((self.inputs[i], leaf))
        changes, is_known = {id(one): np.zeros(len(one.sizes)) for one, _ in named}, True
        for (one, _), seen in zip(named, _seen(ends, cotangents, named, scale), strict=True):
            if seen is not None:
                changes[id(one)] += seen[0]
                is_known &= seen[1]
        for one in (*self.weights.values(), *self.inputs.values()):
            if id(one) in changes:
                one.add(changes[id(one)], count, number)
        return is_known


def _seen(
    ends: list[Any], cotangents: list[Any], named: Sequence[tuple[Slices, Any]], scale: float
) -> list[tuple[Array, bool] | None]:
    """Return what `Slices.see` says of each leaf's gradient; None: it has none. A gradient is seen
    and freed as soon as it is computed: all of them are as large as the model."""
    results: list[tuple[Array, bool] | None] = [None] * len(named)

    def see(at: int, gradient: Any) -> Any:
        one, leaf = named[at]
        results[at] = one.see(leaf, gradient, scale)
        return gradient.new_zeros(()).expand_as(gradient)

    hooks = {
        i: leaf.register_hook(partial(see, i)) for i, (_, leaf) in enumerate(named) if leaf.is_leaf
    }
    leaves = [leaf for _, leaf in named]
    known = [(one, one.is_touched.copy(), one.is_column_touched.copy()) for one, _ in named]
    try:
        gradients = torch.autograd.grad(ends, leaves, cotangents, allow_unused=True)
    except BaseException:  # a pass that fails shows nothing
        for one, rows, columns in known:
            one.is_touched, one.is_column_touched = rows, columns
        raise
    finally:
        for hook in hooks.values():
            hook.remove()
    for i, gradient in enumerate(gradients):  # of what the model has overwritten in place
        if gradient is not None and i not in hooks:
            see(i, gradient)
    return results


def _renew_state(module: Any) -> None:
    """Replace the buffers that a call has computed with copies: the next call may write to them in
    place, and gradients need the old ones."""
    new = dict[int, Any]()
    for one in module.modules():
        for name, buffer in one._buffers.items():
            if buffer is not None and buffer.grad_fn is not None:
                one._buffers[name] = new.setdefault(id(buffer), buffer.clone())


def _cotangents(
    outputs: Sequence[Sequence[Any]], limits: Sequence[Sequence[Any]], generator: Any
) -> tuple[list[Any], list[Any]]:
    """Return the outputs that have a gradient and a limit, and random signs in units of it."""
    ends, cotangents = [], []
    for values, rules in zip(outputs, limits, strict=True):
        some = [one for one in values if one is not None] if len(values) > len(rules) else values
        for value, rule in zip(some, rules):
            has_gradient = getattr(value, "requires_grad", False) and not value.is_complex()
            if rule is not None and has_gradient:
                ends.append(value)
                cotangents.append(_signs(value, rule, generator))
    return ends, cotangents


def _signs(value: Any, rule: Tolerance | float, generator: Any) -> Any:
    """Return random signs in units of the limits, times a number around 1: equal elements, as of
    equal rows, do not cancel. 0 where an element has no limit."""
    signs = torch.randint(0, 2, value.shape, generator=generator).double() * 2 - 1
    signs *= 1 + SIGN_SPREAD * torch.rand(value.shape, generator=generator, dtype=torch.float64)
    signs /= (1 + SIGN_SPREAD + SIGN_SPREAD**2 / 3) ** 0.5  # of mean square 1
    units = rule.units() if isinstance(rule, Tolerance) else rule
    limits = torch.from_numpy(np.array(np.broadcast_to(units, tuple(value.shape)), np.float64))
    usable = limits.isfinite() & (limits > 0) & value.detach().isfinite()
    return torch.where(usable, signs / torch.where(usable, limits, 1.0), 0.0)
