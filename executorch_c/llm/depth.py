"""Number of layers of a language model: the rounding of activations adds up over them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from executorch_c._programs import method_info
from executorch_c.inspect.families import short
from executorch_c.llm.signature import integer

if TYPE_CHECKING:
    from executorch_c._types import MethodInfo
    from executorch_c.llm.runner import TextRunner

ATTENTION = re.compile(r"^_?softmax$|sdpa", re.IGNORECASE)
"""Operators and nodes of which an attention has one."""
MAX_LAYERS = 1000


def layers_of(model: Any, runner: TextRunner, method: str) -> int:
    """Return the number of layers, at least 1: repeated blocks of the module that a method
    computes; for a module without any, what the metadata say, or the attentions of the method."""
    count = _blocks(model) or integer(runner.signature.constants, "get_n_layers")
    return min(max(count or _attentions(runner, method), 1), MAX_LAYERS)


def _blocks(model: Any) -> int:
    """Return the length of the list of modules with the most parameters; 0 without lists. Lists
    inside a list (experts, parts of a block) are parts of its modules."""
    lists = {name: module for name, module in model.named_modules() if _is_list(module)}
    outer = [
        module
        for name, module in lists.items()
        if not any(name.startswith(f"{other}.") for other in lists if other)
    ]
    largest = max(outer, key=lambda one: sum(p.numel() for p in one.parameters()), default=())
    return len(largest)


def _is_list(module: Any) -> bool:
    """Return True for a list of modules, and a sequence of modules of one class."""
    kinds = {type(child) for child in module.children()}
    name = type(module).__name__
    return name == "ModuleList" or (name == "Sequential" and len(kinds) == 1)


def _attentions(runner: TextRunner, method: str) -> int:
    """Return the number of attentions of a method, in its operators and delegates."""
    info = method_info(runner.program, method)
    own = sum(row["calls"] for row in info["operators"] if ATTENTION.search(short(row["name"])))
    return own + sum(_inside(runner, info, index) for index in range(len(info["delegates"])))


def _inside(runner: TextRunner, info: MethodInfo, index: int) -> int:
    """Return the number of attentions in a delegate."""
    inside = runner.program._delegate(info["name"], index)
    nodes = [] if inside is None else inside["nodes"]
    return sum(bool(ATTENTION.search(short(node["name"] or ""))) for node in nodes)
