"""Bugs of flows: changes of the exported graph before it is lowered, by what stands in the graph.
A part of the model that has this is lowered wrongly, too."""

import copy
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx import Node

from executorch_c.check import flows

aten = torch.ops.aten
Bug = Callable[[Node], bool]
"""Changes a node of a graph where it applies; returns whether it did."""


def _is(node: Any, *names: str) -> bool:
    return isinstance(node, Node) and str(node.target).startswith(
        tuple(f"aten.{n}." for n in names)
    )


def _replaced(node: Node, target: Any, *args: Any) -> bool:
    with node.graph.inserting_after(node):
        new = node.graph.call_function(target, args)
    new.meta = dict(node.meta)
    node.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)
    return True


def _without(node: Node) -> bool:
    node.replace_all_uses_with(node.args[0])
    return True


def _argument(node: Node, place: int, value: Any) -> bool:
    args = list(node.args)
    if place >= len(args) or args[place] is None or args[place] == value:
        return False
    args[place] = value
    node.args = tuple(args)
    return True


def _scaled(node: Node, factor: float) -> bool:
    return _replaced(node, aten.mul.Tensor, node, factor)


def _before(node: Node) -> Any:
    """Return the node whose value a node reads; through quantisation and a choice of results."""
    first = node.args[0] if node.args else None
    while isinstance(first, Node) and (
        "quantize" in str(first.target) or "getitem" in str(first.target)
    ):
        first = first.args[0]
    return first


RELU = ("relu", "relu_", "hardtanh", "hardtanh_", "relu6")
CONV = ("conv2d", "convolution")

ALONE: dict[str, Bug] = {
    "relu is lost": lambda n: _is(n, *RELU) and _without(n),
    "relu is gelu": lambda n: _is(n, *RELU) and _replaced(n, aten.gelu.default, n.args[0]),
    "gelu is approximate": lambda n: _is(n, "gelu") and _replaced(n, aten.silu.default, n.args[0]),
    "tanh is sigmoid": lambda n: _is(n, "tanh") and _replaced(n, aten.sigmoid.default, n.args[0]),
    "convolution without bias": lambda n: _is(n, *CONV) and _argument(n, 2, None),
    "linear without bias": lambda n: _is(n, "linear") and _argument(n, 2, None),
    "transposed convolution scaled": lambda n: _is(n, "conv_transpose2d") and _scaled(n, 1.02),
    "linear scaled": lambda n: _is(n, "linear") and _scaled(n, 0.98),
    "epsilon of layer norm": lambda n: _is(n, "layer_norm") and _argument(n, 4, 0.1),
    "epsilon of batch norm": lambda n: _is(n, "batch_norm") and _argument(n, 7, 0.1),
    "softmax over another axis": lambda n: _is(n, "softmax") and _argument(n, 1, -2),
    "sum is difference": lambda n: _is(n, "add") and _replaced(n, aten.sub.Tensor, *n.args),
    "factor": lambda n: _is(n, "mul") and isinstance(n.args[1], float) and _argument(n, 1, 0.4),
    "max pool is mean": lambda n: (
        _is(n, "max_pool2d") and _replaced(n, aten.avg_pool2d.default, *n.args[:3])
    ),
    "cat in another order": lambda n: _is(n, "cat") and _argument(n, 0, list(n.args[0])[::-1]),
    "mean is maximum": lambda n: (
        _is(n, "adaptive_avg_pool2d")
        and _replaced(n, aten.adaptive_max_pool2d.default, *n.args)
        and _first_result(n)
    ),
    "product scaled": lambda n: _is(n, "matmul") and _scaled(n, 1.05),
}


def _first_result(node: Node) -> bool:
    """Let the readers of a new operator of several results read the first."""
    new = node.next
    with node.graph.inserting_after(new):
        first = node.graph.call_function(torch.ops.aten.alias.default, (new,))
    new.replace_all_uses_with(first, delete_user_cb=lambda user: user is not first)
    import operator

    first.target, first.args = operator.getitem, (new, 0)
    return True


