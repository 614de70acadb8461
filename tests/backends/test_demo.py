"""The programs of the export tutorial, lowered to the demo backends by the official flow.

Expected numbers: the backend's sine is x - x^3/6, the two first terms of the Taylor series, as in
the reference; everything else is compared with eager.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.test.op_partitioner_demo import AddAttributePartitionerDemo
from executorch.exir.backend.test.op_partitioner_demo import AddMulPartitionerDemo
from executorch.exir.backend.test.op_partitioner_demo import NonDecompTestPartitioner
from executorch.exir.schema import EValue, Int, Program, ScalarType
from torch import Tensor, nn

import executorch_c
from tests.backends.demo_programs import COMPILER, EXECUTOR, SIN_INPUTS, THREE, composite
from tests.backends.demo_programs import edge_program, lowered, mm_add_sub, partitioned, seeded, sin
from tests.backends.demo_programs import taylor_sin
from tests.exports import Fn
from tests.models import blocks
from tests.plans import Plan, build, edited, schema


def method(pte: bytes) -> Any:
    return executorch_c.Runtime.get().load_program(pte).load_method("forward")


def run(pte: bytes, inputs: Sequence[Tensor]) -> list[np.ndarray]:
    return method(pte).execute([x.numpy() for x in inputs])


def payload_changed(pte: bytes, old: bytes, new: bytes) -> bytes:
    def edit(program: Program) -> None:
        data = program.backend_delegate_data[0]
        assert old in data.data
        data.data = data.data.replace(old, new)

    return edited(pte, edit)


@pytest.fixture(scope="module")
def sin_pte() -> bytes:
    return sin()


def test_backends_are_found_by_entry_point() -> None:
    registry = executorch_c.Runtime.get().backend_registry
    for name in (COMPILER, EXECUTOR):
        assert name in registry.registered_backend_names
        assert registry.is_available(name)
    assert not registry.is_available("NoSuchBackend")


@pytest.mark.parametrize("specs", [[], [CompileSpec("max_value", bytes([1]))]], ids=["none", "one"])
def test_whole_module(specs: list[CompileSpec]) -> None:
    (x,) = inputs = (torch.tensor([0.5]),)
    [y] = run(lowered(torch.sin, inputs, specs).buffer(), inputs)
    np.testing.assert_allclose(y, taylor_sin(x), rtol=1e-6)
    assert abs(y[0] - np.sin(0.5)) < 0.5**5 / 120


def test_composed_module() -> None:
    """A lowered module is called twice, and operators that are not lowered read its results."""

    def composed(x: Tensor, lowerable: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
        a = lowerable(x)
        b = lowerable(a)
        return a, b, a + b + 0.3

    module = blocks.Fn(composed, lowerable=lowered(torch.sin, SIN_INPUTS))
    pte = edge_program(module, SIN_INPUTS, strict=True).to_executorch().buffer
    x = torch.tensor([0.8])
    a = taylor_sin(x)
    b = taylor_sin(a)
    for result, expected in zip(run(pte, (x,)), (a, b, a + b + 0.3), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_partitioned_with_compile_specs() -> None:
    """Payloads in segments, and in the program."""
    delegated, inputs = partitioned(), seeded(*THREE)
    results = []
    for extract in (True, False):
        config = ExecutorchBackendConfig(extract_delegate_segments=extract)
        pte = delegated.to_executorch(config).buffer
        plan = deserialize_pte_binary(pte).program.execution_plan[0]
        specs = [spec for delegate in plan.delegates for spec in delegate.compile_specs]
        assert [(spec.key, spec.value) for spec in specs] == [("max_value", b"\x04")] * 2
        results += run(pte, inputs)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], mm_add_sub(*inputs), rtol=1e-5, atol=1e-6)


def test_partitioned_without_compile_specs() -> None:
    class AddConstant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("c", torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, x: Tensor) -> Tensor:
            return torch.sub(x + x.abs(), self.c)

    inputs = seeded((4, 3))
    edge = edge_program(AddConstant(), inputs)
    pte = edge.to_backend(AddAttributePartitionerDemo()).to_executorch().buffer
    plan = deserialize_pte_binary(pte).program.execution_plan[0]
    assert [delegate.compile_specs for delegate in plan.delegates] == [[]]
    [y] = run(pte, inputs)
    np.testing.assert_allclose(y, AddConstant()(*inputs), rtol=1e-6)


GENERAL = {
    "mm 2x3 3x5": (torch.mm, ((2, 3), (3, 5))),
    "mm add broadcast": (lambda a, x, b: torch.mm(a, x) + b, ((4, 3), (3, 2), (2,))),
    "add 3-d": (torch.add, ((2, 3, 4), (2, 3, 4))),
    "add broadcast both": (torch.add, ((3, 1), (1, 4))),
    "add add": (lambda a, b, c: a + b + c, ((5,), (5,), (5,))),
    "add empty": (torch.add, ((0, 3), (0, 3))),
    "add 0-d": (torch.add, ((), ())),
}


@pytest.mark.parametrize("name", GENERAL)
def test_general_shapes(name: str) -> None:
    fn, shapes = GENERAL[name]
    inputs = seeded(*shapes)
    delegated = edge_program(Fn(fn), inputs).to_backend(AddMulPartitionerDemo())
    pte = delegated.to_executorch().buffer
    assert not deserialize_pte_binary(pte).program.execution_plan[0].operators
    [y] = run(pte, inputs)
    expected = fn(*inputs)
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_sin_after_add() -> None:
    inputs = seeded((2, 3), (2, 3))
    [y] = run(lowered(lambda a, b: torch.sin(a + b), inputs).buffer(), inputs)
    np.testing.assert_allclose(y, taylor_sin(inputs[0] + inputs[1]), rtol=1e-5, atol=1e-6)


def test_old_payload_without_version(sin_pte: bytes) -> None:
    """The payload of the tutorial, from before the format had a version."""
    pte = payload_changed(sin_pte, b"1version:0#", b"1#")
    [y] = run(pte, (torch.tensor([0.25]),))
    np.testing.assert_allclose(y, [0.25 - 0.25**3 / 6], rtol=1e-6)


def test_executor_backend_whole_program() -> None:
    net = nn.Sequential(nn.Linear(4, 25), nn.Sigmoid(), nn.Linear(25, 3))
    inputs = seeded((25, 4))
    inner = lowered(net, inputs, backend=EXECUTOR)
    assert inner.processed_bytes[4:8] == b"ET12"
    loaded = method(composite(inner, inputs))
    for scale in (1.0, -2.0):
        [y] = loaded.execute([scale * inputs[0].numpy()])
        expected = net(scale * inputs[0]).detach()
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_executor_backend_with_weights_in_a_data_file(tmp_path: pathlib.Path) -> None:
    net, inputs = nn.Linear(4, 3), seeded((5, 4))
    specs = [CompileSpec("external_constants", b"")]
    outer = composite(lowered(net, inputs, specs, EXECUTOR), inputs)
    separate = edge_program(Fn(net), inputs).to_executorch(
        ExecutorchBackendConfig(external_constants=True)
    )
    separate.write_tensor_data_to_file(str(tmp_path))
    [data] = tmp_path.glob("*.ptd")
    program = executorch_c.Runtime.get().load_program(outer, data_path=data)
    [y] = program.load_method("forward").execute([inputs[0].numpy()])
    np.testing.assert_allclose(y, net(*inputs).detach(), rtol=1e-5, atol=1e-6)
    with pytest.raises(executorch_c.InvalidExternalDataError, match="nested program.*data_path="):
        method(outer)


def test_unregistered_backend_is_named_with_the_registered_ones(sin_pte: bytes) -> None:
    def rename(program: Program) -> None:
        program.execution_plan[0].delegates[0].id = "NoSuchBackend"

    with pytest.raises(executorch_c.NotFoundError) as info:
        method(edited(sin_pte, rename))
    for name in ("NoSuchBackend", COMPILER, EXECUTOR):
        assert name in str(info.value)


def test_wrong_version(sin_pte: bytes) -> None:
    pte = payload_changed(sin_pte, b"version:0", b"version:7")
    error = executorch_c.DelegateInvalidCompatibilityError
    with pytest.raises(error, match="version 7.*version 0"):
        method(pte)


BROKEN = {
    "empty": b"",
    "no number": b"version:0#",
    "negative": b"-1version:0#",
    "no operators": b"1version:0#",
    "too many announced": b"999999999999version:0#op:demo::aten.sin.default, numel:1, dtype",
    "number too long": b"1" * 30 + b"version:0#",
    "cut": b"1version:0#op:demo::aten.sin.default, numel:1, dtype:torch.float32<debug_hand",
    "more behind": b"1#op:demo::aten.sin.default, numel:1, dtype:torch.float32<debug_handle>1#x",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_payload(sin_pte: bytes, name: str) -> None:
    def replace(program: Program) -> None:
        program.backend_delegate_data[0].data = BROKEN[name]

    with pytest.raises(executorch_c.InvalidProgramError, match="expected"):
        method(edited(sin_pte, replace))


def with_linear() -> bytes:
    program = torch.export.export(nn.Linear(3, 4), seeded((2, 3)))
    edge = to_edge_transform_and_lower(program, partitioner=[NonDecompTestPartitioner()])
    return edge.to_executorch().buffer


def ambiguous() -> bytes:
    inputs = seeded((2, 2), (2, 2), (2, 2))
    return lowered(lambda a, b, c: torch.mm(c, torch.mm(a, b)), inputs).buffer()


def of_float64() -> bytes:
    return lowered(torch.sin, (torch.ones(2, dtype=torch.float64),)).buffer()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (with_linear, "aten.linear.default"),
        (ambiguous, "inputs of aten.mm.default.*are ambiguous"),
        (of_float64, "torch.float64.*torch.float32"),
    ],
)
def test_what_is_not_supported_is_named(make: Callable[[], bytes], match: str) -> None:
    with pytest.raises(executorch_c.NotSupportedError, match=match):
        method(make())


def test_compile_spec_out_of_range() -> None:
    for value in (bytes([5]), bytes([0, 0, 0, 1]), b"\x01" * 20):
        pte = lowered(torch.sin, SIN_INPUTS, [CompileSpec("max_value", value)]).buffer()
        with pytest.raises(executorch_c.InvalidArgumentError, match="max_value.*at most 4"):
            method(pte)


def delegate_call(program: Program) -> Any:
    return program.execution_plan[0].chains[0].instructions[0].instr_args


def drop(program: Program) -> None:
    delegate_call(program).args.pop()


def to_int(program: Program) -> None:
    program.execution_plan[0].values[0].val.scalar_type = ScalarType.INT


def add_int(program: Program) -> None:
    program.execution_plan[0].values.append(EValue(Int(4)))
    delegate_call(program).args[0] = 2


def grow(program: Program) -> None:
    plan = program.execution_plan[0]
    for value in plan.values:
        value.val = dataclasses.replace(value.val, sizes=[4])
    plan.non_const_buffer_sizes = [0, 64]


def grow_output(program: Program) -> None:
    program.execution_plan[0].values[1].val.sizes = [2]


ONE = np.ones(1, np.float32)
WRONG_ARGUMENTS = [
    (drop, ONE, executorch_c.InvalidArgumentError, "1 arguments, expected 2"),
    (to_int, np.ones(1, np.int32), executorch_c.InvalidArgumentError, "argument 0.*dtype"),
    (add_int, ONE, executorch_c.InvalidArgumentError, "argument 0.*expected a tensor"),
    (grow, np.ones(4, np.float32), executorch_c.NotSupportedError, "4 elements, compiled for 1"),
    (grow_output, ONE, executorch_c.NotSupportedError, ""),
]


@pytest.mark.parametrize(("edit", "x", "error", "match"), WRONG_ARGUMENTS)
def test_wrong_arguments(
    sin_pte: bytes, edit: Any, x: np.ndarray, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        method(edited(sin_pte, edit)).execute([x])


def test_output_that_is_an_input(sin_pte: bytes) -> None:
    """A hostile program may pass the caller's array as an output; it is never written."""

    def alias(program: Program) -> None:
        delegate_call(program).args[1] = delegate_call(program).args[0]

    x = np.full(1, 0.5, np.float32)
    with pytest.raises(executorch_c.InvalidProgramError, match="output"):
        method(edited(sin_pte, alias)).execute([x])
    assert x[0] == 0.5


