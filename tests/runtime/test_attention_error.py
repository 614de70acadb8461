"""Attention over large logits has errors no larger than eager's.

exp() of logits of magnitude 100 turns each unit in the last place of a logit into a relative error
of 1e-5, so only the errors of many samples characterise a kernel.
"""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import executorch_c
from tests.exports import export

DRAWS = 300


@pytest.mark.parametrize("kernels", ["default", "reference"])
@pytest.mark.parametrize(("queries", "keys", "width"), [(3, 6, 8), (33, 40, 64)])
def test_error_of_many_draws(queries: int, keys: int, width: int, kernels: str) -> None:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v)

    generator = torch.Generator().manual_seed(0)

    def draw() -> list[torch.Tensor]:
        sizes = (queries, keys, keys)
        return [torch.rand(4, n, width, generator=generator) * 18 - 9 for n in sizes]

    program = executorch_c.Runtime.get().load_program(export(attention, *draw()))
    method = program.load_method("forward", kernels=kernels)
    ours, eager = [], []
    for _ in range(DRAWS):
        inputs = draw()
        exact = attention(*(x.double() for x in inputs))
        results = torch.from_numpy(method(*(x.numpy() for x in inputs)))
        ours.append(float((results - exact).abs().max()))
        eager.append(float((attention(*inputs) - exact).abs().max()))
    rms = [float(np.sqrt(np.mean(np.square(errors)))) for errors in (ours, eager)]
    assert rms[0] <= 1.2 * rms[1], f"root mean square of errors {rms[0]:.2e}, eager {rms[1]:.2e}"
