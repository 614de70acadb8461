"""Detection of programs and models that compute with quantised weights or activations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from executorch_c import Program

NAMESPACES = ("quantized_decomposed::", "torchao::", "quantized::")
OPERATORS = {"llama::custom_quantized_sdpa", "llama::quantized_moe_ffn"}


def is_quantized(program: Program, methods: Iterable[str]) -> bool:
    """Return True if a method calls operators on quantised values, or a delegate has some."""
    wanted = set(methods)
    for method in program.info()["methods"]:
        if method["name"] not in wanted:
            continue
        names = [row["name"] for row in method["operators"]]
        if any(n.startswith(NAMESPACES) or n.partition(".")[0] in OPERATORS for n in names):
            return True
        for index in range(len(method["delegates"])):
            inside = program._delegate(method["name"], index)
            values = inside["values"] if inside is not None else []
            if any("int4" in (v["dtype"] or "") or "q" in (v["dtype"] or "") for v in values):
                return True
    return False


def is_quantized_model(model: Any) -> bool:
    """Return True if a torch.nn.Module has quantised weights: of torchao, or in 8 bits."""
    tensors = [*model.parameters(), *model.buffers()]
    return any(hasattr(t, "qdata") or str(t.dtype) in ("torch.int8", "torch.uint8")
               for t in tensors)  # fmt: skip
