"""The `.out` overload of kvcache::update_and_attend, which ExecuTorch 1.5.1 lacks: programs can be
exported with it."""

from typing import Any

import torch
from executorch.extension.llm.cache.update_and_attend import update_and_attend

LIBRARY = torch.library.Library("kvcache", "FRAGMENT")
LIBRARY.define(
    "update_and_attend.out(Tensor q, Tensor k, Tensor v, Tensor position, SymInt layer_id, "
    "float scale, ScalarType out_dtype, *, Tensor(a!) out) -> Tensor(a!)"
)


@torch.library.impl(LIBRARY, "update_and_attend.out", "CompositeExplicitAutograd")
def _out(*args: Any, out: torch.Tensor) -> torch.Tensor:
    return out.copy_(update_and_attend(*args))
