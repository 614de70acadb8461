"""Mutants of programs that make sense: most of them still load.

`mutant(case)` returns a program with one method, "forward", by its number alone: a valid call of an
operator, or a random program of many calls, with up to three mutations of its dataclasses.
"""

import contextlib
import copy
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
from executorch.exir import schema

from executorch_c.inspect import reference
from tests.dtypes import DTYPES, WIDTHS
from tests.fuzz import sample_calls
from tests.fuzz.random_calls import HOSTILE_INTS, parse, schemas
from tests.fuzz.random_plans import RandomPlan
from tests.plans import BOUNDED, STATIC, Constants, Plan, build
from tests.single_op import SingleOps

LARGEST = 4096
"""Maximum size of a dimension, in elements."""
MAX_BYTES = 1 << 20
ALIGNMENT = 16
MUTANTS = 16
"""Mutants of a seed: cases in a row."""
TRIES = 20
"""Operators until eager takes a sample."""
COMMON = ["float32", "float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool"]
Rng = np.random.Generator
Seed = tuple[list[Plan], Constants]


@cache
def samples() -> dict[str, sample_calls.Samples]:
    return sample_calls.all_samples()


@cache
def calls() -> list[str]:
    """Return the schemas of the operators that have samples, more often those that the official
    runtime has."""
    rows = [row for row in schemas() if parse(row)[0] in samples()]
    lacks = {name for name, found in reference.table().items() if found[0].does == "lacks"}
    return rows + [row for row in rows if parse(row)[0] not in lacks] * 3


def one_call(rng: Rng) -> Seed:
    """Return a valid call of an operator."""
    for _ in range(TRIES):
        row = calls()[int(rng.integers(len(calls())))]
        ops = SingleOps()
        for args in sample_calls.pick(samples()[parse(row)[0]], rng, 1):
            sample_calls.add_call(ops, row, args, rng)
        if ops._methods:
            return ops._methods, ops._constants
    raise AssertionError("no operator has a sample that eager takes")


def many_calls(rng: Rng) -> Seed:
    """Return a random program whose planned memory may overlap."""
    constants = Constants()
    return [RandomPlan(rng, "forward", constants).fill()], constants


SEEDS: tuple[Callable[[Rng], Seed], ...] = (one_call, one_call, one_call, many_calls)


@lru_cache(maxsize=4)
def seed(number: int) -> Seed:
    """Return a program of the tests by its number."""
    rng = np.random.default_rng(number)
    return SEEDS[int(rng.integers(len(SEEDS)))](rng)


# ---- mutations --------------------------------------------------------------------------------


