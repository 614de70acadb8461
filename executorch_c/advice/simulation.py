"""The quantised graph of a flow in eager, with any of its layers in float: no export for each.

A candidate is annotated by the flow's own quantiser (`configuration.py`). Its annotations say whose
inputs and results are rounded, and which of them share a scale. Observers see values of the float
model, which do not depend on the layers that are quantised: each group of values that shares a
scale is calibrated once, for all candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from executorch_c.check import flows
from executorch_c.debug._graphs.evaluator import attribute, call

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c.check.flows import Call, Flow

Edge = tuple[str, str]
"""A value and the node that reads it, by names; for the result of a node, its name twice."""
Quantizers = Callable[[Iterable[str]], Any]
"""Returns the quantiser with modules in float."""
ANNOTATION = "quantization_annotation"
"""The key of a node's meta in which quantisers leave annotations (torchao's Q_ANNOTATION_KEY)."""


@dataclass(frozen=True)
class Layer:
    """A module whose own operators are quantised."""

    name: str
    operators: tuple[str, ...]
    """Names of the operators that stay in float with it, such as "conv2d"."""
    covers: frozenset[str]
    """Names of the layers that stay in float with it: itself, and others inside it."""


@dataclass(frozen=True, eq=False)
class Rounding:
    """The rounding of values to a scale; by its own range for a dynamic one."""

    observer: Any
    scale: Any = None
    zero: Any = None

    def __call__(self, value: Any) -> Any:
        """Return a tensor quantised and dequantised; others than floats as they are."""
        import torch

        one = self.observer
        if not value.is_floating_point():
            return value
        scale, zero = self.scale, self.zero
        if scale is None:
            scale, zero = torch.ops.quantized_decomposed.choose_qparams(
                value, one.quant_min, one.quant_max, one.eps, one.dtype
            )
        zero = zero.to(torch.int32)
        if scale.numel() == 1:
            return torch.fake_quantize_per_tensor_affine(
                value, scale.reshape(()).float(), zero.reshape(()), one.quant_min, one.quant_max
            )
        return torch.fake_quantize_per_channel_affine(
            value, scale.float(), zero, one.ch_axis, one.quant_min, one.quant_max
        )


class _Before:
    """A quantiser that annotates nothing, and keeps the graph that it would annotate."""

    def __init__(self, quantizer: Any) -> None:
        self.quantizer = quantizer
        self.graph: Any = None

    def annotate(self, model: Any) -> Any:
        import copy

        from torch.fx import GraphModule

        self.graph = GraphModule(model, copy.deepcopy(model.graph))
        return model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.quantizer, name)


class Simulation:
    """A quantised model with any layers in float."""

    def __init__(
        self, flow: Flow, exported: Any, samples: Sequence[Call], quantizers: Quantizers
    ) -> None:
        self._make, self._samples = quantizers, samples
        before = _Before(quantizers(()))
        flows.prepared(flow, exported, [], before)
        self._graph = before.graph
        """The float graph, as the quantiser gets it: with folded batch norm."""
        self._meta = {node.name: _copied(node.meta) for node in self._graph.graph.nodes}
        self._roundings: dict[object, Rounding] = {}
        self._constants: dict[tuple[str, Rounding], Any] = {}
        self.layers = self._layers()

    def outputs(self, names: Iterable[str], calls: Sequence[Call]) -> list[list[Any]]:
        """Return the outputs of calls with layers in float."""
        import torch

        run = _Run(self._graph, self._rounded(names), self._constants)
        with torch.no_grad():
            return [run(one) for one in calls]

    # ---- annotations --------------------------------------------------------------------------

    def _annotate(self, names: Iterable[str]) -> None:
        """Annotate the graph with layers in float."""
        for node in self._graph.graph.nodes:
            node.meta = _copied(self._meta[node.name])  # without marks of the last annotation
        quantizer = self._make(names)
        _leave_out_batch_norm(quantizer, self._graph)
        quantizer.annotate(self._graph)

    def _quantized(self, names: Iterable[str]) -> frozenset[Edge]:
        """Return the edges that are quantised with layers in float."""
        self._annotate(names)
        return frozenset(edge for node in self._graph.graph.nodes for edge in _annotated(node))

    def _layers(self) -> dict[str, Layer]:
        """Return modules by names: those without which fewer edges are quantised."""
        lost = self._lost(frozenset())
        while rest := self._lost(lost):  # of a module that shares scales with a layer before it
            lost |= rest
        found = {}
        for name, edges in lost.items():
            inside = [one for one in lost if one != name and lost[one] < edges]
            if inside and edges == frozenset().union(*(lost[one] for one in inside)):
                continue  # an activation that several layers share: nothing of its own
            readers = {reader for _, reader in edges}
            nodes = [node for node in self._graph.graph.nodes if node.name in readers]
            operators = dict.fromkeys(_operator(n) for n in nodes if module_of(n) == name)
            found[name] = Layer(name, tuple(operators), frozenset([name, *inside]))
        return found

    def _lost(self, names: Iterable[str]) -> dict[str, frozenset[Edge]]:
        """Return the edges that each module, in float besides others, leaves out, in the order of
        the graph; of modules that leave out the same, the first."""
        whole, lost = self._quantized(names), dict[str, frozenset[Edge]]()
        readers = {reader for _, reader in whole}
        nodes = [node for node in self._graph.graph.nodes if node.name in readers]
        for name in dict.fromkeys(map(module_of, nodes)):
            edges = whole - self._quantized([*names, name])
            if edges and edges not in lost.values():
                lost[name] = edges
        return lost

    # ---- scales -------------------------------------------------------------------------------

    def _rounded(self, names: Iterable[str]) -> dict[Edge, Rounding]:
        """Return the rounding of each edge with layers in float."""
        from torchao.quantization.pt2e import prepare

        self._annotate(names)
        specs = prepare._get_edge_or_node_to_qspec(self._graph)
        groups = prepare._get_edge_or_node_to_group_id(specs)
        members: dict[int, dict[Any, None]] = {}
        kinds: dict[int, tuple[object, ...]] = {}
        for place, group in groups.items():
            members.setdefault(group, {})[place[0] if isinstance(place, tuple) else place] = None
            if hasattr(specs[place], "quant_min"):  # a shared specification has its group's
                kinds[group] = _kind(specs[place])
        keys = {
            place: (frozenset(members[group]), kinds[group])
            for place, group in groups.items()
            if group in kinds and not hasattr(specs[place], "derive_qparams_fn")
        }  # scales of biases are derived: far finer
        if not self._roundings.keys() >= set(keys.values()):
            observers = prepare._get_obs_or_fq_map(groups, specs, False)
            new = {key: observers[p] for p, key in keys.items() if key not in self._roundings}
            self._calibrate(new)
        return {_names_of(place): self._roundings[key] for place, key in keys.items()}

    def _calibrate(self, observers: Mapping[Any, Any]) -> None:
        """Have observers see the values of their groups on the samples."""
        import torch

        watched: dict[str, list[Any]] = {}
        for (values, _), observer in observers.items():
            for node in values:
                watched.setdefault(node.name, []).append(observer)
        run = _Run(self._graph, {}, {}, watched)
        with torch.no_grad():
            for one in self._samples:
                run(one)
            for key, observer in observers.items():
                is_dynamic = getattr(observer, "is_dynamic", False)
                scale = () if is_dynamic else observer.calculate_qparams()
                self._roundings[key] = Rounding(observer, *scale)


def module_of(node: Node) -> str:
    """Return the name of the module whose forward has a node; of each of its calls the same."""
    stack = [*(node.meta.get("nn_module_stack") or {}).values()]
    return str(stack[-1][0]).partition("@")[0] if stack else ""


def _copied(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a node's meta, and of the dicts in it, to which quantisers add."""
    return {key: dict(one) if type(one) is dict else one for key, one in meta.items()}


