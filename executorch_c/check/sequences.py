"""Calls in a row of a model with state: positions advance to the end of the cache and past it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from executorch_c.check.cases import leaves
from executorch_c.check.flows import Call
from executorch_c.check.roles import InputRole, Roles, advanced

MAX_CALLS = 12
"""Maximum number of calls in the case "state"."""
PAST_THE_END = 2
"""Calls after the one that fills the cache: a ring starts again, others raise."""
RANDOM_CALLS = 2
"""Calls after the example of a model without positions."""


def _number(leaf: Any) -> int:
    return int(leaf.flatten()[0])


def _fits(role: InputRole, minimum: int, maximum: int) -> bool:
    return (role.low is None or role.low <= minimum) and (role.high is None or maximum <= role.high)


def companions(example: Call, roles: Roles) -> list[int]:
    """Return the inputs that advance: positions in buffers, and integers that are equal to one of
    these in the example, such as the positions of rotary embeddings."""
    flat = leaves(example)
    first = {tuple(flat[i].flatten().tolist()) for i in roles.positions}
    return [
        i
        for i, (leaf, role) in enumerate(zip(flat, roles.inputs))
        if role is not None
        and not _is_float(leaf)
        and leaf.numel()
        and (role.length is not None or tuple(leaf.flatten().tolist()) in first)
    ]


def _is_float(leaf: Any) -> bool:
    return bool(leaf.is_floating_point() or leaf.is_complex())


def aligned(example: Call, call: Call, roles: Roles) -> Call:
    """Return a random call whose companions of a position have moved with it."""
    from torch.utils import _pytree

    moving = companions(example, roles)
    if not roles.positions or len(moving) == len(roles.positions):
        return call
    own, (flat, spec) = leaves(example), _pytree.tree_flatten(call)
    first = roles.positions[0]
    by = _number(flat[first]) - _number(own[first])
    for i in moving:
        role, maximum = roles.inputs[i], int(own[i].max()) + by
        if i != first and role is not None and _fits(role, int(own[i].min()) + by, maximum):
            flat[i] = own[i] + by
    whole: Call = _pytree.tree_unflatten(flat, spec)
    return whole


def starts(first: int, span: int, length: int) -> list[int]:
    """Return the positions of calls in a row, which write `span` elements each into a buffer of
    `length`: from 0 to the end and past it; of a long buffer, some at the start, in the middle and
    at the end."""
    after_first = 0 if first else span
    every = list(range(after_first, length + PAST_THE_END * span, span))
    room = MAX_CALLS - 1
    if len(every) <= room:
        return every
    ends = 2 + PAST_THE_END  # the last but one, the last, and past the end
    middle = every[len(every) // 2]
    return [*every[: room - ends - 1], middle, *every[-ends:]]


def state_calls(
    example: Call, real: Iterable[Call], roles: Roles, draw: Callable[[int], Call]
) -> list[Call]:
    """Return calls in a row, the example first.

    Args:
        real: The user's calls: of a model without positions they come after the example.
        draw: Returns random call number n.
    """
    moving = companions(example, roles)
    if roles.positions:
        flat, first = leaves(example), roles.positions[0]
        lengths = [role.length for role in roles.inputs if role and role.length is not None]
        span = max(flat[first].numel(), 1)
        origin = _number(flat[first])
        moved = starts(origin, span, min(lengths))
        return [
            example,
            *(_at(draw(i), example, moving, start - origin) for i, start in enumerate(moved)),
        ]
    user_calls = list(islice(real, MAX_CALLS - 1 - RANDOM_CALLS))
    count = RANDOM_CALLS
    if roles.capacity is not None:
        count = max(min(roles.capacity + PAST_THE_END, MAX_CALLS) - 1 - len(user_calls), count)
    return [example, *user_calls, *map(draw, range(count))]


def _at(call: Call, example: Call, moving: Sequence[int], by: int) -> Call:
    """Return a call with the example's positions, moved."""
    from torch.utils import _pytree

    flat, spec = _pytree.tree_flatten(call)
    own = leaves(advanced(example, moving, by))
    whole: Call = _pytree.tree_unflatten(
        [own[i] if i in moving else leaf for i, leaf in enumerate(flat)], spec
    )
    return whole
