"""Delegates whose payloads have other arguments than the program: a number is never another one."""

import dataclasses
import importlib
from pathlib import Path

import numpy as np
import pytest
from executorch.exir import schema
from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary
from executorch.exir.scalar_type import ScalarType

from executorch_c import Error, Runtime
from tests.backends.recorded import Recorded

HERE = Path(__file__).parent
INTERPRETED = {"vulkan": "mlp", "coreml": "mlp_fp32", "tosa": "mlp_fp", "native": "mlp"}
DTYPES = {
    "CHAR": np.int8,
    "INT": np.int32,
    "LONG": np.int64,
    "BOOL": np.bool_,
    "HALF": np.float16,
    "DOUBLE": np.float64,
}


def declared(pte: bytes, side: str, dtype: str) -> bytes:
    """Declare the first input or output of a program with another dtype and room for it."""
    file = deserialize_pte_binary(pte)
    plan = file.program.execution_plan[0]
    value = plan.values[getattr(plan, side)[0]].val
    assert isinstance(value, schema.Tensor) and value.scalar_type == ScalarType.FLOAT
    value.scalar_type = ScalarType[dtype]
    plan.non_const_buffer_sizes = [size and size + 65536 for size in plan.non_const_buffer_sizes]
    return bytes(serialize_pte_binary(dataclasses.replace(file, program=file.program)))


@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", ["inputs", "outputs"])
@pytest.mark.parametrize("backend", INTERPRETED)
def test_dtypes_of_the_program(backend: str, side: str, dtype: str) -> None:
    """Numbers are converted, and refused if they change; float64 may be rounded."""
    programs = Recorded(HERE / f"{backend}_programs")
    inputs, outputs = programs.arrays(INTERPRETED[backend])
    pte = (programs.folder / f"{INTERPRETED[backend]}.pte").read_bytes()
    runtime, other = Runtime.get(), DTYPES[dtype]
    plain = runtime.load_program(pte).load_method("forward")
    method = runtime.load_program(declared(pte, side, dtype)).load_method("forward")
    if side == "inputs":
        inputs[0] = (2 * inputs[0]).astype(other)  # with zeros and ones, or more integers
        outputs = plain.execute([inputs[0].astype(np.float32), *inputs[1:]])
    if side == "inputs" or dtype == "DOUBLE":
        results = method.execute(inputs)[0]
        assert results.dtype == (other if side == "outputs" else np.float32)
        np.testing.assert_allclose(results, outputs[0], rtol=1e-5, atol=1e-5)
        return
    name = np.dtype(other).name
    says = f"output 0 is {name} in the program and float32 in the payload, which changes"
    with pytest.raises(Error, match=says):
        method.execute(inputs)


@pytest.mark.parametrize("backend", INTERPRETED)
def test_integers_that_a_float_cannot_hold(backend: str) -> None:
    programs = Recorded(HERE / f"{backend}_programs")
    inputs, _ = programs.arrays(INTERPRETED[backend])
    pte = (programs.folder / f"{INTERPRETED[backend]}.pte").read_bytes()
    method = Runtime.get().load_program(declared(pte, "inputs", "LONG")).load_method("forward")
    numbers = np.zeros(inputs[0].shape, np.int64)
    method.execute([numbers, *inputs[1:]])
    numbers.reshape(-1)[-1] = (1 << 24) + 1
    last = f"element {numbers.size - 1} is 16777217, and would be 16777216"
    with pytest.raises(Error, match="input 0 is int64 in the program and float32.*" + last):
        method.execute([numbers, *inputs[1:]])


def tosa_abs(dtype: str, declared: int) -> bytes:
    """A program of one TOSA ABS of 2 x 3 elements, whose arguments are declared otherwise."""
    ts = pytest.importorskip("tosa_serializer")
    graph = importlib.import_module("tests.backends.tosa_graphs").Graph()
    x = graph.input((2, 3), getattr(ts.DType, dtype))
    graph.apply("ABS", [x], (2, 3), getattr(ts.DType, dtype))
    program = deserialize_pte_binary(graph.program())
    plan = program.program.execution_plan[0]
    for value in plan.values:
        value.val.scalar_type = declared
        value.val.allocation_info.memory_offset_low *= 2
    plan.non_const_buffer_sizes[1] *= 2
    return bytes(serialize_pte_binary(program))


def test_integers_that_a_payload_narrows() -> None:
    """A payload has int32 for the program's int64."""
    pte = tosa_abs("INT32", ScalarType.LONG)
    method = Runtime.get().load_program(pte).load_method("forward")
    numbers = np.array([[-(2**31) + 1, 2**31 - 1, 0], [1, -2, 3]])
    np.testing.assert_array_equal(method.execute([numbers])[0], np.abs(numbers))
    numbers[1, 1] = 2**32 + 5
    says = "input 0 is int64 .* int32 in the payload.*element 4 is 4294967301, and would be 5"
    with pytest.raises(Error, match=says):
        method.execute([numbers])


def test_floats_of_one_size_in_the_payload() -> None:
    """A payload has bfloat16 for the program's float16: neither type holds the other's numbers."""
    method = Runtime.get().load_program(tosa_abs("BF16", ScalarType.HALF)).load_method("forward")
    numbers = np.array([[-1, 2, 0], [0.5, -3, 8]], np.float16)
    np.testing.assert_array_equal(method.execute([numbers])[0], np.abs(numbers))
    numbers[0, 1] = 1 + 2**-10
    says = "input 0 is float16 .* bfloat16 in the payload.*element 1 is 1.000976"
    with pytest.raises(Error, match=says):
        method.execute([numbers])
