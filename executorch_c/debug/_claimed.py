"""Operators of a method that a backend computes since it was loaded (`delegate_at_load`).

A traced call of such a method runs the kernels. To see what the backend computes, a second method
is loaded in which it takes each of these calls by itself: its trace has the backend's results under
the operators' own names. What the backend makes of several calls at once, as in an ordinary call,
shows only in the outputs of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from executorch_c.debug._graphs.names import kind

if TYPE_CHECKING:
    from executorch_c._core import Method
    from executorch_c.trace import Trace

RANDOM = ("rand", "normal", "bernoulli", "native_dropout")
"""Beginnings of the names of operators whose results differ from call to call."""


def is_random_operator(name: str) -> bool:
    """Return True for the name of an operator of random numbers."""
    return kind(name).startswith(RANDOM)


def claimants(method: Method) -> tuple[str, ...]:
    """Return the names of the backends that compute operators of a method, or of programs inside
    its payloads."""
    rows = method.backend_report()
    own = {row["backend"] for row in rows if row["claimed_calls"]}
    return tuple(sorted(own.union(*(row["nested_claims"] for row in rows))))


def in_state(method: Method, state: Any, **options: Any) -> Method:
    """Load a method again with other options, in a state of it."""
    found = method._program.load_method(method.metadata.name(), **options)
    if state is not None:
        found.set_state(state)
    return found


@dataclass(frozen=True)
class TracedCall:
    """A call with all its values, as a user's call computes them."""

    trace: Trace
    outputs: list[Any]
    """Outputs of the traced call."""
    backends: tuple[str, ...] = ()
    """Backends that compute operators of the method."""
    together: list[Any] | None = None
    """Outputs of an untraced call, if these backends take several calls at once; None if no
    backend does, or if the outputs are random."""
    state: Any = None
    """The state before the call, if there are such backends."""


def traced(method: Method, inputs: Sequence[object], max_bytes: int) -> TracedCall:
    """Call a method once and return its values."""
    backends = claimants(method)
    state = method.get_state() if backends else None
    shown = in_state(method, state, delegate_at_load="each") if backends else method
    with shown.tracing(values=True, max_bytes=max_bytes) as trace:
        outputs = shown.execute(inputs)
    if not backends:
        return TracedCall(trace, outputs)
    if state is not None:
        method.set_state(state)
    together = method.execute(inputs)
    if any(is_random_operator(event.name) for event in trace.events):
        return TracedCall(trace, outputs, backends, None, state)
    return TracedCall(trace, outputs, backends, together, state)
