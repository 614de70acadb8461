"""The first step of a program whose result has another shape than its node: a wrong stride.

Nothing after it can be matched up to the next value of the right shape, which would be called wrong
for all that lies between. The step's sources are matched, and one node of its kind follows from all
of them: that is the one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from executorch_c.debug._graphs.layouts import may_fit
from executorch_c.debug._graphs.names import kind_of, operator_of
from executorch_c.debug._graphs.reference import handles_of
from executorch_c.debug._matching.matches import Match
from executorch_c.inspect.families import MOVES

if TYPE_CHECKING:
    from executorch_c.debug._graphs.program import Step
    from executorch_c.debug._matching.values import Pairing
    from torch.fx import Node


def find(pairing: Pairing, steps: Sequence[Step]) -> Match | None:
    """Return the match of that step; None if there is none, or a later step that follows from
    it is right: then a delegate computes in another shape on its way."""
    for step in steps:
        node = None if step in pairing.known or step.is_open else _node_of(pairing, step)
        if node is not None and not _is_followed(pairing, step, steps):
            return Match(
                step.order, step.where, step.name, step.inside, list(step.outputs), [node], node
            )
    return None


def _node_of(pairing: Pairing, step: Step) -> Node | None:
    """Return the node of a step of another shape; None if there are several, or if the step has
    the shape of the move's reader: Core AI's engine shows a layer as the select before it."""
    array = next((one for one in step.outputs if one is not None), None)
    state = pairing.state
    front = state.front(step)
    if array is None or not front.nodes or front.through:
        return None
    nodes = []
    for node in state.near(front.all, step, front.through, from_constants=False):
        if node in state.taken or kind_of(node) not in step.node_kinds:
            continue
        path, used = state.path(node, front.all)
        alone = sum(kind_of(one) in step.node_kinds for one in path) == 1
        if alone and all(not one.isdisjoint(used) for one in front.nodes):
            nodes.append(node)
    marked = [node for node in nodes if not step.handles.isdisjoint(handles_of(node))]
    nodes = marked if len(nodes) > 1 else nodes
    if len(nodes) != 1 or may_fit(nodes[0], array):
        return None
    is_fused = step.inside and operator_of(nodes[0]) in MOVES
    return None if is_fused and any(may_fit(user, array) for user in nodes[0].users) else nodes[0]


def _is_followed(pairing: Pairing, step: Step, steps: Sequence[Step]) -> bool:
    after = {step}
    for one in steps:
        if one not in pairing.wrong and any(source in after for source, _ in one.sources):
            if one in pairing.known:
                return True
            after.add(one)
    return False
