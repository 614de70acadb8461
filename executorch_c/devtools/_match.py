"""Which value of a trace is which node of the reference's graph.

Instructions are found by the debug handles of an ETRecord, or by aligning the sequence of operators
with that of the graph. Nodes inside of delegates bring debug handles in the payload, which an
export of the same model numbers alike; where they do not fit, kinds of nodes are aligned, too.

A delegate's node may be several of the graph: XnnpackBackend runs a convolution, its batch norm,
activation and quantisation as one. So such a value has candidates, from the operator that the
handle names on to what only it feeds.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeAlias

from executorch_c import _text
from executorch_c.devtools._reference import handles_of

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c._types import Array
    from executorch_c.devtools._reference import HandleMap
    from executorch_c.trace import Event

Shape: TypeAlias = "tuple[int, ...]"

ALIASES = {
    "et_view": "view_copy",
    "_unsafe_view": "view_copy",
    "_clone_dim_order": "clone",
    "max_pool2d_with_indices": "max_pool2d",
}
"""Operators that come to the program under another name."""

KINDS = {
    "conv1d": "convolution", "conv2d": "convolution", "Convolution": "convolution",
    "Deconvolution": "convolution", "DWConv": "convolution",
    "linear": "linear", "addmm": "linear", "mm": "linear", "Fully Connected": "linear",
    "bmm": "bmm", "Batch Matrix Multiply": "bmm",
    "_softmax": "_softmax", "Softmax": "_softmax",
    "max_pool2d": "max_pool2d", "Max Pooling": "max_pool2d",
    "avg_pool2d": "avg_pool2d", "Average Pooling": "avg_pool2d",
}  # fmt: skip
"""Operators, and nodes of XnnpackBackend as their names begin, that do the same."""

FUSED = {"relu", "hardtanh", "clamp", "_native_batch_norm_legit_no_training"}
"""Operators that a delegate's node takes in with the one before, beside those that quantise."""

MOVES = {
    "clone", "expand_copy", "permute_copy", "select_copy", "slice_copy", "split_with_sizes_copy",
    "squeeze_copy", "unsqueeze_copy", "view_copy",
}  # fmt: skip
"""Operators that compute nothing. Where the same one is called several times beside delegates, the
order, which differs, is all that tells the calls apart."""

NO_HANDLE = 0xFFFF
"""What XnnpackBackend's payloads say of nodes that no operator of the model stands for."""

FEW, FEW_NODES = 3, 12
"""A value may be any of the nodes of a handle, if there are so few values and nodes with it."""

CONVERSION = "Unary Elementwise"
"""How XnnpackBackend's nodes are called that quantise or dequantise, among others."""

TRUSTED = 0.5
"""Handles are believed if so large a share of values fits the shape of a node they name."""


STRANGE = 0.05
"""... and if no larger share of nodes that say what they do names another operator."""

ENOUGH = 0.25
"""A smaller share of matches is worth a warning."""

MANY_NODES = 40
"""So many nodes with one handle are a whole recurrent network, of which nothing tells the order."""


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
    notes: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """"matched 30 of 32 instructions, 12 of 12 nodes in delegates"."""
        inside = sum(match.inside for match in self.found)
        parts = []
        if self.instructions:
            count = _text.plural(self.instructions, "instruction")
            parts.append(f"{len(self.found) - inside:,} of {count}")
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


def _shape(node: Node) -> tuple[int, ...] | None:
    """Of its (first) result, where the graph fixes it."""
    value = node.meta.get("val")
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    sizes = getattr(value, "shape", None)
    if sizes is None or not all(isinstance(size, int) for size in sizes):
        return None
    return tuple(sizes)


def _elements(shape: Iterable[int]) -> list[int]:
    """Sizes but those of 1, sorted: what layouts and added axes do not change."""
    return sorted(size for size in shape if size != 1)


def _fits(node: Node, shape: Sequence[int]) -> bool:
    known = _shape(node)
    return known is None or _elements(known) == _elements(shape)


def _tensors(event: Event) -> list[Array | None]:
    import numpy as np

    return [value.data if isinstance(value.data, np.ndarray) else None
            for value in event.outputs]  # fmt: skip


@dataclass
class _Delegate:
    """One call of a delegate, its nodes, and what is known of their results, by order."""

    event: Event
    nodes: list[tuple[int, Event]] = field(default_factory=list)
    values: dict[int, Array] = field(default_factory=dict)

    def by_handle(self) -> dict[int, list[tuple[int, Event]]]:
        """Nodes of each debug handle."""
        groups: dict[int, list[tuple[int, Event]]] = {}
        for order, event in self.nodes:
            if event.debug_handle not in (None, NO_HANDLE):
                groups.setdefault(event.debug_handle or 0, []).append((order, event))
        return groups

    def settle(self) -> None:
        """A trace has all values of a handle at its last node, in the order of the nodes: each is
        one node's where there are as many, else only the last is sure."""
        for events in self.by_handle().values():
            values = [value for _, event in events for value in _tensors(event)]
            if len(values) != len(events):
                events, values = events[-1:], values[-1:]
            for (order, _), value in zip(events, values):
                if value is not None:
                    self.values[order] = value


