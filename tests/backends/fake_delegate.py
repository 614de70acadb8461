"""A backend written with ctypes that takes calls of operators when a method is loaded, and computes
them with NumPy: rightly, or with a planted fault."""

import ctypes
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, c_bool, c_char_p, c_int64, c_size_t, c_uint32
from ctypes import c_void_p, cast
from typing import Any

import numpy as np

import executorch_c
from tests.backends.fake_backend import EXECUTE, INIT, OK, Backend, Init, Tensor, capsule, kept

Function = Callable[..., np.ndarray]

OPERATORS: dict[str, Function] = {
    "aten::add.out": lambda x, y, alpha: x + alpha * y,
    "aten::mul.out": lambda x, y: x * y,
    "aten::relu.out": lambda x: np.maximum(x, 0),
    "aten::sigmoid.out": lambda x: 1 / (1 + np.exp(-x)),
    "aten::mm.out": lambda x, y: x @ y,
    "aten::addmm.out": lambda b, x, y, beta, alpha: beta * b + alpha * (x @ y),
    "aten::linear.out": lambda x, w, b: x @ w.T + (0 if b is None else b),
}
"""What it takes, of float32: functions of all arguments but the out."""
TENSOR, DOUBLE, INT = 1, 3, 4
FLOAT32 = 6


class Value(Structure):
    pass


Value._fields_ = [
    *(("tensor", Tensor), ("is_dynamic", c_bool), ("is_shared", c_bool), ("is_unread", c_bool)),
    *(("number", c_uint32), ("same", POINTER(Value))),
]


class Arg(Structure):
    _fields_ = [("kind", c_uint32), ("tensor", Tensor), ("slot", POINTER(Value))]


class Call(Structure):
    _fields_ = [("op", c_char_p), ("args", POINTER(Arg)), ("count", c_size_t)]


class Run(Structure):
    _fields_ = [
        *(("struct_size", c_size_t), ("calls", POINTER(Call))),
        *(("inputs", POINTER(POINTER(Value))), ("outputs", POINTER(POINTER(Value)))),
        *(("call_count", c_size_t), ("input_count", c_size_t), ("output_count", c_size_t)),
        *(("value_count", c_size_t), ("always", c_bool)),
    ]


REFUSE_CALL = CFUNCTYPE(c_void_p, c_void_p, POINTER(Call))
INIT_RUN = CFUNCTYPE(
    c_uint32, c_void_p, c_void_p, c_void_p, POINTER(Init), POINTER(Run), POINTER(c_void_p)
)
AVAILABLE = CFUNCTYPE(c_bool, c_void_p)


class Delegate(Backend):
    _fields_ = [("describe", c_void_p), ("refuse_call", REFUSE_CALL), ("init_run", INIT_RUN)]


def array(tensor: Tensor) -> np.ndarray:
    """Return a view of a tensor's memory."""
    sizes = (c_int64 * tensor.rank).from_address(tensor.sizes) if tensor.rank else ()
    count = int(np.prod(list(sizes), dtype=np.int64))
    data = (ctypes.c_float * count).from_address(tensor.data)
    return np.frombuffer(data, np.float32).reshape(tuple(sizes))


def number(arg: Arg) -> float:
    """Return a DOUBLE or an INT: its bits are where the tensor's address is."""
    bits = struct.pack("Q", arg.tensor.data or 0)
    return float(struct.unpack("d" if arg.kind == DOUBLE else "q", bits)[0])


class FakeDelegate:
    """The backend; it must live as long as the process. It is available within `active`."""

    def __init__(self, name: str) -> None:
        self.functions: dict[str, Function] = {}
        self.runs: list[tuple[list[Any], list[int], list[int]]] = []
        self.fault: Callable[[int, np.ndarray], np.ndarray] | None = None
        """Changes each result of a run, given the number of its calls."""
        self.unavailable = ctypes.create_string_buffer(b"not in its table")
        self.is_available = AVAILABLE(lambda _self: bool(self.functions))
        self.id = name.encode()  # ctypes numbers the kept objects of a base class again
        self.struct = Delegate(
            abi_version=1,
            struct_size=ctypes.sizeof(Delegate),
            id=self.id,
            is_available=cast(self.is_available, c_void_p),
            init=INIT(lambda *_: 1),
            execute=EXECUTE(self._execute),
            refuse_call=REFUSE_CALL(self._refuse_call),
            init_run=INIT_RUN(self._init_run),
        )
        executorch_c.register_backend(capsule(self.struct))
        kept.append(self)

    @contextmanager
    def active(
        self,
        wrong: dict[str, Function] | None = None,
        fault: Callable[[int, np.ndarray], np.ndarray] | None = None,
    ) -> Iterator[None]:
        """Let methods that are loaded meanwhile have their operators computed here."""
        self.functions = OPERATORS | (wrong or {})
        self.fault = fault
        try:
            yield
        finally:
            self.functions = {}

    def _refuse_call(self, _self: int, call: Any) -> int | None:
        what = call.contents
        known = what.op.decode() in self.functions
        for i in range(what.count):
            arg = what.args[i]
            known = known and (arg.kind != TENSOR or arg.tensor.dtype == FLOAT32)
        return None if known else ctypes.addressof(self.unavailable)

    def _init_run(
        self, _self: int, _host: int, _call: int, _init: object, run: Any, handle: Any
    ) -> int:
        """Keep the calls: functions with what they read, as numbers of values or constants."""
        what, calls = run.contents, []
        for i in range(what.call_count):
            call = what.calls[i]
            args = [self._read(call.args[k]) for k in range(call.count)]
            calls.append((self.functions[call.op.decode()], args[:-1], args[-1][1]))
        self.runs.append(
            (
                calls,
                [what.inputs[i].contents.number for i in range(what.input_count)],
                [what.outputs[i].contents.number for i in range(what.output_count)],
            )
        )
        handle[0] = len(self.runs)
        return OK

    @staticmethod
    def _read(arg: Arg) -> tuple[str, Any]:
        if arg.kind == TENSOR:
            value = arg.slot.contents
            if value.tensor.data:
                return "constant", array(value.tensor).copy()
            if value.same:
                sizes = (c_int64 * value.tensor.rank).from_address(value.tensor.sizes)
                return "view", (value.same.contents.number, tuple(sizes))
            return "value", value.number
        return "constant", number(arg) if arg.kind in (DOUBLE, INT) else None

    def _execute(
        self, _self: int, _host: int, _call: int, handle: int, args: Any, count: int
    ) -> int:
        calls, inputs, outputs = self.runs[handle - 1]
        tensors = cast(args, POINTER(Arg))
        values = {n: array(tensors[i].tensor).copy() for i, n in enumerate(inputs)}

        def get(what: str, value: Any) -> Any:
            if what == "view":
                return values[value[0]].reshape(value[1])
            return values[value] if what == "value" else value

        for function, taken, out in calls:
            result = function(*(get(*one) for one in taken)).astype(np.float32)
            values[out] = self.fault(len(calls), result) if self.fault else result
        for i, n in enumerate(outputs):
            array(tensors[len(inputs) + i].tensor)[...] = values[n]
        assert count == len(inputs) + len(outputs)
        return OK
