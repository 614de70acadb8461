"""Calls of a model, in the form of a check: the user's arguments in the order of the example."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from executorch_c._input_files import Target
from executorch_c._input_sets import InputCase, InputSet, Source, input_set
from executorch_c._render import text as _text
from executorch_c.check.flows import Call


@dataclass(frozen=True)
class CallSequence:
    """The calls of a case: one, or several in a row, from a fresh state."""

    kind: str
    """"example", "random", "edge", "real", "state" or "bundled"."""
    about: str
    """Number of the case, or the sizes of an edge shape."""
    calls: tuple[Call, ...]
    fallback: Callable[[], tuple[Call, ...]] | None = None
    """Returns calls for a random case whose numbers eager refuses."""
    refused: str | None = None
    """Reason why the export does not allow the shapes: they are no fault if they do not match."""
    again: Callable[[], tuple[Call, ...]] | None = None
    """Returns the calls of a case of a file, which is read again."""


@dataclass(frozen=True)
class Calls:
    """Calls in a row, from a fresh state: an item of real_inputs."""

    calls: tuple[object, ...]


def as_call(inputs: Any) -> Call:
    """Return arguments of the model: of a tuple or list of positional ones, a mapping of keyword
    ones, or a single tensor. NumPy arrays become tensors."""
    import numpy as np
    import torch
    from torch.utils import _pytree

    def tensor(leaf: Any) -> Any:
        return torch.from_numpy(leaf.copy()) if isinstance(leaf, np.ndarray) else leaf

    if isinstance(inputs, (torch.Tensor, np.ndarray)):
        inputs = (inputs,)
    if isinstance(inputs, Mapping):
        return (), {name: _pytree.tree_map(tensor, value) for name, value in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return tuple(_pytree.tree_map(tensor, value) for value in inputs), {}
    raise TypeError(
        f"`inputs` is a {type(inputs).__name__}, expected a tuple of positional arguments, a dict "
        "of keyword arguments, or a tensor"
    )


def example_of(example: Any, exported: Any) -> Call:
    """Return the user's example, or that of an ExportedProgram. Raises ValueError without one."""
    if example is None and exported is not None and exported.example_inputs is not None:
        args, kwargs = exported.example_inputs
        return tuple(args), dict(kwargs)
    if example is None:
        raise ValueError(
            "`inputs` is missing: pass example inputs, which only an ExportedProgram has"
        )
    return as_call(example)


class RealCases:
    """The cases of the user's. Those of files are read when they are reached, in each pass."""

    def __init__(self, cases: InputSet | None, example: Call, model: Any) -> None:
        self._example, self._model = example, model
        self._targets = targets_of(leaves(example))
        self._cases: list[InputCase | CallSequence] = [
            case if case.path is not None else self._read(case)
            for case in (() if cases is None else cases.checked(self._check))
        ]
        self.notes = () if cases is None else tuple(cases.notes())

    def __bool__(self) -> bool:
        return bool(self._cases)

    def __iter__(self) -> Iterator[CallSequence]:
        for case in self._cases:
            yield self._read(case) if isinstance(case, InputCase) else case

    def calls(self) -> Iterator[Call]:
        """Yield the calls of all cases."""
        return (call for case in self for call in case.calls)

    def _read(self, case: InputCase) -> CallSequence:
        def read() -> tuple[Call, ...]:
            item = case.for_model(self._model, self._targets)
            where = case.path or f"`real_inputs[{case.name}]`"
            each = item.calls if isinstance(item, Calls) else (item,)
            return tuple(like(as_call(one), self._example, where) for one in each)

        again = None if case.path is None else read
        return CallSequence("real", case.name, read(), again=again)

    def _check(self, outline: InputCase) -> None:
        """Raise ValueError for a file of another structure, or of other dtypes."""
        assert outline.path is not None
        arrays = outline.for_model(self._model, self._targets)
        args, _ = like((arrays, {}), self._example, outline.path)
        for i, (one, wanted) in enumerate(zip(args, leaves(self._example))):
            if not hasattr(wanted, "dtype"):
                continue
            ours, theirs = one.dtype.name, str(wanted.dtype).removeprefix("torch.")
            if ours != theirs or one.ndim != wanted.ndim:
                raise ValueError(
                    f"{outline.path}: array {i} is {ours} {_text.shape(one.shape)}, the example's "
                    f"{theirs} {_text.shape(wanted.shape)}"
                )


def real_cases(real_inputs: Source, example: Call, model: Any) -> RealCases:
    """Return the cases of the user's; of files, the headers are read.

    Raises ValueError for another structure than the example's, TypeError for another type, and the
    exceptions of `input_set`.
    """
    if isinstance(real_inputs, (list, tuple)) and not real_inputs:
        return RealCases(None, example, model)
    return RealCases(input_set(real_inputs), example, model)


def targets_of(values: Iterable[Any]) -> list[Target]:
    """Return the targets of files that are read for the tensors of an example."""
    tensors = [value for value in values if hasattr(value, "dtype")]
    return [Target(tuple(one.shape), str(one.dtype).removeprefix("torch.")) for one in tensors]


def structure_of(call: Call) -> Any:
    """Return how positional and keyword arguments are nested (torch's TreeSpec)."""
    from torch.utils import _pytree

    return _pytree.tree_structure(call)


def leaves(call: Call) -> list[Any]:
    """Return the inputs of the program: the leaves of arguments, in pytree order."""
    from torch.utils import _pytree

    values: list[Any] = _pytree.tree_leaves(call)
    return values


def like(call: Call, example: Call, where: str) -> Call:
    """Return a call of the user's with keyword arguments in the example's order, which is the
    program's.

    Raises ValueError for another structure.
    """
    from torch.utils import _pytree

    args, kwargs = call
    if set(kwargs) == set(example[1]):
        kwargs = {name: kwargs[name] for name in example[1]}
    structure, wanted = (_pytree.tree_structure(x) for x in ((args, kwargs), example))
    if structure != wanted:
        raise ValueError(
            f"{where} has {_arguments((args, kwargs))}, the example has {_arguments(example)}"
            + (": pass the inputs without the labels" if len(args) == len(example[0]) + 1 else "")
        )
    return args, kwargs


def _arguments(call: Call) -> str:
    count = f"{len(call[0])} positional arguments" if call[0] or not call[1] else ""
    names = f"the keyword arguments {', '.join(call[1])}" if call[1] else ""
    return " and ".join(filter(None, (count, names))) + f" ({len(leaves(call))} values)"
