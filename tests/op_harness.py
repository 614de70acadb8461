"""Run one operator of the C core on NumPy arrays, without a program, by ctypes.

For quick sweeps over dtypes and layouts while a kernel is written:

    run("aten::add.out", [a, b, 1, Out((2, 3), "float32")]) -> [array]

Arguments are in schema order. A tensor is an array (its strides become the tensor's dim order: it
must be dense in some order of dimensions), `Out(shape, dtype)`, or None; a list of ints, floats or
bools is a list argument; a list of arrays a tensor list; `dtype_id("float32")` a ScalarType.
The library is built on first use (build_core.py), unless EXECUTORCH_C_CORE_LIB has a path.
"""

import ctypes as C
import os
from dataclasses import dataclass, field

import numpy as np

from tests import build_core
from tests.dtypes import DTYPES, np_dtype

MAX_RANK = 16
KINDS = {
    "none": 0,
    "tensor": 1,
    "string": 2,
    "double": 3,
    "int": 4,
    "bool": 5,
    "bools": 6,
    "doubles": 7,
    "ints": 8,
    "tensors": 9,
    "opt_tensors": 11,
}


class Tensor(C.Structure):
    """Mirror of ec_tensor (csrc/core/tensor.h)."""

    _fields_ = [
        *(("data", C.c_void_p), ("capacity", C.c_size_t), ("numel", C.c_int64)),
        *(("numel_bound", C.c_int64), ("dtype", C.c_uint8), ("rank", C.c_uint8)),
        *(("dynamism", C.c_uint8), ("flags", C.c_uint8), ("dim_order", C.c_uint8 * MAX_RANK)),
        *(("sizes", C.c_int64 * MAX_RANK), ("strides", C.c_int64 * MAX_RANK)),
        ("storage", C.c_void_p),
    ]


class Payload(C.Union):
    _fields_ = [("i", C.c_int64), ("d", C.c_double), ("b", C.c_bool), ("p", C.c_void_p)]


class Value(C.Structure):
    """Mirror of ec_value (csrc/core/value.h)."""

    _fields_ = [("kind", C.c_uint32), ("count", C.c_uint32), ("payload", Payload)]


@dataclass
class Out:
    """An output argument. `dynamism` is 0 (static) or 1 (bounded by `shape`); `dim_order` sets the
    strides.

    `initial` is its initial value, for operators that change a tensor in place.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    dim_order: tuple[int, ...] | None = None
    dynamism: int = 1
    initial: np.ndarray | None = field(default=None, repr=False)
    result: np.ndarray | None = field(default=None, repr=False)


class Ret:
    """The slot that receives a returned number: kind "int", "double" or "bool"."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


class OpError(RuntimeError):
    """A kernel's failure: `code` is the status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"[{code:#x}] {message}")
        self.code = code


_lib = None


def library() -> C.CDLL:
    global _lib
    if _lib is None:
        _lib = C.CDLL(os.environ.get("EXECUTORCH_C_CORE_LIB") or str(build_core.build()))
        _lib.ec_testing_op_schema.restype = C.c_char_p
        _lib.ec_testing_op_schema.argtypes = [C.c_size_t]
    return _lib


def schemas() -> dict[str, str]:
    """Return every operator's schema by name, from ops.def."""
    table: dict[str, str] = {}
    index = 0
    while (text := library().ec_testing_op_schema(index)) is not None:
        table[text.decode().split("(")[0]] = text.decode()
        index += 1
    return table


