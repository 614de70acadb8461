"""Shapes of inputs: the bounds of the dynamic sizes of an exported program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from executorch_c.check.cases import leaves
from executorch_c.check.flows import Call

MAX_EDGES = 16
"""Maximum number of edge shapes."""


def placeholders(exported: Any) -> list[Any]:
    """Return the node of each input of the user's, in order; None for constants."""
    nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    return [
        nodes.get(name) if isinstance(name, str) else None
        for name in exported.graph_signature.user_inputs
    ]


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
        for i, node in enumerate(placeholders(exported)):
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
            solutions = sympy.solve(size - value, symbol)
            return int(solutions[0]) if solutions else self.here.get(symbol, value)

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
            if key in seen or not self._allowed(sizes) or len(seen) > MAX_EDGES:
                continue
            seen.add(key)
            shapes = [shape and [_size(d, sizes) for d in shape] for shape in self.shapes]
            if all(size is not None for shape in shapes for size in shape or ()):
                yield self._named(sizes), shapes

    def sample(self, pick: Callable[[int], int]) -> list[Any] | None:
        """Return shapes of random sizes; None without symbols. `pick` returns a number below one
        that it is given."""
        if not self.ranges:
            return None
        sizes = {
            **self.here,
            **{symbol: low + pick(high - low + 1) for symbol, (low, high) in self.ranges.items()},
        }
        shapes = [shape and [_size(d, sizes) for d in shape] for shape in self.shapes]
        return shapes if self._allowed(sizes) else None

    def near(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield names and shapes of inputs with one size more or less than the example's: of each
        symbol within its range, and of sizes that depend on a symbol, such as its double."""
        here = [shape and [_size(d, self.here) for d in shape] for shape in self.shapes]
        for symbol, (low, high) in self.ranges.items():
            for size in (self.here[symbol] - 1, self.here[symbol] + 1):
                if low <= size <= high:
                    sizes = {**self.here, symbol: size}
                    shapes = [shape and [_size(d, sizes) for d in shape] for shape in self.shapes]
                    yield self._named({symbol: size}), shapes
        for i, shape in enumerate(self.shapes):
            for axis, expression in enumerate(shape or ()):
                if getattr(expression, "free_symbols", ()) and not expression.is_Symbol:
                    shapes = [row and [*row] for row in here]
                    size = (_size(expression, self.here) or 2) - 1
                    shapes[i] = [*(here[i] or [])[:axis], size, *(here[i] or [])[axis + 1 :]]
                    yield f"{self._names[i]}.shape[{axis}]={size}", shapes

    def _named(self, sizes: Mapping[Any, int]) -> str:
        """Return "x.shape[1]=7": the first dimension with each size."""
        parts = []
        for symbol, size in sizes.items():
            places = (
                f"{name}.shape[{axis}]"
                for name, shape in zip(self._names, self.shapes)
                for axis, d in enumerate(shape or ())
                if d == symbol
            )
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
