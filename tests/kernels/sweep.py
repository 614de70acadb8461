"""Operators through the official export flow, in many dtypes and layouts: one program a row.

A case is one call of the operator. All cases of a row are calls of one method, because loading a
method takes a hundred times as long as a call. Programs are cached on disk like those of the zoo.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests import kept
from tests.kernels import eager, rows

DTYPES = tuple(
    "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64".split()
)
# Number of cases by kind of arguments.
KINDS = {
    "contiguous": 2,
    "channels-last": 1,
    "transposed": 1,
    "broadcast": 1,
    "mixed": 2,
    "0-d": 1,
    "empty": 1,
}
LONGEST = 400  # maximum length of a reason


@dataclass
class Call:
    """A call: the arguments in schema order without outputs, and eager's result."""

    dtype: str
    kind: str
    args: list
    results: list[Any] = field(repr=False)

    def __str__(self) -> str:
        arguments = [f"{a.dtype.name}{a.shape}{a.strides}" for a in rows.arrays(self.args)]
        rest = [a for a in self.args if not isinstance(a, np.ndarray | list)]
        return f"{self.dtype} {self.kind}: {', '.join(arguments)} {rest}"


def makes_dtype(name: str) -> bool:
    """Return True if the dtype of the result is an argument of the functional form only."""
    created = name.split("::")[1] in (*rows.CREATED, *rows.RANDOM_OUTS) or name in rows.UNFILLED
    return created and any(a.name == "dtype" for a in eager.functional(name)._schema.arguments)


def kind_of(name: str, args: list) -> str:
    arguments = rows.arrays(args)
    if any(not a.size for a in arguments):
        return "empty"
    if arguments and not arguments[0].ndim and len({a.shape for a in arguments}) == 1:
        return "0-d"
    if not rows.is_contiguous(args):
        last = [
            a.ndim > 3 and a.transpose(eager.channels_last(a.ndim)).flags.c_contiguous
            for a in arguments
            if not a.flags.c_contiguous
        ]
        return "channels-last" if all(last) else "transposed"
    if rows.tables()[name][0] == "pointwise":
        if len({a.dtype.name for a in arguments} - {"bool"}) > 1:
            return "mixed"
        if len({a.shape for a in arguments}) > 1:
            return "broadcast"
    return "contiguous"


def laid_out(value: Any, kind: str) -> Any:
    """Return the same elements with the dimensions in another memory order."""
    if isinstance(value, list):
        return [laid_out(v, kind) for v in value]
    if not isinstance(value, np.ndarray) or value.ndim < 2:
        return value
    order = tuple(range(value.ndim))
    if kind == "transposed":
        order = order[::-1]
    elif kind == "channels-last" and value.ndim == 4:
        order = eager.channels_last(4)
    return eager.in_order(value, order)


def small(every: list[list]) -> list[list]:
    """Return samples with few elements; the smallest of those with any."""
    all_sizes = [[a.size for a in rows.arrays(args)] for args in every]
    full = [max(sizes) for sizes in all_sizes if sizes and min(sizes)]
    limit = max(rows.SMALL, min(full, default=0))
    return [args for args, n in zip(every, all_sizes, strict=True) if max(n, default=0) <= limit]


def accepted(name: str, dtype: str, candidates: list[list], count: int) -> Iterator[tuple]:
    """Yield up to `count` samples that eager accepts, with its results; eager is called for some
    only."""
    for args in rows.spread(candidates, 2 * count + 2):
        results = rows.wanted(name, args, dtype) if count else None
        if results:
            count -= 1
            yield args, results


def cases_of_dtype(name: str, dtype: str) -> list[Call]:
    """Return cases of each kind with samples; create other layouts if there are none."""
    every = small(list(rows.tables()[name][1](np.random.default_rng(0), dtype)))
    by_kind: dict[str, list] = {kind: [] for kind in KINDS}
    for args in every:
        by_kind[kind_of(name, args)].append(args)
    layouts = ("contiguous", "channels-last", "transposed")
    arguments = [args for kind in (*layouts, "broadcast") for args in by_kind[kind]]
    for kind in layouts:
        others = [] if by_kind[kind] else [laid_out(args, kind) for args in arguments]
        by_kind[kind] += [args for args in others if kind_of(name, args) == kind]
    entries = [
        Call(dtype, kind, args, results)
        for kind, count in KINDS.items()
        for args, results in accepted(name, dtype, by_kind[kind], count)
    ]
    # Eager ignores the dtype if there is nothing to compute.
    return entries if any(case.kind != "empty" for case in entries) else []


