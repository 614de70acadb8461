"""What functions take as a program: the file, what is loaded of it, a method of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from executorch_c._core import Method, Program, Runtime

if TYPE_CHECKING:
    from executorch_c._types import Data


def open_program(program: Program | Data) -> Program:
    """A program, of a file or itself."""
    return program if isinstance(program, Program) else Runtime.get().load_program(program)


def method_of(
    program: Program | Method | Data,
    name: str,
    kernels: Literal["default", "reference"] = "default",
) -> Method:
    """A method to run: of a program, of a file, or itself."""
    if isinstance(program, Method):
        return program
    return open_program(program).load_method(name, kernels=kernels)


def title_of(program: object, otherwise: str) -> str:
    """What to call a program: the name of its file, where that is known."""
    if isinstance(program, (str, os.PathLike)):
        return os.path.basename(os.fspath(program))
    return otherwise
