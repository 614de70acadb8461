"""Values of a graph's nodes: computed at the first access, or set to a program's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from executorch_c._eager_caches import kept_caches

if TYPE_CHECKING:
    from torch.fx import Node

MAX_KEPT_BYTES = 1 << 28
"""Maximum bytes of computed values that are kept; all of them can be computed again."""


class MissingValue:
    """The value of a node that cannot be run here."""


NOTHING = MissingValue()


def call(node: Node, lookup: Callable[[Node], Any]) -> Any:
    """Run a node; `lookup` returns the values of the nodes before it.

    Raises NotImplementedError, which names the node, if eager has no kernel for its dtypes.
    """
    from torch.fx.node import map_arg

    target: Any = node.target
    args, kwargs = map_arg(node.args, lookup), map_arg(node.kwargs, lookup)
    try:
        if getattr(target, "namespace", "") == "kvcache":  # appends to a cache
            with kept_caches():
                return target(*args, **kwargs)
        return target(*args, **kwargs)
    except NotImplementedError as error:
        reason = f"eager PyTorch cannot compute node '{node.name}' ({target}) of the reference"
        raise NotImplementedError(f"{reason}: {error}") from error


def attribute(owner: object, node: Node) -> Any:
    """Return the value of a get_attr node."""
    for name in str(node.target).split("."):
        owner = getattr(owner, name)
    return owner


def _nbytes(value: object) -> int:
    if isinstance(value, (list, tuple)):
        return sum(map(_nbytes, value))
    return int(getattr(value, "nbytes", 0))


class Evaluator:
    """Values of nodes, computed at the first access from the values that were `set`."""

    def __init__(
        self, owner: object, arguments: Mapping[Node, Any], place: Mapping[Node, int]
    ) -> None:
        self.owner, self.arguments, self.place = owner, arguments, place
        self.fixed: dict[Node, Any] = {}
        self.computed: dict[Node, Any] = {}
        self.nbytes = 0

    def set(self, node: Node, value: Any) -> None:
        """Set the value of a node."""
        self.fixed[node] = value
        self._forget(node)

    def unset(self, node: Node) -> None:
        """Remove the value that was set: the node is computed again."""
        del self.fixed[node]
        self._forget(node)

    def _forget(self, node: Node) -> None:
        queue = [node]
        while queue:
            for user in queue.pop().users:
                if user in self.computed:
                    self.nbytes -= _nbytes(self.computed.pop(user))
                    queue.append(user)

    def _known(self, node: Node) -> bool:
        return node in self.fixed or node in self.computed

    def value(self, node: Node) -> Any:
        """Return the value of a node; NOTHING if its operator, or one before it, fails."""
        if not self._known(node):
            if self.nbytes > MAX_KEPT_BYTES:
                self.computed.clear()
                self.nbytes = 0
            for one in self._missing(node):
                self._make(one)
        return self.fixed[node] if node in self.fixed else self.computed[node]

    def _missing(self, node: Node) -> Sequence[Node]:
        """Return the node and the nodes that it depends on, in order of execution."""
        missing, queue = {node}, [node]
        while queue:
            for before in queue.pop().all_input_nodes:
                if before not in missing and not self._known(before):
                    missing.add(before)
                    queue.append(before)
        return sorted(missing, key=self.place.__getitem__)

    def _make(self, node: Node) -> None:
        def lookup(before: Node) -> Any:
            return self.fixed[before] if before in self.fixed else self.computed[before]

        value: Any = NOTHING
        if node.op == "placeholder":
            value = self.arguments[node]
        elif node.op == "get_attr":
            value = attribute(self.owner, node)
        elif not any(lookup(before) is NOTHING for before in node.all_input_nodes):
            try:
                value = call(node, lookup)
            except Exception:
                value = NOTHING  # values of a wrong program may be out of an operator's range
        self.computed[node] = value
        if node.op == "call_function":
            self.nbytes += _nbytes(value)
