"""Rendering of chat templates, which are programs from files: in a process with limits."""

from __future__ import annotations

import datetime
import functools
import numbers
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from executorch_c import _extras
from executorch_c._core import InvalidArgumentError
from executorch_c._limited.process import Ended, LimitedProcess, Limits, Refused
from executorch_c._names import visible

LIMITS = Limits(seconds=5.0, memory=512 << 20, reply=64 << 20)
"""Limits of a rendering; 4 bytes for each of the 16 million characters of a result."""
MAX_TEMPLATE = 1 << 20
"""Characters of a template."""
MAX_DEPTH = 100
"""Nested lists and dicts of a value."""

TYPES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (np.bool_, bool),
    (numbers.Integral, int),
    (numbers.Real, float),
)
"""Types whose values become Python's own: enumerations, NumPy's scalars, marked-up texts."""


@functools.cache
def _process() -> LimitedProcess:
    service = Path(__file__).with_name("_template_service.py")
    return LimitedProcess(service, ("jinja2", "markupsafe"), LIMITS)


def plain(value: Any, where: str, depth: int = 0) -> Any:
    """Return a value as dicts, lists, texts and numbers of Python's own types.

    Raises InvalidArgumentError with the place of another object.
    """
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    if depth > MAX_DEPTH:
        raise InvalidArgumentError(f"chat template: {where} is nested more than {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        rows = value.items()
        return {plain(k, "a key"): plain(v, f"{where}[{k!r}]", depth + 1) for k, v in rows}
    for of, make in TYPES:
        if isinstance(value, of):
            return make(value)
    if isinstance(value, (Sequence, Set)):
        values = [plain(v, f"{where}[{i}]", depth + 1) for i, v in enumerate(value)]
        return tuple(values) if isinstance(value, tuple) else values
    raise InvalidArgumentError(
        f"chat template: {where} is {type(value).__name__}, expected a text, a number, None, a "
        "list or a dict"
    )


def render(template: str, values: Mapping[str, Any]) -> str:
    """Return the text of a template. Raises InvalidArgumentError, ImportError without jinja2."""
    _extras.require("a chat template", "jinja2")
    if len(template) > MAX_TEMPLATE:
        raise InvalidArgumentError(
            f"chat template: {len(template):,} characters, at most {MAX_TEMPLATE:,} are read"
        )
    given = {name: plain(value, f"'{name}'") for name, value in values.items()}
    now = datetime.datetime.now()
    time = (now.year, now.month, now.day, now.hour, now.minute, now.second, now.microsecond)
    try:
        return str(_process().ask((template, given, time)))
    except Refused as error:
        reason = error.message if error.kind == "TemplateError" else str(error)
    except (Ended, OSError) as error:
        reason = str(error)
    raise InvalidArgumentError(visible(f"chat template: {reason}"))
