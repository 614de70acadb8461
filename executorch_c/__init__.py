"""ExecuTorch programs on NumPy arrays: load a .pte and run its methods, without torch.

    >>> import executorch_c
    >>> method = executorch_c.load("model.pte").load_method("forward")
    >>> outputs = method.execute([x])  # a list of NumPy arrays
    >>> y = method(x)

Names are those of `executorch.runtime`, so porting a script means changing its import. `load` is
`Runtime.get().load_program`, for more sources. `testing` compares programs with models, `devtools`
inspects them, `llm` runs language models.
"""

from __future__ import annotations

from collections.abc import Callable as _Callable
from collections.abc import Sequence as _Sequence
from enum import IntEnum
from functools import partial as _partial
from importlib import import_module as _import_module
from os import path as _path
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import TypeVar as _TypeVar
from typing import overload as _overload

if _TYPE_CHECKING:
    from executorch_c import devtools as devtools
    from executorch_c import llm as llm
    from executorch_c import plotting as plotting
    from executorch_c import testing as testing
    from executorch_c._core import (
        AccessFailedError,
        AlreadyLoadedError,
        AlreadyRegisteredError,
        BackendCall,
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
        KVCache,
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
        register_operators,
        unregister_backend,
        unregister_operator,
    )
    from executorch_c._programs import ProgramSource
    from executorch_c._types import Data

__version__ = "0.1.0"
__all__ = [
    "AccessFailedError",
    "AlreadyLoadedError",
    "AlreadyRegisteredError",
    "BackendCall",
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
    "KVCache",
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
    "load",
    "operators",
    "register_backend",
    "register_operator",
    "register_operators",
    "unregister_backend",
    "unregister_operator",
]


if not _TYPE_CHECKING:
    _MODULES = ("devtools", "llm", "plotting", "testing")

    def __getattr__(name: str) -> object:
        """Import the extension module and NumPy on first use, so that a pytest session that only
        loads the plugin does not import them."""
        if name in _MODULES:
            return _import_module(f"executorch_c.{name}")
        if name not in __all__:
            raise AttributeError(f"module 'executorch_c' has no attribute '{name}'")
        from executorch_c import _core

        return globals().setdefault(name, getattr(_core, name))

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_MODULES})


_F = _TypeVar("_F", bound=_Callable[..., object])


class Verification(IntEnum):
    """Levels of verification of a program.

    Both levels check the structure of the file, so that reading it is safe; InternalConsistency
    adds the checks of the reference runtime's level of this name.
    """

    Minimal = 0
    InternalConsistency = 1


def get_include() -> str:
    """Return the include directory of `executorch_c/backend.h` and `executorch_c/operator.h`."""
    here = _path.dirname(_path.abspath(__file__))
    installed = _path.join(here, "include")
    in_tree = _path.join(_path.dirname(here), "csrc", "include")
    return installed if _path.isdir(installed) else in_tree


def load(
    source: ProgramSource,
    *,
    data_path: Data | _Sequence[Data] | None = None,
    verification: int = Verification.InternalConsistency,
) -> Program:
    """Return a program whose methods can be loaded: `load("model.pte").load_method("forward")`.

    Args:
        source: The path, bytes or open file of a .pte, .bpte or .ptn; a Program (returned as is), a
            Method (its program), a BundledProgram; an ExecutorchProgramManager or
            EdgeProgramManager of the official flow. All functions of this package take these.
        data_path: The .ptd file or files with weights.
        verification: As for `Runtime.load_program`, which has further options.

    Raises the exceptions of `Runtime.load_program`; messages begin with the name of the file.
    """
    from executorch_c import _programs

    return _programs.opened(source, data_path, verification).program


_B = _TypeVar("_B")


