"""Programs written by hand, instruction by instruction, and runs of the official runtime.

`Plan` is a method under construction; `build` serialises plans with the official functions, so the
same bytes go to both runtimes. Indices of values have the type `V`, everything else among the
arguments of `Plan.call` becomes a value of the file:

    plan = Plan()
    x, y = plan.input((2, 3)), plan.output((2, 3))
    plan.call("aten::add.out", x, x, 1, y)
    pte = build(plan)

The dataclasses (`plan.plan`) can be changed before that, to create hostile files. `reference(pte,
...)` runs a file with the official runtime in a forked process, because it may crash, and returns
the outcome.
"""

import contextlib
import copy
import faulthandler
import os
import pickle
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from executorch.exir import schema
from executorch.exir._serialize._named_data_store import NamedDataStoreOutput
from executorch.exir._serialize._program import PTEFile, deserialize_pte_binary
from executorch.exir._serialize._program import serialize_pte_binary
from executorch.exir._serialize.data_serializer import DataEntry

import executorch_c
from tests.dtypes import DTYPES, WIDTHS

STATIC, BOUNDED, UNBOUND = schema.TensorShapeDynamism


class V(int):
    """The index of a value."""


class Constants:
    """Constants that plans of one program share; mutable ones are initial states."""

    def __init__(self) -> None:
        self.buffers = [schema.Buffer(b"")]
        self.mutable = [schema.Buffer(b"")]

    def add(self, data: np.ndarray | bytes) -> int:
        data = data if isinstance(data, bytes) else np.ascontiguousarray(data).tobytes()
        self.buffers.append(schema.Buffer(data))
        return len(self.buffers) - 1

    def add_mutable(self, array: np.ndarray) -> int:
        self.mutable.append(schema.Buffer(np.ascontiguousarray(array).tobytes()))
        return len(self.mutable) - 1


PLANNED = object()
"""Place of a tensor: the next free bytes of memory 1."""


