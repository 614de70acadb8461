"""Operators with arguments that no exporter writes: overlapping memory, odd shapes, dtypes and
numbers. Operators may fail, but must not write outside the shared memory of the tensors, nor read
outside it (visible with -fsanitize=address)."""

import ctypes
import re
from typing import Any

import numpy as np
import pytest

from tests.kernels import llm_forms
from tests.kernels.eager import DType, eager
from tests.kernels.rows import REFUSALS, tables
from tests.kernels.samples_llm import CHANGED
from tests.dtypes import DTYPES, dtype_id, np_dtype
from tests.op_harness import OpError, Out, Ret, Value, _Call, invoke
from tests.op_harness import schemas

CALLS = 25
GUARD = 1 << 14
ARENA = 1 << 17
NUMBERS = [0, 1, -1, 2, -2, 3, 4, 7, 2**31, 2**62, -(2**63), 2**63 - 1]
FLOATS = [0.0, 1.0, -1.5, 1e-5, 1e300, float("inf"), float("nan")]
TEXTS = ["", "none", "tanh", "trunc", "floor", "mean", "x" * 40]
SHAPES = [
    *((), (1,), (2,), (3,), (0,), (2, 3), (3, 2), (1, 1), (0, 3), (2, 3, 4), (1, 4, 4)),
    *((2, 4, 3, 3), (1, 2, 3, 2, 2), (2**31, 0, 2), (2**40, 2**10, 0), (0, 2**58)),
    *((3, 0, 2**57), (1,) * 16),
]


# With AddressSanitizer, an access outside the arena ends the process.
POISON = getattr(ctypes.CDLL(None), "__asan_poison_memory_region", None)
UNPOISON = getattr(ctypes.CDLL(None), "__asan_unpoison_memory_region", None)


