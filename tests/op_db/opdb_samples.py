"""Samples of torch's own operator database, in a fixed order.

`op_db` (torch.testing._internal.common_methods_invocations) describes some 700 functions, each with
samples for every supported dtype. A sample becomes a module of its tensors; anything that is not a
tensor is part of the module. Tensors are made contiguous: tests/kernels covers other layouts.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

# Dtype -> default number of samples of each function.
DTYPES = {
    "float32": 4,
    "int64": 1,
    "bfloat16": 1,
    "bool": 1,
    "complex64": 1,
    "float16": 1,
    "float64": 1,
    "int32": 1,
    "uint8": 1,
    "int8": 1,
    "int16": 1,
}
# Undefined results: only shape and dtype are compared.
UNFILLED = ("empty", "new_empty", "resize_")


class Sample(torch.nn.Module):
    """A call of the function, with its tensors as inputs and everything else fixed."""

    def __init__(self, function: Callable[..., Any], arguments: Any) -> None:
        super().__init__()
        self.function = function
        self.leaves, self.spec = pytree.tree_flatten(arguments)
        self.tensors = tuple(plain(x) for x in self.leaves if isinstance(x, torch.Tensor))

    def forward(self, *tensors: torch.Tensor) -> tuple[Any, ...]:
        left = iter(tensors)
        leaves = [next(left) if isinstance(x, torch.Tensor) else x for x in self.leaves]
        args, keywords = pytree.tree_unflatten(leaves, self.spec)
        # The export flow cannot serialise named tuples.
        return tuple(pytree.tree_leaves(self.function(*args, **keywords)))


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy; raise for sparse tensors and other devices."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous().clone()


@dataclass(frozen=True)
class Entry:
    """A function of the database."""

    name: str  # "nn.functional.pad.reflect"
    info: Any

    def dtypes(self) -> list[str]:
        """Return the DTYPES that eager supports on CPU."""
        taken = self.info.supported_dtypes("cpu")
        return [name for name in DTYPES if getattr(torch, name) in taken]

    def samples(self, dtype: str) -> list[Any]:
        torch.manual_seed(0)
        return list(self.info.sample_inputs("cpu", getattr(torch, dtype)))

    def module(self, sample: Any) -> Sample:
        return Sample(self.info.op, ((sample.input, *sample.args), sample.kwargs))


@functools.cache
def entries() -> dict[str, Entry]:
    """Return the whole database, by name and variant."""
    table = {}
    for info in op_db:
        variant = info.variant_test_name
        name = f"{info.name}.{variant}" if variant else info.name
        table[name] = Entry(name, info)
    return table


def spread(count: int) -> Iterator[int]:
    """Yield 0 ... count - 1, ordered so that every prefix is evenly spaced."""
    bits = max(1, (count - 1).bit_length())
    for i in range(1 << bits):
        at = int(format(i, f"0{bits}b")[::-1], 2)
        if at < count:
            yield at
