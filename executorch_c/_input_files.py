"""Files of inputs: a reader for each extension, and the order of named arrays.

Images and recordings are read as they are: an image of another size, or one for an input of floats
without mean and deviation, is refused. An outline has the shapes and dtypes of a file's arrays,
from its headers: what is wrong with a file is known before its elements are read.
"""

from __future__ import annotations

import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from executorch_c import _extras
from executorch_c._arrays import Array, dtype_of
from executorch_c._paths import reading
from executorch_c._render import text as _text

try:
    from lzma import LZMAError
except ImportError:  # this Python reads no such entries
    LZMAError = zlib.error  # type: ignore[assignment,misc]

if TYPE_CHECKING:
    from executorch_c._types import ValueInfo

DAMAGED = (
    ValueError,
    TypeError,
    EOFError,
    OSError,
    OverflowError,
    SyntaxError,
    RuntimeError,
    struct.error,
    MemoryError,
    tokenize.TokenError,
    zlib.error,
    LZMAError,
    zipfile.BadZipFile,
)
"""Exceptions of numpy and zipfile for a damaged file; RuntimeError: an encrypted
one, OSError: offsets that it cannot have."""

BY_FUNCTION = "or read it by a function, --inputs loader.py:f"
"""Advice for a file that no reader takes as it is."""


@dataclass(frozen=True)
class Target:
    """A tensor input that a file is read for."""

    shape: tuple[int, ...]
    """Of a dynamic input, the upper bounds."""
    dtype: str
    is_dynamic: bool = False

    @classmethod
    def of(cls, info: ValueInfo) -> Target:
        """Return the target of a program's input."""
        return cls(tuple(info["shape"]), info["dtype"], info["dynamism"] != "static")

    @property
    def is_float(self) -> bool:
        """True for floating-point inputs."""
        return self.dtype.startswith(("float", "bfloat"))

    def allows(self, sizes: Sequence[int], given: Sequence[int]) -> bool:
        """Return True if some of the sizes of the input allow those of a file."""
        if self.is_dynamic:
            return all(mine <= size for mine, size in zip(given, sizes, strict=True))
        return tuple(given) == tuple(sizes)


@dataclass(frozen=True)
class Normalization:
    """Mean and deviation of an image's channels, in units of its pixels from 0 to 1."""

    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


Arrays: TypeAlias = "dict[str, Array]"
Reader: TypeAlias = "Callable[[str, Sequence[Target], Normalization, bool], Arrays]"
"""Returns the arrays of a file by name; of a single array, under the name "". The last argument
asks for the outline."""


# ---- arrays -----------------------------------------------------------------------------------


MAX_UNPACKED = 1 << 30
"""Maximum bytes of the arrays of an .npz file that are more than MAX_RATIO times its size."""
MAX_RATIO = 20


@contextmanager
def _damaged(path: str) -> Iterator[None]:
    """Raise ValueError for the exceptions of numpy and zipfile for a damaged file."""
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except DAMAGED as error:
        # numpy takes any other file for a pickle, and advises to load it
        is_advice = "allow_pickle" in str(error) or "contains pickled" in str(error)
        why = "another kind of file, or Python objects" if is_advice else error
        raise ValueError(f"{path}: not an .npz or .npy file of arrays ({why})") from error


def read_arrays(path: str) -> Arrays:
    """Return the arrays of an .npz file by name, or the array of an .npy file under the name "".

    Raises ValueError for a file of another kind, of Python objects, a damaged one, and one that is
    small and unpacks to more than MAX_UNPACKED bytes; OSError.
    """
    return _read_file(path, False)


def _read_file(path: str, is_outline: bool) -> Arrays:
    """Return the arrays of a file, or their outlines."""
    with reading(path) as file, _damaged(path):
        is_zip = file.read(2) == b"PK"
        file.seek(0)
        if not is_zip:
            loaded = np.load(path, mmap_mode="r") if is_outline else np.load(file)
            return {"": _outline(loaded.shape, loaded.dtype) if is_outline else loaded}
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if not is_outline:
                _check_size(members, os.fstat(file.fileno()).st_size)
            read = _outline_entry if is_outline else _entry
            return {one.filename.removesuffix(".npy"): read(archive, one) for one in members}


def _check_size(members: Sequence[zipfile.ZipInfo], nbytes: int) -> None:
    """Raise ValueError for a file of some bytes that unpacks to too many."""
    size, most = sum(one.file_size for one in members), max(MAX_UNPACKED, MAX_RATIO * nbytes)
    if size > most:
        raise ValueError(f"it unpacks to {size:,} bytes, at most {most:,} are read")