class Arena(_Call):
    """Every tensor is at a random place in one block of memory; some have room to grow."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.rng = rng
        self.memory = np.full(ARENA + 2 * GUARD, 0xA5, np.uint8)
        self.span = int(rng.choice([64, 1024, ARENA]))  # small, so that nearly everything overlaps
        values = rng.integers(0, 256 if rng.random() < 0.3 else 3, 1009)
        self.inside()[:] = np.resize(values, ARENA)

    def inside(self) -> np.ndarray:
        return self.memory[GUARD : GUARD + ARENA]

    def guard(self, change: Any) -> None:
        for start in (0, GUARD + ARENA):
            if change:
                address = self.memory.ctypes.data + start
                change(ctypes.c_void_p(address), ctypes.c_size_t(GUARD))

    def intact(self) -> bool:
        return bool((self.memory[:GUARD] == 0xA5).all() and (self.memory[-GUARD:] == 0xA5).all())

    def tensor(self, shape, dtype, dim_order, dynamism, buffer) -> Value:
        v = super().tensor(shape, dtype, dim_order, dynamism, buffer)
        t = self.keep[-3]
        room = t.capacity * int(self.rng.choice([1, 1, 2]))
        if room > ARENA:
            pytest.fail("a sample is larger than the arena")
        place = int(self.rng.integers(0, max(min(self.span, ARENA - room), 0) // 16 + 1)) * 16
        start = (ARENA - room) // 16 * 16 if self.rng.random() < 0.3 else place
        t.numel_bound = room // np_dtype(dtype).itemsize
        t.capacity = room
        t.dynamism = dynamism if self.rng.random() < 0.7 else 1
        t.data = self.memory.ctypes.data + GUARD + start
        if t.capacity and self.rng.random() < 0.7:
            self.inside()[start : start + buffer.nbytes] = buffer.reshape(-1).view(np.uint8)[:room]
        return v


def odd_array(rng: np.random.Generator) -> np.ndarray:
    shape = SHAPES[rng.integers(len(SHAPES))]
    dtype = np_dtype(str(rng.choice(list(DTYPES))))
    if rng.random() < 0.5:
        dtype = np.dtype(np.float32)
    a = rng.integers(0, 4, shape).astype(dtype) if 0 not in shape else np.zeros(shape, dtype)
    return a.transpose(rng.permutation(len(shape))) if len(shape) > 1 else a


def odd_out(rng: np.random.Generator) -> Out:
    a = odd_array(rng)
    return Out(a.shape, a.dtype.name, tuple(rng.permutation(a.ndim).tolist()), int(rng.integers(2)))


def odd_value(rng: np.random.Generator, kind: str, name: str) -> Any:
    """Return an argument of a schema type: `Tensor`, `int[2]?`, `Tensor(a!)[]`, ..."""
    if "?" in kind.split("]")[-1] and rng.random() < 0.4:
        return None
    base = re.match(r"\w+", kind)[0]  # type: ignore[index]
    if "[" in kind:
        count = int(rng.integers(0, 5))
        item = re.sub(r"\[.*", "", kind)
        return [odd_value(rng, item, name) for _ in range(count)]
    if base == "Tensor":
        return odd_out(rng) if "!" in kind else odd_array(rng)
    if base in ("SymInt", "int", "ScalarType", "MemoryFormat"):
        return int(rng.choice(NUMBERS[:8] if rng.random() < 0.8 else NUMBERS, 1)[0])
    if base == "float":
        return float(rng.choice(FLOATS))
    if base == "bool":
        return bool(rng.random() < 0.5)
    if base == "str":
        return str(rng.choice(TEXTS))
    return [odd_value(rng, k, name) for k in ("int", "float", "bool")][rng.integers(3)]


def arguments(schema: str) -> list[tuple[str, str]]:
    """Return type and name of each argument."""
    inside = schema[schema.index("(") + 1 : schema.rindex(") ->")]
    return [(m[1], m[2]) for m in re.finditer(r"([A-Z\w][^ ,]*) (\w+)(?:=[^,]*)?(?:, |$)", inside)]


def call(name: str, args: list, rng: np.random.Generator) -> bool:
    """Call the operator; return True if it accepted the call."""
    arena = Arena(rng)
    accepted = True
    arena.guard(POISON)
    try:
        invoke(arena, name, args, bool(rng.random() < 0.2))
    except OpError as error:
        accepted = False
        assert len(str(error)) > 12, (name, args)
    finally:
        arena.guard(UNPOISON)
    assert arena.intact(), (name, args)
    return accepted


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", sorted(schemas()))
def test_odd_arguments(name: str, rng: np.random.Generator) -> None:
    schema = schemas()[name]
    specs = arguments(schema)
    for _ in range(CALLS):
        args: list = [odd_value(rng, kind, label) for kind, label in specs]
        first = args[0] if args else None
        for i, (kind, _label) in enumerate(specs):  # often the same shape and dtype everywhere
            if isinstance(first, np.ndarray) and kind == "Tensor" and rng.random() < 0.5:
                args[i] = first
            if isinstance(first, np.ndarray) and isinstance(args[i], Out) and rng.random() < 0.5:
                args[i] = Out(first.shape, first.dtype.name)
        if not schema.split("-> ")[1].startswith(("Tensor", "(")):
            args.append(Ret("int"))
        call(name, args, rng)


def changed(rng: np.random.Generator, value: Any) -> Any:
    """Return a changed argument, often unchanged."""
    if isinstance(value, list):
        return [changed(rng, v) for v in value]
    if rng.random() < 0.9 or isinstance(value, (bool, str, Out)) or value is None:
        return value
    if isinstance(value, np.ndarray):
        return odd_array(rng)
    return odd_value(rng, "float" if isinstance(value, float) else "int", "")


def fits(args: list) -> bool:
    """Return True if each array of a sample fits into the arena, with room to grow."""
    return all(2 * a.nbytes <= ARENA for a in args if isinstance(a, np.ndarray))


def fitting_outs(rng: np.random.Generator, name: str, args: list) -> list[Out]:
    """Return outputs like eager's results in most cases, in any memory order."""
    outs = []
    for e in eager(name, args):
        order = tuple(rng.permutation(e.ndim).tolist()) if rng.random() < 0.5 else None
        outs.append(Out(e.shape, e.dtype.name, order))
    return [odd_out(rng) if rng.random() < 0.1 else o for o in outs]


SPACES = ("aten::", "quantized_decomposed::", *llm_forms.SPACES)  # those of eager
NAMES = [
    name
    for name, (family, _) in sorted(tables().items())
    if name.startswith(SPACES) and family != "prim"  # of which many return numbers
]
OTHERS = ("float32", "int64", "bool", "complex64", "int8")  # int8: the only one of some


@pytest.mark.sweep(3)
@pytest.mark.filterwarnings("ignore")  # eager's own
@pytest.mark.parametrize("name", NAMES)
def test_overlapping_samples(name: str, rng: np.random.Generator) -> None:
    """Valid calls except for the places of tensors, and nearly valid ones."""
    quantized = name.startswith("quantized_decomposed::")
    list_out = "(a!)[]" in schemas()[name]
    accepted = 0
    for dtype in ("float32", "uint8", "int8") if quantized else OTHERS:
        if accepted and not quantized and dtype == OTHERS[-1]:
            break
        candidates = [args for args in tables()[name][1](rng, dtype) if fits(args)]
        for at in rng.permutation(len(candidates))[:12]:
            args = candidates[at]
            try:
                outs = fitting_outs(rng, name, args)
            except (*REFUSALS, LookupError, ArithmeticError):
                continue  # eager lacks the dtype
            args = [dtype_id(a) if isinstance(a, DType) else a for a in args]
            if name.endswith("_"):
                args[0], outs = outs[0], []
            changes = CHANGED.get(name, ())
            for i, out in zip(changes, outs, strict=False):
                args[i] = out
            outs = outs[len(changes) :] or [odd_out(rng)] * bool(changes)
            accepted += call(name, changed(rng, args) + ([outs] if list_out else outs), rng)
    assert accepted, name
