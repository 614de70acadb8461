"""What a call reaches in a graph: ranges of values, sides of activations and comparisons, indices,
experts; and inputs that move toward what no call has reached, by gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Interpreter, Node

from executorch_c.inspect.families import MOVES, unsuffixed

CLAMPS = {"clamp", "hardtanh", "relu", "relu6", "clamp_min", "clamp_max", "threshold", "leaky_relu"}
BOUNDED = {"clamp", "hardtanh", "clamp_min", "clamp_max", "threshold"}
"""Those whose other arguments are bounds."""
SMOOTH = {
    "gelu",
    "silu",
    "sigmoid",
    "tanh",
    "softplus",
    "elu",
    "hardswish",
    "hardsigmoid",
    "exp",
    "erf",
    "mish",
    "log_sigmoid",
    "hardshrink",
    "celu",
    "selu",
    "sin",
    "cos",
}
PICKS = {"argmax", "argmin", "topk", "sort", "max", "min", "max_pool2d"}
"""Operators that select the largest or smallest element of a dimension."""
COMPARES = {"gt", "ge", "lt", "le", "eq", "ne"}
BOUNDARIES = COMPARES | CLAMPS | {"bucketize", "clip", "isin", "maximum", "minimum", "searchsorted"}
"""Operators with numbers at which results change."""
OF_NON_FINITE = {
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "nan_to_num",
    "nanmean",
    "nanmedian",
    "nansum",
}
"""Operators for numbers that are not finite."""
MAX_BOUNDARIES = 64
"""Maximum number of elements of a constant whose numbers are boundaries,"""
MAX_BOUNDARY = 1e6
"""and the largest one."""
EDGES = (-88.0, -20.0, -10.0, -6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 10.0, 20.0, 88.0)
"""Bounds of the ranges of an activation's argument that are told apart."""
LARGE_ARGUMENT = 8.0
"""Large argument of an activation, a target for each unit,"""
CLAMP_FACTOR = 1.25
"""or of a clamp, in units of its bounds."""
MAX_UNITS = 512
"""Maximum number of units, or indices, of a node that are told apart."""
MAX_TARGET_STEPS = 12
"""Maximum number of steps toward a target."""
FIRST_STEP_SHARE = 0.5
"""First step toward a target, relative to the norm of the input."""


@dataclass(frozen=True)
class Target:
    """Something that no call has reached: a side of a unit, an index, a comparison's result."""

    node: Node
    unit: int
    sign: float
    kind: str
    """"unit", "index" or "comparison"."""


def _name(node: Node) -> str:
    schema = getattr(node.target, "_schema", None)
    return "" if schema is None else unsuffixed(schema.name)


def boundaries(module: Any) -> list[float]:
    """Return the numbers at which operators of a graph change their results: arguments of
    comparisons and clamps, and boundaries of buckets."""
    numbers = set[float]()
    for node in module.graph.nodes:
        for leaf in [*node.args, *node.kwargs.values()] if _name(node) in BOUNDARIES else ():
            numbers.update(_numbers(module, leaf))
    return sorted(one for one in numbers if abs(one) <= MAX_BOUNDARY)  # NaN is not


def _numbers(module: Any, leaf: Any) -> list[float]:
    """Return the numbers of an argument: one, or those of a small constant tensor."""
    if isinstance(leaf, (int, float)) and not isinstance(leaf, bool):
        return [float(leaf)]
    while isinstance(leaf, Node) and leaf.op == "call_function" and len(leaf.all_input_nodes) == 1:
        leaf = leaf.all_input_nodes[0] if _name(leaf) in MOVES else None
    if not isinstance(leaf, Node) or leaf.op != "get_attr":
        return []
    value: Any = module
    for part in str(leaf.target).split("."):
        value = getattr(value, part)
    is_small = isinstance(value, torch.Tensor) and 0 < value.numel() <= MAX_BOUNDARIES
    is_real = is_small and value.dtype != torch.bool and not value.is_complex()
    return [float(one) for one in value.detach().flatten().tolist()] if is_real else []


def treats_non_finite(module: Any) -> bool:
    """Return True if a graph has operators for numbers that are not finite."""
    return any(_name(node) in OF_NON_FINITE for node in module.graph.nodes)


def by_unit(x: Any) -> Any:
    """Return a tensor as rows of units: channels of pictures, else the last dimension."""
    if x.ndim == 4:
        x = x.movedim(1, -1)
    return x.reshape(-1, x.shape[-1] if x.ndim else 1)[:, :MAX_UNITS]


