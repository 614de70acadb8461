"""The numbers that a model holds, by names that a user knows: parameters, buffers, and the codes
and scales of quantised weights; and small errors of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from executorch_c._arrays import Array
from executorch_c.compare.limits import TESTED_ERROR
from executorch_c.debug._graphs.names import dequantizes, is_quantizer, operator_of

PARTS = ("", "scale", "zero_point")
"""Parts of a quantised weight, in the order of the arguments of operators that dequantise."""
GENERATED = re.compile(r"_(frozen_param|scale_|zero_point_)\d+|.*\.parametrizations\..*")
"""Names of the constants of a quantised graph that say nothing to a user."""
UNUSED = ("num_batches_tracked",)
"""Buffers of torch's modules that no inference reads, and no program has."""
CHANGE_MEDIANS = 1.0
"""Change of each float by `other`, in units of the median of the tensor's."""


@dataclass(frozen=True)
class Constant:
    """A tensor of a model."""

    name: str
    tensor: Any
    """The numbers."""
    owner: Any
    """The model's parameter or buffer: the tensor, or one of torchao whose part the tensor is."""
    part: str = ""
    is_looked_up: bool = False
    """True if an embedding looks its rows up."""

    def replacement(self, value: Any) -> Any:
        """Return what replaces the owner where the tensor has another value."""
        if self.part:
            parts, context = self.owner.__tensor_flatten__()
            inner = {part: getattr(self.owner, part) for part in parts}
            value = type(self.owner).__tensor_unflatten__(
                inner | {self.part: value}, context, self.owner.shape, self.owner.stride()
            )
        return like(self.owner, value)


def like(tensor: Any, value: Any) -> Any:
    """Return a value in the place of a tensor: a parameter for a parameter."""
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return torch.nn.Parameter(value, requires_grad=False) if is_parameter else value


def tensors_of(model: Any) -> dict[str, Constant]:
    """Return all parameters and buffers of a module by their own names."""
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: Constant(name, tensor, tensor) for name, tensor in named}


def constants_of(model: Any) -> dict[str, Constant]:
    """Return the constants of a module by name, in its order: "fc.weight", "fc.weight.scale".
    Without parameters and buffers that the graph of a GraphModule does not read."""
    known = _names_in_graph(model) if isinstance(model, torch.fx.GraphModule) else {}
    tables = {
        id(value)
        for one in model.modules()
        if isinstance(one, torch.nn.Embedding)
        for value in one.parameters()
    }
    constants = dict[str, Constant]()
    for raw, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if raw.endswith(UNUSED) or (known and raw not in known):
            continue
        name, is_looked_up = known.get(raw, (_of_module(model, raw), id(tensor) in tables))
        name = raw if name in constants else name
        for part, value in _parts(tensor):
            full = name if part in ("", "qdata") else f"{name}.{part}"
            constants[full] = Constant(full, value, tensor, part, is_looked_up)
    return constants


def _parts(tensor: Any) -> Iterator[tuple[str, Any]]:
    """Yield a tensor, or the tensors that one of torchao has."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if type(tensor.data) is torch.Tensor or flatten is None:
        yield "", tensor
        return
    for part in flatten()[0]:
        if type(value := getattr(tensor, part)) is torch.Tensor:
            yield part, value


def _of_module(model: Any, raw: str) -> str:
    """Return the name of a part of torchao's tensor after `unwrap_tensor_subclass`; others as they
    are."""
    match = re.fullmatch(r"(.*?)\.?parametrizations\.(\w+)\.original(\d+)", raw)
    if match is None:
        return raw
    path, name, number = match.groups()
    place = ".".join(filter(None, [path, "parametrizations", name, "0"]))
    try:
        parts = model.get_submodule(place).rebuild_stack[-1][2]
        part = parts[int(number)]
    except (AttributeError, IndexError):
        return raw
    plain = f"{path}.{name}" if path else name
    return plain if part == "qdata" else f"{plain}.{part}"


def _names_in_graph(model: Any) -> dict[str, tuple[str, bool]]:
    """Return a name for each constant that a graph reads, and whether an embedding reads it."""
    names = {}
    for node in model.graph.nodes:
        if node.op != "get_attr" or not node.users:
            continue
        at, reader, place = 0, next(iter(node.users)), node
        if is_quantizer(reader):
            at = reader.args.index(node) if node in reader.args else 0
        while is_quantizer(reader) and reader.users:
            place, reader = reader, next(iter(reader.users))
        operator = operator_of(reader) or ""
        raw, stack = str(node.target), reader.meta.get("nn_module_stack") or {}
        path = [*stack.values()][-1][0] if stack else ""
        name = raw
        if path and GENERATED.fullmatch(raw) and dequantizes(place) and at < len(PARTS):
            name = ".".join(filter(None, [path, "weight", PARTS[at]]))
        names[raw] = name, "embedding" in operator
    return names


# ---- errors -----------------------------------------------------------------------------------


def counted(value: Any) -> Any:
    """Return which elements can have an error: all integers but those of a tensor of zeros, and
    floats but zeros, of which 1 % is nothing."""
    value = value.detach()
    is_exact = not (value.is_floating_point() or value.is_complex())
    return torch.full(value.shape, bool((value != 0).any())) if is_exact else value != 0


def wrong(value: Any, mask: Array, seed: int = 0) -> Any:
    """Return a tensor of which some slices of the first axis are wrong: floats by 1 %, integers by
    one step up or down, within the tensor's range."""
    if value.is_floating_point() or value.is_complex():
        return _changed(value, mask, lambda rows: rows * (1 + TESTED_ERROR))
    return _changed(value, mask, lambda rows: _by_a_step(rows, value, _random(rows, seed)))


