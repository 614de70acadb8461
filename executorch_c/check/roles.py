"""What a model does with its inputs, seen in one call of it: indices and their ranges, positions in
buffers, numbers that they are compared with."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from executorch_c.check.cases import leaves
from executorch_c.check.copies import Copies
from executorch_c.check.flows import Call
from executorch_c.inspect.families import MOVES, unsuffixed

PASSED_THROUGH = {
    *MOVES,
    *(name.removesuffix("_copy") for name in MOVES),
    *"_to_copy _unsafe_view cat contiguous flatten masked_fill reshape stack to where".split(),
}
"""Operators whose results have only numbers of their arguments, by the names of eager models,
too."""

INDEXING = {
    "embedding": (0, 0, 1),
    "embedding_bag": (0, 0, 1),
    "_embedding_bag": (0, 0, 1),
    "_embedding_bag_forward_only": (0, 0, 1),
    "index_select": (0, 1, 2),
    "gather": (0, 1, 2),
    "index_add": (0, 1, 2),
    "index_copy": (0, 1, 2),
    "index_fill": (0, 1, 2),
    "scatter": (0, 1, 2),
    "scatter_add": (0, 1, 2),
    "scatter_reduce": (0, 1, 2),
}
"""Places of the tensor, the dimension (of embeddings, dimension 0) and the indices in the arguments
of operators."""
INDEXING_BY_LISTS = {"index", "_unsafe_index", "index_put", "_index_put_impl", "_unsafe_index_put"}
"""Operators that take a list of indices, one for each dimension."""
WRITES = {"index_copy", "scatter", "index_put", "_index_put_impl", "_unsafe_index_put"}
"""Operators that write each element of a result once: equal indices have no defined result."""
COMPARES = {"eq", "ne", "lt", "le", "gt", "ge", "clamp", "clamp_min", "clamp_max"}
"""Operators that compare the elements of a tensor with numbers."""


@dataclass
class InputRole:
    """What a model does with an input."""

    name: str = ""
    """Name of the argument of forward, or ""."""
    low: int | None = None
    """Least valid index; None if the input is not used as indices."""
    high: int | None = None
    is_unique: bool = False
    """True if elements are written at the indices: none may occur twice."""
    length: int | None = None
    """Size of the dimension of a buffer at whose positions a call writes; None of other inputs."""
    compared: set[int] = field(default_factory=set)
    """Numbers that the input is compared with, such as the index of padding."""
    is_scalar: bool = False
    """True if the model reads the number in Python, as a size or a position."""

    def narrow(self, low: int, high: int) -> None:
        """Limit valid indices."""
        self.low = low if self.low is None else max(self.low, low)
        self.high = high if self.high is None else min(self.high, high)

    @property
    def is_mask(self) -> bool:
        """True if the argument's name says that it is a mask."""
        return "mask" in self.name.lower()

    @property
    def is_time(self) -> bool:
        """True if the argument's name says that it is a step in time."""
        name = self.name.lower()
        return "time" in name or "step" in name or name == "t"


@dataclass(frozen=True)
class _Source:
    """An integer tensor that has numbers of an input, plus `shift`, modulo `modulus`."""

    tensor: Any
    """Kept, so that its id stays its own."""
    role: InputRole
    shift: int = 0
    modulus: int | None = None


class _Trace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that follows integers from the inputs to the operators that use them as indices."""

    supports_higher_order_operators = True

    def __init__(
        self, inputs: Sequence[Any], roles: Sequence[InputRole | None], module: Any
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sources = {
            id(leaf): _Source(leaf, role) for leaf, role in zip(inputs, roles) if role is not None
        }
        self._buffers = {
            buffer.untyped_storage().data_ptr(): name for name, buffer in module.named_buffers()
        }
        self.counters: dict[str, InputRole] = {}
        for name, buffer in module.named_buffers():  # positions that the model counts itself
            if not (buffer.is_floating_point() or buffer.is_complex()):
                role = self.counters[name] = InputRole(name)
                self._sources[id(buffer)] = _Source(buffer, role)
        self.has_branches = False
        """True if operators of higher order ran, such as torch.cond."""
        self.starts: list[tuple[str, int, int]] = []
        """Buffers, starts and sizes of the dimensions of slices of buffers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if hasattr(func, "_schema"):
            self._see(unsuffixed(func._schema.name), args, result)
        else:
            self.has_branches = True
        return result

    def _see(self, name: str, args: Sequence[Any], result: Any) -> None:
        """Note what an operator does with integers of inputs."""
        if name in ("slice", "select") and args[0].untyped_storage().data_ptr() in self._buffers:
            axis, start = (args[1], args[2]) if len(args) > 2 else (0, 0)
            buffer = self._buffers[args[0].untyped_storage().data_ptr()]
            self.starts.append((buffer, start or 0, args[0].shape[axis]))
        if name in INDEXING:
            place, axis, indices = INDEXING[name]
            if len(args) > indices:
                axis = args[axis] if axis else 0
                self._indexed(name, args[place], axis, args[indices])
        elif name in INDEXING_BY_LISTS:
            axis = 0
            for indices in args[1]:
                self._indexed(name, args[0], axis, indices)
                is_mask = getattr(indices, "dtype", None) == torch.bool
                axis += indices.ndim if is_mask else 1
        for source in self._among(args[: 3 if name == "where" else 1]):
            self._follow(name, source, args, result)

    def _among(self, values: Any) -> Iterator[_Source]:
        """Yield the integers of inputs in arguments."""
        for leaf in _pytree.tree_leaves(values):
            source = self._sources.get(id(leaf))
            if source is not None:
                yield source

    def _follow(self, name: str, source: _Source, args: Sequence[Any], result: Any) -> None:
        """Note a use other than as indices, and follow the operator's results."""
        number = args[1] if len(args) > 1 and isinstance(args[1], int) else None
        if name == "_local_scalar_dense":
            source.role.is_scalar = True
        elif name in COMPARES:
            source.role.compared |= {
                int(one) - source.shift for one in args[1:3] if isinstance(one, int)
            }
        elif name in ("add", "sub") and number is not None and source.modulus is None:
            shift = source.shift + (number if name == "add" else -number)
            self._learn(result, source.role, shift, None)
        elif name in ("remainder", "fmod") and number is not None:
            self._learn(result, source.role, 0, number)
        elif name in PASSED_THROUGH:
            for leaf in _pytree.tree_leaves(result):
                self._learn(leaf, source.role, source.shift, source.modulus)

    def _learn(self, tensor: Any, role: InputRole, shift: int, modulus: int | None) -> None:
        if tensor.dtype != torch.bool and not tensor.is_floating_point():
            self._sources[id(tensor)] = _Source(tensor, role, shift, modulus)

    def _indexed(self, name: str, tensor: Any, axis: int, indices: Any) -> None:
        """Note a use as indices of a dimension."""
        source = self._sources.get(id(indices))
        if source is None or not tensor.ndim:
            return
        size, role = tensor.shape[axis], source.role
        if source.modulus is None:
            role.narrow(-source.shift, size - 1 - source.shift)
        else:
            size = min(size, source.modulus)
        if name in WRITES:
            role.is_unique = True
            if tensor.untyped_storage().data_ptr() in self._buffers:
                role.length = size if role.length is None else min(size, role.length)


