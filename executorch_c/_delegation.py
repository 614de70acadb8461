"""Operators that a backend computes since a method was loaded (`delegate_at_load`).

Checking tools run a program as written. With `delegate_at_load=True` they check what the backend
computes; a Method is used as it was loaded. Their reports say which of the two was checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from executorch_c._render import text as _text

if TYPE_CHECKING:
    from executorch_c._core import Method

DelegateAtLoad: TypeAlias = bool | Literal["always"]
"""Argument of checking tools: False to run the program as written, else as for
`Program.load_method`."""


def delegated_calls(method: Method) -> dict[str, int]:
    """Return the number of operator calls that were delegated at load, by backend: calls of the
    method, and of programs inside its payloads."""
    calls = Counter[str]()
    for row in method.backend_report():
        calls[row["backend"]] += row["calls_delegated_at_load"]
        calls.update(row["nested_delegated_at_load"])
    return {backend: count for backend, count in sorted(calls.items()) if count}


def is_separate(method: Method) -> bool:
    """Return True if backends compute each operator of a method separately, in traces, too."""
    return method._delegate_at_load == "each"


def separately(method: Method) -> Method:
    """Return a method whose traces have the results of all backends: the argument, or, if operators
    were delegated at load, another one in its initial state."""
    if not delegated_calls(method) or is_separate(method):
        return method
    return method._program.load_method(method.metadata.name(), delegate_at_load="each")


def _computed(method: Method) -> str:
    """Return "XnnpackBackend computes 12 operator calls that were delegated at load", or an empty
    text."""
    parts = [
        f"{backend} computes {_text.plural(count, 'operator call')}"
        for backend, count in delegated_calls(method).items()
    ]
    return f"{', '.join(parts)} delegated at load" if parts else ""


def run_notes(method: Method) -> Iterator[str]:
    """Yield a note of a report on outputs, if operators were delegated at load."""
    if computed := _computed(method):
        yield f"{computed}: delegate_at_load=False checks the program as written"


def trace_notes(method: Method) -> Iterator[str]:
    """Yield a note of a report on traced values, if operators were delegated at load."""
    computed = _computed(method)
    if computed and is_separate(method):
        yield (
            f"{computed}, each separately: check_model(delegate_at_load=True) compares the "
            "outputs of runs of them"
        )
    elif computed:
        yield (f"the program is examined as written, by its kernels; when it runs, {computed}")
