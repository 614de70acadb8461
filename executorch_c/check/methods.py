"""The PyTorch side of a check: the module, function or method of a program's method."""

from __future__ import annotations

import inspect
import types
from typing import Any

from executorch_c._modules import fresh


def _as_method(module: Any, name: str) -> Any:
    """Return a copy of a module, with its state and names, whose forward is another method."""
    copy = fresh(module)
    function = getattr(type(module), name, None)
    copy.forward = (
        types.MethodType(function, copy) if inspect.isfunction(function) else getattr(copy, name)
    )
    return copy


def reference(model: Any, method: str) -> tuple[Any, Any, str | None]:
    """Return (the eager module, the ExportedProgram or None, a note or None) to compare a
    program's method with: of a module its method of that name, of a bound method itself.

    Raises TypeError for another object.
    """
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        return model.module(), model, None
    if isinstance(model, torch.nn.Module):
        if method == "forward":
            return model, None, None
        if inspect.ismethod(getattr(model, method, None)):
            return _as_method(model, method), None, None
        note = (
            f"the module has no method '{method}': the program's '{method}' was compared with the "
            "module's forward; pass the bound method or its ExportedProgram, "
            "if that is another"
        )
        return model, None, note
    owner = getattr(model, "__self__", None)
    if inspect.ismethod(model) and isinstance(owner, torch.nn.Module):
        return _as_method(owner, model.__name__), None, None
    if callable(model):

        class Function(torch.nn.Module):
            def forward(self, *args: Any, **kwargs: Any) -> Any:
                return model(*args, **kwargs)

        return Function(), None, None
    raise TypeError(
        f"`model` is a {type(model).__name__}, expected a torch.nn.Module, an ExportedProgram or a "
        "function"
    )
