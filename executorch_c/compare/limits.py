"""Tolerances of the caller: one for all outputs, or by index or name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from executorch_c.compare import tolerance

Limit: TypeAlias = "float | Mapping[int | str, float] | None"
"""A tolerance for all outputs, or for some by index or name; the others have the default."""


def _of(limit: Limit, index: int, name: str | None) -> float | None:
    if not isinstance(limit, Mapping):
        return limit
    return limit.get(index, limit.get(name) if name is not None else None)


@dataclass(frozen=True)
class Limits:
    """rtol and atol of outputs. Raises ValueError for a negative one."""

    rtol: Limit
    atol: Limit

    def __post_init__(self) -> None:
        for name, limit in (("rtol", self.rtol), ("atol", self.atol)):
            if not isinstance(limit, Mapping):
                tolerance.check_not_negative(**{name: limit})
                continue
            for key, value in limit.items():
                tolerance.check_not_negative(**{f"{name}[{key!r}]": value})

    def of(self, index: int, name: str | None = None) -> tuple[float | None, float | None]:
        """Return rtol and atol of an output; None for a default."""
        return _of(self.rtol, index, name), _of(self.atol, index, name)

    def are_given(self, index: int, name: str | None = None) -> bool:
        """Return True if the caller has set a tolerance of an output."""
        return self.of(index, name) != (None, None)

    @property
    def decide_alone(self) -> bool:
        """True if all outputs have the caller's tolerance."""
        given = [limit for limit in (self.rtol, self.atol) if limit is not None]
        return any(not isinstance(limit, Mapping) for limit in given)

    def check_names(self, names: Sequence[str | None]) -> None:
        """Raise ValueError for a tolerance of an unknown output."""
        known: set[object] = {*range(len(names)), *names}
        for limit in (self.rtol, self.atol):
            for key in limit if isinstance(limit, Mapping) else ():
                if key not in known:
                    said = ", ".join(repr(name) for name in names if name is not None)
                    raise ValueError(
                        f"tolerance for unknown output {key!r}; outputs are 0 to "
                        f"{len(names) - 1}" + (f", with the names {said}" if said else "")
                    )


def about(limit: Limit, default: str) -> str:
    """Return a tolerance as text: "0.001", "logits: 0.001, others by dtype"."""
    if limit is None:
        return default
    if not isinstance(limit, Mapping):
        return f"{limit:g}"
    return ", ".join(f"{key}: {value:g}" for key, value in limit.items()) + f", others {default}"
