"""Types of the fixtures that open programs."""

from collections.abc import Callable, Sequence
from typing import Any

Outputs = Sequence[Any]
Runner = Callable[[str, Outputs], list[Any]]
Opener = Callable[[bytes], Runner]
"""Opens a program and returns a function from a method name and inputs to outputs."""