class Calls(torch.nn.Module):
    """The functional form of an operator, once for each case, with tensors as inputs."""

    def __init__(self, name: str, cases: list[Call]) -> None:
        super().__init__()
        self.name, self.cases = name, cases
        self.takes_dtype = makes_dtype(name)
        # The functional form has its dtype argument first.
        self.count = 1 if name == "aten::_to_copy.out" else None

    def forward(self, *tensors: torch.Tensor) -> list[Any]:
        left = iter(tensors)
        return [self.call(case, left) for case in self.cases]

    def call(self, case: Call, left: Iterator[torch.Tensor]) -> Any:
        def filled(value: Any) -> Any:
            if isinstance(value, list):
                return [filled(v) for v in value]
            return next(left) if isinstance(value, np.ndarray) else eager.to_torch(value)

        keywords = {"dtype": getattr(torch, case.dtype)} if self.takes_dtype else {}
        return eager.called(self.name, [filled(v) for v in case.args[: self.count]], **keywords)


@dataclass
class Exported:
    """A program, the indices of its cases, the number of calls of the operator, eager's results for
    its graph (or eager's error), and the flow's errors for other cases, by index."""

    pte: bytes = b""
    places: list[int] = field(default_factory=list)
    uses: int = 0
    graph: list[Any] | str = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)


def inputs(cases: list[Call]) -> tuple[torch.Tensor, ...]:
    tensors = [eager.to_torch(np.copy(a, "K")) for c in cases for a in rows.arrays(c.args)]
    # NumPy's strides of empty arrays are 0, which the flow rejects.
    return tuple(t if t.numel() else torch.empty(t.shape, dtype=t.dtype) for t in tensors)


def by_eager(program: Any, cases: list[Call]) -> list[Any] | str:
    """Return eager's results for a graph, flat like a method's outputs; the error if it raises."""
    try:
        outputs = program.module()(*inputs(cases))
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"[:LONGEST]
    return [
        arrayed(o)
        for o in torch.utils._pytree.tree_leaves(
            list(outputs) if isinstance(outputs, list | tuple) else [outputs],
            is_leaf=lambda x: x is None,
        )
    ]


def arrayed(value: Any) -> Any:
    """Return arrays as in eager.py: the exporter writes an empty byte tensor for None."""
    if isinstance(value, torch.Tensor):
        return eager.to_numpy(value.detach().resolve_conj().contiguous())
    return np.zeros(0, np.uint8) if value is None else value


def lower(name: str, cases: list[Call], **config: Any) -> Exported:
    """Return the program of all cases, with the backend's `config`."""
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge

    traced = torch.export.export(Calls(name, cases), inputs(cases))
    edge = to_edge(traced, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    graph = by_eager(edge.exported_program(), cases)
    program = edge.to_executorch(ExecutorchBackendConfig(**config))
    (plan,) = program.executorch_program.execution_plan
    names = [f"{op.name}.{op.overload}".rstrip(".") for op in plan.operators]
    calls = [
        i.instr_args.op_index
        for chain in plan.chains
        for i in chain.instructions
        if hasattr(i.instr_args, "op_index")
    ]
    uses = sum(names[i] == name for i in calls)
    return Exported(bytes(program.buffer), list(range(len(cases))), uses, graph)


def rejected(name: str, cases: dict[int, Call]) -> dict[int, str]:
    """Return the cases that the flow rejects, with its errors."""

    def why(part: dict[int, Call]) -> str:
        try:
            lower(name, list(part.values()))
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:LONGEST]
        return ""

    error = why(cases)
    if not error or len(cases) == 1:
        return dict.fromkeys(cases, error) if error else {}
    ends = [dict([item]) for item in (*list(cases.items())[:1], *list(cases.items())[-1:])]
    if {why(part) for part in ends} == {error}:
        return dict.fromkeys(cases, error)
    by_dtype: dict[str, dict[int, Call]] = {}
    for place, case in cases.items():
        by_dtype.setdefault(case.dtype, {})[place] = case
    parts = list(by_dtype.values())
    if len(parts) == 1:
        parts = [{place: case} for place, case in cases.items()]
    return {i: why for part in parts for i, why in rejected(name, part).items()}


def export(name: str, cases: list[Call], **config: Any) -> Exported:
    try:
        return lower(name, cases, **config)
    except Exception:
        reasons = rejected(name, dict(enumerate(cases)))
    left = {i: case for i, case in enumerate(cases) if i not in reasons}
    result = lower(name, list(left.values()), **config) if left else Exported()
    result.places, result.refused = list(left), reasons
    return result


def exported(name: str, cases: list[Call], **config: Any) -> Exported:
    """The same from the cache where possible."""
    key = kept.digest(
        name,
        list(map(str, cases)),
        config,
        [case.args for case in cases],
        Path(__file__),
        packages=("torch", "executorch", "numpy"),
    )
    result: Exported = kept.pickled(
        f"op-{name.split('::')[1]}-{key}", lambda: export(name, cases, **config)
    )
    return result