def _leave_out_batch_norm(quantizer: Any, graph: Any) -> None:
    """Leave out XNNPACK's patterns of batch norm, each of which is traced for seconds, of a graph
    that has none any more."""
    patterns = getattr(quantizer, "SUPPORTED_PATTERNS", ())
    if not any("batch_norm" in str(node.target) for node in graph.graph.nodes):
        kept = [one for one in patterns if "_bn" not in getattr(one, "name", "")]
        if len(kept) < len(patterns):
            quantizer.SUPPORTED_PATTERNS = kept


def _operator(node: Node) -> str:
    packet = getattr(node.target, "overloadpacket", node.target)
    return str(getattr(packet, "__name__", packet))


def _annotated(node: Node) -> Iterator[Edge]:
    """Yield the edges that a node's annotation quantises."""
    annotation = node.meta.get(ANNOTATION)
    if annotation is None:
        return
    if annotation.output_qspec is not None:
        yield node.name, node.name
    for value, spec in annotation.input_qspec_map.items():
        if spec is not None:
            yield value.name, node.name


def _names_of(place: Any) -> Edge:
    """Return the edge of a node, or of a pair of nodes."""
    value, reader = place if isinstance(place, tuple) else (place, place)
    return value.name, reader.name


def _kind(spec: Any) -> tuple[object, ...]:
    """Return what distinguishes specifications of the same values."""
    names = ("dtype", "quant_min", "quant_max", "qscheme", "ch_axis", "is_dynamic")
    return type(spec), *(getattr(spec, name, None) for name in names)


