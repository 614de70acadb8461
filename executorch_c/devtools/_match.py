"""Matches: which value of a program is which node of the reference's graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from executorch_c import _text
from executorch_c._arrays import as_array
from executorch_c.devtools._align import kind, sample

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c._types import Array

Shape: TypeAlias = "tuple[int, ...]"

ALIASES = {
    "et_view": "view_copy",
    "_unsafe_view": "view_copy",
    "_clone_dim_order": "clone",
    "max_pool2d_with_indices": "max_pool2d",
}
"""Operators that come to the program under another name."""

MOVES = {
    "clone", "expand_copy", "permute_copy", "select_copy", "slice_copy", "split_with_sizes_copy",
    "squeeze_copy", "unsqueeze_copy", "view_copy",
}  # fmt: skip
"""Operators that compute nothing."""

FUSED = {"relu", "hardtanh", "clamp", "_native_batch_norm_legit_no_training"}
"""Operators that a delegate's node takes in with the one before, beside those that quantise."""


@dataclass
class Match:
    """A value that the program computed, and the nodes that may be it."""

    order: int
    """Of its event in the trace."""
    where: str
    name: str
    inside: bool
    """Whether a delegate computed it."""
    outputs: list[Array | None]
    """One for each output of the operator; of a delegate's node, its only one."""
    nodes: list[Node]
    """An instruction's node, or candidates in order of execution, each fed by the one before."""
    anchor: Node
    """The node that says which layer this is."""
    key: tuple[object, ...]
    """Values with the same key may have been taken for one another: a delegated program computes
    independent parts in another order than the graph has them."""
    path: Sequence[Node] = ()
    """What the operator has taken in, up to the node; where it is not known, the candidates."""

    def swap(self, other: Match) -> None:
        """Exchanges the two values, each of which is what the other's nodes gave."""
        for name in ("order", "where", "name", "inside", "outputs"):
            mine = getattr(self, name)
            setattr(self, name, getattr(other, name))
            setattr(other, name, mine)


@dataclass
class Matches:
    """What could be matched, and how much could not."""

    found: list[Match] = field(default_factory=list)
    instructions: int = 0
    nodes: int = 0
    matched: tuple[int, int] = (0, 0)
    """So many instructions, and nodes inside of delegates."""
    notes: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """"matched 30 of 32 instructions, 12 of 12 nodes in delegates"."""
        outside, inside = self.matched
        parts = []
        if self.instructions:
            count = _text.plural(self.instructions, "instruction")
            parts.append(f"{outside:,} of {count}")
        if self.nodes:
            parts.append(f"{inside:,} of {_text.plural(self.nodes, 'node')} in delegates")
        return "matched " + (", ".join(parts) or "nothing: the program has no operators")


def base(name: str) -> str:
    """"aten::add.out" -> "add": what all variants of an operator share."""
    name = name.rpartition("::")[2].partition(".")[0]
    name = name.rstrip("_") or name
    return ALIASES.get(name, name)


def operator_of(node: Node) -> str | None:
    """The same for a node of the graph; None where it calls no operator."""
    schema = getattr(node.target, "_schema", None)
    return base(schema.name) if node.op == "call_function" and schema is not None else None


def is_quantizer(node: Node) -> bool:
    """Whether it only changes how numbers are stored: quantize_..., dequantize_..."""
    name = operator_of(node) or ""
    return name.startswith(("quantize_", "dequantize_"))


@cache
def kind_of(node: Node) -> str | None:
    """What a node does, as steps are told."""
    name = operator_of(node)
    if name is None:
        return None
    return "convert" if is_quantizer(node) else kind(f"::{name}")


def shape_of(node: Node) -> tuple[int, ...] | None:
    """Of its (first) result, where the graph fixes it."""
    value = node.meta.get("val")
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    sizes = getattr(value, "shape", None)
    if sizes is None or not all(isinstance(size, int) for size in sizes):
        return None
    return tuple(sizes)


def elements(shape: Iterable[int]) -> list[int]:
    """Sizes but those of 1, sorted: what layouts and added axes do not change."""
    return sorted(size for size in shape if size != 1)


def fits(node: Node, shape: Sequence[int]) -> bool:
    known = shape_of(node)
    return known is None or elements(known) == elements(shape)


def as_tensor(array: Any) -> Any:
    """A torch.Tensor of its own with an array's numbers."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def is_read(node: Node, output: int) -> bool:
    """Whether anything reads an output of an operator with several."""
    reads = [user.args[1] for user in node.users if user.target is getitem and user.users]
    return not reads or output in reads


def twins(node: Node) -> list[Node]:
    """A node, and others that dequantise the same."""
    if not (operator_of(node) or "").startswith("dequantize_"):
        return [node]
    users = node.all_input_nodes[0].users
    return [node, *(n for n in users if n is not node and n.target == node.target
                    and (operator_of(n) or "").startswith("dequantize_"))]  # fmt: skip


def is_number(node: Node) -> bool:
    import torch

    value = node.meta.get("val")
    return isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def may_fit(node: Node, array: Array) -> bool:
    """By the number of elements, where the graph fixes it."""
    known = shape_of(node)
    return known is None or math.prod(known) == array.size


def closest(array: Array, expected: Any) -> tuple[float, Any] | None:
    """|a - b| / (|a| + |b|) of samples, in the layout in which it is smallest."""
    value = as_tensor(array)
    if value.dtype.is_floating_point != expected.dtype.is_floating_point:
        return None
    theirs = sample(as_array(expected))
    best: tuple[float, Any] | None = None
    for shaped in layouts(value, expected.shape):
        ours = sample(as_array(shaped))
        both = float(np.linalg.norm(ours) + np.linalg.norm(theirs))
        gap = float(np.linalg.norm(ours - theirs)) / both if both else 0.0
        if best is None or gap < best[0]:
            best = gap, shaped.to(expected.dtype)
    return best


def layouts(value: Any, shape: Sequence[int]) -> list[Any]:
    """A tensor in the shape of a node: as it is, and from channels last; [] where it cannot be."""
    shape = tuple(shape)
    if value.numel() != math.prod(shape):
        return []
    found = []
    if tuple(value.shape) == shape:
        found.append(value)
    if value.ndim >= 3:
        first = value.movedim(-1, 1)
        if tuple(first.shape) == shape or value.ndim != len(shape):
            found.append(first.reshape(shape))
    if not found or value.ndim != len(shape):
        found.append(value.reshape(shape))
    return found