BESIDE: dict[str, Bug] = {
    "relu after convolution is lost": lambda n: (
        _is(n, *RELU) and _is(_before(n), *CONV, "batch_norm") and _without(n)
    ),
    "batch norm after convolution": lambda n: (
        _is(n, "batch_norm") and _is(_before(n), *CONV) and _argument(n, 7, 0.1)
    ),
    "gelu after linear is lost": lambda n: (
        _is(n, "gelu") and _is(_before(n), "linear") and _without(n)
    ),
    "max pool after relu": lambda n: (
        _is(n, "max_pool2d")
        and _is(_before(n), *RELU)
        and _replaced(n, aten.avg_pool2d.default, *n.args[:3])
    ),
    "softmax after factor": lambda n: (
        _is(n, "softmax") and _is(_before(n), "mul") and _argument(n, 1, -2)
    ),
    "linear after relu": lambda n: (
        _is(n, "linear") and _is(_before(n), *RELU) and _argument(n, 2, None)
    ),
    "linear after tanh": lambda n: (
        _is(n, "linear") and _is(_before(n), "tanh") and _scaled(n, 1.03)
    ),
    "sum of a result of batch norm": lambda n: (
        _is(n, "add")
        and any(_is(_before_of(a), "batch_norm") for a in n.args)
        and _replaced(n, aten.sub.Tensor, *n.args)
    ),
    "linear after flatten of a mean": lambda n: (
        _is(n, "linear") and _is(_before(n), "flatten", "view") and _argument(n, 2, None)
    ),
}


def _before_of(node: Any) -> Any:
    return _before(node) if isinstance(node, Node) and "getitem" in str(node.target) else node


def _activation(node: Node, factor: float, readers: tuple[str, ...]) -> bool:
    is_read = any(_is(user, *readers) for user in node.users)
    known = str(node.target).startswith("quantized_decomposed.dequantize_per_tensor")
    return known and is_read and _argument(node, 1, node.args[1] * factor)


QUANTIZED: dict[str, Bug] = {
    "scale of linear's input": lambda n: _activation(n, 1.5, ("linear",)),
    "scale of convolution's input": lambda n: _activation(n, 0.6, CONV),
    "zero point of linear's input": lambda n: (
        str(n.target).startswith("quantized_decomposed.dequantize_per_tensor")
        and any(_is(user, "linear") for user in n.users)
        and _argument(n, 2, n.args[2] + (5 if n.args[2] < 100 else -5))
    ),
    "scale of a sum's operand": lambda n: _activation(n, 1.3, ("add", "cat")),
}
BUGS = ALONE | BESIDE | QUANTIZED
ATTRIBUTES: dict[str, Bug] = {
    **{
        name: BUGS[name]
        for name in (
            *("epsilon of layer norm", "softmax over another axis", "factor"),
            *("scale of linear's input", "scale of convolution's input"),
        )
    },
    "bound of a clamp": lambda n: _is(n, "hardtanh", "hardtanh_") and _argument(n, 2, 1.5),
    "padding of a pool": lambda n: (
        _is(n, "max_pool2d")
        and _replaced(n, aten.max_pool2d.default, n.args[0], [3, 3], [2, 2], [1, 1])
    ),
    "operand of a power": lambda n: _is(n, "pow") and _argument(n, 1, 3),
}
"""Changes of what is no tensor."""


def changed(exported: Any, bug: Bug, most: int | None = None) -> tuple[Any, int]:
    """Return an exported program as a flow with a bug sees it, and how many nodes it changes: at
    most a number of them."""
    wrong = copy.deepcopy(exported)
    graph = wrong.graph_module.graph
    count = 0
    for node in list(graph.nodes):
        count += node.op == "call_function" and count != most and bool(bug(node))
    graph.eliminate_dead_code()
    wrong.graph_module.recompile()
    return wrong, count


@contextmanager
def planted(flow: str, name: str) -> Iterator[list[int]]:
    """Give a flow a bug; the list gets how many nodes it changes in each program."""
    row, counts = flows.FLOWS[flow], list[int]()

    def lower(exported: Any, method: str) -> Any:
        wrong, count = changed(exported, BUGS[name])
        counts.append(count)
        return flows._lower(wrong, row, method)

    flows.FLOWS[flow] = dataclasses.replace(row, lower=lower)
    try:
        yield counts
    finally:
        flows.FLOWS[flow] = row