class Mutant:
    """A program under mutation."""

    def __init__(self, seed: Seed, rng: Rng) -> None:
        self.rng, self.plans, self.constants = rng, *copy.deepcopy(seed)
        self.plan = self.plans[0].plan
        self.plan.name = "forward"

    def values(self, kind: type) -> list[Any]:
        return [value.val for value in self.plan.values if isinstance(value.val, kind)]

    def one(self, items: list[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def alike(self, tensor: Any, key: Callable[[Any], Any]) -> list[Any]:
        """Return the tensors that have a property of one; rarely that tensor alone."""
        if self.chance(0.2):
            return [tensor]
        return [other for other in self.values(schema.Tensor) if key(other) == key(tensor)]


def number(m: Mutant) -> None:
    """Change a number: by a little, or to one that is critical."""
    kinds = schema.Int, schema.Double, schema.Bool
    found = m.one([v for kind in kinds for v in m.values(kind)])
    if isinstance(found, schema.Bool):
        found.bool_val = not found.bool_val
    elif isinstance(found, schema.Int):
        hostile = m.chance(0.1)
        step = int(m.rng.integers(-2, 3))
        found.int_val = int(m.one(HOSTILE_INTS)) if hostile else found.int_val + step
    else:
        value = found.double_val
        choices = [0.0, 1.0, -1.0, 0.5, 2.0, 1e-3, float(m.rng.normal())]
        found.double_val = m.one(choices) if isinstance(value, str) else value * m.one(choices)


def size(m: Mutant) -> None:
    """Change a size of one tensor, or wherever it is."""
    tensor = m.one([t for t in m.values(schema.Tensor) if len(t.sizes)])
    at = int(m.rng.integers(len(tensor.sizes)))
    old = tensor.sizes[at]
    new = m.one([1, 2, 3, 5, 7, 8, 16, 17, 33, 64, 0, old + 1, max(old - 1, 0), 2 * old])
    everywhere = m.chance(0.8)
    for one in m.values(schema.Tensor):
        if everywhere or one is tensor:
            one.sizes = [
                min(new, LARGEST) if n == old and (everywhere or i == at) else n
                for i, n in enumerate(one.sizes)
            ]
    for one in m.values(schema.Int) if everywhere and old > 1 else ():
        one.int_val = new if one.int_val == old else one.int_val


def order(m: Mutant) -> None:
    """Permute the dimensions in memory."""
    tensor = m.one([t for t in m.values(schema.Tensor) if len(t.sizes) > 1])
    new = [int(i) for i in m.rng.permutation(len(tensor.sizes))]
    for one in m.alike(tensor, lambda t: len(t.sizes)):
        one.dim_order = list(new)


def dtype(m: Mutant) -> None:
    """Change a dtype of one tensor, or wherever it is."""
    tensor = m.one(m.values(schema.Tensor))
    new = schema.ScalarType(DTYPES[m.one(COMMON)])
    for one in m.alike(tensor, lambda t: t.scalar_type):
        one.scalar_type = new


def dynamism(m: Mutant) -> None:
    """Let sizes vary, or fix them."""
    for one in m.alike(m.one(m.values(schema.Tensor)), lambda t: t.data_buffer_idx == 0):
        one.shape_dynamism = BOUNDED if one.shape_dynamism == STATIC else STATIC


def memory(m: Mutant) -> None:
    """Move a tensor to the memory of another one, or close to it."""
    planned = [t for t in m.values(schema.Tensor) if t.allocation_info is not None]
    to, of = m.one(planned), m.one(planned)
    near = ALIGNMENT * int(m.one([0, 0, 0, 1, 4]))
    to.allocation_info = copy.copy(of.allocation_info)
    to.allocation_info.memory_offset_low += near


def code(m: Mutant) -> None:
    """Drop, repeat or exchange instructions."""
    chain = m.one(m.plan.chains).instructions
    i, j = (int(m.rng.integers(len(chain))) for _ in range(2))
    kind = int(m.rng.integers(4))
    if kind == 0 and len(chain) > 1:
        del chain[i]
    elif kind == 1:
        chain.insert(j, copy.deepcopy(chain[i]))
    else:
        chain[i], chain[j] = chain[j], chain[i]


def operator(m: Mutant) -> None:
    """Call another operator with arguments of the same kinds."""
    found = m.one(m.plan.operators)
    kinds = _kinds().get(".".join(filter(None, (found.name, found.overload))))
    if kinds:
        found.name, _, found.overload = m.one(_by_kinds()[kinds]).partition(".")


def argument(m: Mutant) -> None:
    """Give a call another value of the same kind."""
    calls = [i.instr_args for c in m.plan.chains for i in c.instructions]
    args = m.one([c.args for c in calls if isinstance(c, schema.KernelCall) and c.args])
    at = int(m.rng.integers(len(args)))
    kind = type(m.plan.values[args[at]].val)
    new = m.one([i for i, v in enumerate(m.plan.values) if isinstance(v.val, kind)])
    args[:] = [new if one == args[at] else one for one in args]


def constant(m: Mutant) -> None:
    """Change bytes of a constant."""
    buffer = m.one([b for b in (*m.constants.buffers, *m.constants.mutable) if b.storage])
    data = np.frombuffer(buffer.storage, np.uint8).copy()
    at = int(m.rng.integers(len(data)))
    data[at:] = np.roll(data[at:], int(m.rng.integers(1, 9)))
    buffer.storage = data.tobytes()


@cache
def _kinds() -> dict[str, tuple[Any, ...]]:
    return {(p := parse(row))[0]: (*p[1], p[2]) for row in schemas()}


@cache
def _by_kinds() -> dict[tuple[Any, ...], list[str]]:
    result: dict[tuple[Any, ...], list[str]] = {}
    for name, kinds in _kinds().items():
        result.setdefault(kinds, []).append(name)
    return result


MUTATIONS = (number, number, size, size, order, dtype, dynamism, memory, code, operator, argument)
MUTATIONS += (constant,)


def nbytes(tensor: Any) -> int:
    return int(np.prod(tensor.sizes, dtype=np.int64)) * WIDTHS[int(tensor.scalar_type)]


def fit(m: Mutant) -> None:
    """Make planned memory and constants as large as their tensors."""
    sizes = m.plan.non_const_buffer_sizes
    for tensor in m.values(schema.Tensor):
        place, needed = tensor.allocation_info, min(nbytes(tensor), MAX_BYTES)
        if place is not None and place.memory_id < len(sizes):
            end = place.memory_offset_low + needed
            sizes[place.memory_id] = max(sizes[place.memory_id], end)
        if place is None and 0 < tensor.data_buffer_idx < len(m.constants.buffers):
            buffer = m.constants.buffers[tensor.data_buffer_idx]
            if buffer.storage and len(buffer.storage) < needed:
                buffer.storage = (buffer.storage * (needed // len(buffer.storage) + 1))[:needed]


def mutant(case: int) -> bytes:
    """Return the program of a case. Raises what the serializer raises, for a number that no file
    has."""
    rng = np.random.default_rng([case, 1])
    m = Mutant(seed(case // MUTANTS), rng)
    for _ in range(case % MUTANTS and int(rng.integers(1, 4))):
        with contextlib.suppress(ValueError):  # there is nothing to change
            m.one(list(MUTATIONS))(m)
    fit(m)
    return build(*m.plans, constants=m.constants)
