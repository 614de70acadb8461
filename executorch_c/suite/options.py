"""The options of a check in a file of checks: those of check_model that are plain data."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from executorch_c._render.text import shortened, unknown


@dataclass(frozen=True)
class Option:
    """An option: what its value is, in words, and whether it has paths."""

    expected: str
    is_right: Callable[[Any], bool]
    is_path: bool = False


MAX_COUNT, MAX_SECONDS = (1 << 63) - 1, 1e9


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


def _is_number(value: Any) -> bool:
    """Return True for a number that is a float, too, but no NaN, which no comparison is true of."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and (abs(value) <= sys.float_info.max or value in (math.inf, -math.inf))


def _is_limit(value: Any) -> bool:
    """Return True for a number of at least 0."""
    return _is_number(value) and value >= 0


def _is_seconds(value: Any) -> bool:
    return _is_limit(value) and value <= MAX_SECONDS


def _is_tolerance(value: Any) -> bool:
    each = value.values() if isinstance(value, Mapping) else [value]
    return all(map(_is_limit, each))


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, (list, tuple)) and all(map(_is_text, value)))


_COUNT = Option("a number of 0 or more", _is_count)
_TOLERANCE = Option("a number of 0 or more, or a table of them by output", _is_tolerance)
_BOOL = Option("true or false", _is_bool)
OPTIONS: dict[str, Option] = {
    "n_random": _COUNT,
    "seed": _COUNT,
    "search": Option("seconds, true or false", lambda value: _is_bool(value) or _is_seconds(value)),
    "rtol": _TOLERANCE,
    "atol": _TOLERANCE,
    "min_sqnr_db": Option("a number of dB", _is_number),
    "require": Option("a requirement such as 'cosine>=0.999', or a list of them", _are_texts),
    "equal_nan": _BOOL,
    "check_dtype": _BOOL,
    "method": Option("a name", _is_text),
    "kernels": Option('"default" or "reference"', lambda value: value in ("default", "reference")),
    "delegate_at_load": Option(
        'true, false or "always"', lambda value: _is_bool(value) or value == "always"
    ),
    "data_path": Option("a path, or a list of paths", _are_texts, is_path=True),
    "engines": Option('"here,official", or a list of these names', _are_texts),
    "official_seconds": Option("a number of seconds", _is_seconds),
}
"""The options of check_model by name, but for those that are objects of Python: the function that
makes the model returns them."""
SUITE_OPTIONS: dict[str, Option] = {
    "seconds": Option("a number of seconds", lambda value: _is_seconds(value) and value > 0),
}
"""Options of a check that check_model does not have."""
EVERY = OPTIONS | SUITE_OPTIONS


def shown(value: object) -> str:
    """Return a value in words, of at most 80 characters."""
    is_huge = isinstance(value, int) and value.bit_length() > 1000
    return "a huge integer" if is_huge else shortened(repr(value), 80)


def wrong(name: str, value: object, names: Mapping[str, object]) -> str:
    """Return what is wrong with an option, or an empty text; `names` are all that are allowed."""
    if name not in names:
        return f"unknown key {unknown(name, names)}"
    option = EVERY.get(name)
    if option is None or option.is_right(value):
        return ""
    return f"{name} is {shown(value)}, expected {option.expected}"


def resolved(folder: str, options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield options with paths relative to a folder as absolute ones."""
    for name, value in options.items():
        if name in EVERY and EVERY[name].is_path:
            several = isinstance(value, (list, tuple))
            paths = [os.path.join(folder, one) for one in (value if several else [value])]
            value = paths if several else paths[0]
        yield name, value
