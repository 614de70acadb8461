"""The graph that a flow lowers, and parts of it: sets of nodes between values that are inputs."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import getitem
from typing import TYPE_CHECKING, Any

from executorch_c.check.lowering import quiet
from executorch_c.debug._graphs.names import is_quantizer
from executorch_c.debug._graphs.reference import ReferenceGraph, module_of, source_of
from executorch_c.debug._graphs.unroll import has_control_flow

if TYPE_CHECKING:
    from torch.fx import Node


class Whole:
    """A graph with the value of each node: the one that was exported, before operators are
    decomposed, without operators that work in place."""

    def __init__(self, graph: ReferenceGraph, inputs: Sequence[Any]) -> None:
        import torch

        self.is_decomposed = graph.source is not None and not _has_branches(graph.source)
        """True if the reference's graph is that of the export, decomposed."""
        program = graph.source if self.is_decomposed else graph.program
        self.original = program
        """What the flow lowers."""
        self.program, module = program, _without_in_place(program.graph_module)
        if module is None:
            with torch.no_grad(), quiet():
                self.program = program.run_decompositions({})
        self.is_exact = module is not None
        """True if nodes have the names of those that were exported."""
        self.graph = ReferenceGraph(self.program, flat=module)
        self.values = self._values(inputs)
        self.varying = self._varying()

    def _values(self, inputs: Sequence[Any]) -> dict[Node, Any]:
        """Return eager's values of all nodes."""
        import torch
        from executorch_c.debug._graphs.evaluator import attribute, call

        known = dict(self.graph.arguments(inputs))
        with torch.no_grad():
            for node in self.graph.nodes:
                if node.op == "get_attr":
                    known[node] = attribute(self.graph.module, node)
                elif node.op == "call_function":
                    known[node] = call(node, known.__getitem__)
        return known

    def _varying(self) -> set[Node]:
        """Return the inputs, the state, and the nodes that depend on them."""
        varying = {*self.graph.inputs, *self.graph.state}
        for node in self.graph.nodes:
            if not varying.isdisjoint(node.all_input_nodes):
                varying.add(node)
        return varying

    @cached_property
    def constants(self) -> dict[Node, tuple[str, bool]]:
        """Names of the placeholders of weights, buffers and constants, and whether each is a
        parameter."""
        from torch.export.graph_signature import InputKind

        places = [node for node in self.graph.nodes if node.op == "placeholder"]
        specs = self.program.graph_signature.input_specs
        return {
            node: (str(spec.target), spec.kind == InputKind.PARAMETER)
            for node, spec in zip(places, specs)
            if node not in self.varying
        }

    @cached_property
    def places(self) -> dict[Node, int]:
        """The place of each node in the order of execution."""
        return {node: place for place, node in enumerate(self.graph.nodes)}

    def nodes_from(self, nodes: Iterable[Node]) -> set[Node]:
        """Return the nodes that nodes of the decomposed graph come from."""
        wanted = {_origin(n) if self.is_decomposed else n.name for n in nodes} - {None}
        found = {n for n in self.operators if (n.name if self.is_exact else _origin(n)) in wanted}
        if found:
            return found
        lines = {(module_of(node), source_of(node)) for node in nodes} - {(None, None)}
        return {n for n in self.operators if (module_of(n), source_of(n)) in lines}

    @cached_property
    def operators(self) -> list[Node]:
        """Operators on values that vary, in order."""
        return [n for n in self.graph.nodes if n.op == "call_function" and n in self.varying]

    def closed(self, nodes: Iterable[Node]) -> frozenset[Node]:
        """Return nodes with those that no cut parts from them: the results of an operator of
        several, and the quantisation of inputs and results."""
        result: set[Node] = set()
        queue = list(nodes)
        while queue:
            node = queue.pop()
            if node in result or node not in self.varying or node.op != "call_function":
                continue
            result.add(node)
            queue += [user for user in node.users if user.target is getitem]
            queue += node.all_input_nodes if node.target is getitem else ()
            queue += self._quantizers(node)
        return frozenset(result)

    def _quantizers(self, node: Node) -> Iterator[Node]:
        """Yield the quantising nodes around one: all of a chain before it, one chain after it."""
        before = [one for one in node.all_input_nodes if is_quantizer(one)]
        yield from before
        after = [user for user in node.users if is_quantizer(user)]
        yield from after[:1]

    def around(
        self, nodes: Iterable[Node], inputs: bool = True, users: bool = True
    ) -> frozenset[Node]:
        """Return nodes with their neighbours: what computes their inputs, what reads them."""
        result = set(nodes)
        for node in list(result):
            result.update(node.all_input_nodes if inputs else ())
            result.update(node.users if users else ())
        return self.closed(result)


