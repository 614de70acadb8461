"""Checks in a TOML file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from executorch_c import _extras
from executorch_c._paths import read_bytes
from executorch_c.suite.checks import CheckTask, Keys, Reader

if TYPE_CHECKING:
    from executorch_c._types import FilePath

HEADER = re.compile(r"^\s*\[([^\[\]]+)\]")
PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
KEY = re.compile(rf"^\s*({PART}(?:\s*\.\s*{PART})*)\s*=")


def _toml() -> ModuleType:
    """Return the parser of TOML. Raises ImportError without one, on Python 3.10."""
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib
    return _extras.load("a file of checks", "tomli")


def lines_of(text: str) -> dict[Keys, int]:
    """Return the first line of each table and key of a TOML file, from 1."""
    lines: dict[Keys, int] = {}
    table: Keys = ()
    for number, line in enumerate(text.splitlines(), 1):
        header, key = HEADER.match(line), KEY.match(line)
        if header is not None:
            table = _parts(header[1])
        name = table if header is not None else (*table, *_parts(key[1])) if key else None
        for end in range(1, len(name or ()) + 1):
            lines.setdefault((name or ())[:end], number)
        if header is not None:
            lines[table] = number  # not that of [models.net.flow.x] before [models.net]
    return lines


def _parts(text: str) -> Keys:
    return tuple(part.strip("\"'") for part in re.findall(PART, text))


def read(path: FilePath) -> list[CheckTask]:
    """Return the checks of a file. Raises ValueError with the line, and OSError."""
    name = os.fspath(path)
    data = read_bytes(name)
    toml = _toml()
    try:
        text = data.decode()
        table: Mapping[str, Any] = toml.loads(text)
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: not UTF-8: {error}") from None
    except RecursionError:
        raise ValueError(f"{name}: not TOML: arrays or tables are nested too deeply") from None
    except ValueError as error:  # that of the parser is one; others are integers of many digits
        raise ValueError(f"{name}: not TOML: {error}") from None
    lines = lines_of(text)

    def line(keys: Keys) -> int | None:
        """Return the line of a key, or of the table around it."""
        found = (lines[keys[:end]] for end in range(len(keys), 0, -1) if keys[:end] in lines)
        return next(found, None)

    def place(keys: Keys) -> str:
        number = line(keys)
        return str(name) if number is None else f"{name}:{number}"

    folder = os.path.dirname(os.path.abspath(name))
    return Reader(table, folder, place, line).checks()
