"""ExecuTorch programs on NumPy arrays: load a .pte and run its methods, without torch.

    >>> from executorch_c import Runtime
    >>> program = Runtime.get().load_program("model.pte")
    >>> method = program.load_method("forward")
    >>> outputs = method.execute([x])  # a list of NumPy arrays
    >>> y = method(x)

The names are those of `executorch.runtime`, so that a script moves over by changing its import.
"""

from __future__ import annotations

from enum import IntEnum
from os import path as _path

from executorch_c._core import (
    AccessFailedError,
    AlreadyLoadedError,
    AlreadyRegisteredError,
    BackendRegistry,
    DelegateInvalidCompatibilityError,
    DelegateInvalidHandleError,
    DelegateMemoryAllocationFailedError,
    EndOfMethodError,
    Error,
    InternalError,
    InvalidArgumentError,
    InvalidExternalDataError,
    InvalidProgramError,
    InvalidStateError,
    InvalidTypeError,
    MemoryAllocationFailedError,
    Method,
    MethodMeta,
    NotFoundError,
    NotImplementedInRuntimeError,
    NotSupportedError,
    OperatorMissingError,
    OperatorRegistry,
    OutOfResourcesError,
    Program,
    RegistrationExceedingMaxError,
    Runtime,
    TensorInfo,
    operators,
    register_backend,
    register_operators,
    unregister_operator,
)
from executorch_c._operators import register_operator

__version__ = "0.1.0"
__all__ = [
    "AccessFailedError",
    "AlreadyLoadedError",
    "AlreadyRegisteredError",
    "BackendRegistry",
    "DelegateInvalidCompatibilityError",
    "DelegateInvalidHandleError",
    "DelegateMemoryAllocationFailedError",
    "EndOfMethodError",
    "Error",
    "InternalError",
    "InvalidArgumentError",
    "InvalidExternalDataError",
    "InvalidProgramError",
    "InvalidStateError",
    "InvalidTypeError",
    "MemoryAllocationFailedError",
    "Method",
    "MethodMeta",
    "NotFoundError",
    "NotImplementedInRuntimeError",
    "NotSupportedError",
    "OperatorMissingError",
    "OperatorRegistry",
    "OutOfResourcesError",
    "Program",
    "RegistrationExceedingMaxError",
    "Runtime",
    "TensorInfo",
    "Verification",
    "get_include",
    "operators",
    "register_backend",
    "register_operator",
    "register_operators",
    "unregister_operator",
]


class Verification(IntEnum):
    """How thoroughly a program is verified when it is loaded.

    What makes reading the file safe is checked at both levels; InternalConsistency adds the
    checks that the reference runtime has under this name.
    """

    Minimal = 0
    InternalConsistency = 1


def get_include() -> str:
    """The directory to give to a compiler for `#include "executorch_c/backend.h"`, operator.h."""
    here = _path.dirname(_path.abspath(__file__))
    installed = _path.join(here, "include")
    in_tree = _path.join(_path.dirname(here), "csrc", "include")
    return installed if _path.isdir(installed) else in_tree