def alternately(value: Any, mask: Array) -> Any:
    """Return a tensor of floats of which some slices of the first axis are wrong by 1 % and -1 % in
    turn: a norm would hide a factor of all."""

    def moved(rows: Any) -> Any:
        signs = 1 - 2 * (torch.arange(len(rows)) % 2)
        return rows * (1 + TESTED_ERROR * signs.view(-1, *[1] * (rows.ndim - 1)))

    return _changed(value, mask, moved)


def other(value: Any, mask: Array, seed: int = 0) -> Any:
    """Return a tensor of which some slices of the first axis have other numbers: each float up to a
    quarter smaller, and larger or smaller by the median; integers that are nearer to the
    middle of the tensor's range."""

    def of_floats(rows: Any) -> Any:
        random = _random(rows, seed)
        return rows * (1 - random / 4) + torch.where(random < 0.5, -shift, shift)

    if value.is_floating_point() or value.is_complex():
        shift = value.detach().abs().double().median() * CHANGE_MEDIANS
        return _changed(value, mask, of_floats)
    return _changed(value, mask, lambda rows: _toward_the_middle(rows, value, _random(rows, seed)))


def _changed(value: Any, mask: Array, change: Callable[[Any], Any]) -> Any:
    """Return a tensor with other numbers in some slices: of the first axis, or of the first two."""
    changed = value.detach().clone()
    rows = changed if value.ndim else changed.reshape(1)
    at = torch.from_numpy(np.asarray(mask, bool))
    rows[at] = change(rows[at]).to(value.dtype)
    return changed


def _random(rows: Any, seed: int) -> Any:
    """Return a number in [0, 1) for each element."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(rows.shape, generator=generator, dtype=torch.float64)


def _by_a_step(rows: Any, value: Any, random: Any) -> Any:
    """Return integers of a tensor, one step up or down in its range."""
    if value.dtype == torch.bool:
        return ~rows
    low, high = value.min(), value.max()
    step = torch.where(random < 0.5, -1, 1)
    step = torch.where((rows == high) & (low < high), -1, torch.where(rows == low, 1, step))
    return (rows + step).to(value.dtype)


def _toward_the_middle(rows: Any, value: Any, random: Any) -> Any:
    """Return integers of a tensor, at least halfway to the middle of its range."""
    if value.dtype == torch.bool:
        return ~rows
    middle = (value.min().double() + value.max().double()) / 2
    moved = (rows + (middle - rows) * (1 - random / 2)).round().to(value.dtype)
    return torch.where(moved == rows, _by_a_step(rows, value, random), moved)


def replacements(constants: Mapping[str, Constant], changed: Mapping[str, Any]) -> dict[int, Any]:
    """Return what replaces the owners of changed constants, by their ids; several parts of one
    owner in turn."""
    tensors = dict[int, Any]()
    for name, value in changed.items():
        one = constants[name]
        now = Constant(name, one.tensor, tensors.get(id(one.owner), one.owner), one.part)
        tensors[id(one.owner)] = now.replacement(value)
    return tensors