def test_arguments_that_share_a_tensor(sin_pte: bytes) -> None:
    """Input and output of the delegate are the same tensor; it is read completely before it is
    written."""

    def alias(program: Program) -> None:
        delegate_call(program).args[0] = delegate_call(program).args[1]

    [y] = run(edited(sin_pte, alias), SIN_INPUTS)
    np.testing.assert_array_equal(y, [0])


def doubling(count: int) -> bytes:
    """Return a program whose output has twice the elements of its input."""
    plan = Plan()
    x, y = plan.input((count,), dynamism=1), plan.output((2 * count,), dynamism=1)
    plan.call("aten::cat.out", [x, x], 0, y)
    return build(plan)


@pytest.mark.parametrize("times", [1, 2])
def test_output_that_is_an_input_keeps_its_shape(times: int) -> None:
    """Arguments that share a tensor are not resized while they are read."""
    plan = Plan()
    x = plan.input((8,), dynamism=1)
    both, other = plan.tensor((8,), dynamism=1), plan.tensor((8,), dynamism=1)
    plan.call("aten::mul.Scalar_out", x, 1.0, both)
    number = plan.delegate("ExecutorBackend", 0)
    (target,) = plan.take(both if times == 2 else other)
    plan.append(schema.DelegateCall(number, [both, target]))
    loaded = method(build(plan, payloads=[doubling(8)]))
    three = np.arange(3, dtype=np.float32)
    if times == 1:
        np.testing.assert_array_equal(loaded(three), [*three, *three])
        return
    with pytest.raises(executorch_c.InvalidProgramError, match="another argument, too"):
        loaded(three)
    assert loaded(three[:0]).shape == (0,)
