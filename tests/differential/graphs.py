"""Random graphs of 3 to 15 calls, as source text: a seed makes the same graph again.

A call is one of a template, or of an operator of the table with a sample of
`tests/kernels/samples_*.py`, whose first tensors are values of the graph. Eager runs every call
while the graph is made: those that it rejects are drawn anew.
"""

import functools
import math
import random
import re
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from tests.differential import templates
from tests.kernels import decomp_check, eager, rows, sweep

MAX_CALLS, MIN_CALLS = 15, 3
MAX_ELEMENTS, MAX_DIMENSIONS = 3000, 5
MAX_DEGREE = 1000
UNCHECKED = re.compile(
    "_backward|segment_reduce|_native_batch_norm_legit|_embedding_bag|_trilinear|_pdist_forward"
    "|lu_unpack|addmv"
)
"""Operators whose shapes eager does not check, and that read out of bounds if they do not go
together."""
MAX_TRIES = 150
"""Calls drawn for a graph, most of which eager may reject."""
MAX_SAMPLES = 8
"""Samples of an operator in a dtype."""
FLOATS = [torch.float32] * 9 + [torch.float16, torch.float16, torch.bfloat16, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int32, *[torch.int64] * 3]
DTYPES = [*FLOATS, *INTEGERS, torch.bool, torch.bool]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0]
FAMILIES = ("random", "prim", "llm")
"""Families without functional operators of torch, or with other results each time."""
OF_FLOAT8 = {"aten::_scaled_mm.out"}
"""Operators of dtypes that graphs do not have. They, too, would change the program of each seed."""
Pool = list[tuple[str, torch.Tensor]]


@dataclass
class Graph:
    """A graph: statements, with the tensors that they read."""

    seed: int
    lines: list[str]
    inputs: list[torch.Tensor]
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    kind: str = "normal"
    is_dynamic: bool = False
    """True if the first dimension of the inputs may vary."""
    operators: list[str] = field(default_factory=list)
    """Operators of the table, besides those of templates."""

    @property
    def is_stateful(self) -> bool:
        """True if a line changes the buffer."""
        return any("self.state" in line for line in self.lines)

    def source(self) -> str:
        """Return the module as Python."""
        names = ", ".join(f"x{i}" for i in range(len(self.inputs)))
        body = "".join(f"        {line}\n" for line in self.lines)
        return (
            f"class Model(torch.nn.Module):\n    def forward(self, {names}):\n{body}"
            f"        return ({', '.join(self.outputs)},)\n"
        )

    def module(self, *, eager: bool = True) -> torch.nn.Module:
        """Return the module; `eager`: `torch.cond` takes a branch, without compiling."""
        names = {**NAMES, "cond": taken if eager else torch.cond}
        exec(self.source(), names)
        model = names["Model"]()
        model.register_buffer("state", torch.zeros(3))
        for name, value in self.constants.items():
            model.register_buffer(name, value.clone(memory_format=torch.preserve_format))
        return model.eval()


def taken(test: torch.Tensor, yes: Any, no: Any, values: Any) -> Any:
    """Return the result of the branch that `torch.cond` takes."""
    return (yes if bool(test) else no)(*values)


def weight(count: int, like: torch.Tensor, axis: int = -1, *size: int) -> torch.Tensor:
    """Return a weight for the axis of a value, in its dtype."""
    shape = (count, like.shape[axis], *size)
    return (torch.arange(math.prod(shape)).reshape(shape) % 7 / 7 - 0.4).to(like.dtype)


def bias(count: int, like: torch.Tensor) -> torch.Tensor:
    """Return a vector in the dtype of a value."""
    return (torch.arange(count) / 5).to(like.dtype)


NAMES: dict[str, Any] = {
    "torch": torch,
    "F": torch.nn.functional,
    "weight": weight,
    "bias": bias,
    "inf": math.inf,
    "nan": math.nan,
}


# ---- inputs -------------------------------------------------------------------------------------


