"""The stages of a check: an error says in which it was raised, and what to do.

The exception is unchanged; a note is added (PEP 678), which Python 3.11 prints below it, and the
command line on each version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from executorch_c import _extras
from executorch_c._render import text as _text

if TYPE_CHECKING:
    from executorch_c._core import MethodMeta

Stage: TypeAlias = Literal["make", "eager", "export", "lower", "load", "run", "compare"]

WAYS_ON: dict[Stage, str] = {
    "make": "the function that makes the model raises: call it by itself",
    "eager": "the model raises on the inputs: call model(*inputs)",
    "export": "torch.export raises: call torch.export.export(model, inputs)",
    "lower": "the flow raises: another flow shows whether its partitioner or quantizer does",
    "load": "the program does not load: see executorch-c info",
    "run": "the program raises: see executorch-c explain",
    "compare": "the outputs cannot be compared",
}
"""What each stage is, and what to do."""

IMPORT_WAY = "a module cannot be imported: install its package, or use another flow"
"""What to do if a stage raises ImportError."""

NO_CACHE = "update_and_attend called with no active cache"
"""Error of ExecuTorch's registry of KV caches."""

CACHE_WAY = (
    "the model's attention needs a KV cache: REGISTRY.install('a', cache) and, around the check, "
    "REGISTRY.active('a') of executorch.extension.llm.cache.update_and_attend; the program gets "
    "one like it"
)
"""Advice: `docs/howto/llm.md` has an example."""

BFLOAT16 = 15
"""PyTorch's number of the dtype."""

MODES = ("Dropout", "BatchNorm", "InstanceNorm")
"""Beginnings of the names of modules that do something else in training mode (and their parts, as
in "AlphaDropout")."""


@contextmanager
def stage(name: Stage, model: Any = None) -> Iterator[None]:
    """Add the stage and what to do to exceptions; the innermost stage counts.

    Args:
        model: The module, if its mode may be the reason.
    """
    try:
        yield
    except Exception as error:
        if stage_of(error) is None:
            way_on = training_note(model) or WAYS_ON[name]
            if NO_CACHE in str(error):
                way_on = CACHE_WAY
            if isinstance(error, ImportError):
                way_on = _extras.install_command(error) or IMPORT_WAY
            _add_note(error, f"stage: {name} ({way_on})")
        raise


def stage_of(error: BaseException) -> str | None:
    """Return the stage in which an exception was raised; None if it is not known."""
    notes = [note for note in notes_of(error) if note.startswith("stage: ")]
    return notes[0].split()[1] if notes else None


def notes_of(error: BaseException) -> list[str]:
    """Return the notes of an exception."""
    return list(getattr(error, "__notes__", ()))


def _add_note(error: BaseException, note: str) -> None:
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:  # Python 3.10
        error.__notes__ = [*notes_of(error), note]  # type: ignore[attr-defined]


def training_note(model: Any) -> str:
    """Return what to do about modules in training mode that do something else there; or an empty
    text."""
    modules = model.named_modules() if hasattr(model, "named_modules") else ()
    names = [
        f"{type(module).__name__} '{name}'" if name else type(module).__name__
        for name, module in modules
        if module.training and any(mode in type(module).__name__ for mode in MODES)
    ]
    if not names:
        return ""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more} in training mode: call model.eval() first"


def check_fit(meta: MethodMeta, leaves: Sequence[Any]) -> None:
    """Raise ValueError if example inputs cannot be a program's: another dtype, rank or size."""
    from executorch_c._core import TensorInfo

    for number, ((_, info), leaf) in enumerate(zip(meta.inputs, leaves)):
        shape = getattr(leaf, "shape", None)
        if not isinstance(info, TensorInfo) or shape is None:
            continue
        shape, dtype = tuple(shape), str(leaf.dtype).rpartition(".")[2]
        sizes = zip(shape, info.shape)
        right = len(shape) == len(info.shape) and all(
            size <= most if info.is_dynamic else size == most for size, most in sizes
        )
        dtypes = (info.numpy_dtype.name, *(("bfloat16",) if info.dtype() == BFLOAT16 else ()))
        if not right or dtype not in dtypes:
            most = "up to " if info.is_dynamic else ""
            raise ValueError(
                f"the model does not fit the program: input {number} of method '{meta.name()}' is "
                f"{info.numpy_dtype.name} {most}{_text.shape(info.shape)}, the example has {dtype} "
                f"{_text.shape(shape)}"
            )