def _entry(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """Return an array in an .npz file. Raises those of DAMAGED."""
    with archive.open(member) as file:
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
    return array


def _outline(shape: Sequence[int], dtype: Any) -> Array:
    """Return an array of one zero, in memory, repeated to a shape."""
    return np.broadcast_to(np.zeros((), dtype), tuple(shape))


def _outline_entry(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """Return the outline of an array in an .npz file. Raises those of DAMAGED."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in HEADERS:
            return _entry(archive, member)
        shape, _, dtype = HEADERS[version](file)
        if dtype.hasobject:
            raise ValueError(f"{member.filename} contains pickled objects")
        there = member.file_size - file.tell()
    if there != math.prod(shape) * dtype.itemsize:
        what = f"{there:,} bytes, expected {math.prod(shape)} x {dtype}"
        raise ValueError(f"{member.filename} has {what}")
    return _outline(shape, dtype)


HEADERS: dict[tuple[int, int], Callable[[Any], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Readers of an array's header by the version of its format."""


def _read_arrays(path: str, _: Sequence[Target], __: Normalization, is_outline: bool) -> Arrays:
    return _read_file(path, is_outline)


# ---- images -----------------------------------------------------------------------------------


def _only_tensor(path: str, targets: Sequence[Target], kind: str) -> Target:
    """Return the only input. Raises ValueError for none or several."""
    if len(targets) != 1:
        raise ValueError(
            f"{path}: {kind} is one input, the model has {_text.plural(len(targets), 'tensor')}: "
            "pass an .npz file for each case, or a function, --inputs loader.py:f"
        )
    return targets[0]


def _image_layout(path: str, target: Target) -> tuple[str, int, int, int]:
    """Return the layout of an input ("HW", "CHW" or "HWC"), and its channels, height and width.
    Raises ValueError for an input of no image."""
    shape = target.shape
    while len(shape) > 3 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) == 2:
        return "HW", 1, shape[0], shape[1]
    is_first, is_last = (len(shape) == 3 and shape[axis] in (1, 3) for axis in (0, -1))
    if is_first == is_last:
        raise ValueError(
            f"{path}: an image has the shape (channels, height, width) or (height, width, "
            f"channels) with 1 or 3 channels, the input has {_text.shape(target.shape)}: read it "
            "by a function, --inputs loader.py:f"
        )
    layout = "CHW" if is_first else "HWC"
    sizes = dict(zip(layout, shape))
    return layout, sizes["C"], sizes["H"], sizes["W"]


def _read_image(
    path: str, targets: Sequence[Target], normalization: Normalization, is_outline: bool
) -> Arrays:
    target = _only_tensor(path, targets, "an image")
    layout, channels, *sizes = _image_layout(path, target)
    image_module = _extras.load("an image", "PIL.Image")
    try:
        with image_module.open(path) as image:
            _check_image(path, image, channels, sizes, target)
            mode = "L" if channels == 1 else "RGB"
            whole = image_module.new(mode, image.size) if is_outline else image.convert(mode)
            pixels = np.asarray(whole)
    except (OSError, SyntaxError, MemoryError, image_module.DecompressionBombError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{path}: not a readable image ({error})") from error
    values = _normalized(path, pixels, target, normalization)
    if layout != "HW":
        values = values.reshape(*pixels.shape[:2], channels)
    if layout == "CHW":
        values = np.ascontiguousarray(values.transpose(2, 0, 1))
    return {"": values.reshape((1,) * (len(target.shape) - values.ndim) + values.shape)}


def _check_image(
    path: str, image: Any, channels: int, sizes: Sequence[int], target: Target
) -> None:
    """Raise ValueError for an image that would have to be changed. Its pixels are not read yet."""
    width, height = image.size
    if not target.allows(sizes, (height, width)):
        raise ValueError(
            f"{path}: the image has {width} x {height} pixels, the input {sizes[1]} x {sizes[0]}: "
            f"resize it beforehand, {BY_FUNCTION}"
        )
    modes = ("L", "1") if channels == 1 else ("RGB", "L", "P")
    if image.mode not in modes:
        raise ValueError(
            f"{path}: the image has the mode {image.mode}, the input {channels} channels: convert "
            f"it beforehand, {BY_FUNCTION}"
        )


def _normalized(path: str, pixels: Array, target: Target, normalization: Normalization) -> Array:
    """Return pixels as the input's dtype: (pixel / 255 - mean) / deviation for floats."""
    if target.dtype == "uint8":
        return pixels
    mean, std = normalization.mean, normalization.std
    if not target.is_float:
        raise ValueError(
            f"{path}: pixels are no values of an input of {target.dtype}: read it by a function, "
            "--inputs loader.py:f"
        )
    if mean is None or std is None:
        raise ValueError(
            f"{path}: the input takes floats: pass --image-mean and --image-std (0 and 1 for "
            f"values from 0 to 1), {BY_FUNCTION}"
        )
    channels = 1 if pixels.ndim == 2 else pixels.shape[-1]
    for name, values in (("mean", mean), ("std", std)):
        if len(values) not in (1, channels):
            raise ValueError(
                f"{path}: --image-{name} has {_text.plural(len(values), 'number')}, the input "
                f"{_text.plural(channels, 'channel')}"
            )
    scaled = (pixels / 255.0 - np.array(mean)) / np.array(std)
    normalized: Array = scaled.astype(dtype_of(target.dtype))
    return normalized


# ---- recordings -------------------------------------------------------------------------------


def _read_wave(path: str, targets: Sequence[Target], _: Normalization, is_outline: bool) -> Arrays:
    import wave

    target = _only_tensor(path, targets, "a recording")
    shape = target.shape
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    try:
        with wave.open(path, "rb") as file:
            channels, width, frames = file.getnchannels(), file.getsampwidth(), file.getnframes()
            given = (frames,) if channels == 1 else (channels, frames)
            if len(given) != len(shape) or not target.allows(shape, given):
                raise ValueError(
                    f"{path}: the recording has the shape {_text.shape(given)} (samples, or "
                    f"channels and samples), the input {_text.shape(target.shape)}: cut it "
                    f"beforehand, {BY_FUNCTION}"
                )
            size = frames * channels * width
            data = bytes(size) if is_outline else file.readframes(frames)
    except (wave.Error, EOFError, MemoryError) as error:
        raise ValueError(f"{path}: not a WAV file of integers (PCM): {error}") from error
    samples = _samples(path, data, width, target)
    if samples.size != channels * frames:
        raise ValueError(f"{path}: {samples.size:,} of {channels * frames:,} samples are there")
    values = samples.reshape(frames, channels).T.reshape(given)
    ones = (1,) * (len(target.shape) - len(given))
    return {"": np.ascontiguousarray(values).reshape(ones + given)}


def _samples(path: str, data: bytes, width: int, target: Target) -> Array:
    """Return samples as the input's dtype: floats from -1 to 1, or the integers of 16 bits."""
    if target.dtype == "int16" and width == 2:
        return np.frombuffer(data, "<i2").astype(np.int16)
    if not target.is_float:
        raise ValueError(
            f"{path}: samples of {8 * width} bits are no values of an input of {target.dtype}: "
            "read it by a function, --inputs loader.py:f"
        )
    whole = len(data) // width * width
    raw = np.frombuffer(data[:whole], np.uint8).reshape(-1, width)
    if width == 1:
        numbers = raw[:, 0].astype(np.float64) - 128
    else:
        filled = np.zeros((len(raw), 4), np.uint8)
        filled[:, 4 - width :] = raw
        numbers = filled.view("<i4")[:, 0] / float(1 << (32 - 8 * width))
    values: Array = (numbers / float(1 << (8 * width - 1))).astype(dtype_of(target.dtype))
    return values


READERS: dict[str, Reader] = {
    ".npz": _read_arrays,
    ".npy": _read_arrays,
    ".png": _read_image,
    ".jpg": _read_image,
    ".jpeg": _read_image,
    ".bmp": _read_image,
    ".wav": _read_wave,
}
"""Readers by extension."""


def read(
    path: str,
    targets: Sequence[Target],
    normalization: Normalization,
    is_outline: bool = False,
) -> Arrays:
    """Return the arrays of a file by name; of a single array, under the name "".

    Args:
        targets: The tensor inputs of the model: an image is read for its only one.
        is_outline: Return zeros for the elements, which are not read.
    """
    reader = READERS.get(Path(path).suffix.lower(), _read_arrays)
    return reader(path, targets, normalization, is_outline)


@contextmanager
def named(path: str | None) -> Iterator[None]:
    """Add the path to exceptions about a file's arrays, unless they have it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if path is None or path in str(error):
            raise
        raise type(error)(f"{path}: {error}") from error


def file_stem(path: str) -> str:
    """Return a file's name without folder and extension."""
    return os.path.splitext(os.path.basename(path))[0]


# ---- order ------------------------------------------------------------------------------------


def in_order(
    arrays: Mapping[str, Array],
    orders: Sequence[Sequence[str]],
    warn: Callable[[str], None],
    values: str,
) -> list[Array]:
    """Return arrays in the first of `orders` that has their names; without one as they are, with a
    warning that names `values`, if one has their number. The third order has input_0, ..."""
    for names in orders:
        if sorted(names) == sorted(arrays):
            return [arrays[name] for name in names]
    positional = [f"arr_{i}" for i in range(len(arrays))]  # np.savez names unnamed arrays so
    counts = [len(names) for names in orders]
    if len(arrays) > 1 and len(arrays) in counts and list(arrays) != positional:
        known = ", ".join(filter(None, orders[0])) or f"unknown: use {orders[2][0]}, ..."
        warn(f"{', '.join(arrays)} are taken by order; the names of {values} are {known}")
    return list(arrays.values())


def orders_of(infos: Sequence[ValueInfo], kind: str) -> list[list[str]]:
    """Return the orders of a program's values, of the kind "input" or "output", for `in_order`."""
    names = [w.get("name") or "" for w in infos]
    numbers = [f"{kind}_{i}" for i in range(len(infos))]
    tensors = [i for i, w in enumerate(infos) if w["kind"] == "Tensor"]
    return [names, [names[i] for i in tensors], numbers, [numbers[i] for i in tensors]]
