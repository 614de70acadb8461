"""The lowered module as a Vulkan payload with `force_fp16` computes it.

Quantisations between two calls of floats (a product of attention and its factor) are left out.
Constants, the parameters of activations that are chosen at run time, and the results of calls are
float16. A fused call (a product with the dequantisation of its operands, and the quantisation of
its result) computes in float32 and rounds once.
"""

from typing import Any

import torch
from torch import Tensor, fx, nn

PRODUCTS = ("aten.linear", "aten.conv", "aten.addmm", "aten.mm")
FUSED = ("aten.relu", "aten.hardtanh", "aten.clamp")


def _is(node: Any, *names: str) -> bool:
    return str(node.target).startswith(names)


def _dequantizes(node: Any) -> bool:
    return "dequantize" in str(node.target)


def _quantizes(node: Any) -> bool:
    return "quantize" in str(node.target) and not _dequantizes(node)


def _takes_integers(node: Any) -> bool:
    """Return True for a call that dequantises its operands: a product, or a sum of integers."""
    if _is(node, *PRODUCTS):
        return True
    return _is(node, "aten.add") and all(map(_dequantizes, node.all_input_nodes))


def _is_fused(node: Any) -> bool:
    """Return True for an intermediate result of a fused call: it is not rounded to float16."""
    readers = list(node.users)
    if _dequantizes(node):
        return all(map(_takes_integers, readers))
    if _takes_integers(node) or _is(node, *FUSED):
        return all(_quantizes(r) or (_is(r, *FUSED) and _is_fused(r)) for r in readers)
    return False


def _is_dropped(node: Any) -> bool:
    """Return True for a quantisation between two calls of floats, which the flow leaves out, and
    for its dequantisation."""
    if _dequantizes(node):
        return _quantizes(node.args[0]) and _is_dropped(node.args[0])
    if not _quantizes(node) or not isinstance(node.args[0], fx.Node) or _is_fused(node.args[0]):
        return False
    readers = [reader for user in node.users for reader in user.users]
    return all(map(_dequantizes, node.users)) and not any(map(_takes_integers, readers))


def _rounded(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(map(_rounded, value))
    if isinstance(value, Tensor) and value.dtype == torch.float32:
        return value.half().float()
    return value


class _Rounding(fx.Interpreter):
    def run_node(self, node: fx.Node) -> Any:
        if _is_dropped(node):
            return self.fetch_args_kwargs_from_env(node)[0][0]
        value = super().run_node(node)
        return value if _is_fused(node) else _rounded(value)


class Half(nn.Module):
    """A module that rounds where the payload does."""

    def __init__(self, module: Any, example: Tensor) -> None:
        super().__init__()
        with torch.no_grad():
            exported = torch.export.export(module, (example,))
        self.inner = exported.module(check_guards=False)
        self.graph = getattr(module, "graph", self.inner.graph)

    def forward(self, x: Tensor) -> Tensor:
        result: Any = _Rounding(self.inner).run(x)
        value: Tensor = result[0] if isinstance(result, (tuple, list)) else result
        return value
