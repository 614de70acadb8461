"""Inputs of many calls, one case at a time: a folder, a pattern of names, a function, an iterable.

    for case in input_set("inputs/"):  # sorted by name
        case.name, case.for_program(method_info)

Cases are read when they are reached, so that a set may be larger than memory.
"""

from __future__ import annotations

import glob
import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from executorch_c import _functions
from executorch_c._arrays import Array, as_array, dtype_of
from executorch_c._input_files import (
    READERS,
    Arrays,
    Normalization,
    Target,
    file_stem,
    in_order,
    named,
    orders_of,
    read,
)
from executorch_c._render import text as _text

if TYPE_CHECKING:
    from executorch_c._types import FilePath, MethodInfo, ValueInfo

MAX_CASES = 1000
"""Default maximum of the cases of a set."""
MAGIC = frozenset("*?[")

Source: TypeAlias = "FilePath | Iterable[object] | InputSet"
"""Sources of `input_set`."""


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=4)


def _ignore(message: str) -> None:
    return None


@dataclass(frozen=True)
class InputCase:
    """The inputs of one call, with a name."""

    name: str
    """Name of the file, or index."""
    value: object = field(repr=False)
    """Arguments: a tuple or list, a mapping by name, or one array; None of a file."""
    path: str | None = None
    """The file, which is read by each of the functions below."""
    normalization: Normalization = Normalization()
    warn: Callable[[str], None] = field(default=_warn, repr=False, compare=False)
    """Called for arrays that are taken by order."""
    is_outline: bool = field(default=False, repr=False)
    """True if the file's headers are read alone: elements are zeros."""

    def arrays(self, targets: Sequence[Target]) -> Arrays:
        """Return the arrays of the file by name. Raises ValueError, OSError."""
        assert self.path is not None
        return read(self.path, targets, self.normalization, self.is_outline)

    def for_program(self, method: MethodInfo) -> list[object]:
        """Return the inputs of a program's method. Omitted numbers and strings are the program's.

        Raises ValueError for another number of inputs.
        """
        infos = method["inputs"]
        targets = [Target.of(info) for info in infos if info["kind"] == "Tensor"]
        values = self._values(infos, targets, "input")
        with named(self.path):
            return complete(values, infos)

    def outputs_of(self, method: MethodInfo) -> list[object]:
        """Return the case as outputs of a program's method, in its order."""
        infos = method["outputs"]
        values = self._values(infos, [], "output")
        if len(values) != len(infos):
            return values
        with named(self.path):
            return [as_input(value, info) for value, info in zip(values, infos, strict=True)]

    def _values(
        self, infos: Sequence[ValueInfo], targets: Sequence[Target], kind: str
    ) -> list[object]:
        known = self.arrays(targets) if self.path is not None else self.value
        if isinstance(known, Mapping):
            return [*in_order(known, orders_of(infos, kind), self._warn, f"the program's {kind}s")]
        return list(known) if isinstance(known, (tuple, list)) else [known]

    def _warn(self, text: str) -> None:
        self.warn(f"{self.path or self.name}: {text}")

    def for_model(self, model: object, targets: Sequence[Target]) -> Any:
        """Return arguments of a model: of a file, in the order of the model's parameters; others
        as they are.

        Args:
            targets: The tensors of the model's example.
        """
        if self.path is None:
            return self.value
        return tuple(arguments(self.arrays(targets), model, self._warn))


def complete(values: Sequence[object], infos: Sequence[ValueInfo]) -> list[object]:
    """Return the inputs of a call from those of a case, with the program's numbers and strings.
    Raises ValueError."""
    tensors = sum(w["kind"] == "Tensor" for w in infos)
    if len(values) == len(infos):
        return [as_input(value, w) for value, w in zip(values, infos, strict=True)]
    if len(values) != tensors:
        need = _text.plural(len(infos), "input")
        way = ": leave only its inputs in the file" if len(values) > len(infos) else ""
        raise ValueError(
            f"contains {_text.plural(len(values), 'array')}, the method takes "
            f"{need} with {_text.plural(tensors, 'tensor')}{way}"
        )
    rest = iter(values)
    return [as_input(next(rest), w) if w["kind"] == "Tensor" else w.get("value") for w in infos]


def as_input(value: object, info: ValueInfo) -> object:
    """Return a value of a case as an input of the program."""
    if not hasattr(value, "ndim"):
        return value
    if info["kind"] != "Tensor":
        array = as_array(value)
        return array.item() if array.ndim == 0 else array
    dtype: Any = getattr(value, "dtype", None)
    if getattr(dtype, "kind", "") == "V" and dtype.itemsize == 2 and info["dtype"] == "bfloat16":
        bits: Any = value
        return bits.view(dtype_of("bfloat16"))  # .npy files do not store the name of this dtype
    return value