def register_backend(backend: _B, *, override: bool = False) -> _B:
    """Register a backend, which runs the delegates of programs, and return it.

        @register_backend
        class Simulator:
            id = "MyNpuBackend"                       # as in the .pte
            options = {"precise": False}              # optional: names and defaults

            def init(self, payload, specs, options):  # bytes, {key: bytes}, {name: value}
                self.scale = np.frombuffer(payload, np.float32)

            def execute(self, inputs):                # a list of arrays and numbers
                return inputs[0] * self.scale         # an array; several as a tuple

    Args:
        backend: A class, an instance of one, or the capsule of a plug-in in C
            (executorch_c/backend.h). A class is instantiated for each delegate of a loaded method;
            an instance serves all, and its `init` may return an object with `execute` for each.
        override: Replace a class registered before under the same id; loaded methods keep it.

    Functions of the class:

    - `init(payload, specs, options)`: prepares a delegate. Of compile specs with the same key the
      last one counts. `options` are the class's own, overridden by those of the process
      (`backend_registry.set_option`) and of `load_method(backend_options=)`; unknown names, and
      values of another type than the default's, are InvalidArgumentError.
    - `execute(inputs)`: returns an array of the planned dtype for each output, in a shape that the
      program allows. A delegate's outputs are its last arguments, those that nothing has written
      before; if that is wrong (state that a delegate changes), set `self.num_outputs` in `init`.
    - `reset()`, optional: restores what `execute` keeps between calls, for `Method.reset`.
    - `destroy()`, optional: frees what `init` opened. `sys.unraisablehook` gets both's exceptions.
    - `report()`, optional: returns `{name: int}` for `Method.backend_report`; `version`: a str.
    - With a parameter `call`, `init` and `execute` get a BackendCall, for named data and traces.

    Arguments and results are copied, so the class may keep them; inputs are read-only. Functions
    run with the GIL: those of one delegate one at a time, those of several methods in several
    threads. They may run other methods, but not the calling one. The copies count towards
    `max_bytes`; memory and time of the functions do not.

    An exception is the `__cause__` of the load's or call's Error, which names the class and the
    function and has the same code if it is an Error, else INTERNAL; KeyboardInterrupt and other
    BaseExceptions are raised unchanged.

    Raises AlreadyRegisteredError, TypeError (no `id`, `init` or `execute`; other parameters),
    InvalidArgumentError (a capsule of another version of the header).
    """
    from executorch_c import _python_backends

    _python_backends.register(backend, override=override)
    return backend


@_overload
def register_operator(schema: str, fn: _F, *, override: bool = False) -> _F: ...


@_overload
def register_operator(
    schema: str, fn: None = None, *, override: bool = False
) -> _Callable[[_F], _F]: ...


def register_operator(
    schema: str, fn: _F | None = None, *, override: bool = False
) -> _F | _Callable[[_F], _F]:
    """Register a function on NumPy arrays as an operator of programs.

        @register_operator("ns::scale.out(Tensor x, float alpha, *, Tensor(a!) out) -> Tensor(a!)")
        def scale(x, alpha):
            return x * np.float32(alpha)

    Args:
        schema: Schema of the out variant, as `torch.ops.ns.scale.out._schema` prints it.
        fn: The function, which is returned. Default: return a decorator.
        override: Replace an operator of the same name and arguments, built-in (except
            `executorch_prim::`) or registered before, until this one is unregistered. Without
            `override` such an operator is an AlreadyRegisteredError.

    The function is called with the arguments of the schema in order, keyword-only ones by name.
    A Tensor is an array, read-only unless it is mutable in the schema (`Tensor(a!) x`); a list is a
    list; int, float, bool, str and None are themselves, a Scalar is the program's number; a
    ScalarType is a numpy.dtype, a MemoryFormat or Layout torch's number.

    Results: the function returns an array for each `out` argument, several as a tuple. Each must
    have the planned dtype and shape, or a shape within the bound if the output is dynamic; NumPy
    scalars and objects with __dlpack__ count as arrays. A function with parameters named as the
    `out` arguments receives these as writable arrays (zeros, of the maximum size) and may return
    None for an output that it has written.

    Arguments and results are copied, so the function may keep them. For large data, write the
    operator in C (executorch_c/operator.h).

    A method keeps the operators that are registered when it is loaded. The function runs with the
    GIL, possibly on several threads at once; it may run other methods, but not the calling one. An
    exception is the `__cause__` of the call's Error (of the same code if it is an Error, else
    INTERNAL); KeyboardInterrupt and other BaseExceptions are raised unchanged.

    Raises InvalidArgumentError (a ValueError: a wrong schema, with the position of the character;
    no out variant; another schema than that of the overridden operator), AlreadyRegisteredError,
    TypeError (a function with other parameters).
    """
    from executorch_c import _operators  # imported here because its dependencies import slowly

    if fn is None:
        _operators.check_schema(schema)
        return _partial(_operators.register, schema, override=override)
    return _operators.register(schema, fn, override=override)
