"""Inputs of a call, from files or random, and call times."""

from __future__ import annotations

import argparse
import inspect
import statistics
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import Program
from executorch_c._render import text as _text
from executorch_c._arrays import dtype_of
from executorch_c._commands._arguments import method_of, warn

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c._types import MethodInfo, ValueInfo


DAMAGED = (
    ValueError,
    EOFError,
    SyntaxError,
    NotImplementedError,
    tokenize.TokenError,
    zlib.error,
    zipfile.BadZipFile,
)
"""Exceptions of numpy.load for a damaged file."""


def call_times(call: Callable[[], Any], repeat: int) -> tuple[Any, list[float]]:
    """Return the last result of `repeat` calls, and the time of each call in seconds."""
    result, times = None, []
    for _ in range(repeat):
        start = perf_counter()
        result = call()
        times.append(perf_counter() - start)
    return result, times


def describe_times(times: Sequence[float]) -> str:
    text = f"first call {_text.seconds(times[0])}"
    if len(times) > 1:
        rest = times[1:]
        text += f", median of {_text.plural(len(rest), 'repeat')} "
        text += f"{_text.seconds(statistics.median(rest))} (fastest {_text.seconds(min(rest))})"
    return text


def read_arrays(path: str) -> dict[str, Array]:
    """Return the arrays of an .npz file by name, or the array of an .npy file under the name ""."""
    try:
        loaded = np.load(path)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except DAMAGED as error:
        # numpy takes any other file for a pickle, and advises to load it
        why = "another kind of file" if "contains pickled" in str(error) else error
        raise ValueError(f"{path}: not an .npz or .npy file of arrays ({why})") from error


def ordered(path: str, infos: Sequence[ValueInfo], kind: str = "input") -> list[Array]:
    """Return the arrays of a file in the order of the program's values. Arrays match by name if the
    names are the program's or "input_0", "input_1", ...; otherwise by order, with a warning on
    stderr."""
    names = [w.get("name") or "" for w in infos]
    numbers = [f"{kind}_{i}" for i in range(len(infos))]
    tensors = [i for i, w in enumerate(infos) if w["kind"] == "Tensor"]
    orders = [names, [names[i] for i in tensors], numbers, [numbers[i] for i in tensors]]
    return in_order(path, read_arrays(path), orders, f"the program's {kind}s")


def in_order(
    path: str, arrays: Mapping[str, Array], orders: Sequence[Sequence[str]], values: str
) -> list[Array]:
    """Return arrays in the first of `orders` that has their names; without one as in the file, with
    a warning on stderr that names `values`, if one has their number. The third has input_0, ..."""
    for names in orders:
        if sorted(names) == sorted(arrays):
            return [arrays[name] for name in names]
    positional = [f"arr_{i}" for i in range(len(arrays))]  # np.savez names unnamed arrays so
    counts = [len(names) for names in orders]
    if len(arrays) > 1 and len(arrays) in counts and list(arrays) != positional:
        known = ", ".join(filter(None, orders[0])) or f"unknown: use {orders[2][0]}, ..."
        warn(f"{path}: {', '.join(arrays)} are taken by order; the names of {values} are {known}")
    return list(arrays.values())


def arguments_of(path: str, arrays: Mapping[str, Array], model: Any) -> list[Array]:
    """Return arrays in the order of the model's parameters, as `ordered`."""
    try:
        known = list(inspect.signature(getattr(model, "forward", model)).parameters)
    except (TypeError, ValueError):  # not a function
        known = []
    numbers = [f"input_{i}" for i in range(len(arrays))]
    orders = [known[:n] for n in (len(known), len(arrays))]
    return in_order(path, arrays, [*orders, numbers], "the model's parameters")


def as_input(array: Array, info: ValueInfo) -> object:
    """Return an array of a file as an input of the program."""
    if info["kind"] != "Tensor":
        return array.item() if array.ndim == 0 else array
    if array.dtype.kind == "V" and array.dtype.itemsize == 2 and info["dtype"] == "bfloat16":
        return array.view(dtype_of("bfloat16"))  # .npy files do not store the name of this dtype
    return array


def random_array(info: ValueInfo, rng: np.random.Generator) -> Array:
    """Return a random array for a tensor input: normal for floats and complex numbers, else 0 and
    1."""
    sizes, name = tuple(info["shape"]), info["dtype"]
    dtype = dtype_of(name)
    if dtype.kind == "f" or name == "bfloat16":
        return rng.standard_normal(sizes).astype(dtype)
    if dtype.kind == "c":
        both: Array = rng.standard_normal((*sizes, 2)).view(np.complex128)[..., 0]
        return both.astype(dtype)
    return rng.integers(0, 2, sizes).astype(dtype)


def first_positions(array: Array) -> Array:
    """Return positions that a KV cache accepts for its first call: integers whose first dimension
    has them all count from 0, others, tokens among them, begin with 0."""
    if array.dtype.kind != "i" or not array.size:
        return array
    if array.shape[:1] in ((), (array.size,)):
        positions: Array = np.arange(array.size, dtype=array.dtype).reshape(array.shape)
        return positions
    array.flat[0] = 0
    return array


def random_inputs(method: MethodInfo, seed: int) -> list[object]:
    """Return random tensors, and the program's numbers and strings."""
    rng = np.random.default_rng(seed)
    change = first_positions if method["uses_kv_cache"] else lambda array: array
    return [
        change(random_array(info, rng)) if info["kind"] == "Tensor" else info.get("value")
        for info in method["inputs"]
    ]


def make_inputs(method: MethodInfo, path: str | None, seed: int) -> list[object]:
    """Return the inputs of a call, from a file or random. Numbers and strings are the program's."""
    infos = method["inputs"]
    if path is None:
        return random_inputs(method, seed)
    arrays = ordered(path, infos)
    tensors = sum(w["kind"] == "Tensor" for w in infos)
    if len(arrays) == len(infos):
        return [as_input(array, w) for array, w in zip(arrays, infos, strict=True)]
    if len(arrays) != tensors:
        need = _text.plural(len(infos), "input")
        way = ": leave only its inputs in the file" if len(arrays) > len(infos) else ""
        raise ValueError(
            f"{path}: contains {_text.plural(len(arrays), 'array')}, the method takes "
            f"{need} with {_text.plural(tensors, 'tensor')}{way}"
        )
    rest = iter(arrays)
    return [as_input(next(rest), w) if w["kind"] == "Tensor" else w.get("value") for w in infos]


def find_method(program: Program, name: str) -> MethodInfo:
    """Return the description of a method from Program.info(). Raises ValueError."""
    methods = program.info()["methods"]
    matches = [m for m in methods if m["name"] == name]
    if not matches:
        names = ", ".join(m["name"] for m in methods)
        raise ValueError(f"no method '{name}' in this program, which has: {names}")
    return matches[0]


def inputs_of(program: Program, args: argparse.Namespace) -> list[object]:
    """Return the inputs of --method, from --inputs or random with --seed. Sets `args.method` to the
    name of the method."""
    args.method = method_of(program, args.method)
    return make_inputs(find_method(program, args.method), args.inputs, args.seed)
