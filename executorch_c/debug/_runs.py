"""The values of a graph, twice: as eager computes them, and from the values of a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from executorch_c.debug._graphs.evaluator import attribute, call
from executorch_c.debug._graphs.layouts import as_tensor
from executorch_c.debug._graphs.names import dequantizes
from executorch_c.debug._local import NodeValue, run_node

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c._arrays import Array
    from executorch_c.debug._graphs.reference import ReferenceGraph
    from executorch_c.debug._matching.matches import Match


class Runs:
    """Runs a graph node by node, and drops each value after its last use."""

    def __init__(
        self, graph: ReferenceGraph, arguments: Mapping[Node, Any], matches: Iterable[Match]
    ) -> None:
        """`matches` read the values of their nodes at the last of these."""
        self.graph, self.arguments = graph, arguments
        self.eager: dict[Node, NodeValue] = {}
        """Values computed from the inputs."""
        self.rerun: dict[Node, NodeValue] = {}
        """Values computed from the program's values; the same objects if no value of the
        program precedes."""
        self._dequantised: dict[Node, NodeValue] = {}
        """Values of the program, by the quantised node whose copies they are."""
        self._uses = {node: len(node.users) for node in graph.nodes}
        for node in [node for match in matches for node in match.nodes]:
            self._uses[node] += 1
        for place in graph.outputs:
            if place in self._uses:
                self._uses[place] += 1

    def compute(self, node: Node) -> None:
        """Compute both values of a node."""
        if node.op == "placeholder":
            self.eager[node] = self.rerun[node] = NodeValue(self.arguments[node])
        elif node.op == "get_attr":
            self.eager[node] = self.rerun[node] = NodeValue(attribute(self.graph.module, node))
        else:
            result = run_node(node, self.eager)
            self.eager[node] = self.rerun[node] = result
            if any(self.eager[n] is not self.rerun[n] for n in node.all_input_nodes):
                self.eager[node] = NodeValue(result.value)  # lets go of its inputs
                self.rerun[node] = run_node(node, self.rerun)
            self._take_copy(node)

    def _take_copy(self, node: Node) -> None:
        """Set the program's value of a node that dequantises what another node with a value of the
        program does."""
        if dequantizes(node):
            known = self._dequantised.get(node.all_input_nodes[0])
            if known is not None and known.value.dtype == self.rerun[node].value.dtype:
                self.rerun[node] = known

    def release(self, nodes: Iterable[Node]) -> None:
        """Drop the values of nodes after one use of each, where it is the last."""
        for node in nodes:
            self._uses[node] -= 1
            self.release_unused(node)

    def release_unused(self, node: Node) -> None:
        """Drop the values of a node that nothing reads."""
        if not self._uses[node]:
            self.eager.pop(node, None)
            self.rerun.pop(node, None)

    # ---- values of the program ------------------------------------------------------------

    def substitute(
        self, node: Node, ours: Sequence[Any], after: Sequence[Node], causes: frozenset[int]
    ) -> None:
        """Go on with the value that the program computed.

        Args:
            ours: The node's results; None for those that the program does not have.
            after: Nodes that are computed already, from the node.
            causes: Rows with a fault that the value carries.
        """
        old = self.rerun[node].value
        if isinstance(old, (list, tuple)):
            kept = [one if mine is None else mine for mine, one in zip(ours, old)]
            value = NodeValue(type(old)(kept))
        else:
            value = NodeValue(ours[0])
        value.causes = causes
        self.rerun[node] = value
        if dequantizes(node):
            self._dequantised[node.all_input_nodes[0]] = value
        for one in after:
            self._compute_again(one)

    def read_instead(self, reader: Node, node: Node, value: Any, causes: frozenset[int]) -> None:
        """Compute the program's value of a node from another value of one of its inputs."""
        instead = NodeValue(value)
        instead.causes = causes
        env = {n: self.rerun[n] for n in reader.all_input_nodes}
        env |= self.rerun[reader].env if self.rerun[reader] is not self.eager[reader] else {}
        env[node] = instead
        self.rerun[reader] = NodeValue(call(reader, lambda n: env[n].value), reader, env)

    def _compute_again(self, node: Node) -> None:
        before = self.rerun[node]
        env = {n: self.rerun.get(n, value) for n, value in before.env.items()}
        if before.node is not None:
            self.rerun[node] = NodeValue(call(node, lambda n: env[n].value), node, env)

    def adopt(self, node: Node, array: Array) -> None:
        """Take the program's value for eager's, too: random numbers differ by nature."""
        value = self.eager[node].value
        if getattr(value, "shape", None) == array.shape:
            value_of_program = NodeValue(as_tensor(array).to(value.dtype))
            self.eager[node] = self.rerun[node] = value_of_program


def causes_of(value: NodeValue) -> frozenset[int]:
    """Return the rows with a fault among those that a value was computed from."""
    seen, queue, causes = {id(value)}, [value], set(value.causes)
    while queue:
        value = queue.pop()
        causes |= value.causes
        fresh = [before for before in value.env.values() if id(before) not in seen]
        seen.update(map(id, fresh))
        queue += fresh
    return frozenset(causes)