def arguments(
    arrays: Mapping[str, Array], model: object, warn: Callable[[str], None]
) -> list[Array]:
    """Return arrays in the order of the model's parameters, as `in_order`."""
    try:
        function: Any = getattr(model, "forward", model)
        known = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # not a function
        known = []
    numbers = [f"input_{i}" for i in range(len(arrays))]
    orders = [known[:n] for n in (len(known), len(arrays))]
    return in_order(arrays, [*orders, numbers], warn, "the model's parameters")


# ---- sets -------------------------------------------------------------------------------------


class InputSet:
    """Named cases, read one at a time; an iterator is consumed by the first pass."""

    def __init__(
        self,
        title: str,
        cases: Iterable[InputCase],
        count: int | None,
        max_cases: int | None,
        remark: str = "",
    ) -> None:
        self.title, self.remark = title, remark
        """Name of the source; what of it is not read, or empty."""
        self._cases, self._count = cases, count
        self._max = MAX_CASES if max_cases is None else max_cases
        self._is_cut = count is not None and count > self._max
        self.warn: Callable[[str], None] = _warn
        """Called for arrays that are taken by order."""

    def __iter__(self) -> Iterator[InputCase]:
        cases, is_empty = iter(self._cases), True
        for case in islice(cases, self._max):
            is_empty = False
            yield replace(case, warn=self.warn)
        if is_empty:
            raise ValueError(f"{self.title} has no cases")
        if self._count is None:
            self._is_cut = next(cases, None) is not None

    def checked(self, check: Callable[[InputCase], object]) -> Iterator[InputCase]:
        """Yield the cases; those of files after a check of all headers, of which `check` gets the
        cases."""
        if self.paths is None:
            yield from self
            return
        for case in self:
            check(replace(case, is_outline=True))
        for case in self:
            yield replace(case, warn=_ignore)  # the check has warned

    @property
    def paths(self) -> list[str] | None:
        """Paths of the files; None of a set of objects."""
        known = [case.path for case in self._cases] if isinstance(self._cases, list) else [None]
        paths = [path for path in known if path is not None]
        return paths if len(paths) == len(known) else None

    def notes(self) -> list[str]:
        """Return sentences about cases and files that are left out; after a pass."""
        notes = [self.remark] if self.remark else []
        if self._is_cut:
            of = "" if self._count is None else f" of {self._count:,}"
            notes.append(f"the first {self._max:,}{of} cases of {self.title} (max_cases)")
        return notes

    def __repr__(self) -> str:
        return f"<executorch_c.testing.InputSet: {self.title}>"


def input_set(
    source: Source,
    *,
    max_cases: int | None = None,
    image_mean: float | Sequence[float] | None = None,
    image_std: float | Sequence[float] | None = None,
) -> InputSet:
    """Return the inputs of many calls as a lazy sequence of named cases.

    Args:
        source: A folder or a pattern of names ("inputs/*.npz"): a case for each file, sorted by
            name: .npz, .npy, images (.png, .jpg, .bmp; Pillow, the extra `images`), .wav. A file.
            "loader.py:function": a function without arguments that returns an iterable. A list, a
            generator or a DataLoader of calls: each a tuple of arguments, a dict by name, or an
            array.
        max_cases: Maximum number of cases; `notes()` says if there are more. Default: 1,000.
        image_mean, image_std: Numbers, one for each channel or for all: an input of floats is
            (pixel / 255 - mean) / std. Images are not resized: one of another size than the input
            is refused. An input of uint8 has the pixels.

    Raises ValueError for a source without cases and for unknown files, OSError. A damaged file
    raises ValueError with its name when it is reached.
    """
    if isinstance(source, InputSet):
        return source
    if isinstance(source, (str, os.PathLike)):
        normalization = Normalization(_numbers(image_mean), _numbers(image_std))
        return _of_path(str(os.fspath(source)), max_cases, normalization)
    return _of_objects(source, "the inputs", max_cases)


def _numbers(values: float | Sequence[float] | None) -> tuple[float, ...] | None:
    if values is None:
        return None
    return tuple(map(float, values)) if isinstance(values, Sequence) else (float(values),)


def is_set(source: object) -> bool:
    """Return True for a source of many calls: a path, an `InputSet`, or an iterable that is no
    list or tuple (which are the inputs of one call), mapping or array."""
    if isinstance(source, (InputSet, str, os.PathLike)):
        return True
    one_call = (list, tuple, Mapping)
    return isinstance(source, Iterable) and not (
        isinstance(source, one_call) or hasattr(source, "__array__") or hasattr(source, "ndim")
    )


