"""Inputs to check a model on: like the example, at the bounds of dynamic shapes, and the user's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from executorch_c.check.flows import Call
from executorch_c.debug._graphs.names import operator_of
from executorch_c.inspect.families import MOVES

MOST_EDGES = 16
"""Maximum number of edge shapes."""
FEW_VALUES = 4
"""Maximum number of different floats in an example of flags or a mask."""


@dataclass(frozen=True)
class CallSequence:
    """The calls of a case: one, or several in a row, from a fresh state."""

    kind: str
    """"example", "random", "edge", "real", "state" or "bundled"."""
    about: str
    """Number of the case, or the sizes of an edge shape."""
    calls: tuple[Call, ...]


def as_call(inputs: Any) -> Call:
    """Return arguments of the model: of a tuple or list of positional ones, a mapping of keyword
    ones, or a single tensor. NumPy arrays become tensors."""
    import numpy as np
    import torch
    from torch.utils import _pytree

    def tensor(leaf: Any) -> Any:
        return torch.from_numpy(leaf.copy()) if isinstance(leaf, np.ndarray) else leaf

    if isinstance(inputs, (torch.Tensor, np.ndarray)):
        inputs = (inputs,)
    if isinstance(inputs, Mapping):
        return (), {name: _pytree.tree_map(tensor, value) for name, value in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return tuple(_pytree.tree_map(tensor, value) for value in inputs), {}
    raise TypeError(
        f"inputs are a {type(inputs).__name__}, expected a tuple of positional arguments, a dict "
        "of keyword arguments, or a tensor"
    )


def structure_of(call: Call) -> Any:
    """Return how positional and keyword arguments are nested (torch's TreeSpec)."""
    from torch.utils import _pytree

    return _pytree.tree_structure(call)


def leaves(call: Call) -> list[Any]:
    """Return the inputs of the program: the leaves of arguments, in pytree order."""
    from torch.utils import _pytree

    found: list[Any] = _pytree.tree_leaves(call)
    return found


def like(call: Call, example: Call, index: int) -> Call:
    """Return a call of the user's with keyword arguments in the example's order, which is the
    program's.

    Raises ValueError for another structure.
    """
    from torch.utils import _pytree

    args, kwargs = call
    if set(kwargs) == set(example[1]):
        kwargs = {name: kwargs[name] for name in example[1]}
    found, wanted = (_pytree.tree_structure(x) for x in ((args, kwargs), example))
    if found != wanted:
        raise ValueError(
            f"real_inputs[{index}] has {_arguments((args, kwargs))}, the example has "
            f"{_arguments(example)}"
        )
    return args, kwargs


def _arguments(call: Call) -> str:
    count = f"{len(call[0])} positional arguments" if call[0] or not call[1] else ""
    names = f"the keyword arguments {', '.join(call[1])}" if call[1] else ""
    return " and ".join(filter(None, (count, names))) + f" ({len(leaves(call))} values)"


# ---- values -----------------------------------------------------------------------------------


def _floats(example: Any, shape: Sequence[int], generator: Any) -> Any:
    """Return normal numbers of the example's mean and deviation; of its sign, if it has one;
    uniform ones in [0, 1], if it is there; the example's own, if it has only a few."""
    import torch

    values = example.double().flatten()
    few = torch.unique(values[:4096])
    if len(values) > FEW_VALUES >= len(few) > 1:
        at = torch.randint(len(few), tuple(shape), generator=generator)
        return few[at]
    low, high = values.min().item(), values.max().item()
    if 0 <= low and high <= 1:
        return torch.rand(tuple(shape), generator=generator, dtype=torch.float64)
    mean = values.mean().item()
    deviation = values.std(correction=0).item() or abs(mean)
    drawn = torch.randn(tuple(shape), generator=generator, dtype=torch.float64)
    drawn = drawn * deviation + mean
    if low >= 0 or high <= 0:  # folding keeps more of the spread than clipping
        drawn = drawn.abs() if low >= 0 else -drawn.abs()
    return drawn


def _repeated(example: Any, shape: Sequence[int]) -> Any:
    """Return the example's own values, cut or repeated to a shape."""
    import torch

    for axis, size in enumerate(shape):
        at = torch.arange(size) % max(example.shape[axis], 1)
        example = example.index_select(axis, at)
    return example


def _draw(example: Any, shape: Sequence[int], generator: Any, bound: tuple[int, int] | None) -> Any:
    """Return a tensor of a shape with values like the example's; integers, which may be indices,
    in its range. Masks with infinity keep their values."""
    import torch

    shape = tuple(shape)
    if not example.numel() or (example.is_floating_point() and not example.isfinite().all()):
        return _repeated(example, shape) if example.numel() else example.new_zeros(shape)
    if example.is_complex():
        parts = [_floats(part, shape, generator) for part in (example.real, example.imag)]
        drawn = torch.complex(*parts)
    elif example.is_floating_point():
        drawn = _floats(example, shape, generator)
    elif example.dtype == torch.bool:
        share = example.double().mean().item()
        drawn = torch.rand(shape, generator=generator, dtype=torch.float64) < share
    else:
        low, high = bound or (int(example.min()), int(example.max()))
        drawn = torch.randint(low, high + 1, shape, generator=generator)
    return drawn.to(example.dtype)


def _in_layout(tensor: Any, example: Any) -> Any:
    """Return a tensor in the example's order of dimensions in memory (such as channels last)."""
    import torch

    if tensor.shape == example.shape:
        return torch.empty_like(example).copy_(tensor)
    order = sorted(range(example.ndim), key=lambda axis: -example.stride(axis))
    if order == list(range(example.ndim)) or example.is_contiguous():
        return tensor
    back = [order.index(axis) for axis in range(example.ndim)]
    return tensor.permute(order).contiguous().permute(back)


def draw(
    example: Call,
    shapes: Sequence[Sequence[int] | None] | None,
    bounds: Sequence[tuple[int, int] | None],
    seed: int,
) -> Call:
    """Return a random call like the example; `shapes` by input, None for the example's."""
    import torch
    from torch.utils import _pytree

    generator = torch.Generator().manual_seed(seed)
    flat, spec = _pytree.tree_flatten(example)
    drawn = []
    for i, leaf in enumerate(flat):
        if isinstance(leaf, torch.Tensor):
            shape = (shapes and shapes[i]) or leaf.shape
            leaf = _in_layout(_draw(leaf.detach(), shape, generator, bounds[i]), leaf)
        drawn.append(leaf)
    call: Call = _pytree.tree_unflatten(drawn, spec)
    return call


# ---- inputs of an exported program ------------------------------------------------------------

PASSED_THROUGH = MOVES | {"view", "reshape", "_to_copy", "to", "contiguous", "unsqueeze", "squeeze",
                          "flatten", "permute", "transpose", "expand", "slice", "select", "alias",
                          "detach"}  # fmt: skip
"""Operators that return their input's values, in another shape or dtype."""


def _rows(node: Any) -> Iterator[int | None]:
    """Yield the number of rows for each use of an input as indices of an embedding; None for any
    other use."""
    for user in node.users:
        name = operator_of(user) or ""
        if name in PASSED_THROUGH and user.args and user.args[0] is node:
            yield from _rows(user)
        elif name == "embedding" and user.args[1] is node:
            yield int(user.args[0].meta["val"].shape[0])
        elif user.op == "call_function" and not name.startswith(("sym_size", "_assert")):
            yield None


def _placeholders(exported: Any) -> list[Any]:
    """Return the node of each input of the user's, in order; None for constants."""
    nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    return [nodes.get(name) if isinstance(name, str) else None
            for name in exported.graph_signature.user_inputs]  # fmt: skip


def index_bounds(exported: Any, count: int) -> list[tuple[int, int] | None]:
    """Return by input the range of indices, if its only use is the lookup of embeddings."""
    bounds: list[tuple[int, int] | None] = [None] * count
    if exported is None:
        return bounds
    for i, node in enumerate(_placeholders(exported)[:count]):
        rows = list(_rows(node)) if node is not None else []
        known = [row for row in rows if row is not None]
        if known and len(known) == len(rows):
            bounds[i] = (0, min(known) - 1)
    return bounds


class Symbols:
    """The symbolic sizes of an exported program's inputs.

    `limits` are the largest sizes that the program itself has room for, by input and dimension.
    """

    def __init__(
        self, exported: Any, example: Call, limits: Sequence[Sequence[int] | None]
    ) -> None:
        self.shapes: list[list[Any] | None] = []
        self._names: list[str] = []
        self.here: dict[Any, int] = {}
        self.ranges: dict[Any, tuple[int, int]] = {}
        self._constraints: dict[Any, Any] = {}
        self._example = leaves(example)
        if exported is None:
            return
        self._constraints = exported.range_constraints
        for i, node in enumerate(_placeholders(exported)):
            value = node.meta.get("val") if node is not None else None
            shape = getattr(value, "shape", None)
            self._names.append(str(getattr(node, "name", "")))
            self.shapes.append(None if shape is None else [_expression(size) for size in shape])
            for axis, size in enumerate(self.shapes[-1] or ()):
                limit = limits[i] if i < len(limits) else None
                most = None if limit is None else limit[axis]
                self._learn(size, self._example[i].shape[axis], most)

    def _learn(self, size: Any, here: int, limit: int | None) -> None:
        """Set the size of the example, and the range, of the symbol in an expression."""
        symbols = list(getattr(size, "free_symbols", ()))
        if len(symbols) != 1:
            return
        symbol = symbols[0]
        import sympy

        def solved(value: int) -> int:
            found = sympy.solve(size - value, symbol)
            return int(found[0]) if found else self.here.get(symbol, value)

        self.here.setdefault(symbol, solved(int(here)))
        known = self._constraints.get(symbol)
        low = int(known.lower) if known is not None else 2
        high = known.upper if known is not None else None
        top = solved(limit) if limit is not None else None
        if high is not None and str(high).lstrip("-").isdigit():
            top = int(high) if top is None else min(top, int(high))
        before = self.ranges.get(symbol)
        top = self.here[symbol] if top is None else top
        self.ranges[symbol] = (max(low, 1), top if before is None else min(top, before[1]))

    def _assignments(self) -> Iterator[dict[Any, int]]:
        """Yield sizes of all symbols: minimum, maximum, minimum plus one, a prime; then of one."""
        corners = {symbol: _corners(low, high) for symbol, (low, high) in self.ranges.items()}
        for pick in range(max(map(len, corners.values()), default=0)):
            yield {symbol: row[min(pick, len(row) - 1)] for symbol, row in corners.items()}
        if len(corners) > 1:
            for symbol, row in corners.items():
                for size in row[:2]:
                    yield {**self.here, symbol: size}

    def _allowed(self, sizes: Mapping[Any, int]) -> bool:
        for expression, known in self._constraints.items():
            if not expression.free_symbols <= set(sizes):
                continue
            value = expression.subs(sizes)
            if not (value >= min(known.lower, 1) and value <= known.upper):
                return False
        return True

    def edges(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield names and shapes of inputs at the bounds of dynamic shapes, not the example's."""
        seen = {tuple(self.here.values())}
        for sizes in self._assignments():
            key = tuple(sizes[symbol] for symbol in self.here)
            if key in seen or not self._allowed(sizes) or len(seen) > MOST_EDGES:
                continue
            seen.add(key)
            shapes = [shape and [_size(d, sizes) for d in shape] for shape in self.shapes]
            if all(size is not None for shape in shapes for size in shape or ()):
                yield self._named(sizes), shapes

    def _named(self, sizes: Mapping[Any, int]) -> str:
        """Return "x.shape[1]=7": the first dimension with each size."""
        parts = []
        for symbol, size in sizes.items():
            places = (f"{name}.shape[{axis}]" for name, shape in zip(self._names, self.shapes)
                      for axis, d in enumerate(shape or ()) if d == symbol)  # fmt: skip
            parts.append(f"{next(places, symbol)}={size}")
        return ", ".join(parts)


def _expression(size: Any) -> Any:
    node = getattr(size, "node", None)
    return int(size) if node is None else node.expr


def _size(expression: Any, sizes: Mapping[Any, int]) -> int | None:
    """Return the size of an expression; None with unknown symbols."""
    if not hasattr(expression, "subs"):
        return int(expression)
    value = expression.subs(sizes)
    return int(value) if value.is_Integer else None


def _corners(low: int, high: int) -> list[int]:
    """Return the minimum, the maximum, the minimum plus one, and a prime between."""
    if high < low:
        return []
    between = (low + high) // 2
    prime = next((n for n in range(between, low, -1) if n > 2 and _is_prime(n)), between)
    return list(dict.fromkeys([low, high, min(low + 1, high), prime]))


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % n for n in range(2, int(number**0.5) + 1))