@dataclass
class Roles:
    """What a model does with its inputs."""

    inputs: list[InputRole | None]
    """By input of the program; None for others than tensors."""
    capacity: int | None = None
    """Size of a buffer that the model fills by a counter of its own."""

    @property
    def positions(self) -> list[int]:
        """Inputs that are positions in a buffer."""
        return [i for i, role in enumerate(self.inputs) if role and role.length is not None]


def _names(module: Any, call: Call) -> list[str]:
    """Return the name of the argument that each input belongs to; "" for unknown ones."""
    args, kwargs = call
    names: list[str] = []
    with suppress(TypeError, ValueError):
        parameters = inspect.signature(module.forward).parameters.values()
        names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    names += [""] * (len(args) - len(names))
    pairs = [*zip(names, args), *kwargs.items()]
    return [name for name, value in pairs for _ in _pytree.tree_leaves(value)]


def _traced(copies: Copies, call: Call, roles: Sequence[InputRole | None]) -> _Trace:
    """Return the trace of one call, from the model's state."""
    module = copies.fresh()
    args, kwargs = _pytree.tree_map(
        lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf, call
    )
    trace = _Trace(leaves((args, kwargs)), roles, module)
    with torch.no_grad(), trace:
        module(*args, **kwargs)
    if trace.has_branches:
        torch._dynamo.reset()  # what its compiler does under a mode is not for plain calls
    return trace


def roles_of(model: Any, call: Call, exported: Any = None, copies: Copies | None = None) -> Roles:
    """Return the roles of all inputs in a call; `copies` are the model's.

    Integers are followed through operators that pass their numbers on. A model that cannot run
    under a dispatch mode is followed in its ExportedProgram; without one, only names are known.
    """
    flat = leaves(call)
    items = [
        InputRole(name) if isinstance(leaf, torch.Tensor) else None
        for leaf, name in zip(flat, _names(model, call))
    ]
    known = [role if role and is_integer(leaf) else None for leaf, role in zip(flat, items)]
    roles = Roles(list(items))
    if not any(known) and not any(map(is_integer, model.buffers())):
        return roles
    try:
        _follow_all(copies or Copies(model), call, known, roles)
    except Exception:  # the example is run again, without a mode
        torch._dynamo.reset()  # a failure of torch.cond's compiler stays for plain calls
        if exported is not None:
            with suppress(Exception):
                _follow_all(Copies(exported.module()), call, known, roles)
    return roles


def _follow_all(
    copies: Copies, call: Call, known: Sequence[InputRole | None], roles: Roles
) -> None:
    """Complete the roles of integers."""
    trace = _traced(copies, call, known)
    lengths = [role.length for role in trace.counters.values() if role.length is not None]
    roles.capacity = min(lengths, default=None)
    for i, role in enumerate(known):
        if role is not None and role.is_scalar and role.length is None and trace.starts:
            role.length = _moved(copies, call, i, trace)


def is_integer(leaf: Any) -> bool:
    """Return True for a tensor of integers."""
    return isinstance(leaf, torch.Tensor) and not (
        leaf.is_floating_point() or leaf.is_complex() or leaf.dtype == torch.bool
    )


def advanced(call: Call, inputs: Sequence[int], by: int) -> Call:
    """Return a call with other positions: the numbers of some inputs plus `by`."""
    flat, spec = _pytree.tree_flatten(call)
    moved: Call = _pytree.tree_unflatten(
        [leaf + by if i in inputs else leaf for i, leaf in enumerate(flat)], spec
    )
    return moved


def _moved(copies: Copies, call: Call, index: int, first: _Trace) -> int | None:
    """Return the size of the dimension of a buffer in which a slice starts at the number of an
    input: its start moves with the number. None if there is none."""
    nothing = [None] * len(leaves(call))
    with suppress(Exception):
        second = _traced(copies, advanced(call, [index], 1), nothing)
        sizes = [
            size
            for (a, start, size), (b, other, _) in zip(first.starts, second.starts)
            if a == b and other == start + 1
        ]
        return min(sizes, default=None)
    return None
