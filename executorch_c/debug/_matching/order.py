"""Match a program's values with nodes by operator, in order: for a program that was exported from
another graph, such as a quantised one and the float model.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Sequence
from operator import getitem
from typing import TYPE_CHECKING, TypeAlias

from executorch_c.debug._graphs.layouts import elements
from executorch_c.debug._graphs.names import (
    FUSED,
    base,
    dequantizes,
    has_several,
    is_quantizer,
    kind_of,
    operator_of,
    shape_of,
)
from executorch_c.debug._matching.matches import Match, Matches

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c.debug._graphs.program import Step

ALIGNED = {"convolution", "linear", "bmm", "softmax", "max_pool2d", "avg_pool2d"}
"""Kinds of operators and nodes that are aligned."""

Token: TypeAlias = "tuple[str, Sequence[int] | None]"


class Sequences:
    """Matches the steps of one call with the nodes of a graph."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = [node for node in nodes if node.op == "call_function"]
        self.taken: set[Node] = set()

    def match(self, steps: Sequence[Step]) -> Matches:
        """Return all matches."""
        kernels = [step for step in steps if not step.inside and _shape(step) is not None]
        inside = [step for step in steps if step.inside]
        result = Matches(instructions=len(kernels), nodes=sum(step.counts for step in inside))
        result.pairs += self._inside([step for step in inside if _shape(step) is not None])
        if not inside:
            result.pairs += self._instructions(kernels)
        result.pairs.sort(key=lambda match: match.order)
        result.matched = (
            len(result.pairs) - sum(m.inside for m in result.pairs),
            sum(match.inside for match in result.pairs),
        )
        return result

    def _instructions(self, kernels: Sequence[Step]) -> Iterator[Match]:
        """Yield matches of the longest runs of equal operators with equal shapes, in order."""
        free = [n for n in self.nodes if operator_of(n) is not None]
        ours = [(base(step.name), _shape(step)) for step in kernels]
        theirs = [(operator_of(n) or "", shape_of(n)) for n in free]
        for i, j in _align(ours, theirs):
            step, node = kernels[i], free[j]
            yield Match(step.order, step.where, step.name, False, list(step.outputs), [node], node)

    def _inside(self, steps: Sequence[Step]) -> Iterator[Match]:
        """Return matches of nodes in delegates, by the kinds in their names."""
        named = [step for step in steps if step.kind in ALIGNED]
        free = [n for n in self.nodes if kind_of(n) in ALIGNED]
        theirs = [(kind_of(n) or "", shape_of(n)) for n in free]
        pairs = _align([(step.kind, _shape(step)) for step in named], theirs)
        self.taken.update(free[j] for _, j in pairs)
        for i, j in pairs:
            step = named[i]
            chain = self._extend([free[j]])
            shape = _shape(step) or ()
            nodes = [
                n for n in _first_copies(chain) if _fits(n, step.kind, shape) and not has_several(n)
            ]
            if nodes:
                self.taken.update(chain)
                anchor = next((n for n in chain if not is_quantizer(n)), chain[0])
                yield Match(
                    step.order, step.where, step.name, True, list(step.outputs), nodes, anchor
                )

    def _extend(self, chain: list[Node]) -> list[Node]:
        """Append the nodes that may be fused into the last one of a chain, and return it."""
        while True:
            users = [n for n in chain[-1].users if n not in chain and n.users]
            if len(users) != 1 and not (users and all(map(is_quantizer, users))):
                return chain
            user = users[0]
            fused = user.target is getitem or operator_of(user) in FUSED or is_quantizer(user)
            fused |= kind_of(user) == "view"  # of a linear layer's rows, before its activation
            if not fused or user in self.taken:
                return chain
            chain.append(user)


def _shape(step: Step) -> tuple[int, ...] | None:
    return next((array.shape for array in step.outputs if array is not None), None)


def _sizes(kind: str, shape: Sequence[int]) -> list[int]:
    """Return the sizes by which steps and nodes of a kind are compared: products have any number
    of axes before those of their matrices, which a graph may flatten."""
    kept = {"linear": 1, "bmm": 2}.get(kind, 0)
    if kept and len(shape) > kept:
        shape = (math.prod(shape[:-kept]), *shape[-kept:])
    return elements(shape)


def _fits(node: Node, kind: str, shape: Sequence[int]) -> bool:
    known = shape_of(node)
    return known is None or _sizes(kind, known) == _sizes(kind, shape)


def _align(ours: Sequence[Token], theirs: Sequence[Token]) -> list[tuple[int, int]]:
    """Return pairs of equal names with equal shapes (where the graph fixes them), both in order."""
    static = all(shape is not None for _, shape in theirs)

    def key(token: Token) -> tuple[object, ...]:
        return token[0], tuple(_sizes(token[0], token[1] or ())) if static else ()

    a, b = [key(token) for token in ours], [key(token) for token in theirs]
    blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    return [(i + k, j + k) for i, j, size in blocks for k in range(size)]


def _first_copies(chain: Sequence[Node]) -> list[Node]:
    """Return nodes without all but the first of those that dequantise one tensor."""
    copies: dict[object, Node] = {}
    for node in chain:
        copy = dequantizes(node)
        copies.setdefault((copy, node.all_input_nodes[0] if copy else node), node)
    kept = set(copies.values())
    return [node for node in chain if node in kept]
