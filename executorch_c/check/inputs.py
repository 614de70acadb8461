"""Values of random inputs: like the example's, and such as an input's role allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from executorch_c.check.flows import Call

if TYPE_CHECKING:
    from executorch_c.check.roles import InputRole

MAX_FLAG_VALUES = 4
"""Maximum number of different floats in an example of flags or a mask."""
MASKED = -1e4
"""Largest number of an additive mask that is taken for "masked", and the one of new masks."""
HOLE_SHARE = 0.35
"""Share of masked elements in a mask with holes."""
COMPARED_SHARE = 0.15
"""Share of integers that are numbers which the model compares the input with."""
MIN_INTEGER_RANGE = 8
"""Integers of a smaller range are drawn from a wider one."""
TIME_STEPS = 1000
"""Number of time steps, of an input that is named so."""
MASK_PATTERNS = 3
"""Number of patterns of masks: prefixes, holes, and all or suffixes."""


def _floats(example: Any, shape: Sequence[int], generator: Any) -> Any:
    """Return normal numbers of the example's mean and deviation; of its sign, if it has one;
    uniform ones in [0, 1], if it is there; the example's own, if it has only a few."""
    import torch

    values = example.double().flatten()
    few = torch.unique(values[:4096])
    if len(values) > MAX_FLAG_VALUES >= len(few) > 1:
        at = torch.randint(len(few), tuple(shape), generator=generator)
        return few[at]
    low, high = values.min().item(), values.max().item()
    if 0 <= low and high <= 1:
        return torch.rand(tuple(shape), generator=generator, dtype=torch.float64)
    mean = values.mean().item()
    deviation = values.std(correction=0).item() or abs(mean)
    drawn = torch.randn(tuple(shape), generator=generator, dtype=torch.float64)
    drawn = drawn * deviation + mean
    if low >= 0 or high <= 0:  # mirroring keeps more of the spread than clipping
        drawn = drawn.abs() if low >= 0 else -drawn.abs()
    return drawn


def _repeated(example: Any, shape: Sequence[int]) -> Any:
    """Return the example's own values, cut or repeated to a shape."""
    import torch

    for axis, size in enumerate(shape):
        at = torch.arange(size) % max(example.shape[axis], 1)
        example = example.index_select(axis, at)
    return example


# ---- masks ------------------------------------------------------------------------------------


def _is_mask(example: Any, role: InputRole) -> bool:
    """Return True for bools, for integers of zeros and ones that are no indices, and for floats
    that are named so."""
    import torch

    if example.dtype == torch.bool:
        return True
    if not example.numel() or not example.ndim or role.high is not None or example.is_complex():
        return False
    values = torch.unique(example.flatten()[:4096].double())
    is_additive = bool((values <= 0).all()) and bool(((values == 0) | (values <= MASKED)).all())
    if example.is_floating_point():
        return (role.is_mask and bool(((values == 0) | (values == 1)).all())) or (
            is_additive and (role.is_mask or bool((values <= MASKED).any()))
        )
    is_flags = bool(((values == 0) | (values == 1)).all())
    return is_flags and (role.is_mask or bool((values == 1).any()))


def _kept(is_masked: Any) -> Any:
    """Return one value of each row that stays unmasked: the first that the example has so."""
    import torch

    at = (~is_masked).to(torch.int8).argmax(-1, keepdim=True)
    return torch.zeros_like(is_masked).scatter_(-1, at, True)  # noqa: FBT003


def _pattern(shape: Sequence[int], number: int, suffixes: bool, generator: Any) -> Any:
    """Return which elements are masked: all after a prefix of each row, holes, or none; with
    `suffixes`, in place of none, all before a suffix."""
    import torch

    shape = tuple(shape)
    if number % MASK_PATTERNS == 1:
        return torch.rand(shape, generator=generator) < HOLE_SHARE
    if number % MASK_PATTERNS == 2 and not suffixes:
        return torch.zeros(shape, dtype=torch.bool)
    lengths = torch.randint(1, max(shape[-1], 2), (*shape[:-1], 1), generator=generator)
    at = torch.arange(shape[-1]).expand(shape)
    return at >= lengths if number % MASK_PATTERNS == 0 else at < shape[-1] - lengths


def _mask(example: Any, shape: Sequence[int], number: int, role: InputRole, generator: Any) -> Any:
    """Return a mask whose rows have an unmasked element each, as in the example."""
    import torch

    if example.dtype == torch.bool and example.numel() == 1:
        return torch.full(tuple(shape), number % 2 == 0)
    is_additive = example.is_floating_point() and bool((example <= 0).all())
    if is_additive:
        off: Any = min(float(example.min()), 0.0) or MASKED
        if example.dtype == torch.float16:
            off = max(off, -65504.0) if off != float("-inf") else off
        is_masked = example <= MASKED
        base = _repeated(example, shape)
    else:
        is_on = example.bool()
        lit = bool(is_on.any(-1).all()), bool((~is_on).any(-1).all())
        on = lit[0] if lit[0] != lit[1] else bool(is_on.double().mean() >= 0.5)
        is_masked = is_on != on
        off, base = not on, torch.full(tuple(shape), on).to(example.dtype)
    suffixes = is_additive or not bool(is_masked.any())
    masked = _pattern(shape, number, suffixes, generator)
    masked &= ~_kept(_repeated(is_masked, shape))
    if number % MASK_PATTERNS == 1 and not masked.any():  # a small mask without holes
        masked |= ~_kept(_repeated(is_masked, shape))
    return base.masked_fill(masked, off)