def _without_in_place(module: Any) -> Any:
    """Return a copy of a graph in which operators have new tensors as results; None where the old
    value of one that is changed in place may be read later, as of a buffer."""
    import torch

    graph = copy.deepcopy(module.graph)
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None or not schema.is_mutable:
            continue
        changed = node.args[0] if node.args else None
        packet, name = str(schema.name).split("::")
        other = getattr(getattr(torch.ops, packet), name.removesuffix("_"), None)
        overload = getattr(other, schema.overload_name or "default", None)
        if not isinstance(changed, torch.fx.Node) or changed.op != "call_function":
            return None
        if list(changed.users) != [node] or overload is None:
            return None
        if not name.endswith("_") or overload._schema.is_mutable or _is_view(changed):
            return None
        node.target = overload
    return torch.fx.GraphModule(module, graph)


def _is_view(node: Node) -> bool:
    """Return True if a result may share the memory of another value."""
    returns = node.target._schema.returns  # type: ignore[union-attr]
    return any(one.alias_info is not None for one in returns)


def _has_branches(program: Any) -> bool:
    """Return True for control flow: the reference's graph has it unrolled."""
    return has_control_flow(program.graph_module)


def _origin(node: Node) -> str | None:
    """Return the name of a node in the graph that was exported."""
    known = node.meta.get("from_node") or ()
    return str(known[0].name) if known else None


def to_nhwc(rank: int) -> tuple[int, ...]:
    """Return the permutation from NCHW to NHWC order."""
    return (0, *range(2, rank), 1)


def to_nchw(rank: int) -> tuple[int, ...]:
    """Return the permutation from NHWC to NCHW order."""
    return (0, rank - 1, *range(1, rank - 1))


@dataclass(frozen=True)
class Part:
    """Some nodes of a graph, as a module of its own."""

    whole: Whole
    nodes: frozenset[Node]
    in_nhwc: frozenset[Node] = frozenset()
    """Inputs and outputs that the part's program has in NHWC order."""

    @cached_property
    def order(self) -> list[Node]:
        """The nodes in order, with those that compute from constants alone."""
        result = set(self.nodes)
        queue = [before for node in self.nodes for before in node.all_input_nodes]
        while queue:
            node = queue.pop()
            if node not in self.whole.varying and node.op == "call_function" and node not in result:
                result.add(node)
                queue += node.all_input_nodes
        return sorted(result, key=self.whole.places.__getitem__)

    @cached_property
    def inputs(self) -> list[Node]:
        """Nodes whose tensors are the part's inputs, in order."""
        read = {before for node in self.order for before in node.all_input_nodes}
        return [
            node
            for node in self.whole.graph.nodes
            if node in read
            and node in self.whole.varying
            and node not in self.nodes
            and not isinstance(self.whole.values[node], (int, float, bool))
        ]

    @cached_property
    def constants(self) -> list[Node]:
        """Placeholders and attributes of the constants that it reads, in order."""
        read = {before for node in self.order for before in node.all_input_nodes}
        is_constant = self.whole.constants.__contains__
        return [
            n
            for n in self.whole.graph.nodes
            if n in read and (is_constant(n) or n.op == "get_attr")
        ]

    @cached_property
    def outputs(self) -> list[Node]:
        """Nodes whose tensors are its outputs: those that others read, or the graph returns."""
        ends = [
            node
            for node in self.order
            if node in self.nodes
            and any(user not in self.nodes for user in node.users)
            and not (is_quantizer(node) and any(user in self.nodes for user in node.users))
            and not isinstance(self.whole.values[node], (list, tuple, int, float, bool))
        ]
        return ends or [node for node in self.order if node in self.nodes][-1:]

    @property
    def size(self) -> int:
        """Number of operators on values that vary; quantisation and the choice of one of several
        results are none."""
        return sum(n.target is not getitem and not is_quantizer(n) for n in self.nodes)

    @property
    def values(self) -> list[Any]:
        """The values of its inputs, as the part's program has them."""
        values = ((node, self.whole.values[node]) for node in self.inputs)
        return [
            value.permute(to_nhwc(value.ndim)) if node in self.in_nhwc else value
            for node, value in values
        ]

    def number(self, node: Node) -> Any:
        """Return the number that a node outside of the part has as its value."""
        return self.whole.values[node]


def names_of(nodes: Iterable[Node]) -> Mapping[Node, str]:
    """Return names of nodes for Python."""
    from keyword import iskeyword

    return {n: f"{n.name}_" if iskeyword(n.name) or n.name in RESERVED else n.name for n in nodes}


RESERVED = {"self", "torch"}
