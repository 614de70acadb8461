"""A patch of a source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
"""The folder of the headers that patches insert."""


@dataclass(frozen=True)
class Patch:
    """A text that occurs `times` times in a file, and its replacement."""

    file: str
    old: str
    new: str
    times: int = 1
