"""The Python part of executorch_c.register_backend: it checks a class, and calls it for the
extension module."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

from executorch_c import _backends, _core, _log

Option = bool | int | float | str

atexit.register(_core._unregister_all)  # classes must not outlive their interpreter


def register(backend: object, *, override: bool) -> None:
    """Register a capsule, or a class or an instance whose functions fit."""
    if type(backend).__name__ == "PyCapsule":
        _core._register_backend(backend)
        return
    adapter = Adapter(backend)
    _backends.discover()  # an installed backend has its id already
    keys = tuple(adapter.defaults)
    _core._register_python_backend(
        adapter.id, adapter.name, adapter.version, keys, adapter, override
    )
    _log.debug("backend '%s' is %s", adapter.id, adapter.name)


def takes_call(function: Callable[..., object], *names: str) -> bool:
    """Return True if a function has a parameter `call`. Raises TypeError unless it can be called
    with positional arguments of these names."""
    try:
        form = signature(function)
    except (TypeError, ValueError):  # some C functions have no signature
        return False
    call = form.parameters.get("call")
    has_call = call is not None and call.kind in (
        Parameter.POSITIONAL_OR_KEYWORD,
        Parameter.KEYWORD_ONLY,
    )
    try:
        form.bind(*names, **({"call": None} if has_call else {}))
    except TypeError as error:
        title = getattr(function, "__qualname__", repr(function))
        raise TypeError(
            f"{title}{form} cannot be called with ({', '.join(names)}): {error}"
        ) from None
    return has_call


def checked_options(name: str, options: object) -> dict[str, Option]:
    """Return the defaults of a class's options."""
    if not isinstance(options, Mapping):
        raise TypeError(f"{name}.options must be a mapping, not {type(options).__name__}")
    for key, value in options.items():
        if not isinstance(key, str) or not key.isidentifier():
            raise TypeError(f"{name}.options: {key!r} is not an option name")
        if not isinstance(value, (bool, int, float, str)):
            raise TypeError(
                f"{name}.options[{key!r}] must be a bool, int, float or str, not "
                f"{type(value).__name__}"
            )
    return dict(options)


class Adapter:
    """A registered class or instance, as the extension module calls it."""

    def __init__(self, backend: Any) -> None:
        self.is_class = isinstance(backend, type)
        self.name = (backend if self.is_class else type(backend)).__name__
        missing = [one for one in ("id", "init", "execute") if not hasattr(backend, one)]
        if missing:
            raise TypeError(
                'expected a capsule named "executorch_c.backend", or a class with id, '
                f"init and execute, got {self.name} without {', '.join(missing)}"
            )
        self.backend = backend
        self.id = backend.id
        if not isinstance(self.id, str) or not self.id or not self.id.isprintable():
            raise TypeError(f"{self.name}.id must be a printable str, not {self.id!r}")
        self.version = getattr(backend, "version", None)
        if self.version is not None and not isinstance(self.version, str):
            raise TypeError(f"{self.name}.version must be a str, not {self.version!r}")
        self.defaults = checked_options(self.name, getattr(backend, "options", {}))
        self.values: dict[str, Option] = {}
        own = ("self",) if self.is_class else ()
        self.init_takes_call = takes_call(backend.init, *own, "payload", "specs", "options")
        takes_call(backend.execute, *own, "inputs")

    def create(
        self,
        method: str,
        payload: bytes,
        specs: Sequence[tuple[str, bytes | None]],
        options: Sequence[tuple[str, Option]],
        call: _core.BackendCall,
    ) -> Delegate:
        """Return a new delegate."""
        settings = self.defaults | self.values
        settings |= {key: self.checked(key, value) for key, value in options}
        one = self.backend() if self.is_class else self.backend
        more = {"call": call} if self.init_takes_call else {}
        delegate = one.init(payload, {key: value or b"" for key, value in specs}, settings, **more)
        return Delegate(one if delegate is None else delegate)

    def checked(self, key: str, value: Option) -> Option:
        """Return the value of an option with the type of its default."""
        if key not in self.defaults:
            known = ", ".join(map(repr, self.defaults)) or "none"
            raise _core.InvalidArgumentError(f"unknown option '{key}', expected {known}")
        expected = type(self.defaults[key])
        if expected is float and type(value) is int:
            return float(value)
        if type(value) is not expected:
            raise _core.InvalidArgumentError(
                f"option '{key}': expected {expected.__name__}, not {type(value).__name__}"
            )
        return value

    def set_option(self, key: str, value: Option) -> bool | None:
        """Set an option of the process. Return None if it is unknown."""
        if key not in self.defaults:
            return None
        self.values[key] = self.checked(key, value)
        return True

    def get_option(self, key: str) -> Option | None:
        """Return an option of the process; None if it is unknown."""
        return self.values.get(key, self.defaults.get(key))


class Delegate:
    """A delegate of a loaded method."""

    __slots__ = ("one", "takes_call")

    def __init__(self, one: Any) -> None:
        self.one = one
        self.takes_call = takes_call(one.execute, "inputs")

    @property
    def num_outputs(self) -> int | None:
        return getattr(self.one, "num_outputs", None)

    def execute(self, inputs: list[object], call: _core.BackendCall) -> tuple[object, ...]:
        """Return the outputs as a tuple."""
        outputs = self.one.execute(inputs, **({"call": call} if self.takes_call else {}))
        if isinstance(outputs, (tuple, list)):
            return tuple(outputs)
        return () if outputs is None else (outputs,)

    def destroy(self) -> None:
        """Free the delegate, unless the garbage collector has taken it apart."""
        destroy = getattr(getattr(self, "one", None), "destroy", None)
        if destroy is not None:
            destroy()

    def reset(self) -> None:
        """Call the class's reset, if it has one."""
        reset = getattr(self.one, "reset", None)
        if reset is not None:
            reset()

    def report(self) -> Mapping[str, int]:
        """Return its statistics."""
        report = getattr(self.one, "report", None)
        return {} if report is None else dict(report())
