"""Inputs of a call, from files or random, and call times."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import Program
from executorch_c._render import text as _text
from executorch_c._arrays import dtype_of
from executorch_c._commands._arguments import method_of, warn
from executorch_c._input_sets import InputCase, InputSet, input_set, names_many

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c._types import MethodInfo, ValueInfo


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


def one_case(path: str) -> InputCase:
    """Return the only case of a file. Raises ValueError for several."""
    if names_many(path):
        raise ValueError(f"{path}: expected one .npz or .npy file")
    cases = input_set(path)
    cases.warn = warn
    return next(iter(cases))


def cases_of(args: argparse.Namespace) -> InputSet:
    """Return the cases of the options of `add_input_sets`."""
    cases = input_set(
        args.inputs,
        max_cases=args.max_cases,
        image_mean=args.image_mean,
        image_std=args.image_std,
    )
    cases.warn = warn
    return cases


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
    if path is None:
        return random_inputs(method, seed)
    return one_case(path).for_program(method)


def find_method(program: Program, name: str) -> MethodInfo:
    """Return the description of a method from Program.info(). Raises ValueError."""
    methods = program.info()["methods"]
    matches = [m for m in methods if m["name"] == name]
    if not matches:
        names = ", ".join(m["name"] for m in methods)
        raise ValueError(f"no method '{name}' in this program, which has: {names}")
    return matches[0]


def inputs_or_set(program: Program, args: argparse.Namespace) -> Any:
    """Return the inputs of --method, or the set of --inputs if that names many."""
    if args.inputs is None or not names_many(args.inputs):
        return inputs_of(program, args)
    args.method = method_of(program, args.method)
    return cases_of(args)


def inputs_of(program: Program, args: argparse.Namespace) -> list[object]:
    """Return the inputs of --method, from --inputs or random with --seed. Sets `args.method` to the
    name of the method."""
    args.method = method_of(program, args.method)
    return make_inputs(find_method(program, args.method), args.inputs, args.seed)
