"""Limits of chat templates, which are programs from files: steps, sizes, time.

Jinja2's sandbox keeps templates from other objects, not from endless work. Here loops, calls,
filters, operators and printed values are counted, and sizes are known before memory is allocated.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from jinja2 import Environment, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_STEPS = 1_000_000
"""Loop iterations, calls, filters, operators."""
MAX_SIZE = 1 << 24
"""Characters of all texts, elements of a list, bits of an integer."""
MAX_SECONDS = 10.0
ELEMENT_CHARACTERS = 16
"""Characters that an element of a list counts for."""
GLOBALS = ("range", "dict", "namespace", "cycler", "joiner")
TEXTS = frozenset(
    (
        "string",
        "tojson",
        "pprint",
        "join",
        "format",
        "escape",
        "e",
        "forceescape",
        "urlencode",
        "xmlattr",
    )
)
"""Filters whose text is as long as all that their argument contains."""


def _fail(what: str, limit: float) -> None:
    raise SecurityError(f"more than {limit:,.0f} {what}")


def weight(value: object, limit: int = MAX_SIZE) -> int:
    """Return the number of characters of a value with all that it contains, or more than `limit`
    without looking at the rest."""
    total, rest = 0, [value]
    while rest and total <= limit:
        one = rest.pop()
        total += len(one) if isinstance(one, (str, bytes)) else ELEMENT_CHARACTERS
        if isinstance(one, Mapping):
            rest += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset)):
            rest += one
        elif isinstance(one, int):
            total += one.bit_length() // 3
    return total


class _Countable(NodeTransformer):
    """Makes loops, concatenations and constant text of a template pass through filters."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = self.filtered("_counted", cast(nodes.Expr, node.iter))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return self.filtered("_joined", nodes.List(node.nodes, lineno=node.lineno))

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:
        return self.filtered("_text", nodes.Const(node.data, lineno=node.lineno))

    def filtered(self, name: str, node: nodes.Expr) -> nodes.Filter:
        return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox for one rendering, which raises SecurityError at its limits."""

    intercepted_binops = frozenset(("+", "-", "*", "**", "/", "//", "%"))

    def __init__(self, filters: Mapping[str, Callable[..., Any]], **options: Any) -> None:
        super().__init__(finalize=self._printed, **options)
        self.steps, self.characters = 0, 0
        self.end = time.monotonic() + MAX_SECONDS
        self.globals = {name: self.globals[name] for name in GLOBALS}
        self.filters |= filters
        for name, function in self.filters.items():
            self.filters[name] = self._limited(name, function)
        own = {"_counted": self.counted, "_joined": self._joined, "_text": self._printed}
        self.filters |= {name: _with_context(function) for name, function in own.items()}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Countable().visit(super()._parse(source, name, filename))
        return tree

    # ---- counts -------------------------------------------------------------------------------

    def count(self, steps: int = 1) -> None:
        """Count steps, and look at the time."""
        self.steps += steps
        if self.steps > MAX_STEPS:
            _fail("steps", MAX_STEPS)
        if time.monotonic() > self.end:
            _fail("seconds", MAX_SECONDS)

    def counted(self, values: Iterable[Any]) -> Iterator[Any]:
        """Yield values, and count them."""
        self.count()
        for value in values:
            self.count()
            yield value

    def _spend(self, size: int) -> None:
        self.characters += size
        if self.characters > MAX_SIZE:
            _fail("characters", MAX_SIZE)

    def _printed(self, value: Any) -> Any:
        self._spend(weight(value))
        return value

    def _joined(self, values: list[Any]) -> str:
        for value in values:
            self._spend(weight(value))
        return "".join(map(str, values))

    # ---- operations ---------------------------------------------------------------------------

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute an operator, unless its result would be too large."""
        self.count()
        sizes = [len(v) for v in (left, right) if hasattr(v, "__len__")]
        counts = [v for v in (left, right) if isinstance(v, int)]
        if operator == "*" and sizes and counts:
            self._spend(sizes[0] * max(counts[0], 0))
        elif operator == "+" and sizes:
            self._spend(sum(sizes))
        elif operator == "%" and isinstance(left, str):
            self._spend(weight([left, right]) + _widths(left))
        elif len(counts) == 2 and operator in ("*", "**"):
            bits = [v.bit_length() for v in counts]
            many = bits[0] * abs(counts[1]) if operator == "**" else sum(bits)
            if many > MAX_SIZE >> 8:  # time grows faster than size
                _fail("bits of an integer", MAX_SIZE >> 8)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call an object, unless its result would be too large."""
        owner = getattr(getattr(__obj, "__wrapped__", __obj), "__self__", None)
        if isinstance(__obj, LoopContext) and args:
            args = (__self.counted(args[0]), *args[1:])
        elif isinstance(owner, (str, bytes)):
            __self._spend_method(getattr(__obj, "__name__", ""), owner, args, kwargs)
        __self.count()
        return super().call(__context, __obj, *args, **kwargs)

    def _spend_method(self, name: str, owner: Any, args: tuple[Any, ...], kwargs: Any) -> None:
        """Count the size of the result of a method of a text."""
        values = [*args, *kwargs.values()]
        numbers = sum(abs(v) for v in values if isinstance(v, int))
        size = weight([owner, values]) + numbers
        if name == "replace" and len(args) > 1 and isinstance(args[0], str):
            size = len(owner) + (owner.count(args[0]) + 1) * len(str(args[1]))
        elif name == "join" and args and hasattr(args[0], "__len__"):
            size += len(owner) * len(args[0])
        elif name == "expandtabs":
            size += owner.count("\t") * (numbers or 8)
        elif name == "translate":
            size *= 1 + max((len(str(v)) for v in getattr(args[0], "values", list)()), default=1)
        elif name in ("format", "format_map"):
            size += _widths(str(owner)) + sum(_widths(v) for v in values if isinstance(v, str))
        self._spend(size)

    def _limited(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def limited(*args: Any, **kwargs: Any) -> Any:
            values = [v for v in (*args, *kwargs.values()) if not isinstance(v, Environment)]
            self.count(1 + sum(len(v) for v in values if isinstance(v, (list, tuple, range))) // 16)
            numbers = sum(abs(v) for v in values if isinstance(v, int))
            texts = sum(len(v) for v in values if isinstance(v, str))
            lines = max((v.count("\n") + 1 for v in values if isinstance(v, str)), default=1)
            if name in TEXTS:
                texts += sum(weight(v) for v in values if isinstance(v, (list, tuple, dict)))
            if name == "replace":
                texts *= 1 + max((len(v) for v in values[-2:] if isinstance(v, str)), default=1)
            widths = sum(_widths(v) for v in values[:1] if isinstance(v, str))
            self._spend(texts + numbers * lines + (widths if name == "format" else 0))
            return function(*args, **kwargs)

        return limited


def _widths(form: str) -> int:
    """Return the sum of the numbers in a format string, which may be widths."""
    digits = "".join(c if c.isdigit() else " " for c in form)
    return sum(int(part[:12]) for part in digits.split())


def _with_context(function: Callable[[Any], Any]) -> Any:
    """Return a filter that Jinja2 does not evaluate while it compiles."""

    @pass_context
    def filtered(context: object, value: Any) -> Any:
        return function(value)

    return filtered
