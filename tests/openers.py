"""Types of the fixtures that open programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Outputs = Sequence[Any]
Runner = Callable[[str, Outputs], list[Any]]
Opener = Callable[[bytes], Runner]
"""Opens a program, gives a function of a method name and inputs that returns the outputs."""