class _Run:
    """A run of the float graph in which some edges are rounded.

    Args:
        roundings: Those of edges.
        constants: Rounded constants, which are kept for later runs.
        watched: Observers by the names of the values that they see.
    """

    def __init__(
        self,
        graph: Any,
        roundings: Mapping[Edge, Rounding],
        constants: dict[tuple[str, Rounding], Any],
        watched: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self.graph, self.roundings, self.constants = graph, roundings, constants
        self.watched = watched or {}
        self.nodes = [n for n in graph.graph.nodes if n.op != "call_module" or n.users]
        last = {one.name: node.name for node in self.nodes for one in node.all_input_nodes}
        self.dead: dict[str, list[str]] = {}
        """Values by the node that reads them last."""
        for value, reader in last.items():
            self.dead.setdefault(reader, []).append(value)

    def __call__(self, inputs: Call) -> list[Any]:
        """Return the outputs of a call, flat."""
        from torch.utils import _pytree

        values: dict[str, Any] = {}
        arguments = iter(_pytree.tree_leaves(inputs))
        outputs: list[Any] = []
        for node in self.nodes:
            if node.op == "placeholder":
                value = next(arguments)
                value = value.clone() if hasattr(value, "clone") else value
            else:
                value = self._value(node, values)
            if node.op == "output":
                outputs = _pytree.tree_leaves(value)
                break
            values[node.name] = value
            for observer in self.watched.get(node.name, ()):
                observer(value)
            for name in self.dead.get(node.name, ()):
                del values[name]
        return outputs

    def _value(self, node: Node, values: Mapping[str, Any]) -> Any:
        from torch.fx.node import map_arg

        def read(argument: Node) -> Any:
            return self._read(argument, node, values[argument.name])

        if node.op == "get_attr":
            return attribute(self.graph, node)
        if node.op == "output":
            return map_arg(node.args[0], read)
        if node.op == "call_module":
            args, kwargs = map_arg(node.args, read), map_arg(node.kwargs, read)
            return attribute(self.graph, node)(*args, **kwargs)
        return call(node, read)

    def _read(self, argument: Node, reader: Node, value: Any) -> Any:
        """Return a value as a node reads it: rounded as a result, then as an input."""
        places = (argument.name, argument.name), (argument.name, reader.name)
        roundings = dict.fromkeys(self.roundings[p] for p in places if p in self.roundings)
        for one in roundings:
            if argument.op != "get_attr":
                value = one(value)
                continue
            key = argument.name, one
            if key not in self.constants:
                self.constants[key] = one(value)
            value = self.constants[key]
        return value
