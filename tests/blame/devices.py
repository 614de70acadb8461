"""Devices: the payload's run here, with the arithmetic of a device and one fault.

Nothing here knows what `blame` allows a device. Sums in float16 are simulated by what rounding each
partial sum does to a result: with K terms of variance v and the sum S, partial sum k has the square
S^2 (k/K)^2 + v k (1 - k/K) on average over orders, and each is rounded with a relative error of at
most 2^-11.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from executorch_c import Program
from executorch_c.inspect.structure import View
from executorch_c.trace import Result

HALF_ERROR, FLOAT_ERROR = 2.0**-11, 2.0**-24
HALF_SUBNORMAL = 2.0**-14
HALF_MAX = 65504.0
PRODUCTS = re.compile(r"linear|conv|matmul|mm\b|fullyconnected|addmm|bmm", re.I)
SUMS = re.compile(r"mean|sum|softmax|norm|pool|attention|sdpa|var", re.I)
CURVES = re.compile(r"exp|tanh|sigmoid|gelu|erf|sqrt|recip|softmax|log|silu|swish|norm|pow", re.I)
MOVES = re.compile(
    r"reshape|transpose|permute|view|slice|select|cat|split|pad$|expand|squeeze|max_?pool|relu"
    r"|clamp|copy|as_?strided|gather|table|maximum|broadcast|identity|contiguous|tile|shape|size"
    r"|getitem",
    re.I,
)
STEP = re.compile(r"scale ([0-9.e+-]+)")


@dataclass(frozen=True)
class Arithmetic:
    """How a healthy device computes."""

    sums: str = "float32"
    """Dtype of the partial sums of results that the payload stores as float16."""
    tile: int = 1
    """Partial sums that are kept apart, and added at the end."""
    flushes: bool = False
    """Numbers below the smallest normal float16 are zeros."""
    curve: float = 0.0
    """Error of exponentials, roots and the like, in half units of the last place."""
    ties: float = 0.0
    """Share of quantised results that are rounded to the other neighbour. A multiplier of 16 bits
    moves up to 0.4 % of the products of 8 bits over a tie."""


def draw(kind: str, rng: np.random.Generator) -> Arithmetic:
    """Return the arithmetic of a random device: "float32", "float16" or "int8"."""
    tile = int(rng.choice([1, 4, 16]))
    if kind == "float32":
        return Arithmetic(tile=tile, curve=float(rng.choice([0, 4, 8])))
    if kind == "int8":
        return Arithmetic(tile=tile, ties=float(rng.choice([0.0, 0.001, 0.004])))
    curve = float(rng.choice([0, 1, 2]))
    sums = str(rng.choice(["float32", "float16"]))
    return Arithmetic(sums, tile, bool(rng.integers(2)), curve)


@dataclass
class Run:
    """One call of a device."""

    outputs: list[np.ndarray]
    values: dict[str, np.ndarray] = field(default_factory=dict)
    """Results by id of their place, without those of loops."""


Fault = Callable[[np.ndarray], None]
"""Changes a result in place."""


class Device:
    """Runs a program with an arithmetic, and a fault at a place."""

    def __init__(
        self,
        program: Program,
        arithmetic: Arithmetic,
        rng: np.random.Generator,
        habit: Fault | None = None,
    ) -> None:
        self.program = program
        self.habit = habit
        """Change of every result that is no fault; None: none."""
        self.method = program.load_method("forward", delegate_at_load=False)
        self.arithmetic, self.rng = arithmetic, rng
        view = View(program, "forward")
        self.terms: dict[str, int] = {}
        """Terms of each sum of a product, by id."""
        self.steps: dict[str, float] = {}
        """Step of quantised values that are floats in a trace, by id."""
        for number in range(len(view.structure["delegates"])):
            self._read(number, view.inside(number))

    def _read(self, delegate: int, inside: Any) -> None:
        if inside is None or isinstance(inside, str):
            return
        values = {value["id"]: value for value in inside["values"]}
        rows = [row for row in inside["nodes"] if "nobody reads it" not in (row["note"] or "")]
        for number, row in enumerate(rows):
            place = f"d{delegate}.{number}"
            self.terms[place] = _terms([values[i] for i in row["inputs"] if i in values])
            for output in row["outputs"][:1]:
                note = STEP.search((values.get(output) or {}).get("note") or "")
                if note:
                    self.steps[place] = float(note[1])

    def run(self, inputs: Sequence[np.ndarray], fault: tuple[str, Fault] | None = None) -> Run:
        """Return one call: outputs, and every result as the device computes it."""
        counts, values = Counter[str](), dict[str, np.ndarray]()

        def alter(result: Result, array: np.ndarray) -> None:
            if result.kind not in ("node", "kernel") or result.depth:
                return
            place = place_of(result)
            counts[place] += 1
            if array.size and array.flags.writeable:  # not a view of an input
                self._round(place, result.name, array)
                if self.habit is not None:
                    self.habit(array)
                if fault is not None and place == fault[0]:
                    fault[1](array)
            values[place] = array.copy()

        self.method.reset()
        with self.method.tracing(alter=alter):
            outputs = self.method.execute(list(inputs))
        values = {key: value for key, value in values.items() if counts[key] == 1}
        return Run([np.asarray(one) for one in outputs], values)

    # ---- arithmetic --------------------------------------------------------------------------

    def _round(self, place: str, name: str, array: np.ndarray) -> None:
        """Round a result as the device does."""
        if array.dtype.kind in "iu" or place in self.steps:
            self._ties(place, name, array)
            return
        if array.dtype.kind != "f" or MOVES.search(name):
            return
        exact = array.astype(np.float64)
        finite = np.isfinite(exact)
        kept = np.where(finite, exact, 0.0)
        error = self._sum_error(place, name, kept, array.dtype == np.float16)
        if self.arithmetic.curve and CURVES.search(name):
            unit = HALF_ERROR if array.dtype == np.float16 else FLOAT_ERROR
            error += self.arithmetic.curve * unit * np.abs(kept)
        result = kept + error * np.clip(self.rng.standard_normal(kept.shape), -4, 4) / 2
        if array.dtype == np.float16:
            with np.errstate(over="ignore"):
                result = result.astype(np.float16).astype(np.float64)
            if self.arithmetic.flushes:
                result = np.where(np.abs(result) < HALF_SUBNORMAL, 0, result)
        array[...] = np.where(finite, result, exact)

    def _sum_error(
        self, place: str, name: str, exact: np.ndarray, is_stored_as_half: bool
    ) -> np.ndarray:
        is_half = self.arithmetic.sums == "float16" and is_stored_as_half
        unit = HALF_ERROR if is_half else FLOAT_ERROR
        if PRODUCTS.search(name):
            terms = max(self.terms.get(place, 1), 1)
        elif SUMS.search(name):
            terms = 32
        else:
            return unit * np.abs(exact) / 2
        count = max(terms / self.arithmetic.tile, 1.0) + math.log2(self.arithmetic.tile)
        axis = tuple(range(1, exact.ndim)) if exact.ndim > 1 else None
        variance = np.mean(exact**2, axis=axis, keepdims=True)
        return unit * np.sqrt(count / 3 * (exact**2 / 3 + variance / 6))

    def _ties(self, place: str, name: str, array: np.ndarray) -> None:
        """Round some quantised results to the other neighbour: one step off."""
        if not self.arithmetic.ties or MOVES.search(name) or array.dtype.kind == "u":
            return
        if array.dtype == np.int32 or array.dtype == np.int64:  # sums are exact
            return
        step = self.steps.get(place, 1)
        chosen = self.rng.random(array.shape) < self.arithmetic.ties
        off = np.where(self.rng.random(array.shape) < 0.5, -1, 1) * chosen * step
        if array.dtype.kind == "i":
            limits = np.iinfo(array.dtype)
            array[...] = np.clip(
                array.astype(np.int64) + off.astype(np.int64), limits.min, limits.max
            )
        else:
            array[...] = np.clip(array + off, array.min(), array.max())


def place_of(result: Result) -> str:
    """Return the id of the place of a result: "d0.3", "i7:1"."""
    if result.kind == "node":
        place = f"d{result.delegate}.{result.node}"
    else:
        place = (
            f"c{result.chain}.i{result.instruction}" if result.chain else f"i{result.instruction}"
        )
    return f"{place}:{result.output}" if result.output else place


def _terms(inputs: list[Any]) -> int:
    """Return the number of terms of each sum of a product of these values."""
    constants = [v for v in inputs if v["constant"] and v["shape"] and len(v["shape"]) > 1]
    if constants:
        shape = max((v["shape"] for v in constants), key=math.prod)
        return math.prod(shape) // max(shape[0], 1)
    shapes = [v["shape"] for v in inputs if v["shape"]]
    return abs(int(shapes[0][-1])) if shapes else 1