def names_many(text: str) -> bool:
    """Return True if a text names a folder, a pattern or a function: not one file."""
    if os.path.isfile(text):
        return False
    return os.path.isdir(text) or not MAGIC.isdisjoint(text) or _is_function(text)


def _is_function(text: str) -> bool:
    place, colon, name = text.rpartition(":")
    return bool(colon and place and name.isidentifier() and len(place) > 1)


def _of_objects(source: Iterable[object], title: str, max_cases: int | None) -> InputSet:
    if not isinstance(source, Iterable):
        raise TypeError(f"{title}: a {type(source).__name__}, expected an iterable of calls")
    count = len(source) if isinstance(source, Sequence) else None
    cases = _Enumerated(source)
    return InputSet(title, cases, count, max_cases)


class _Enumerated:
    """Objects as cases, with their indices as names."""

    def __init__(self, objects: Iterable[object]) -> None:
        self.objects = objects

    def __iter__(self) -> Iterator[InputCase]:
        for i, value in enumerate(self.objects):
            yield value if isinstance(value, InputCase) else InputCase(str(i), value)


def _of_path(path: str, max_cases: int | None, normalization: Normalization) -> InputSet:
    if os.path.isfile(path):
        return _of_files(path, [path], max_cases, normalization)
    if os.path.isdir(path):
        return _of_folder(path, max_cases, normalization)
    if not MAGIC.isdisjoint(path):
        paths = sorted(name for name in glob.glob(path, recursive=True) if os.path.isfile(name))
        if not paths:
            raise ValueError(f"{path}: no file has a name like this")
        unknown = [name for name in paths if Path(name).suffix.lower() not in READERS]
        if unknown:
            raise ValueError(f"{unknown[0]}: expected a name that ends with {', '.join(READERS)}")
        return _of_files(path, paths, max_cases, normalization)
    if _is_function(path):
        result = _functions.find(path)()
        return _of_objects(result, path, max_cases)
    raise FileNotFoundError(2, "No such file or directory", path)


def _of_folder(path: str, max_cases: int | None, normalization: Normalization) -> InputSet:
    """Return the files of a folder, without hidden ones."""
    with os.scandir(path) as entries:
        names = sorted(one.name for one in entries if one.is_file() and one.name[0] != ".")
    known = [name for name in names if Path(name).suffix.lower() in READERS]
    if not known:
        raise ValueError(f"{path}: no files that end with {', '.join(READERS)}")
    others = len(names) - len(known)
    remark = f"{_text.plural(others, 'other file')} of {path} not read" if others else ""
    paths = [os.path.join(path, name) for name in known]
    return _of_files(path, paths, max_cases, normalization, remark)


def _of_files(
    title: str,
    paths: Sequence[str],
    max_cases: int | None,
    normalization: Normalization,
    remark: str = "",
) -> InputSet:
    cases = [InputCase(os.path.basename(path), None, path, normalization) for path in paths]
    return InputSet(title, cases, len(cases), max_cases, remark)


def pairs(inputs: InputSet, expected: InputSet) -> Iterator[tuple[InputCase, InputCase]]:
    """Yield each case with its expected outputs: files by their names without extension, others by
    order.

    Raises ValueError for a case without a partner.
    """
    ours, theirs = inputs.paths, expected.paths
    if ours is None or theirs is None:
        yield from _by_order(inputs, expected)
        return
    by_stem = {file_stem(path): InputCase(os.path.basename(path), None, path) for path in theirs}
    if len(ours) == len(theirs) == 1:
        by_stem = {file_stem(ours[0]): next(iter(by_stem.values()))}
    stems = [file_stem(path) for path in ours]
    for one, path in zip(stems, ours):
        if one not in by_stem:
            raise ValueError(f"{path} has no expected outputs: {expected.title} has no {one}.npz")
    unused = sorted(set(by_stem) - set(stems))
    if unused:
        raise ValueError(
            f"{expected.title}: {unused[0]} has no inputs: {inputs.title} has no {unused[0]}.npz"
        )
    for case in inputs:
        yield case, by_stem[file_stem(case.path or case.name)]


def _by_order(inputs: InputSet, expected: InputSet) -> Iterator[tuple[InputCase, InputCase]]:
    ours, theirs = iter(inputs), iter(expected)
    while (case := next(ours, None)) is not None:
        other = next(theirs, None)
        if other is None:
            raise ValueError(f"case {case.name} has no expected outputs in {expected.title}")
        yield case, other
    if next(theirs, None) is not None:
        raise ValueError(f"{expected.title} has more cases than {inputs.title}")


for _public in (InputCase, InputSet, input_set):
    _public.__module__ = "executorch_c.testing"  # the public name