class Plan:
    """One method; `plan` is the dataclass."""

    def __init__(self, name: str = "forward") -> None:
        self.plan = schema.ExecutionPlan(
            name=name,
            container_meta_type=schema.ContainerMetadata("", ""),
            values=[],
            inputs=[],
            outputs=[],
            chains=[schema.Chain([], [], [], None)],
            operators=[],
            delegates=[],
            non_const_buffer_sizes=[0, 0],
        )

    @property
    def code(self) -> list[schema.Instruction]:
        """Return the instructions of the last chain."""
        return self.plan.chains[-1].instructions

    def put(self, value: Any) -> V:
        self.plan.values.append(schema.EValue(value))
        return V(len(self.plan.values) - 1)

    def place(self, size: int, at: Any) -> schema.AllocationDetails | None:
        """Place a tensor: None (not planned), PLANNED, an offset in memory 1, or (memory id,
        offset)."""
        if at is None:
            return None
        sizes = self.plan.non_const_buffer_sizes
        if at is PLANNED:
            at = -(-sizes[1] // 16) * 16
        memory, offset = at if isinstance(at, tuple) else (1, at)
        while len(sizes) <= memory:
            sizes.append(0)
        sizes[memory] = max(sizes[memory], offset + size)
        return schema.AllocationDetails(memory, offset & 0xFFFFFFFF, offset >> 32)

    def tensor(
        self,
        shape: Sequence[int],
        dtype: str = "float32",
        *,
        at: Any = PLANNED,
        order: Sequence[int] | None = None,
        dynamism: int = STATIC,
        buffer: int = 0,
        name: str | None = None,
        external: bool = False,
    ) -> V:
        number = DTYPES[dtype]
        known = number in schema.ScalarType._value2member_map_
        extra = None
        if name is not None or external:
            location = schema.TensorDataLocation(int(external))
            extra = schema.ExtraTensorInfo(fully_qualified_name=name, location=location)
        return self.put(
            schema.Tensor(
                scalar_type=schema.ScalarType(number) if known else number,  # type: ignore
                storage_offset=0,
                sizes=[int(n) for n in shape],
                dim_order=list(range(len(shape)) if order is None else order),
                requires_grad=False,
                layout=0,
                data_buffer_idx=buffer,
                allocation_info=self.place(
                    int(np.prod(shape, dtype=np.int64)) * WIDTHS[number], at
                ),
                shape_dynamism=schema.TensorShapeDynamism(dynamism),
                extra_tensor_info=extra,
            )
        )

    def memory(self, tensor: V) -> tuple[int, int]:
        """Return the offsets of a planned tensor's first byte and of the byte after its last."""
        result = self.plan.values[tensor].val
        at = result.allocation_info.memory_offset_low
        return at, at + WIDTHS[int(result.scalar_type)] * int(np.prod(result.sizes))

    def input(self, shape: Sequence[int], dtype: str = "float32", **options: Any) -> V:
        index = self.tensor(shape, dtype, **options)
        self.plan.inputs.append(index)
        return index

    def output(self, shape: Sequence[int], dtype: str = "float32", **options: Any) -> V:
        index = self.tensor(shape, dtype, **options)
        self.plan.outputs.append(index)
        return index

    def constant(self, constants: Constants, array: np.ndarray, **options: Any) -> V:
        buffer = constants.add(array)
        return self.tensor(array.shape, array.dtype.name, at=None, buffer=buffer, **options)

    def value(self, value: Any) -> V:
        """Add a number, string, None, or a list of V (tensors), ints, floats or bools."""
        if isinstance(value, V):
            return value
        kinds: list[tuple[type, Any]] = [
            *((type(None), lambda _: schema.Null()), (bool, schema.Bool), (int, schema.Int)),
            *((float, schema.Double), (str, schema.String), (list, self._list)),
        ]
        for kind, make in kinds:
            if isinstance(value, kind):
                return self.put(make(value))
        raise TypeError(type(value).__name__)

    def _list(self, items: list[Any]) -> Any:
        if any(item is None for item in items):
            return schema.OptionalTensorList([-1 if v is None else int(v) for v in items])
        if items and all(isinstance(item, V) for item in items):
            return schema.TensorList([int(item) for item in items])
        if items and all(isinstance(item, bool) for item in items):
            return schema.BoolList(items)
        if any(isinstance(item, float) for item in items):
            return schema.DoubleList([float(item) for item in items])
        return schema.IntList([int(self.value(int(item))) for item in items])

    def give(self, *values: Any) -> list[V]:
        """Make values inputs of the method."""
        indices = [self.value(value) for value in values]
        self.plan.inputs.extend(indices)
        return indices

    def take(self, *values: Any) -> list[V]:
        """Make values outputs of the method."""
        indices = [self.value(value) for value in values]
        self.plan.outputs.extend(indices)
        return indices

    def operator(self, name: str) -> int:
        base, _, overload = name.partition(".")
        row = schema.Operator(base, overload)
        if row not in self.plan.operators:
            self.plan.operators.append(row)
        return self.plan.operators.index(row)

    def append(self, args: Any) -> int:
        """Append an instruction and return its index."""
        self.code.append(schema.Instruction(args))
        return len(self.code) - 1

    def call(self, operator: str, *args: Any, returns: Sequence[V] | None = None) -> int:
        """Call a kernel. Out-variants repeat their last argument as the return value."""
        indices = [self.value(arg) for arg in args]
        if returns is None:
            returns = [] if operator.startswith("executorch_prim") else indices[-1:]
        arguments = [int(i) for i in (*indices, *returns)]
        return self.append(schema.KernelCall(self.operator(operator), arguments))

    def move(self, source: V, target: V) -> int:
        return self.append(schema.MoveCall(source, target))

    def jump_false(self, condition: Any, destination: int) -> int:
        return self.append(schema.JumpFalseCall(self.value(condition), destination))

    def free(self, value: V) -> int:
        return self.append(schema.FreeCall(value))

    def delegate(self, backend: str, payload: int, specs: Sequence[Any] = ()) -> int:
        """Add a delegate whose payload is the given row of backend_delegate_data."""
        place = schema.BackendDelegateDataReference(schema.DataLocation.INLINE, payload)
        self.plan.delegates.append(schema.BackendDelegate(backend, place, list(specs)))
        return len(self.plan.delegates) - 1


def program(
    *plans: Plan, constants: Constants | None = None, payloads: Sequence[bytes] = ()
) -> schema.Program:
    """Return the dataclasses of a whole program."""
    buffers = (constants or Constants()).buffers
    data = [schema.BackendDelegateInlineData(payload) for payload in payloads]
    empty = schema.SubsegmentOffsets(0, [])
    return schema.Program(0, [plan.plan for plan in plans], buffers, data, [], empty)


def _file(
    *plans: Plan,
    constants: Constants | None = None,
    payloads: Sequence[bytes] = (),
    named: Mapping[str, bytes] | None = None,
) -> PTEFile:
    mutable = constants.mutable if constants and len(constants.mutable) > 1 else None
    data = None
    if named is not None:
        entries = {name: DataEntry(i, 16, None) for i, name in enumerate(named)}
        data = NamedDataStoreOutput(list(named.values()), entries, {})
    return PTEFile(program(*plans, constants=constants, payloads=payloads), mutable, data)


def build(
    *plans: Plan,
    constants: Constants | None = None,
    payloads: Sequence[bytes] = (),
    named: Mapping[str, bytes] | None = None,
    **options: Any,
) -> bytes:
    """Return the bytes of a .pte."""
    file = _file(*plans, constants=constants, payloads=payloads, named=named)
    return bytes(serialize_pte_binary(file, **options))


def write(path: Path, *plans: Plan, payloads: Sequence[bytes], named: Mapping[str, bytes]) -> None:
    """Write a .pte with payloads in segments, without a copy of the named data."""
    file = _file(*plans, payloads=payloads, named=named)
    with path.open("wb") as out:
        serialize_pte_binary(file, extract_delegate_segments=True).write_to_file(out)


def edited(pte: bytes, edit: Any, **options: Any) -> bytes:
    """Return the file with its program changed by `edit`."""
    file = deserialize_pte_binary(pte)
    edit(file.program)
    return bytes(serialize_pte_binary(file, **options))


def adding(count: int = 1) -> tuple[Plan, list[V]]:
    """Return a method with one input and a chain of `count` additions: 2x, 3x, ..."""
    plan = Plan()
    x = plan.input((4,))
    values = [x]
    for _ in range(count):
        values.append(plan.tensor((4,)))
        plan.call("aten::add.out", x, values[-2], 1, values[-1])
    plan.take(values[-1])
    return plan, values


PROGRAM_OPTIONS = ("data_path", "mlock", "share_mutable_buffers", "verification")


def load(pte: Any, name: str = "forward", **options: Any) -> executorch_c.Method:
    """Load a method of a program in executorch_c; options of `load_program` or `load_method`."""
    of_program = {key: options.pop(key) for key in PROGRAM_OPTIONS if key in options}
    return executorch_c.Runtime.get().load_program(pte, **of_program).load_method(name, **options)


# ---- The official runtime, in a process that may crash ----------------------------------------


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run: outputs, the text of an exception, or the number of a signal.

    `outputs` has the outputs of the last call, `every` those of all calls.
    """

    outputs: list[Any] | None = None
    every: list[list[Any]] | None = None
    error: str | None = None
    signal: int | None = None

    @property
    def crashed(self) -> bool:
        return self.signal in (signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGBUS)


def _run_official(
    pte: Any, calls: Sequence[tuple[str, Sequence[Any]]], options: dict[str, Any]
) -> Outcome:
    import torch
    from executorch.runtime import Runtime

    def tensor(value: Any) -> Any:
        return torch.from_numpy(value) if isinstance(value, np.ndarray) else value

    def array(value: Any) -> Any:
        return value.numpy() if isinstance(value, torch.Tensor) else value

    every: list[list[Any]] = []
    try:
        loaded = Runtime.get().load_program(pte, **options)
        methods = {name: loaded.load_method(name) for name, _ in calls}
        for name, inputs in calls:
            method = methods[name]
            assert method is not None
            outputs = method.execute([tensor(value) for value in inputs])
            every.append([copy.copy(array(value)) for value in outputs])
    except Exception as error:
        return Outcome(error=f"{type(error).__name__}: {error}")
    return Outcome(outputs=every[-1], every=every)


def reference(
    pte: Any,
    *inputs: Any,
    name: str = "forward",
    calls: Sequence[tuple[str, Sequence[Any]]] | None = None,
    **options: Any,
) -> Outcome:
    """Run one method once (or `calls` times, on one program) with the official runtime.

    `pte` and `options` are arguments of load_program. The run is silent, in a forked process.
    """
    import executorch.runtime  # noqa: F401  (imported here once, not in every child)

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            faulthandler.disable()
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            outcome = _run_official(pte, calls or [(name, inputs)], options)
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(outcome, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return Outcome(signal=os.WTERMSIG(status))
    return pickle.loads(data) if data else Outcome(error="the process ended without an answer")


def both(pte: bytes, *inputs: Any) -> list[Any]:
    """Return our outputs, compared with the reference's."""
    outputs = load(pte).execute(list(inputs))
    wanted = reference(pte, *inputs).outputs
    assert wanted is not None
    for a, b in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    return outputs
