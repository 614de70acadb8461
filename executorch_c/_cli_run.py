"""`executorch-c run` and `executorch-c demo`: calling methods and showing what comes out."""

from __future__ import annotations

import argparse
import statistics
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

import executorch_c
from executorch_c import _text

if TYPE_CHECKING:
    from executorch_c._types import Array, MethodInfo, ValueInfo

DEMO_LIMIT = 1e-4
"""Largest difference from eager PyTorch's outputs that `demo` takes as agreement."""


def call_times(call: Callable[[], Any], repeat: int) -> tuple[Any, list[float]]:
    """The last result of `repeat` calls, and the seconds that each took."""
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


def read_arrays(path: str) -> list[Array]:
    """The arrays of an .npz file in its order, or the one of an .npy file."""
    try:
        loaded = np.load(path)
        if isinstance(loaded, np.ndarray):
            return [loaded]
        with loaded:
            return [loaded[name] for name in loaded.files]
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: not an .npz or .npy file of arrays ({error})") from error


def dtype_of(name: str) -> np.dtype[Any]:
    """NumPy's dtype of a name; bfloat16 is that of ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(name)


def as_input(array: Array, wanted: ValueInfo) -> object:
    """An array of a file as an input of the program."""
    if wanted["kind"] != "Tensor":
        return array.item() if array.ndim == 0 else array
    if array.dtype.kind == "V" and array.dtype.itemsize == 2 and wanted["dtype"] == "bfloat16":
        return array.view(dtype_of("bfloat16"))  # .npy files lose the name of this dtype
    return array


def random_array(wanted: ValueInfo, rng: np.random.Generator) -> Array:
    """An array that fits a tensor input: normal floats and complex numbers, 0 and 1 otherwise."""
    sizes, name = tuple(wanted["shape"]), wanted["dtype"]
    dtype = dtype_of(name)
    if dtype.kind == "f" or name == "bfloat16":
        return rng.standard_normal(sizes).astype(dtype)
    if dtype.kind == "c":
        both: Array = rng.standard_normal((*sizes, 2)).view(np.complex128)[..., 0]
        return both.astype(dtype)
    return rng.integers(0, 2, sizes).astype(dtype)


def make_inputs(wanted: Sequence[ValueInfo], path: str | None, seed: int) -> list[object]:
    """The inputs of a call: from a file, or random; numbers and strings are the program's own."""
    if path is None:
        rng = np.random.default_rng(seed)
        return [random_array(w, rng) if w["kind"] == "Tensor" else w.get("value") for w in wanted]
    arrays = read_arrays(path)
    tensors = sum(w["kind"] == "Tensor" for w in wanted)
    if len(arrays) == len(wanted):
        return [as_input(array, w) for array, w in zip(arrays, wanted, strict=True)]
    if len(arrays) != tensors:
        need = _text.plural(len(wanted), "input")
        raise ValueError(f"{path}: holds {_text.plural(len(arrays), 'array')}, the method takes "
                         f"{need}, {tensors} of them tensors")  # fmt: skip
    rest = iter(arrays)
    return [as_input(next(rest), w) if w["kind"] == "Tensor" else w.get("value") for w in wanted]


def write_outputs(path: str, outputs: Sequence[Any]) -> None:
    """An .npz with output_0, output_1, ...; None is left out."""
    named: dict[str, Any] = {}
    for i, out in enumerate(outputs):
        if out is not None:
            named[f"output_{i}"] = np.asarray(out)
    with open(path, "wb") as file:  # savez would append a suffix to a name
        np.savez(file, **named)


def show_values(title: str, names: Sequence[str], values: Sequence[Any]) -> None:
    print(title)
    rows = [_text.value_line(i, name, v) for i, (name, v) in enumerate(zip(names, values))]
    print(_text.table(rows) if rows else "  none")


def find_method(program: executorch_c.Program, name: str) -> MethodInfo:
    """What info() says about a method."""
    methods = program.info()["methods"]
    found = [m for m in methods if m["name"] == name]
    if not found:
        names = ", ".join(m["name"] for m in methods)
        raise ValueError(f"no method '{name}' in this program, which has: {names}")
    return found[0]


def run(args: argparse.Namespace) -> int:
    """executorch-c run"""
    start = perf_counter()
    program = executorch_c.Runtime.get().load_program(args.model, data_path=args.data or None)
    load_time = perf_counter() - start
    wanted = find_method(program, args.method)
    inputs = make_inputs(wanted["inputs"], args.inputs, args.seed)
    start = perf_counter()
    method = program.load_method(args.method, seed=args.seed)
    load_time += perf_counter() - start
    show_values("inputs", [w.get("name") or "" for w in wanted["inputs"]], inputs)
    outputs, times = call_times(lambda: method.execute(inputs), args.repeat)
    show_values("outputs", [""] * len(outputs), outputs)
    print(f"time\n  load {_text.seconds(load_time)}, {describe_times(times)}")
    if args.output:
        write_outputs(args.output, outputs)
    return 0


def demo(args: argparse.Namespace) -> int:
    """executorch-c demo"""
    folder = Path(__file__).parent / "examples"
    with np.load(folder / "digits.npz") as data:
        images, expected, labels = data["inputs"], data["expected"], data["labels"]
    method = executorch_c.Runtime.get().load_program(folder / "digits.pte").load_method("forward")
    [outputs], times = call_times(lambda: method.execute([images]), 20)
    predicted = outputs.argmax(axis=1)
    difference = float(np.abs(outputs - expected).max())
    shown = 20
    print(f"digits.pte on {len(labels)} images of handwritten digits, the first {shown}:")
    print(_text.table([["predicted", *map(str, predicted[:shown])],
                       ["label", *map(str, labels[:shown])]]))  # fmt: skip
    print(f"right      {int((predicted == labels).sum())} of {len(labels)}")
    print(f"difference {difference:.1e} at most from eager PyTorch's outputs")
    print(f"time       {describe_times(times)}, for {len(labels)} images")
    if difference <= DEMO_LIMIT:
        return 0
    print(f"executorch-c: error: outputs differ by more than {DEMO_LIMIT:g}", file=sys.stderr)
    return 1
