"""A copy of a model that starts from the model's own state in each run: copied once, and restored
before each further run, which takes a hundredth of the time of a copy.

A run may change whatever a copy does not share with the model: buffers and other tensors in place,
attributes of modules and of objects that they refer to, elements of lists, dictionaries and sets.
All of these are listed when the copy is made. A model that refers to anything else that a copy
does not share (an object of an extension, a class with a protocol of its own for copies) is copied
for each run.
"""

from __future__ import annotations

import copy
import enum
import functools
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
from operator import is_
from pathlib import PurePath
from typing import Any

import numpy as np
import torch

from executorch_c._eager_caches import restore_caches, save_caches
from executorch_c._modules import fresh

DICTS = (dict, OrderedDict, defaultdict)
SEQUENCES = (list, deque)
CONSTANT = (
    str,
    bytes,
    int,
    float,
    complex,
    type,
    enum.Enum,
    PurePath,
    range,
    slice,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    torch.Size,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.fx.Graph,
    torch.fx.Node,
    np.generic,
)
"""Types of objects that a run does not change."""
PROTOCOLS = (
    "__deepcopy__",
    "__copy__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__getnewargs__",
    "__getnewargs_ex__",
)
TRUSTED = ("builtins", "torch.nn.", "torch.fx.graph_module")
"""Modules whose classes copy what they refer to, and nothing more, by the protocols for copies."""


class _UnknownStateError(Exception):
    """The copy has state that cannot be restored."""


class _Attributes:
    """A dictionary and its items."""

    def __init__(self, place: Any) -> None:
        self.place, self.saved = place, dict(place)
        self._keys, self._values = list(place), list(place.values())

    def restore(self) -> None:
        """Set the items if one has changed."""
        place = self.place
        if list(place) != self._keys or not all(map(is_, place.values(), self._values)):
            place.clear()
            place.update(self.saved)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield keys and values."""
        return iter(self.saved.items())


class _Elements:
    """A list and its elements."""

    def __init__(self, place: Any) -> None:
        self.place, self.saved = place, list(place)

    def restore(self) -> None:
        """Set the elements if one has changed."""
        if len(self.place) != len(self.saved) or not all(map(is_, self.place, self.saved)):
            self.place.clear()
            self.place.extend(self.saved)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield indices and elements."""
        return enumerate(self.saved)


