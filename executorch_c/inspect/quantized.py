"""Whether, and how, methods compute with quantised numbers: seen in the program itself, in its
operators and in the values and nodes of its delegates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from executorch_c.inspect.families import short

if TYPE_CHECKING:
    from executorch_c._core import Program
    from executorch_c._types import DelegateInside, MethodInfo
    from executorch_c.inspect.structure import View

NAMESPACES = ("quantized_decomposed", "torchao", "quantized", "cortex_m")
"""Namespaces of operators that work on quantised numbers."""
OPERATOR = re.compile(r"(de)?quantize_|choose_qparams|quantized_|custom_quantized_sdpa")
"""Beginnings of such operators' names in any namespace."""
DYNAMIC = re.compile(r"choose_qparams|8bit_act|dynamic|_dq8ca_")
"""Operators and nodes that find the scale of an activation at run time."""
WEIGHTS = re.compile(
    r"^dequantize(_|$)|embedding_|^_weight_int\dpack_mm|^linear_q(?!8ta)[c\d]\w*w$"
)
"""Operators and nodes of which only the weights are quantised."""
NODE = re.compile(
    r"^q8ta_|_q8ta_|^(de)?quantize|^linear_(dq8ca_)?q\w+w$|int\dpack|^choose_qparams|^fakequantize"
    r"|^rescale$",
    re.IGNORECASE,
)
"""Nodes of delegates that work on quantised numbers."""
SMALL = re.compile(r"^u?int([1-8])$")
"""Dtypes of constants that are quantised weights: Core ML's, OpenVINO's, TOSA's."""
STORED = re.compile(r"\bu?int(\d) constexpr_")
"""Notes of Core ML's constants that are decompressed from integers."""
VALUE = re.compile(r"^q[a-z]*(\d+)")
"""XNNPACK's dtypes of quantised values; the number is that of their bits."""
FOUR_BITS = re.compile(r"4bit|q4|qcs4|int4")
NAMES = {
    "XnnpackBackend": "XNNPACK",
    "CoreMLBackend": "Core ML",
    "OpenvinoBackend": "OpenVINO",
    "TOSABackend": "TOSA",
    "VgfBackend": "VGF",
}
"""Backends as users call them; others have the name of their id without "Backend"."""

RESCALED = ("TOSA", "VGF")
"""Backends whose quantised graphs have RESCALE nodes."""

Scheme = Literal["static", "dynamic", "weights"]
ORDER: tuple[Scheme, ...] = ("static", "dynamic", "weights")
"""Schemes; of several in a program, the first is the one that it is called by."""


@dataclass(frozen=True)
class Quantization:
    """How a program is quantised."""

    scheme: Scheme
    """"static": activations have scales of calibration; "dynamic": scales that are found at run
    time; "weights": activations are floats."""
    bits: int
    """Bits of the smallest quantised numbers, as far as the program shows them."""
    places: tuple[str, ...]
    """Backends that hold quantised numbers; "operators" for the method's own instructions."""

    def __str__(self) -> str:
        """Return "int8 static, XNNPACK"."""
        scheme = "weights only" if self.scheme == "weights" else self.scheme
        return f"int{self.bits} {scheme}, {', '.join(self.places)}"


@dataclass(frozen=True)
class _Sign:
    """A quantised number or an operator on some."""

    scheme: Scheme
    bits: int
    place: str


def quantization_of(
    program: Program, methods: Iterable[str], view: View | None = None
) -> Quantization | None:
    """Return how methods are quantised; None if none of their operators, and no value or node that
    a delegate describes, is. `view` is of the method, if there is one, and reads its delegates."""
    wanted, signs = set(methods), list[_Sign]()
    for method in program.info()["methods"]:
        if method["name"] in wanted:
            signs += _signs(program, method, view)
    if not signs:
        return None
    scheme = next(one for one in ORDER if any(sign.scheme == one for sign in signs))
    places = tuple(sorted({sign.place for sign in signs}))
    return Quantization(scheme, min(sign.bits for sign in signs), places)


def _signs(program: Program, method: MethodInfo, view: View | None) -> Iterator[_Sign]:
    names = [row["name"] for row in method["operators"] if _is_quantized(row["name"])]
    is_dynamic = any(DYNAMIC.search(name) for name in names)
    for name in names:
        yield _sign(short(name), "operators", "dynamic" if is_dynamic else "static")
    for index, use in enumerate(method["delegates"]):
        inside = None if view is None else view.inside(index)
        if view is None or isinstance(inside, str):  # the error that is raised
            inside = program._delegate(method["name"], index)
        if inside is not None:
            place = NAMES.get(use["id"], use["id"].removesuffix("Backend"))
            yield from _inside(inside, place)


def _is_quantized(name: str) -> bool:
    return name.partition("::")[0] in NAMESPACES or OPERATOR.match(short(name)) is not None


def _sign(name: str, place: str, otherwise: Scheme) -> _Sign:
    """Return what an operator or a node shows."""
    bits = 4 if FOUR_BITS.search(name) else 8
    if DYNAMIC.search(name):
        return _Sign("dynamic", bits, place)
    return _Sign("weights" if WEIGHTS.search(name) else otherwise, bits, place)


def _split(node: str) -> tuple[str, str]:
    """Return namespace and operator of a node's name; of "FullyConnected" no namespace."""
    space, dot, rest = node.partition(".")
    return (space, rest.partition(".")[0]) if dot else ("", node)


def _inside(inside: DelegateInside, place: str) -> Iterator[_Sign]:
    """Yield what the values and nodes of a delegate show."""
    # A graph of TOSA in floats has small integers, too: shifts, conditions of branches.
    is_rescaled = any("rescale" in (node["name"] or "").lower() for node in inside["nodes"])
    for value in inside["values"] if is_rescaled or place not in RESCALED else ():
        match = VALUE.match(value["dtype"] or "")
        if match is not None:
            is_dynamic = (value["dtype"] or "").startswith("qd")
            scheme: Scheme = "dynamic" if is_dynamic else "weights"
            if not value["constant"] and not is_dynamic:
                scheme = "static"
            yield _Sign(scheme, int(match[1]), place)
        small = SMALL.match(value["dtype"] or "")
        if small is not None and value["constant"] and len(value["shape"] or ()) > 1:
            yield _Sign("weights", int(small[1]), place)
        stored = STORED.search(value["note"] or "")
        if stored is not None:
            yield _Sign("weights", int(stored[1]), place)
    for node in inside["nodes"]:
        space, name = _split(node["name"] or "")
        if space in NAMESPACES or NODE.search(name):
            yield _sign(name, place, "static")
