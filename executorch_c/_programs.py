"""The program argument of all functions: files, loaded programs and managers of the official
flow."""

from __future__ import annotations

import copy
import os
import sys
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Union, cast

from executorch_c._core import Method, Program, Runtime
from executorch_c._files import is_bundled, is_readable, named_after
from executorch_c._names import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from executorch_c._delegation import DelegateAtLoad
    from executorch_c._types import Data, MethodInfo
    from executorch_c.bundled import BundledProgram
    from executorch_c.report import Origin


class ExecutorchManager(Protocol):
    """ExecuTorch's ExecutorchProgramManager."""

    @property
    def buffer(self) -> bytes: ...


class EdgeManager(Protocol):
    """ExecuTorch's EdgeProgramManager."""

    def to_executorch(self) -> Any: ...


ProgramSource: TypeAlias = Union[
    "Data", Program, Method, "BundledProgram", ExecutorchManager, EdgeManager, "ProgramFile"
]
"""A program: the path, bytes or open file of a .pte, .bpte or .ptn; a Program; a Method; a
BundledProgram; an ExecutorchProgramManager or EdgeProgramManager."""


@dataclass(frozen=True)
class ProgramFile:
    """A program and its source."""

    program: Program
    method: Method | None = None
    """The source, if it is a Method."""
    bundled: BundledProgram | None = None
    """Test cases, if the source is a bundled program."""
    manager: Any = None
    """The source, if it is an ExecutorchProgramManager."""
    source: object = None
    """Path or bytes of the source."""
    data: tuple[object, ...] = ()
    """Paths or bytes of its .ptd files."""

    @cached_property
    def origin(self) -> Origin:
        """Origin of a report."""
        from executorch_c.report import Origin

        return Origin(self.source, self.program.info()["file_size"])


def _executorch_manager(source: object) -> Any:
    """Return the ExecutorchProgramManager of a manager; None for other objects."""
    if hasattr(source, "buffer"):
        return source
    if not hasattr(source, "to_executorch"):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return copy.deepcopy(cast(Any, source)).to_executorch()  # it mutates its object


def _load(source: Data, data_path: object, verification: int) -> Program:
    """Load a program and return it. Exception messages begin with the name of the file."""
    data = cast("Data | Sequence[Data] | None", data_path or None)
    with named_after(source):
        return Runtime.get().load_program(source, data_path=data, verification=verification)


def opened(source: ProgramSource, data_path: object = None, verification: int = 1) -> ProgramFile:
    """Return the program of a source, with its origin.

    Raises the exceptions of reading and loading. Errors of the program name its file.
    """
    if isinstance(source, ProgramFile):
        return source
    if isinstance(source, Program):
        return ProgramFile(source)
    if isinstance(source, Method):
        return ProgramFile(source._program, method=source)
    manager = _executorch_manager(source)
    if manager is not None:
        constants = getattr(manager, "_tensor_data", None) or {}
        external = [bytes(one) for one in constants.values()]
        data = bytes(manager.buffer)
        program = _load(data, data_path or external, verification)
        weights = _several(data_path) or tuple(external)
        return ProgramFile(program, manager=manager, source=data, data=weights)
    bundled = _bundled(source)
    if bundled is not None:
        return ProgramFile(bundled.program, bundled=bundled, source=source)
    program = _load(cast("Data", source), data_path, verification)
    return ProgramFile(program, source=source, data=_several(data_path))


def _several(data_path: object) -> tuple[object, ...]:
    """Return the .ptd files of an argument: one, several or None."""
    several = data_path if isinstance(data_path, (list, tuple)) else (data_path,)
    return tuple(one for one in several if one is not None)


def _bundled(source: object) -> BundledProgram | None:
    """Return a BundledProgram, or read the .bpte of a source; None for other sources."""
    # The import takes longer than loading a program: only for bundled programs.
    module = sys.modules.get("executorch_c.bundled")
    if module is not None and isinstance(source, module.BundledProgram):
        return cast("BundledProgram", source)
    if not is_readable(source) or not is_bundled(source):
        return None
    from executorch_c.bundled import BundledProgram

    return BundledProgram.load(cast("Data", source))


def method_of(
    source: ProgramSource,
    name: str = "forward",
    kernels: Literal["default", "reference"] = "default",
    delegate_at_load: DelegateAtLoad | Literal["each"] = False,
) -> Method:
    """Load a method of a program for a check, or return the argument if it is a Method.

    Raises ValueError if `delegate_at_load` could have no effect: for a Method, with plain loops.
    """
    from executorch_c._eager_caches import cache_for

    file = opened(source)
    if delegate_at_load and file.method is not None:
        raise ValueError(
            "`delegate_at_load` has no effect on a Method: load it with the option, "
            "or pass its program"
        )
    if delegate_at_load and kernels == "reference":
        raise ValueError("`delegate_at_load` has no effect with kernels='reference'")
    if file.method is not None:
        return file.method
    return file.program.load_method(
        name,
        kernels=kernels,
        delegate_at_load=delegate_at_load,
        kv_cache=cache_for(file.program, name),
    )


def name_in(file: ProgramFile, name: str) -> str:
    """Return the name of the method; of a Method, its own."""
    return name if file.method is None else file.method.metadata.name()


def method_info(program: Program, method: str) -> MethodInfo:
    """Return what Program.info() says of a method that the program has."""
    return next(one for one in program.info()["methods"] if one["name"] == method)


def output_names(program: Program, method: str) -> list[str | None]:
    """Return the names of a method's outputs; None for one without a name."""
    return [info.get("name") or None for info in method_info(program, method)["outputs"]]


def title_of(program: object, otherwise: str) -> str:
    """Return the title of a program in reports: the name of its file, if known."""
    program = program.source if isinstance(program, ProgramFile) else program
    if isinstance(program, (str, os.PathLike)):
        return visible(os.path.basename(os.fspath(program)))
    return otherwise
