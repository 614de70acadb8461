"""Outputs without an order: results of topk(sorted=False) are compared as sets, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import as_array

if TYPE_CHECKING:
    from executorch_c.check.flows import Call
    from executorch_c.check.reference import Eager
    from executorch_c.compare.comparison import Comparison, OutputComparison


def unordered(eager: Eager, calls: Sequence[Call]) -> dict[int, int]:
    """Return the dim of each output that is a result of topk(sorted=False), by its number."""
    import torch

    from executorch_c.noise.ties import Unsorted

    dims = dict[int, int]()
    module = eager.copies.fresh()
    try:
        for call in calls:
            with torch.no_grad(), Unsorted() as mode:
                outputs = eager.run(module, call)
            dims |= {
                number: dim
                for number, output in enumerate(outputs)
                for result, dim in mode.results
                if isinstance(output, torch.Tensor)
                and output.data_ptr() == result.data_ptr()
                and output.shape == result.shape
            }
    except (RuntimeError, NotImplementedError, AssertionError, TypeError):
        torch._dynamo.reset()  # operators that no dispatch mode can see: noise.samples
    return dims


def as_sets(outputs: Sequence[Any], dims: Mapping[int, int]) -> list[Any]:
    """Return outputs with those of topk(sorted=False) sorted along their dim."""
    return [
        np.sort(as_array(one), dims[i]) if i in dims and np.ndim(one) else one
        for i, one in enumerate(outputs)
    ]


def with_remark(comparison: Comparison, dims: Mapping[int, int]) -> Comparison:
    """Return a comparison whose outputs say which were compared as sets."""

    def remarked(output: OutputComparison) -> OutputComparison:
        if output.index not in dims:
            return output
        why = (
            f" is compared as a set along axis {dims[output.index]}: topk(sorted=False) "
            "defines no order"
        )
        more = output.note.removeprefix(": ")
        return replace(output, note=f"{why}; {more}" if more else why)

    return replace(comparison, outputs=tuple(map(remarked, comparison.outputs)))
