"""What the reference runtime does with the operators of a program: a table made by runs of both.

`reference.tsv` is written by `python -m tests.kernels.reference_table`, which runs programs of one
call each in the official runtime and in eager. A row is for an operator, dtypes of the first tensor
and layouts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from executorch_c._types import StructureValue
    from executorch_c.inspect.structure import Instruction, View

VERSION = "1.5.1"
"""Version of the reference runtime."""
PATH = Path(__file__).with_name("reference.tsv")
COLUMNS = ("operator", "does", "dtypes", "layouts", "when", "samples", "example")

Does: TypeAlias = Literal["agrees", "rounds", "differs", "rejects", "crashes", "lacks"]
"""What the reference runtime does with calls that eager computes. `rounds`: its results differ by
some units in the last place of the largest; `crashes`: the process ends."""
DOES: tuple[Does, ...] = get_args(Does)
NUMBERS = "numbers"
"""In place of a dtype, for calls without tensors."""
SOME = "some"
"""Condition of calls that nothing in the program tells from calls that agree."""
AND = " and "
CONTIGUOUS, CHANNELS_LAST, OTHER_LAYOUT = "contiguous", "channels-last", "other"


@dataclass(frozen=True)
class Behaviour:
    """A row: what the reference runtime does with some calls of an operator."""

    operator: str
    does: Does
    dtypes: tuple[str, ...] = ()
    """Dtypes of the first tensor; `NUMBERS` for calls without tensors; empty for all."""
    layouts: tuple[str, ...] = ()
    when: str = ""
    """What these calls have and calls that agree have not: "pad: negative", or two such features
    with " and " between them; empty for all calls, `SOME` if it depends on values."""
    samples: str = ""
    """Number of such samples of all with these dtypes and layouts: "3/40"."""
    example: str = ""
    """Arguments of the first of them; of `rejects`, and the message."""

    @property
    def is_certain(self) -> bool:
        """True if every call that matches the row behaves like this."""
        return self.when != SOME


@dataclass(frozen=True)
class OperatorCall:
    """The facts of a call that the rows distinguish."""

    operator: str
    dtype: str
    layout: str
    features: frozenset[str]


@cache
def table() -> dict[str, tuple[Behaviour, ...]]:
    """Return the rows by operator."""
    rows: dict[str, list[Behaviour]] = {}
    for row in read(PATH.read_text(encoding="utf-8")):
        rows.setdefault(row.operator, []).append(row)
    return {name: tuple(behaviours) for name, behaviours in rows.items()}


def read(text: str) -> Iterator[Behaviour]:
    """Yield the rows of a table as text."""
    for line in text.splitlines():
        if line.startswith(("#", COLUMNS[0] + "\t")):
            continue
        operator, does, dtypes, layouts, when, samples, example = line.split("\t")
        assert does in DOES, line
        names, orders = (tuple(filter(None, text.split(","))) for text in (dtypes, layouts))
        yield Behaviour(operator, does, names, orders, when, samples, example)


def behaviours(
    operator: str, dtypes: Iterable[str] = (), layouts: Iterable[str] = ()
) -> tuple[Behaviour, ...]:
    """Return the rows of an operator that are neither "agrees" nor "rounds", for the given dtypes
    of its first tensor and the given layouts (all if empty)."""
    wanted, orders = set(dtypes), set(layouts)
    return tuple(
        row
        for row in table().get(operator, ())
        if row.does not in ("agrees", "rounds")
        and (not wanted or not row.dtypes or wanted & set(row.dtypes))
        and (not orders or not row.layouts or orders & set(row.layouts))
    )


def matching(call: OperatorCall) -> tuple[Behaviour, ...]:
    """Return what the reference runtime does with a call: the rows that are certain, else those
    with the condition `SOME`; empty if it agrees."""
    rows = [
        row
        for row in behaviours(call.operator, [call.dtype], [call.layout])
        if row.when in ("", SOME) or set(row.when.split(AND)) <= call.features
    ]
    certain = tuple(row for row in rows if row.is_certain)
    return certain or tuple(rows)


def of_step(view: View, step: Instruction) -> tuple[Behaviour, ...]:
    """Return what the reference runtime does with a kernel call of a program."""
    return matching(call_of(view, step)) if step.row["kind"] == "kernel" else ()


# ---- facts of a call ---------------------------------------------------------------------------


def call_of(view: View, step: Instruction) -> OperatorCall:
    """Return the facts of a kernel call. Numbers that the program computes have none."""
    arguments = [
        (name or str(at), index)
        for at, (index, name, role) in enumerate(step.row["args"])
        if role != "return"
    ]
    inputs: list[StructureValue] = []
    outputs: list[StructureValue] = []
    features: set[str] = set()
    dtype = NUMBERS
    roles = {index: role for index, _, role in step.row["args"] if role != "return"}
    for name, index in arguments:
        value = view.values[index]
        items = [view.values[item] for item in view.items(index)]
        tensors = [item for item in items if item["kind"] == "Tensor"]
        if tensors:
            dtype = tensors[0]["dtype"] if dtype == NUMBERS else dtype
            (outputs if roles[index] == "out" else inputs).extend(tensors)
            features |= set(_of_tensors(name, tensors, dtype))
        else:
            known = index not in view.computed
            features |= {f"{name}: {what}" for what in _of_number(view, value, known)}
    features |= set(_of_all(inputs, outputs))
    return OperatorCall(step.title, dtype, layout([*inputs, *outputs]), frozenset(features))


def layout(tensors: Collection[StructureValue]) -> str:
    """Return the layout of a call: of its tensors, the one that is not contiguous."""
    layouts = {_layout(tensor["dim_order"]) for tensor in tensors}
    return next((one for one in (OTHER_LAYOUT, CHANNELS_LAST) if one in layouts), CONTIGUOUS)


def _layout(order: Sequence[int]) -> str:
    if list(order) == sorted(order):
        return CONTIGUOUS
    return CHANNELS_LAST if list(order) == [0, *range(2, len(order)), 1] else OTHER_LAYOUT


def _of_tensors(name: str, tensors: Sequence[StructureValue], first: str) -> Iterator[str]:
    """Yield what is known of the tensors of an argument; `first` is the dtype of the call."""
    for tensor in tensors:
        if tensor["dtype"] != first:
            yield f"{name}: {tensor['dtype']}"
        yield f"{name}: {len(tensor['shape'])}-d"
        if 0 in tensor["shape"]:
            yield f"{name}: empty"


def _of_number(view: View, value: StructureValue, known: bool) -> Iterator[str]:
    """Yield what is known of a number, text, list or None; only the type of one that the program
    computes."""
    kind, one = value["kind"], value.get("value")
    if kind in ("Int", "Double", "Bool"):
        yield {"Int": "int", "Double": "float", "Bool": "bool"}[kind]
    if not known:
        return
    if kind == "None":
        yield "None"
    elif isinstance(one, (bool, str)):
        yield str(one)
    elif isinstance(one, (int, float)):
        yield from _of_scalar(one)
    elif isinstance(one, list):
        ints = kind == "IntList"
        items = [view.values[int(i)].get("value") if ints and i is not None else i for i in one]
        yield f"{len(items)} items" if items else "no items"
        for item in items:
            if isinstance(item, (int, float)):
                yield from _of_scalar(item)


def _of_scalar(one: float) -> Iterator[str]:
    if isinstance(one, float):
        if not math.isfinite(one):
            yield "not finite"
        elif one != int(one):
            yield "fraction"
    if one < 0:
        yield "negative"
    if one == 0:
        yield "0"
    if one > 1:
        yield "above 1"


def _is_broadcast(inputs: Sequence[StructureValue], outputs: Sequence[StructureValue]) -> bool:
    """Return True if the first input has one element, and the first output several."""
    first = [set(every[0]["shape"]) <= {1} for every in (inputs, outputs) if every]
    return first == [True, False]


def _bits(dtype: str) -> int:
    """Return the size of an element; 1 of bool, whose bits are those of integers."""
    return int("".join(filter(str.isdigit, dtype)) or 1)


def _of_all(inputs: Sequence[StructureValue], outputs: Sequence[StructureValue]) -> Iterator[str]:
    every = [*inputs, *outputs]
    if any(0 in tensor["shape"] for tensor in every):
        yield "empty tensors"
    if any(not tensor["shape"] for tensor in inputs):
        yield "0-d tensors"
    if _is_broadcast(inputs, outputs) and len({tensor["dtype"] for tensor in every}) == 1:
        yield "one element is broadcast to others of its dtype"
    if len({tensor["shape"] for tensor in inputs}) > 1:
        yield "tensors of different shapes"
    if len({tensor["dtype"] for tensor in inputs}) > 1:
        yield "tensors of different dtypes"
    if inputs and outputs and inputs[0]["dtype"] != outputs[0]["dtype"]:
        yield "an output of another dtype"
    if any(
        tensor["dtype"] != other["dtype"] and _bits(tensor["dtype"]) == _bits(other["dtype"])
        for tensor in inputs
        for other in outputs
    ):
        yield "a tensor of another dtype than the output's, of its size"
    if len({_layout(tensor["dim_order"]) for tensor in every if len(tensor["shape"]) > 2}) > 1:
        yield "tensors of different layouts"