def _split(events: Sequence[Event]) -> tuple[list[tuple[int, Event]], list[_Delegate]]:
    """Kernels and delegates of the first call, of the method's own chain."""
    kernels: list[tuple[int, Event]] = []
    delegates: list[_Delegate] = []
    for order, event in enumerate(events):
        if event.run or event.depth or event.chain:
            continue
        if event.kind == "kernel" and any(value is not None for value in _tensors(event)):
            kernels.append((order, event))
        elif event.kind == "delegate":
            delegates.append(_Delegate(event))
        elif event.kind == "node" and delegates:
            delegates[-1].nodes.append((order, event))
    for delegate in delegates:
        delegate.settle()
    return kernels, delegates


class Matcher:
    """Matches the events of one call with the nodes of a graph."""

    def __init__(
        self, nodes: Sequence[Node], handles: HandleMap | None, numbered: bool = True
    ) -> None:
        """`numbered` is false where the program was exported from another graph."""
        self.numbered = numbered
        self.nodes = [node for node in nodes if node.op == "call_function"]
        self.handles = handles
        self.by_handle: dict[int, list[Node]] = {}
        self.place = {node: i for i, node in enumerate(self.nodes)}
        for node in self.nodes:
            for handle in handles_of(node):
                self.by_handle.setdefault(handle, []).append(node)
        self.taken: set[Node] = set()

    def match(self, events: Sequence[Event]) -> Matches:
        """All that can be found. Instructions that ran more than once are left out."""
        kernels, delegates = _split(events)
        result = Matches()
        counts: dict[int | None, int] = {}
        for _, event in kernels:
            counts[event.instruction] = counts.get(event.instruction, 0) + 1
        once = [(order, event) for order, event in kernels if counts[event.instruction] == 1]
        result.instructions = len(kernels)
        result.nodes = sum(len(group) for d in delegates for group in d.by_handle().values())
        trusted = self._trusted(delegates)
        if self.handles is not None:
            result.found += self._by_map(once)
        if trusted:
            result.found += self._inside(delegates)
        else:
            result.found += self._by_kind(delegates)
            result.notes.append("debug handles of delegates are not those of this reference: "
                                "nodes are matched by what they do")  # fmt: skip
        if self.handles is None and trusted:
            result.found += self._by_sequence(once, partial=bool(delegates))
            result.found += self._from_conversions(once, result.found)
        result.found.sort(key=lambda match: match.order)
        if len(result.found) < ENOUGH * (result.instructions + result.nodes):
            result.notes.append("few could be matched: what is called wrong may be something "
                                "before it; with an ETRecord more can")  # fmt: skip
        return result

    # ---- instructions ---------------------------------------------------------------------

    def _take(self, order: int, event: Event, node: Node) -> Match:
        self.taken.add(node)
        where = f"instruction {event.instruction}"
        shape = event.outputs[0].shape if event.outputs else ()
        key = (base(event.name), tuple(_elements(shape)))
        return Match(order, where, event.name, False, _tensors(event), [node], node, key)

    def _node(self, delegate: _Delegate, order: int, chain: list[Node]) -> list[Match]:
        """The value of a delegate's node, if one of a chain of nodes may be it."""
        value = delegate.values[order]
        nodes = [n for n in _first_copies(chain) if _fits(n, value.shape) and not _is_tuple(n)]
        if not nodes:
            return []
        self.taken.update(chain)
        number, event = next((i, e) for i, (at, e) in enumerate(delegate.nodes) if at == order)
        anchor = next((n for n in chain if not is_quantizer(n)), chain[0])
        where = f"delegate {event.delegate}, node {number}"
        key = (_kind(event.name), tuple(_elements(value.shape)))
        return [Match(order, where, event.name, True, [value], nodes, anchor, key)]

    def _by_map(self, kernels: Sequence[tuple[int, Event]]) -> Iterator[Match]:
        """An operator that is decomposed has one handle for all: what is equal goes in order."""
        assert self.handles is not None
        groups: dict[tuple[frozenset[int], str, Shape], list[tuple[int, Event]]] = {}
        for order, event in kernels:
            handles = self.handles.get(-1 if event.instruction is None else event.instruction)
            if handles is not None:
                shape = tuple(_elements(_result(event) or ()))
                groups.setdefault((handles, base(event.name), shape), []).append((order, event))
        for (handles, name, shape), events in groups.items():
            named = {n for h in handles for n in self.by_handle.get(h, ())}
            nodes = [n for n in named if operator_of(n) == name and _fits(n, shape)]
            if len(nodes) == len(events):
                nodes.sort(key=self.place.__getitem__)
                yield from (self._take(*event, node) for event, node in zip(events, nodes))

    def _by_sequence(
        self, kernels: Sequence[tuple[int, Event]], partial: bool
    ) -> Iterator[Match]:
        """The longest runs of equal operators with equal shapes, in order.

        Where the graph is `partial`ly in delegates, only of those that it has as often as the
        program (of others nobody knows which ones are inside), and not of repeated MOVES.
        """
        free = [n for n in self.nodes if n not in self.taken and operator_of(n) is not None]
        ours = [(base(e.name), _result(e)) for _, e in kernels]
        theirs = [(operator_of(n) or "", _shape(n)) for n in free]
        for i, j in _align(ours, theirs, as_often=partial):
            yield self._take(*kernels[i], free[j])

    def _by_kind(self, delegates: Sequence[_Delegate]) -> Iterator[Match]:
        """The same for nodes of delegates, as far as their names say what they do."""
        events = [(d, order, kind) for d in delegates for order, event in d.nodes
                  if order in d.values and (kind := _kind(event.name))]  # fmt: skip
        free = [n for n in self.nodes if n not in self.taken and _kind(operator_of(n) or "")]
        found = _align([(kind, d.values[order].shape) for d, order, kind in events],
                       [(_kind(operator_of(n) or "") or "", _shape(n)) for n in free])  # fmt: skip
        self.taken.update(free[j] for _, j in found)
        for i, j in found:
            delegate, order, _ = events[i]
            yield from self._node(delegate, order, self._extend([free[j]], set()))

    def _from_conversions(
        self, events: Sequence[tuple[int, Event]], found: Sequence[Match]
    ) -> Iterator[Match]:
        """Instructions whose results a delegate only converts: both have the same handle."""
        known = {match.order for match in found}
        for order, event in events:
            if order in known or not event.outputs:
                continue
            for match in found:
                node = match.anchor
                if (match.name.startswith(CONVERSION) and len(match.nodes) > 1
                        and node is match.nodes[0] and operator_of(node) == base(event.name)
                        and _fits(node, event.outputs[0].shape)):  # fmt: skip
                    del match.nodes[0]
                    yield self._take(order, event, node)
                    break

    # ---- delegates ------------------------------------------------------------------------

    def _trusted(self, delegates: Sequence[_Delegate]) -> bool:
        """Whether handles name nodes that look like the values: by shape, and by what they do."""
        fits = seen = known = strange = 0
        if not self.numbered:
            return not delegates
        for delegate in delegates:
            for handle, events in delegate.by_handle().items():
                chain = self._chain(handle, set())
                kinds = {_product_kind(operator_of(node) or "") for node in chain}
                for order, event in events:
                    if order in delegate.values:
                        kind = _product_kind(event.name)
                        known += kind is not None
                        strange += kind is not None and kind not in kinds
                        seen += 1
                        fits += any(_fits(n, delegate.values[order].shape) for n in chain)
        return fits >= TRUSTED * seen and strange <= STRANGE * known

    def _chain(self, handle: int, stops: set[int]) -> list[Node]:
        """Nodes with a handle, and what may be fused into the last of them."""
        chain = [n for n in self.by_handle.get(handle, ()) if n not in self.taken]
        return self._extend(chain, stops)

    def _extend(self, chain: list[Node], stops: set[int]) -> list[Node]:
        while chain:
            users = [n for n in chain[-1].users if n not in chain and n.users]
            if len(users) != 1 and not (users and all(map(is_quantizer, users))):
                break
            user = users[0]
            fused = user.target is getitem or operator_of(user) in FUSED or is_quantizer(user)
            if not fused or user in self.taken or handles_of(user) & stops:
                break
            chain.append(user)
        return chain

    def _inside(self, delegates: Sequence[_Delegate]) -> Iterator[Match]:
        """Values of nodes in delegates, handle by handle."""
        groups: dict[int, list[tuple[_Delegate, int, Event]]] = {}
        for delegate in delegates:
            self._complete(delegate)
            for handle, events in delegate.by_handle().items():
                groups.setdefault(handle, []).extend((delegate, *pair) for pair in events)
        # Where an activation's handle is that of a conversion, the node before has taken it in.
        stops = {handle for handle, members in groups.items()
                 if not all(event.name.startswith(CONVERSION) for _, _, event in members)}
        for handle, members in groups.items():
            yield from self._group(handle, members, stops - {handle})

    def _group(
        self, handle: int, members: Sequence[tuple[_Delegate, int, Event]], stops: set[int]
    ) -> Iterator[Match]:
        """Values with one handle: operators that are decomposed have several.

        Those whose names say what they do are matched where the graph has as many of the kind; the
        last one, if its name does not, may be any of the nodes behind those.
        """
        group = [n for n in self.by_handle.get(handle, ()) if n not in self.taken]
        if len(group) > MANY_NODES:
            return
        done = -1
        for kind in dict.fromkeys(_kind(event.name) for _, _, event in members):
            named = [(d, order) for d, order, event in members if _kind(event.name) == kind]
            nodes = [n for n in group if _kind(operator_of(n) or "") == kind]
            if kind is None or len(named) != len(nodes):
                continue
            self.taken.update(nodes)
            for (delegate, order), node in zip(named, nodes):
                if order in delegate.values:
                    yield from self._node(delegate, order, self._extend([node], stops))
                done = max(done, order)
        delegate = members[-1][0]
        alone = all(other is delegate for other, _, _ in members)
        rest = [order for _, order, _ in members if order > done]
        if alone and 0 < len(rest) <= FEW and len(group) <= FEW_NODES:
            if rest[-1] in delegate.values:
                yield from self._node(delegate, rest[-1], self._chain(handle, stops))

    def _complete(self, delegate: _Delegate) -> None:
        """What a delegate gives is the value of a node that shows none."""
        groups = delegate.by_handle()
        results = self._unclaimed(delegate, list(delegate.values.values()))
        for handle, events in groups.items():
            if not any(order in delegate.values for order, _ in events):
                nodes = self._chain(handle, set(groups) - {handle})
                fit = [r for r in results if any(_fits(n, r.shape) for n in nodes)]
                if fit:
                    delegate.values[events[-1][0]] = fit[0]
                    results = [r for r in results if r is not fit[0]]

    @staticmethod
    def _unclaimed(delegate: _Delegate, values: Sequence[Array]) -> list[Array]:
        """Results of a delegate that are not the value of one of its nodes."""
        import numpy as np

        def same(a: Array, b: Array) -> bool:
            return a.size == b.size and np.array_equal(
                np.sort(a, axis=None), np.sort(b, axis=None), equal_nan=a.dtype.kind == "f"
            )

        results = [value for value in _tensors(delegate.event) if value is not None]
        return [r for r in results if not any(same(r, v) for v in values)]