def values(shape: Any, dtype: torch.dtype, kind: str, generator: torch.Generator) -> torch.Tensor:
    """Return random elements. Kinds: "normal"; "ties", of few values; "special", with infinities,
    NaN and the ends of integers."""
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_floating_point:
        drawn = torch.randn(shape, generator=generator)
        if kind == "ties":
            drawn = (drawn * 2).round()
        if kind == "special" and drawn.numel():
            pick = torch.tensor(SPECIAL)[torch.randint(0, 5, shape, generator=generator)]
            drawn = torch.where(torch.rand(shape, generator=generator) < 0.1, pick, drawn)
        return drawn.to(dtype)
    info = torch.iinfo(dtype)
    low, high = max(info.min, -9), 10
    if kind == "special":
        low, high = max(info.min, -(2**40)), min(info.max, 2**40)
    return torch.randint(low, high, shape, generator=generator).to(dtype)


def laid_out(value: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """Return the value, sometimes with its dimensions in another order in memory."""
    if value.dim() == 4 and rng.random() < 0.15:
        return value.contiguous(memory_format=torch.channels_last)
    if value.dim() == 2 and rng.random() < 0.05:
        return value.t().contiguous().t()
    return value


def shapes(rng: random.Random) -> tuple[list[list[int]], bool]:
    """Return shapes of inputs that broadcast, and whether their first dimension may vary."""
    size = [rng.choice([1, 2, 3, 4, 4, 5, 7, 8]) for _ in range(rng.choice([0, 1, 2, 2, 3, 3, 4]))]
    if size and rng.random() < 0.05:
        size[rng.randrange(len(size))] = 0
    is_dynamic = rng.random() < 0.2 and bool(size) and 0 not in size
    if is_dynamic:
        size[0] = rng.choice([3, 4, 5])
    items = [list(size)]
    for _ in range(rng.randrange(4)):
        chance = rng.random()
        if chance < 0.55:
            items.append(list(size))
        elif chance < 0.75:
            items.append([1 if rng.random() < 0.4 else n for n in size])
        elif chance < 0.9:
            items.append(size[rng.randrange(len(size) + 1) :])
        else:
            items.append([])
    if is_dynamic:
        items = [[size[0], *one[1:]] if len(one) == len(size) else one for one in items]
    return items, is_dynamic


def redrawn(graph: Graph, seed: int, rows: int | None = None) -> list[torch.Tensor]:
    """Return other inputs of the graph; `rows` replaces the first dimension, where it varies."""
    generator = torch.Generator().manual_seed(seed)
    first = graph.inputs[0]
    items = []
    for value in graph.inputs:
        size = list(value.shape)
        if rows is not None and value.dim() == first.dim():
            size[0] = rows
        drawn = values(size, value.dtype, graph.kind, generator)
        same = rows is None and value.numel() and not value.is_contiguous()
        items.append(torch.empty_like(value).copy_(drawn) if same else drawn)
    return items


# ---- calls --------------------------------------------------------------------------------------


def fields(rng: random.Random, pool: Pool, is_dynamic: bool) -> dict[str, Any]:
    """Return random fields of a template, that suit a value."""
    a, value = rng.choice(pool[-4:] if rng.random() < 0.6 else pool)
    alike = [pair for pair in pool if pair[1].shape == value.shape]
    b, _ = rng.choice(alike if rng.random() < 0.6 else pool)
    rank, size = max(value.dim(), 1), list(value.shape)
    d, e = rng.randrange(-rank, rank), rng.randrange(-rank, rank)
    along = max(size[d] if size else 1, 1)
    masks = [name for name, other in alike if other.dtype == torch.bool]
    shaped = [[-1], [1, -1], [-1, 1]]
    if value.numel() % 2 == 0:
        shaped.append([value.numel() // 2, 2])
    wider = [2, *size]
    if is_dynamic:
        shaped = [[-1], [1, -1]]
        wider = [2, *[f"{a}.shape[{i}]" for i in range(value.dim())]]
    at = [rng.randrange(-1 if rng.random() < 0.3 else 0, along) for _ in range(rng.randrange(1, 4))]
    slices = [
        rng.choice([":", "1:", "::2", ":-1", "0:2", "-2:"])
        for _ in range(rng.randrange(1, rank + 1))
    ]
    return {
        "a": a,
        "b": b,
        "d": d,
        "e": e,
        "k": rng.random() < 0.5,
        "z": rng.choice([0, 0, 1]),
        "s": rng.choice(["0.5", "2", "-1.5", "3", "1", "0", "-1"]),
        "i": rng.choice([1, 2, 3, -1, -2]),
        "diagonal": rng.choice([-1, 0, 1]),
        "end": rng.choice([0, -1]),
        "dims": tuple(sorted(rng.sample(range(rank), min(rank, 2)))),
        "order": rng.sample(range(value.dim()), value.dim()),
        "shape": rng.choice(shaped),
        "repeats": [rng.choice([1, 1, 2]) for _ in size] or [1],
        "slices": ", ".join(slices),
        "pads": tuple(rng.choice([0, 1, 2, 1, -1]) for _ in range(2 * rng.randrange(1, rank + 1))),
        "wider": f"[{', '.join(map(str, wider))}]",
        "at": f"torch.tensor({at})",
        "places": f"(torch.zeros_like({a}).long() + {rng.randrange(along)})",
        "m": rng.choice(masks) if masks and rng.random() < 0.7 else f"({a} > 0)",
        "test": f"({a}.float().sum() > 0).reshape(())",
        "to": rng.choice(DTYPES),
        "unary": rng.choice(templates.FUNCTIONS),
        "reduction": rng.choice(templates.REDUCED),
        "whole": rng.choice(templates.WHOLE),
    }


def from_template(rng: random.Random, pool: Pool, is_dynamic: bool, is_stateful: bool) -> str:
    """Return a statement that assigns to R."""
    groups, weights = zip(*templates.GROUPS, strict=True)
    group = rng.choices(groups, weights)[0]
    if is_stateful and rng.random() < 0.1:
        group = templates.STATEFUL
    text = rng.choice(group).format(**fields(rng, pool, is_dynamic))
    return text if re.search(r"\bR = ", text) else f"R = {text}"


@functools.cache
def operators() -> list[str]:
    """Return the operators of the table with samples whose results can be compared."""
    import executorch_c

    items = []
    table = [row for row in executorch_c.operators() if row["name"] not in OF_FLOAT8]
    for name in sorted(row["name"] for row in table):
        family, _ = rows.tables().get(name, ("prim", None))
        if family in FAMILIES or name in rows.UNFILLED or name in decomp_check.CHECKS:
            continue
        if name == rows.ROW or name.split("::")[0] not in ("aten", "quantized_decomposed"):
            continue
        try:
            eager.functional(name)
        except (LookupError, AttributeError):
            continue
        items.append(name)
    return items


@functools.cache
def samples(name: str, dtype: str) -> list[list]:
    """Return small samples of an operator; none if eager accepts empty ones only: it ignores the
    dtype if there is nothing to compute."""
    try:
        every = sweep.small(list(rows.tables()[name][1](np.random.default_rng(0), dtype)))
    except Exception:  # no samples in this dtype
        return []
    full = [args for args in every if all(a.size for a in rows.arrays(args))]
    if not any(rows.wanted(name, args, dtype) for args in rows.spread(full, MAX_SAMPLES)):
        return []
    return rows.spread(every, MAX_SAMPLES)


@dataclass
class Written:
    """A statement, being written from a sample."""

    rng: random.Random
    pool: Pool
    prefix: str
    share_as_is: float
    """Probability that a value of another shape than the sample's is not brought to it."""
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    is_first: bool = True

    def text(self, value: Any) -> str:
        """Return an argument as Python."""
        if isinstance(value, list):
            return f"[{', '.join(map(self.text, value))}]"
        if isinstance(value, np.ndarray):
            return self.tensor(value)
        return f"torch.{value}" if isinstance(value, eager.DType) else repr(value)

    def tensor(self, array: np.ndarray) -> str:
        """Return a value of the graph, brought to the array's shape if need be, or a constant."""
        like = eager.to_torch(np.copy(array, "K"))
        if not array.size:  # NumPy's strides of empty arrays are 0, which the flow rejects
            like = torch.empty(like.shape, dtype=like.dtype)
        alike = [name for name, v in self.pool if v.shape == like.shape and v.dtype == like.dtype]
        if self.is_first or (alike and self.rng.random() < 0.5):
            first, self.is_first = self.is_first, False
            if alike:
                return self.rng.choice(alike)
            typed = [(name, v) for name, v in self.pool if v.dtype == like.dtype and v.numel()]
            if first and typed:
                name, value = self.rng.choice(typed)
                as_is = self.rng.random() < self.share_as_is
                return name if as_is else fitted(name, value, like)
        name = f"{self.prefix}_{len(self.constants)}"
        self.constants[name] = like
        return f"self.{name}"


def fitted(name: str, value: torch.Tensor, like: torch.Tensor) -> str:
    """Return an expression of a value in another shape."""
    text = f"{name}.reshape(-1)"
    if value.numel() < like.numel():
        text += f".repeat({-(-like.numel() // value.numel())})"
    return f"{text}[:{like.numel()}].reshape({list(like.shape)})"


def from_sample(rng: random.Random, pool: Pool, prefix: str) -> tuple[str, Written, str] | None:
    """Return a statement of an operator, its constants and the operator; None if there is no
    sample in the dtype of a value."""
    name = rng.choice(operators())
    dtype = str(rng.choice(pool)[1].dtype).removeprefix("torch.")
    chosen = samples(name, dtype)
    if not chosen:
        return None
    result = rng.choice(chosen)
    family = rows.tables()[name][0]
    as_is = {"pointwise": 0.8, "special": 0.8, "quantized": 0.0}.get(family, 0.3)
    if UNCHECKED.search(name):
        as_is = 0.0
    written = Written(rng, pool, prefix, as_is)
    op = eager.functional(name)
    texts = []
    count = 1 if name == "aten::_to_copy.out" else None  # then its dtype
    for spec, value in zip(op._schema.arguments, result[:count], strict=False):
        texts.append(
            f"{spec.name}={written.text(value)}" if spec.kwarg_only else written.text(value)
        )
    if sweep.makes_dtype(name):
        texts.append(f"dtype=torch.{dtype}")
    return f"R = torch.ops.{op}({', '.join(texts)})", written, name


# ---- graphs -------------------------------------------------------------------------------------


def results(value: Any) -> list[torch.Tensor] | None:
    """Return the tensors of a call's result; None if it is of no use in a graph."""
    tensors = list(value) if isinstance(value, tuple | list) else [value]
    if not tensors or not all(isinstance(t, torch.Tensor) for t in tensors):
        return None
    if any(t.numel() > MAX_ELEMENTS or t.dim() > MAX_DIMENSIONS for t in tensors):
        return None
    return None if any(t.is_quantized or t.layout != torch.strided for t in tensors) else tensors


class Maker:
    """A graph that grows by calls which eager accepts."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        sizes, is_dynamic = shapes(self.rng)
        kind = self.rng.choice(["normal", "normal", "normal", "ties", "ties", "special"])
        main = self.rng.choice(DTYPES)
        dtypes = [main if self.rng.random() < 0.7 else self.rng.choice(DTYPES) for _ in sizes]
        inputs = [
            values(size, dtype, kind, generator) for size, dtype in zip(sizes, dtypes, strict=True)
        ]
        if not is_dynamic:
            inputs = [laid_out(value, self.rng) for value in inputs]
        self.graph = Graph(seed, [], inputs, {}, [], kind, is_dynamic)
        self.pool: Pool = [(f"x{i}", value) for i, value in enumerate(inputs)]
        self.of_table = 0.0 if is_dynamic else self.rng.choice([0.2, 0.5, 0.8])
        self.is_stateful = self.rng.random() < 0.15
        self.state = torch.zeros(3)

    def extend(self) -> None:
        """Add a call, if eager accepts the one that is drawn."""
        place = len(self.graph.lines)
        operator, constants = None, {}
        if self.rng.random() < self.of_table:
            drawn = from_sample(self.rng, self.pool, f"c{place}")
            if drawn is None:
                return
            statement, written, operator = drawn
            constants = written.constants
            if "_polynomial_" in statement and not self.is_small(statement):
                return
        else:
            try:
                statement = from_template(
                    self.rng, self.pool, self.graph.is_dynamic, self.is_stateful
                )
            except (ValueError, IndexError):
                return
        outputs = self.run(statement, constants)
        if outputs is None:
            return
        several = isinstance(outputs, list)
        tensors = outputs if isinstance(outputs, list) else [outputs]
        names = [f"v{place}_{i}" if several else f"v{place}" for i in range(len(tensors))]
        targets = ", ".join(names) + ("," if several else "")
        self.graph.lines.append(re.sub(r"\bR = ", f"{targets} = ", statement))
        self.graph.constants |= constants
        self.graph.operators += [operator] if operator else []
        self.pool += list(zip(names, tensors, strict=True))

    def is_small(self, statement: str) -> bool:
        """Return True if the values that a statement reads are small in each call: eager takes
        hours for a polynomial of degree 2^63."""
        read = [value for name, value in self.pool if re.search(rf"\b{name}\b", statement)]
        return self.graph.kind != "special" and all(
            bool((value.double().abs() <= MAX_DEGREE).all()) for value in read
        )

    def run(
        self, statement: str, constants: dict[str, torch.Tensor]
    ) -> torch.Tensor | list[torch.Tensor] | None:
        """Return the result of a statement; None if eager rejects it, or it is of no use."""
        holder = torch.nn.Module()
        holder.register_buffer("state", self.state.clone())
        for name, value in constants.items():
            holder.register_buffer(name, value)
        table = {
            name: value.clone(memory_format=torch.preserve_format) for name, value in self.pool
        }
        space = {**NAMES, **table, "self": holder, "cond": taken}
        try:
            exec(statement, space)
            result = results(space["R"])
        except Exception:  # whatever eager raises
            return None
        if result is not None and self.graph.is_dynamic and any(0 in t.shape for t in result):
            return None
        self.state = holder.state  # type: ignore[assignment]
        return result[0] if result and isinstance(space["R"], torch.Tensor) else result


def make(seed: int) -> Graph | None:
    """Return the graph of a seed; None if too few calls were accepted."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        maker = Maker(seed)
        count = maker.rng.randint(MIN_CALLS, MAX_CALLS)
        for _ in range(MAX_TRIES):
            maker.extend()
            if len(maker.graph.lines) == count:
                break
    graph, rng = maker.graph, maker.rng
    if len(graph.lines) < MIN_CALLS:
        return None
    names = [name for name, _ in maker.pool[len(graph.inputs) :]]
    graph.outputs = names if rng.random() < 0.4 else unread(graph.lines, names)
    graph.outputs += [graph.outputs[0]] * (rng.random() < 0.1) + ["x0"] * (rng.random() < 0.1)
    return graph


def assigned(line: str) -> list[str]:
    """Return the values that a line makes."""
    (targets,) = re.findall(r"(?:^|; )((?:v\d+(?:_\d+)?(?:, |,)?)+) = ", line)
    return re.findall(r"v\d+(?:_\d+)?", targets)


def unread(lines: list[str], names: list[str]) -> list[str]:
    """Return the values that no other line reads."""
    read = {name: sum(len(re.findall(rf"\b{name}\b", line)) for line in lines) for name in names}
    return [name for name in names if read[name] == 1]  # where it is assigned


def for_output(graph: Graph, i: int) -> Graph:
    """Return the graph of the calls that an output needs."""
    needed, lines = {graph.outputs[i]}, []
    for line in reversed(graph.lines):
        if needed.intersection(assigned(line)):
            needed.update(re.findall(r"\bv\d+(?:_\d+)?\b", line))
            lines.insert(0, line)
    return with_lines(graph, lines, [graph.outputs[i]])


def with_lines(graph: Graph, lines: list[str], outputs: list[str]) -> Graph:
    """Return the graph of other lines, with the constants that they read."""
    text = "\n".join(lines)
    constants = {n: v for n, v in graph.constants.items() if re.search(rf"\bself\.{n}\b", text)}
    return replace(graph, lines=lines, constants=constants, outputs=outputs)


def without_call(graph: Graph, place: int) -> Graph | None:
    """Return the graph without a call and those that need it; None if no output is left."""
    gone, lines = {place}, {}
    for i, line in enumerate(graph.lines):
        used = {int(n) for n in re.findall(r"\bv(\d+)(?:_\d+)?\b", line)} - {i}
        if i in gone or used & gone:
            gone.add(i)
        else:
            lines[i] = line
    if not lines:
        return None
    names = [n for line in lines.values() for n in assigned(line)]
    kept = [n for n in graph.outputs if n in names or n[0] == "x"]
    left = list(lines.values())
    return with_lines(graph, left, [*kept, *[n for n in unread(left, names) if n not in kept]])
