"""Shapes that a model refuses and its program accepts: a `.pte` has ranges of sizes, and no other
conditions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from executorch_c.check.case_source import first_line, flat
from executorch_c.check.cases import leaves

if TYPE_CHECKING:
    from executorch_c.check.case_source import CaseSource
    from executorch_c.check.flows import Call
    from executorch_c.check.run import Check

MAX_SHAPES = 8
"""Maximum number of shapes that are tried."""


def notes(check: Check, source: CaseSource) -> Iterator[str]:
    """Yield a note with an example, if the program accepts a shape that its model refuses."""
    for number, (name, shapes) in enumerate(_shapes(check, source)):
        if number == MAX_SHAPES:
            return
        call = source.call_of(number, shapes)
        why = source.refused(call) if source.exported is not None else _raised(check, call)
        if why is not None and _accepts(check, call):
            yield (
                f"the program accepts {name}, which the model refuses ({why}): a .pte has no "
                "such condition; check it before the call"
            )
            return


def _raised(check: Check, call: Call) -> str | None:
    """Return why eager refuses a call; None if it does not."""
    try:
        check.eager([call])
    except Exception as error:
        return f"eager raises {type(error).__name__}: {first_line(error)}"
    return None


def _accepts(check: Check, call: Call) -> bool:
    """Return True if the program runs on a call."""
    try:
        check.ours([flat(call)])
    except Exception:
        return False
    return True


def _shapes(check: Check, source: CaseSource) -> Iterator[tuple[str, list[Any]]]:
    """Yield names and shapes of inputs beside those of the example: of the export's dynamic sizes
    within their ranges; without an export, of each size of the program's dynamic inputs."""
    if source.exported is not None:
        yield from source.symbols.near()
        return
    own = [list(getattr(leaf, "shape", ())) for leaf in leaves(source.example)]
    for i, limit in enumerate(check.limits()):
        for axis, most in enumerate(limit or ()):
            for size in (own[i][axis] - 1, own[i][axis] + 1):
                if 1 <= size <= most:
                    shapes = [[*shape] for shape in own]
                    shapes[i][axis] = size
                    yield f"size {size} of dimension {axis} of input {i}", shapes