def _result(event: Event) -> tuple[int, ...] | None:
    return event.outputs[0].shape if event.outputs else None


Token: TypeAlias = "tuple[str, Sequence[int] | None]"


def _align(
    ours: Sequence[Token], theirs: Sequence[Token], as_often: bool = False
) -> list[tuple[int, int]]:
    """Pairs of equal names with equal shapes (where the graph fixes them), both in order.

    `as_often`: only of those that both have the same number of; one, if they are MOVES.
    """
    static = all(shape is not None for _, shape in theirs)

    def key(token: Token) -> tuple[object, ...]:
        return token[0], tuple(_elements(token[1] or ())) if static else ()

    a, b = [key(token) for token in ours], [key(token) for token in theirs]
    found = difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    pairs = [(i + k, j + k) for i, j, size in found for k in range(size)]
    counts = Counter(a), Counter(b)

    def is_sure(token: tuple[object, ...]) -> bool:
        most = 1 if token[0] in MOVES else counts[0][token]
        return counts[0][token] == counts[1][token] <= most

    return [(i, j) for i, j in pairs if not as_often or is_sure(a[i])]


def _kind(name: str) -> str | None:
    """What an operator or a node does, where that is worth aligning."""
    found = KINDS.get(base(name))
    if found is None:
        found = next((kind for text, kind in KINDS.items() if name.startswith(text + " ")), None)
    return found or ("convolution" if base(name) == "convolution" else None)


def _first_copies(chain: Sequence[Node]) -> list[Node]:
    """Without all but the first of those that dequantise the same."""
    found: dict[object, Node] = {}
    for node in chain:
        copy = (operator_of(node) or "").startswith("dequantize_")
        found.setdefault((copy, node.all_input_nodes[0] if copy else node), node)
    kept = set(found.values())
    return [node for node in chain if node in kept]


def _product_kind(name: str) -> str | None:
    """The same, where a linear layer may also be computed as a product of matrices."""
    kind = _kind(name)
    return "linear" if kind == "bmm" else kind


def _is_tuple(node: Node) -> bool:
    return isinstance(node.meta.get("val"), (list, tuple))


def layouts(value: Any, shape: Sequence[int]) -> list[Any]:
    """A tensor in the shape of a node: as it is, and from channels last; [] where it cannot be."""
    shape = tuple(shape)
    if value.numel() != _product(shape):
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


def _product(shape: Iterable[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