class _Members:
    """A set and its elements."""

    def __init__(self, place: Any) -> None:
        self.place, self.saved = place, set(place)

    def restore(self) -> None:
        """Set the members if one has changed."""
        if self.place != self.saved:
            self.place.clear()
            self.place.update(self.saved)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield nothing: an element of a set has no place."""
        return iter(())


def _layout(tensor: Any) -> tuple[Any, ...]:
    """Return what a run changes of a tensor only if it does more than write numbers."""
    storage = tensor.untyped_storage()
    return (
        storage.data_ptr(),
        storage.nbytes(),
        tensor.storage_offset(),
        tensor.shape,
        tensor.stride(),
        tensor.dtype,
        tensor.requires_grad,
        tensor.is_leaf,
    )


class _Snapshot:
    """The parts of a module's copy that a run may change."""

    def __init__(self, module: Any, memo: dict[Any, Any]) -> None:
        """`memo` is the memo of `copy.deepcopy`. Raises _UnknownStateError."""
        originals = memo.get(id(memo), ())
        self._own = {id(memo[id(one)]): one for one in originals if id(one) in memo}
        """Original objects by the ids of their copies."""
        self._seen = set[int]()
        self.containers: list[_Attributes | _Elements | _Members] = []
        self.fixed = set[int]()
        """Ids of tensors that something refers to by a tuple."""
        self._tensors: list[tuple[Any, tuple[Any, ...]]] = []
        self._storages: dict[int, tuple[Any, Any]] = {}
        self._visit(module)
        self._own, self._seen = {}, set()
        self.places = self._places()
        self._empty = [one.place for one in self.containers if not one.saved]
        self.containers = [one for one in self.containers if one.saved]
        self.copies = {
            id(one): memo[id(one)]
            for one in originals
            if isinstance(one, torch.Tensor) and id(one) in memo
        }
        """Tensors of the copy by the ids of the originals; shared ones are not in it."""

    def _places(self) -> dict[int, list[tuple[Any, Any]]]:
        """Return the containers that refer to each tensor, with the keys, by its id."""
        places = defaultdict[int, list[tuple[Any, Any]]](list)
        for container in self.containers:
            for key, value in container.items():
                if isinstance(value, torch.Tensor):
                    places[id(value)].append((container.place, key))
        return dict(places)

    def _visit(self, value: Any) -> None:
        """List an object and what it refers to."""
        if isinstance(value, CONSTANT) or value is None or id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, torch.Tensor):
            self._visit_tensor(value)
        elif type(value) in DICTS:
            self.containers.append(_Attributes(value))
            self._visit_all(value.values())
        elif type(value) in SEQUENCES:
            self.containers.append(_Elements(value))
            self._visit_all(value)
        elif type(value) is set:
            self.containers.append(_Members(value))
            self._visit_all(value)
        elif isinstance(value, (tuple, frozenset)):
            self.fixed.update(id(one) for one in value if isinstance(one, torch.Tensor))
            self._visit_all([*value, getattr(value, "__dict__", None)])
        elif isinstance(value, types.MethodType):
            self._visit(value.__self__)
        elif id(value) in self._own:  # else the copy shares it with the model
            self._visit_object(value)

    def _visit_all(self, values: Any) -> None:
        for value in values:
            self._visit(value)

    def _visit_tensor(self, tensor: Any) -> None:
        original = self._own.get(id(tensor))
        if original is None:
            return
        is_plain = type(tensor) is torch.Tensor and tensor.layout == torch.strided
        if not is_plain or tensor.device.type != "cpu" or tensor.is_quantized:
            raise _UnknownStateError
        if tensor.grad is not None or original.is_conj() or original.is_neg():
            raise _UnknownStateError
        self._tensors.append((tensor, _layout(tensor)))
        storage = tensor.untyped_storage()
        if storage.nbytes():
            self._storages[storage.data_ptr()] = storage, original.untyped_storage()
        self._visit(vars(tensor))

    def _visit_object(self, value: Any) -> None:
        """List the attributes of an object of a class in Python."""
        kind = type(value)
        for base in kind.__mro__:
            if not base.__module__.startswith(TRUSTED) and not vars(base).keys().isdisjoint(
                PROTOCOLS
            ):
                raise _UnknownStateError
        if isinstance(value, functools.partial):
            self._visit_all([value.args, value.keywords, vars(value)])
            return
        if isinstance(value, torch.jit.ScriptModule) or not hasattr(value, "__dict__"):
            raise _UnknownStateError
        if not isinstance(value, torch.nn.Module):
            self._require_no_more_than_attributes(value)
        self.containers.append(_Attributes(vars(value)))
        is_graph = isinstance(value, torch.fx.GraphModule)
        for name, attribute in vars(value).items():
            if not is_graph or name != "meta":  # what the compiler has written about the graph
                self._visit(attribute)

    @staticmethod
    def _require_no_more_than_attributes(value: Any) -> None:
        """Raise _UnknownStateError for an object with state beside its dictionary."""
        try:
            parts: Any = object.__reduce_ex__(value, 2)
            _, args, state, elements, items = parts
        except (TypeError, ValueError):
            raise _UnknownStateError from None
        has_slots = isinstance(state, tuple)
        if len(args) > 1 or has_slots or elements is not None or items is not None:
            raise _UnknownStateError

    def restore(self) -> bool:
        """Restore the copy; False if a run has done what cannot be restored."""
        for place in self._empty:
            if place:
                place.clear()
        for container in self.containers:
            container.restore()
        if any(_layout(tensor) != layout for tensor, layout in self._tensors):
            return False
        for storage, original in self._storages.values():
            storage.copy_(original)
        return True

    def replace(self, replaced: Mapping[int, Any]) -> bool:
        """Put other tensors in the places of some, by their ids in the model; False if that is not
        possible."""
        wanted = {
            id(self.copies[key]) if key in self.copies else key: value
            for key, value in replaced.items()
        }
        if self.fixed & wanted.keys() or not wanted.keys() <= self.places.keys():
            return False
        for one, value in wanted.items():
            for place, key in self.places[one]:
                place[key] = value
        return True


class Copies:
    """The copies of a model that runs start from; there is one at a time."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.is_restored = True
        """False: each run has a copy of its own."""
        self._module: Any = None
        self._snapshot: _Snapshot | None = None
        self._caches = save_caches()

    def fresh(self, replaced: Mapping[int, Any] | None = None) -> Any:
        """Return a copy in the model's state, which shares the parameters; the one before is no
        longer valid.

        Args:
            replaced: Tensors in the places of parameters and buffers, by the ids of these.
        """
        restore_caches(self._caches)
        if self._snapshot is not None and not (self.is_restored and self._snapshot.restore()):
            self._snapshot = None
        if self._snapshot is None and self.is_restored:
            self._copy()
        if self._snapshot is None or (replaced and not self._snapshot.replace(replaced)):
            return fresh(self.model, replaced)
        return self._module

    def _copy(self) -> None:
        """Copy the model, and list what a run may change."""
        memo: dict[Any, Any] = {id(one): one for one in self.model.parameters()}
        try:
            self._module = copy.deepcopy(self.model, memo)
            self._snapshot = _Snapshot(self._module, memo)
        except _UnknownStateError:
            self.is_restored, self._snapshot = False, None