class Reach:
    """What calls have reached, by node."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], Any] = {}
        self.activations: dict[Node, tuple[Any, Any]] = {}
        """Least and largest argument of each unit, by node."""
        self.picks: dict[Node, Any] = {}
        """By node, which indices were selected."""
        self.comparisons: dict[Node, set[bool]] = {}
        self.fresh = 0
        """Number of things that only the present call has reached."""

    def copy(self) -> Reach:
        """Return the same, which later calls do not change."""
        reach = Reach()
        reach._seen = {key: seen.clone() for key, seen in self._seen.items()}
        reach.activations = dict(self.activations)
        reach.picks = {node: reach._seen[node.name, "index"] for node in self.picks}
        reach.comparisons = {node: set(sides) for node, sides in self.comparisons.items()}
        return reach

    def hit(self, node: Node, kind: str, at: Any, size: int) -> None:
        """Mark numbers below `size` as reached."""
        seen = self._seen.setdefault((node.name, kind), torch.zeros(size, dtype=torch.bool))
        at = at[(at >= 0) & (at < len(seen))]
        before = int(seen.sum())
        seen[at] = True
        self.fresh += int(seen.sum()) - before

    def see(self, node: Node, args: Sequence[Any], result: Any) -> None:
        """Mark what an operator has reached."""
        name, first = _name(node), args[0] if args else None
        tensor = result[0] if isinstance(result, (tuple, list)) and result else result
        if not isinstance(tensor, torch.Tensor) or not tensor.numel():
            return
        if tensor.is_floating_point():
            self._range(node, tensor)
        if not isinstance(first, torch.Tensor):
            return
        if (name in CLAMPS or name in SMOOTH) and first.is_floating_point():
            self._activation(node, first.detach())
        elif name in PICKS and first.ndim:
            self._pick(node, first, result)
        elif name in COMPARES:
            sides = {bool(tensor.any()), not bool((~tensor).any())}
            known = self.comparisons.setdefault(node, set())
            self.fresh += len(sides - known)
            known |= sides
        elif name == "embedding" or name == "index_select":
            self.hit(node, "row", args[1 if name == "embedding" else 2].flatten(), 4096)

    def _range(self, node: Node, tensor: Any) -> None:
        ends = torch.stack([tensor.detach().max(), tensor.detach().min()]).double()
        size = torch.log2(ends.abs().clamp(2.0**-8, 2.0**20)).add(8).div(2).long()
        self.hit(node, "range", torch.where(ends < 0, size, size + 20), 40)

    def _activation(self, node: Node, x: Any) -> None:
        rows = by_unit(x.float())
        low, high = rows.amin(0), rows.amax(0)
        edges = torch.tensor(EDGES)
        units = torch.arange(rows.shape[1]) * (len(EDGES) + 1)
        for ends in (low, high):
            self.hit(node, "side", units + torch.bucketize(ends, edges), rows.shape[1] * 14)
        old = self.activations.get(node)
        if old is not None and len(old[0]) == len(low):
            low, high = torch.minimum(low, old[0]), torch.maximum(high, old[1])
        self.activations[node] = low, high

    def _pick(self, node: Node, x: Any, result: Any) -> None:
        indices = result[1] if isinstance(result, (tuple, list)) and len(result) > 1 else result
        if indices.dtype == torch.int64:
            self.hit(node, "index", indices.flatten(), MAX_UNITS)
            self.picks[node] = self._seen[node.name, "index"]
        values = x.flatten()[:4096]
        self.hit(node, "tie", torch.tensor([int(len(values.unique()) < len(values))]), 2)

    def targets(self) -> list[Target]:
        """Return what no call has reached, of units that no call has on a side of zero or of a
        large number, of indices, and of comparisons."""
        targets = []
        for node, (low, high) in self.activations.items():
            least, largest = _far(node)
            for sign, dead in (
                (1.0, high <= 0),
                (-1.0, low >= 0),
                (1.0, high < largest),
                (-1.0, low > least),
            ):
                targets += [
                    Target(node, int(u), sign, "unit") for u in dead.nonzero().flatten()[:32]
                ]
        for node, seen in self.picks.items():
            sign = -1.0 if "min" in _name(node) else 1.0
            size = _size_of_last(node)
            targets += [
                Target(node, int(u), sign, "index") for u in (~seen[:size]).nonzero().flatten()
            ]
        for node, sides in self.comparisons.items():
            if len(sides) < 2:
                up = _name(node) in ("gt", "ge")
                targets.append(
                    Target(node, 0, 1.0 if up != (True in sides) else -1.0, "comparison")
                )
        return targets


def _far(node: Node) -> tuple[float, float]:
    """Return a negative and a positive number that are large for an activation: beyond the bounds
    of a clamp."""
    bounds = [*node.args[1:], *node.kwargs.values()] if _name(node) in BOUNDED else []
    ends = [
        CLAMP_FACTOR * one
        for one in bounds
        if isinstance(one, (int, float)) and abs(one) < MAX_BOUNDARY
    ]
    return min([-LARGE_ARGUMENT, *ends]), max([LARGE_ARGUMENT, *ends])


def _size_of_last(node: Node) -> int:
    value = getattr(node.args[0], "meta", {}).get("val")
    return min(int(value.shape[-1]), MAX_UNITS) if value is not None and value.ndim else 0


class Watch(Interpreter):
    """Runs a graph and marks what a call reaches."""

    def __init__(self, module: Any, reached: Reach) -> None:
        super().__init__(module)
        self.reached = reached

    def run_node(self, n: Node) -> Any:
        """Return the result of a node."""
        result = super().run_node(n)
        if n.op == "call_function":
            args, _ = self.fetch_args_kwargs_from_env(n)
            self.reached.see(n, args, result)
        return result


class _ReachedError(Exception):
    """Ends a run at the target."""


class _TargetInterpreter(Interpreter):
    """Runs a graph, with gradients, until a target."""

    def __init__(self, module: Any, target: Target) -> None:
        super().__init__(module)
        self.target = target
        self.loss: Any = None
        self.rows: list[tuple[Any, Any, Any]] = []
        """Indices, tables and results of embeddings."""

    def run_node(self, n: Node) -> Any:
        """Return the result of a node. Raises _ReachedError at the target."""
        args, _ = self.fetch_args_kwargs_from_env(n)
        if n.name == self.target.node.name:
            self.loss = self._loss(args)
            raise _ReachedError
        result = super().run_node(n)
        if n.op == "call_function" and _name(n) == "embedding":
            result = result.detach().requires_grad_()
            self.rows.append((args[1], args[0], result))
        return result

    def _loss(self, args: Sequence[Any]) -> Any:
        """Return what is to grow."""
        x = args[0].float()
        if self.target.kind == "comparison":
            return self.target.sign * (x - args[1]).mean()
        if self.target.kind == "unit":
            return self.target.sign * by_unit(x)[:, self.target.unit].mean()
        chosen = x.movedim(-1, 0)
        return self.target.sign * (chosen[self.target.unit] - chosen.amax(0)).mean()


def _step(
    module: Any, leaves: list[Any], target: Target, pace: float, generator: Any
) -> list[Any] | None:
    """Return inputs that are nearer to a target; None without gradients."""
    moved = [leaf.detach().clone().requires_grad_() if _is_float(leaf) else leaf for leaf in leaves]
    toward = _TargetInterpreter(module, target)
    with torch.enable_grad():
        try:
            toward.run(*moved)
        except _ReachedError:
            pass
        if toward.loss is None or not toward.loss.requires_grad:
            return None
        floats = [leaf for leaf in moved if _is_float(leaf)]
        wanted = [*floats, *(row[2] for row in toward.rows)]
        grads = torch.autograd.grad(toward.loss, wanted, allow_unused=True)
    by_id = {id(leaf): grad for leaf, grad in zip(wanted, grads)}
    values, any_moved = [], False
    for old, leaf in zip(leaves, moved):
        grad = by_id.get(id(leaf))
        if grad is not None and bool(grad.isfinite().all()) and float(grad.norm()):
            size = max(float(leaf.detach().float().norm()), leaf.numel() ** 0.5)
            values.append(leaf.detach() + (grad / grad.norm() * (pace * size)).to(leaf.dtype))
            any_moved = True
            continue
        new = _better_rows(leaf, toward.rows, by_id, generator)
        any_moved = any_moved or new is not None
        values.append(old if new is None else new)
    return values if any_moved else None


def _better_rows(
    leaf: Any, rows: Sequence[tuple[Any, Any, Any]], grads: dict[int, Any], generator: Any
) -> Any:
    """Return indices of the rows of a table that lead toward a target, half of them replaced; None
    if an input is not the indices of a table."""
    for indices, table, result in rows:
        grad = grads.get(id(result))
        if indices is leaf and grad is not None:
            best = (grad.float() @ table.detach().float().t()).argmax(-1)
            is_moved = torch.rand(leaf.shape, generator=generator) < 0.5
            return torch.where(is_moved, best, leaf).to(leaf.dtype)
    return None


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()


def toward(
    module: Any,
    leaves: Sequence[Any],
    target: Target,
    generator: Any,
    steps: int = MAX_TARGET_STEPS,
) -> list[Any]:
    """Return inputs that have moved toward a target, by up to `steps` steps that grow."""
    values, pace = list(leaves), FIRST_STEP_SHARE
    for _ in range(steps):
        new = _step(module, values, target, pace, generator)
        if new is None:
            break
        values, pace = new, pace * 1.3
    return values