class _Call:
    """Owner of the memory of all C structures of a call."""

    def __init__(self) -> None:
        self.keep: list[object] = []

    def tensor(self, shape, dtype: str, dim_order, dynamism: int, buffer: np.ndarray) -> Value:
        t = Tensor(dtype=DTYPES[dtype], rank=len(shape), dynamism=dynamism)
        t.data = buffer.ctypes.data
        t.numel = t.numel_bound = int(np.prod(shape, dtype=np.int64))
        t.capacity = t.numel * np_dtype(dtype).itemsize
        stride = 1
        for i, d in enumerate(dim_order):
            t.dim_order[i] = d
        for d in reversed(dim_order):
            t.sizes[d], t.strides[d] = shape[d], stride
            stride *= shape[d] or 1
        self.keep += [t, buffer]
        v = Value(kind=KINDS["tensor"])
        v.payload.p = C.addressof(t)
        self.keep.append(v)
        return v

    def array(self, a: np.ndarray) -> Value:
        order = sorted(range(a.ndim), key=lambda d: (-abs(a.strides[d]), -a.shape[d], d))
        if a.flags.c_contiguous:
            order = list(range(a.ndim))
        dense = np.ascontiguousarray(a.transpose(order))
        return self.tensor(a.shape, a.dtype.name, order, 0, dense)

    def out(self, out: Out) -> Value:
        order = out.dim_order or tuple(range(len(out.shape)))
        n = int(np.prod(out.shape, dtype=np.int64))
        buffer = np.zeros(max(n, 1), np_dtype(out.dtype))
        if out.initial is not None:
            buffer[:n] = out.initial.transpose(order).ravel()
        v = self.tensor(out.shape, out.dtype, order, out.dynamism, buffer)
        out._tensor, out._buffer = self.keep[-3], buffer  # type: ignore[attr-defined]
        return v

    def pointers(self, values: list[Value], kind: str) -> Value:
        array = (C.POINTER(Value) * max(len(values), 1))(*[C.pointer(v) for v in values])
        self.keep.append(array)
        v = Value(kind=KINDS[kind], count=len(values))
        v.payload.p = C.addressof(array)
        return v

    def value(self, x: object) -> Value:
        v = Value(kind=0)
        if isinstance(x, Out):
            v = self.out(x)
        elif isinstance(x, np.ndarray):
            v = self.array(x)
        elif isinstance(x, Ret):
            v.kind = KINDS[x.kind]
            x._value = v  # type: ignore[attr-defined]
        elif isinstance(x, bool):
            v.kind, v.payload.b = KINDS["bool"], x
        elif isinstance(x, int):
            v.kind, v.payload.i = KINDS["int"], x
        elif isinstance(x, float):
            v.kind, v.payload.d = KINDS["double"], x
        elif isinstance(x, str):
            text = C.create_string_buffer(x.encode())
            self.keep.append(text)
            v.kind, v.count, v.payload.p = KINDS["string"], len(x), C.addressof(text)
        elif isinstance(x, (list, tuple)):
            v = self.list(list(x))
        self.keep.append(v)
        return v

    def list(self, items: list) -> Value:
        if items and all(isinstance(i, bool) for i in items):
            return self.plain(items, C.c_bool, "bools")
        if items and all(isinstance(i, float) for i in items):
            return self.plain(items, C.c_double, "doubles")
        if all(isinstance(i, int) for i in items):
            return self.pointers([self.value(i) for i in items], "ints")
        kind = "opt_tensors" if any(i is None for i in items) else "tensors"
        return self.pointers([self.value(i) for i in items], kind)

    def plain(self, items: list, ctype, kind: str) -> Value:
        array = (ctype * len(items))(*items)
        self.keep.append(array)
        v = Value(kind=KINDS[kind], count=len(items))
        v.payload.p = C.addressof(array)
        return v


def _result(out: Out) -> np.ndarray:
    """Return a copy of the output's elements, which may be in the memory of an argument."""
    t: Tensor = out._tensor  # type: ignore[attr-defined]
    shape = tuple(t.sizes[: t.rank])
    order = list(t.dim_order[: t.rank])
    dtype, count = np_dtype(out.dtype), int(np.prod(shape, dtype=np.int64))
    memory = (C.c_char * max(count * dtype.itemsize, 1)).from_address(t.data)
    flat = np.frombuffer(memory, dtype, count) if count else np.empty(0, dtype)
    dense = flat.reshape([shape[d] for d in order]).copy()
    return dense.transpose(np.argsort(order)) if order else dense


def _outs(args: list) -> list:
    items: list = []
    for a in args:
        if isinstance(a, (Out, Ret)):
            items.append(a)
        elif isinstance(a, list):
            items += _outs(a)
    return items


def invoke(call: _Call, name: str, args: list, reference: bool) -> None:
    """Run the operator on the values that `call` makes of the arguments."""
    values = [call.value(a) for a in args]
    pointers = (C.POINTER(Value) * len(values))(*[C.pointer(v) for v in values])
    message = C.create_string_buffer(2048)
    status = library().ec_testing_run_op(
        name.encode(), pointers, C.c_size_t(len(values)), int(reference), message, C.c_size_t(2048)
    )
    if status:
        raise OpError(status, message.value.decode())


def run(name: str, args: list, reference: bool = False) -> list:
    """Run the operator; return the results of the `Out`s and `Ret`s in order."""
    call = _Call()
    invoke(call, name, args, reference)
    results: list = []
    for o in _outs(args):
        if isinstance(o, Ret):
            v = o._value  # type: ignore[attr-defined]
            p = v.payload  # the operator may change the slot's kind
            results.append({4: p.i, 3: p.d, 5: p.b}[v.kind])
        else:
            results.append(_result(o))
    return results


def assert_rejected(name: str, args: list, *words: str, reference: bool = False) -> None:
    """Assert that the operator fails with a message that contains the words."""
    try:
        run(name, args, reference)
    except OpError as error:
        assert all(word in str(error) for word in words), (words, str(error))
    else:
        raise AssertionError(f"{name} takes {args}")