# ---- integers ---------------------------------------------------------------------------------


def _distinct(example: Any, shape: Sequence[int], role: InputRole, generator: Any) -> Any:
    """Return distinct indices: consecutive ones from another start, if the example's are so."""
    import torch

    base = _repeated(example, shape)
    flat = base.flatten()
    assert role.low is not None or role.length is not None
    low = role.low if role.low is not None else 0
    high = role.high if role.high is not None else (role.length or 1) - 1
    spread = int(flat.max() - flat.min())
    if len(flat) == 1 or bool((flat.diff() == 1).all()) or len(flat) > high - low + 1:
        room = max(high - low - spread, 0)
        start = low + int(torch.randint(room + 1, (1,), generator=generator))
        return base - int(flat.min()) + start
    return low + torch.randperm(high - low + 1, generator=generator)[: len(flat)].view(base.shape)


def _range(example: Any, role: InputRole) -> tuple[int, int]:
    """Return the least and the largest integer to draw."""
    import torch

    limits = torch.iinfo(example.dtype)
    if role.high is not None and role.low is not None:
        return max(role.low, 0) if role.high >= 0 else role.low, role.high
    low, high = int(example.min()), int(example.max())
    if role.is_scalar:
        return low, high
    if example.dtype in (torch.uint8, torch.int8) and example.numel() > 1:
        return int(limits.min), int(limits.max)
    if role.is_time:
        return min(low, 0), max(high, TIME_STEPS - 1)
    if high - low < MIN_INTEGER_RANGE:
        low, high = min(0, 2 * low), max(2 * high, MIN_INTEGER_RANGE - 1)
    return max(low, int(limits.min)), min(high, int(limits.max))


def _integers(example: Any, shape: Sequence[int], role: InputRole, generator: Any) -> Any:
    """Return integers that an input's role allows."""
    import torch

    shape = tuple(shape)
    if role.is_unique or role.length is not None:
        return _distinct(example, shape, role, generator)
    low, high = _range(example, role)
    drawn = torch.randint(low, high + 1, shape, generator=generator)
    special = torch.tensor(sorted(n for n in role.compared if low <= n <= high) or [low])
    if role.compared and example.numel() > 1:
        at = torch.randint(len(special), shape, generator=generator)
        rare = torch.rand(shape, generator=generator) < COMPARED_SHARE
        drawn = torch.where(rare, special[at], drawn)
    return drawn


# ---- calls ------------------------------------------------------------------------------------


def _like(example: Any, shape: tuple[int, ...], generator: Any) -> Any:
    """Return a tensor with values like the example's: integers, which may be indices, in its range;
    masks with infinity keep their values."""
    import torch

    if not example.numel() or (example.is_floating_point() and not example.isfinite().all()):
        return _repeated(example, shape) if example.numel() else example.new_zeros(shape)
    if example.is_complex():
        parts = [_floats(part, shape, generator) for part in (example.real, example.imag)]
        return torch.complex(*parts)
    if example.is_floating_point():
        return _floats(example, shape, generator)
    if example.dtype == torch.bool:
        share = example.double().mean().item()
        return torch.rand(shape, generator=generator, dtype=torch.float64) < share
    low, high = int(example.min()), int(example.max())
    return torch.randint(low, high + 1, shape, generator=generator)


def _draw(
    example: Any, shape: Sequence[int], role: InputRole | None, number: int, generator: Any
) -> Any:
    """Return a tensor of a shape and of the example's dtype; without a role, like the example."""
    import torch

    shape = tuple(shape)
    if role is None or not example.numel() or 0 in shape:
        drawn = _like(example, shape, generator)
    elif _is_mask(example, role):
        drawn = _mask(example, shape, number, role, generator)
    elif example.is_floating_point() or example.is_complex() or example.dtype == torch.bool:
        drawn = _like(example, shape, generator)
    else:
        drawn = _integers(example, shape, role, generator)
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
    roles: Sequence[InputRole | None],
    seed: int,
) -> Call:
    """Return a random call like the example.

    Args:
        shapes: Shapes by input; None for the example's.
        roles: What the model does with each input; None: like the example, within its range.
        seed: Seed of the numbers; masks of consecutive seeds have different patterns.
    """
    import torch
    from torch.utils import _pytree

    generator = torch.Generator().manual_seed(seed)
    flat, spec = _pytree.tree_flatten(example)
    drawn, masks = [], 0
    for i, leaf in enumerate(flat):
        if isinstance(leaf, torch.Tensor):
            shape, role = (shapes and shapes[i]) or leaf.shape, roles[i]
            new = _draw(leaf.detach(), shape, role, seed + masks, generator)
            masks += role is not None and _is_mask(leaf.detach(), role)
            leaf = _in_layout(new, leaf)
        drawn.append(leaf)
    call: Call = _pytree.tree_unflatten(drawn, spec)
    return call
