"""Values of random inputs: like the example's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from executorch_c.check.flows import Call

FEW_VALUES = 4
"""Maximum number of different floats in an example of flags or a mask."""


def _floats(example: Any, shape: Sequence[int], generator: Any) -> Any:
    """Return normal numbers of the example's mean and deviation; of its sign, if it has one;
    uniform ones in [0, 1], if it is there; the example's own, if it has only a few."""
    import torch

    values = example.double().flatten()
    few = torch.unique(values[:4096])
    if len(values) > FEW_VALUES >= len(few) > 1:
        at = torch.randint(len(few), tuple(shape), generator=generator)
        return few[at]
    low, high = values.min().item(), values.max().item()
    if 0 <= low and high <= 1:
        return torch.rand(tuple(shape), generator=generator, dtype=torch.float64)
    mean = values.mean().item()
    deviation = values.std(correction=0).item() or abs(mean)
    drawn = torch.randn(tuple(shape), generator=generator, dtype=torch.float64)
    drawn = drawn * deviation + mean
    if low >= 0 or high <= 0:  # folding keeps more of the spread than clipping
        drawn = drawn.abs() if low >= 0 else -drawn.abs()
    return drawn


def _repeated(example: Any, shape: Sequence[int]) -> Any:
    """Return the example's own values, cut or repeated to a shape."""
    import torch

    for axis, size in enumerate(shape):
        at = torch.arange(size) % max(example.shape[axis], 1)
        example = example.index_select(axis, at)
    return example


def _draw(example: Any, shape: Sequence[int], generator: Any, bound: tuple[int, int] | None) -> Any:
    """Return a tensor of a shape with values like the example's; integers, which may be indices,
    in its range. Masks with infinity keep their values."""
    import torch

    shape = tuple(shape)
    if not example.numel() or (example.is_floating_point() and not example.isfinite().all()):
        return _repeated(example, shape) if example.numel() else example.new_zeros(shape)
    if example.is_complex():
        parts = [_floats(part, shape, generator) for part in (example.real, example.imag)]
        drawn = torch.complex(*parts)
    elif example.is_floating_point():
        drawn = _floats(example, shape, generator)
    elif example.dtype == torch.bool:
        share = example.double().mean().item()
        drawn = torch.rand(shape, generator=generator, dtype=torch.float64) < share
    else:
        low, high = bound or (int(example.min()), int(example.max()))
        drawn = torch.randint(low, high + 1, shape, generator=generator)
    return drawn.to(example.dtype)


def _in_layout(tensor: Any, example: Any) -> Any:
    """Return a tensor in the example's order of dimensions in memory (such as channels last)."""
    import torch

    if tensor.shape == example.shape:
        return torch.empty_like(example).copy_(tensor)
    order = sorted(range(example.ndim), key=lambda axis: -example.stride(axis))
    if order == list(range(example.ndim)) or example.is_contiguous():
        return tensor
    back = [order.index(axis) for axis in range(example.ndim)]
    return tensor.permute(order).contiguous().permute(back)


def draw(
    example: Call,
    shapes: Sequence[Sequence[int] | None] | None,
    bounds: Sequence[tuple[int, int] | None],
    seed: int,
) -> Call:
    """Return a random call like the example; `shapes` by input, None for the example's."""
    import torch
    from torch.utils import _pytree

    generator = torch.Generator().manual_seed(seed)
    flat, spec = _pytree.tree_flatten(example)
    drawn = []
    for i, leaf in enumerate(flat):
        if isinstance(leaf, torch.Tensor):
            shape = (shapes and shapes[i]) or leaf.shape
            leaf = _in_layout(_draw(leaf.detach(), shape, generator, bounds[i]), leaf)
        drawn.append(leaf)
    call: Call = _pytree.tree_unflatten(drawn, spec)
    return call
