"""A part of a graph as a module in Python."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from operator import getitem
from typing import TYPE_CHECKING, Any

from executorch_c.cut.graph import Part, names_of, to_nchw, to_nhwc
from executorch_c.debug._graphs.reference import module_of, source_of

if TYPE_CHECKING:
    from torch.fx import Node

LIBRARIES = {
    "quantized_decomposed": "import torch.ao.quantization.fx._decomposed  # quantized_decomposed",
    "torchao": "import torchao  # torch.ops.torchao",
    "llama": "import executorch.extension.llm.custom_ops.custom_ops  # torch.ops.llama",
}
"""Imports that register operators, by their namespace."""


def constants_of(part: Part) -> dict[str, Any]:
    """Return the constants of a part by their names in the module: parameters and tensors."""
    return {name: _tensor(part, node) for node, name in _names_of_constants(part).items()}


def _tensor(part: Part, node: Node) -> Any:
    import torch

    value = part.whole.values[node].detach().clone()
    is_parameter = part.whole.constants.get(node, ("", False))[1]
    return torch.nn.Parameter(value, requires_grad=False) if is_parameter else value


def _names_of_constants(part: Part) -> dict[Node, str]:
    """Return the names of attributes, such as "features_0_weight"."""
    names: dict[Node, str] = {}
    for node in part.constants:
        path = part.whole.constants.get(node, (str(node.target), False))[0]
        name = re.sub(r"\W", "_", path).strip("_")
        name = f"layer_{name}" if not name.isidentifier() else name
        while name in names.values() or name in ("training", "forward"):
            name += "_"
        names[node] = name
    return names


def module_source(part: Part, title: str) -> str:
    """Return the text of module.py: a class `Cut` whose forward is the part."""
    constants = _names_of_constants(part)
    names = names_of([*part.inputs, *part.order])
    lines = [
        f'"""{title}"""',
        "",
        "import torch",
        *_imports(part),
        "",
        "",
        "class Cut(torch.nn.Module):",
    ]
    if constants:
        lines += ["    def __init__(self):", "        super().__init__()"]
        for node, name in constants.items():
            lines.append(f"        {_declared(part, node, name)}")
        lines.append("")
    inputs = ", ".join(["self", *(names[node] for node in part.inputs)])
    lines.append(f"    def forward({inputs}):")
    lines += [f"        {line}" for line in _body(part, names, constants)]
    ends = ", ".join(f"{names[node]}{_permute(part, node, to_nhwc)}" for node in part.outputs)
    lines.append(f"        return {ends}")
    return "\n".join(lines) + "\n"


def _permute(part: Part, node: Node, order: Callable[[int], tuple[int, ...]]) -> str:
    """Return the permutation of an input or output; empty where the program has eager's order."""
    rank = part.whole.values[node].ndim
    return f".permute{order(rank)}" if node in part.in_nhwc else ""


def _imports(part: Part) -> Iterator[str]:
    spaces = {_path(node).split(".")[2] for node in part.order if node.target is not getitem}
    yield from (line for space, line in LIBRARIES.items() if space in spaces)


def _declared(part: Part, node: Node, name: str) -> str:
    value = _tensor(part, node)
    empty = f"torch.empty({list(value.shape)}, dtype={value.dtype})"
    if type(value).__name__ == "Parameter":
        return f"self.{name} = torch.nn.Parameter({empty}, requires_grad=False)"
    return f'self.register_buffer("{name}", {empty})'


def _body(part: Part, names: Any, constants: dict[Node, str]) -> Iterator[str]:
    """Yield a line for each node; a comment says which layer and line of the model it is."""
    before = ""

    def word(value: Any) -> str:
        return _word(value, lambda node: _argument(part, node, names, constants))

    for node in part.inputs:
        if permute := _permute(part, node, to_nchw):
            yield f"{names[node]} = {names[node]}{permute}"
    for node in part.order:
        place = " ".join(filter(None, (module_of(node), _short(source_of(node)))))
        if place and place != before:
            yield f"# {place}"
            before = place
        if node.target is getitem:
            yield f"{names[node]} = {word(node.args[0])}[{word(node.args[1])}]"
            continue
        words = [word(value) for value in node.args]
        words += [f"{key}={word(value)}" for key, value in node.kwargs.items()]
        yield f"{names[node]} = {_path(node)}({', '.join(words)})"


def _short(place: str | None) -> str:
    """Return "(net.py:12)"."""
    return f"({place.replace(chr(92), '/').rpartition('/')[2]})" if place else ""


def _path(node: Node) -> str:
    """Return "torch.ops.aten.conv2d.default"."""
    target: Any = node.target
    if type(target).__name__ == "EdgeOpOverload":
        target = target._op
    return f"torch.ops.{target}"


def _argument(part: Part, node: Node, names: Any, constants: dict[Node, str]) -> str:
    if node in constants:
        return f"self.{constants[node]}"
    return names[node] if node in names else _word(part.number(node), lambda _: "")


def _word(value: Any, name: Callable[[Any], str]) -> str:
    """Return an argument as Python; `name` returns the name of a node."""
    import torch

    if isinstance(value, torch.fx.Node):
        return name(value)
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_word(one, name) for one in value)
        return f"[{inside}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    return repr(value)
