"""The reference's graph, unrolled for some inputs: executed branches and iterations in place of
torch.cond, map, scan and while_loop.

A program executes them by jumps, so its trace is a plain sequence, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import getitem
from typing import TYPE_CHECKING, Any

from executorch_c.debug._graphs.evaluator import attribute, call

if TYPE_CHECKING:
    from torch.fx import Node

MAX_ROUNDS = 10_000
"""Maximum number of iterations of a loop."""


def _is_control_flow(node: Node) -> bool:
    return node.op == "call_function" and _name(node) in ("cond", "map_impl", "scan", "while_loop")


def _name(node: Node) -> str:
    target: Any = node.target
    is_higher = type(target).__module__.startswith("torch._higher_order_ops")
    return str(getattr(target, "_name", "")) if is_higher else ""


def has_control_flow(module: Any) -> bool:
    """Return True if a graph has control flow to unroll."""
    return any(map(_is_control_flow, module.graph.nodes))


class _Unrolling:
    """A partial graph, and the values of its nodes."""

    def __init__(self) -> None:
        import torch

        self.owner = torch.nn.Module()
        self.graph = torch.fx.Graph()
        self.values: dict[Node, Any] = {}
        self.count = 0

    def value(self, item: Any) -> Any:
        """Return the values of a node (or of lists of nodes); other objects unchanged."""
        import torch

        if isinstance(item, torch.fx.Node):
            return self.values[item]
        if isinstance(item, (list, tuple)):
            return type(item)(map(self.value, item))
        return item

    def constant(self, value: Any) -> Node:
        """Add a node for an attribute."""
        name = f"constant_{self.count}"
        self.count += 1
        setattr(self.owner, name, value)
        node = self.graph.create_node("get_attr", name)
        self.values[node] = value
        return node

    def operator(self, like: Node, target: Any, *args: Any) -> Node:
        """Add a call of an operator inside a control-flow node, with the place of that in the
        model."""
        node = self.graph.call_function(target, args)
        node.meta.update(
            {
                key: like.meta[key]
                for key in ("nn_module_stack", "stack_trace", "debug_handle")
                if key in like.meta
            }
        )
        self.values[node] = call(node, lambda before: self.values[before])
        return node

    # ---- graphs ---------------------------------------------------------------------------

    def inline(self, module: Any, arguments: Sequence[Any]) -> Any:
        """Append a copy of a graph; `arguments` replace its placeholders. Return its results."""
        places: dict[Node, Any] = {}
        rest = iter(arguments)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                places[node] = next(rest)
            elif node.op == "output":
                return _replaced(node.args[0], places)
            elif node.op == "get_attr":
                places[node] = self.constant(attribute(module, node))
            elif _is_control_flow(node):
                places[node] = self._control_flow(node, _replaced(node.args, places))
            elif _is_item(node) and isinstance(places[node.args[0]], (list, tuple)):
                places[node] = places[node.args[0]][node.args[1]]
            else:
                copy = self.graph.node_copy(node, lambda before: places[before])
                places[node] = copy
                self.values[copy] = call(copy, lambda before: self.values[before])
        raise ValueError("the reference has a graph without an output")

    def _control_flow(self, node: Node, args: Sequence[Any]) -> Any:
        """Append the branch or iterations of a control-flow node, and return its results."""
        run: Mapping[str, Callable[..., Any]] = {
            "cond": self._cond,
            "map_impl": self._map,
            "scan": self._scan,
            "while_loop": self._while,
        }
        return run[_name(node)](node, *args)

    def _cond(
        self, node: Node, chosen: Any, yes: Node, no: Node, operands: Sequence[Any] = ()
    ) -> Any:
        branch = yes if bool(self.value(chosen)) else no
        return self.inline(self.values[branch], operands)

    def _rows(self, node: Node, lists: Sequence[Any]) -> Iterator[list[Node]]:
        """Return the arguments of each iteration, from lists of tensors."""
        import torch

        for i in range(len(self.value(lists[0]))):
            yield [self.operator(node, torch.ops.aten.select_copy.int, one, 0, i) for one in lists]

    def _stacked(self, node: Node, rounds: Sequence[Sequence[Any]]) -> list[Node]:
        import torch

        return [
            self.operator(node, torch.ops.aten.stack.default, list(column))
            for column in zip(*rounds)
        ]

    def _map(self, node: Node, body: Node, lists: Sequence[Any], operands: Sequence[Any]) -> Any:
        rounds = [
            self.inline(self.values[body], [*row, *operands]) for row in self._rows(node, lists)
        ]
        return self._stacked(node, rounds)

    def _scan(
        self,
        node: Node,
        body: Node,
        first: Sequence[Any],
        lists: Sequence[Any],
        operands: Sequence[Any] = (),
    ) -> Any:
        carried, rounds = list(first), []
        for row in self._rows(node, lists):
            results = list(self.inline(self.values[body], [*carried, *row, *operands]))
            carried, rest = results[: len(carried)], results[len(carried) :]
            rounds.append(rest)
        return [*carried, *self._stacked(node, rounds)]

    def _while(
        self,
        node: Node,
        condition: Node,
        body: Node,
        first: Sequence[Any],
        operands: Sequence[Any] = (),
    ) -> Any:
        carried: Sequence[Any] = list(first)
        for _ in range(MAX_ROUNDS):
            goes_on = self.inline(self.values[condition], [*carried, *operands])
            goes_on = goes_on[0] if isinstance(goes_on, (list, tuple)) else goes_on
            if not bool(self.value(goes_on)):
                return carried
            carried = self.inline(self.values[body], [*carried, *operands])
        raise ValueError(f"a loop of the reference has more than {MAX_ROUNDS} rounds")


def _is_item(node: Node) -> bool:
    return node.target is getitem


def _replaced(item: Any, places: Mapping[Node, Any]) -> Any:
    """Return an item with other nodes in place of its nodes, also in lists."""
    import torch

    if isinstance(item, torch.fx.Node):
        return places[item]
    if isinstance(item, (list, tuple)):
        return [_replaced(one, places) for one in item]
    return item


def unrolled_graph(module: Any, arguments: Mapping[Node, Any]) -> Any:
    """Return a graph without control flow, for these arguments (by placeholder), as a
    torch.fx.GraphModule with the graph's attributes."""
    import torch

    flow = _Unrolling()
    inputs = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            copy = flow.graph.node_copy(node)
            flow.values[copy] = arguments[node]
            inputs.append(copy)
    with torch.no_grad():
        flow.graph.output(tuple(flow.inline(module, inputs)))
    return torch.fx.GraphModule(flow.owner, flow.graph)
