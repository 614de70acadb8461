"""Memory of tensors: planned or not, shared addresses, views without an instruction, alignment,
dynamic and unbound shapes, and the caller's arrays."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir import schema
from executorch.exir._serialize._program import deserialize_pte_binary
from torch import Tensor

import executorch_c
from executorch_c import InvalidArgumentError, InvalidProgramError
from executorch_c.testing import compare
from tests.exports import Fn, export
from tests.plans import BOUNDED, UNBOUND, Constants, Plan, build, edited, load, reference

ONES = np.ones(4, np.float32)


def check(source: Any, *inputs: Any, official: bool = True, **options: Any) -> executorch_c.Method:
    """Export, run twice, and compare with eager and the reference; inputs must not change."""
    pte = export(source, *inputs, **options)
    method = load(pte)
    module = source if isinstance(source, torch.nn.Module) else Fn(source)
    arrays = [x.numpy().copy() if isinstance(x, Tensor) else x for x in inputs]
    kept = [np.copy(x) for x in arrays]
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(module(*inputs))
    for _ in range(2):
        results = method.execute(arrays)
        assert len(results) == len(wanted)
        for a, b in zip(results, wanted, strict=True):
            if isinstance(b, Tensor):
                assert a.shape == tuple(b.shape)
                np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-5, atol=1e-6)
                a.fill(0)  # it is the caller's
            else:
                assert a == b
    for a, b in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(a, b)
    if official:
        outcome = reference(pte, *kept)
        assert outcome.outputs is not None, outcome
        for a, b in zip(outcome.outputs, wanted, strict=True):
            if isinstance(b, Tensor):
                np.testing.assert_allclose(a, b.detach(), rtol=1e-5, atol=1e-6)
            else:
                assert a == b
    return method


X = torch.arange(6.0).reshape(2, 3)


# ---- inputs and outputs of exported programs -------------------------------------------------


@pytest.mark.parametrize("inputs", [False, True])
@pytest.mark.parametrize("outputs", [False, True])
def test_planned_or_not(inputs: bool, outputs: bool) -> None:
    planning = {"alloc_graph_input": inputs, "alloc_graph_output": outputs}
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Sigmoid())
    method = check(net, X, official=outputs, planning=planning)
    assert method.metadata.input_tensor_meta(0).is_memory_planned() == inputs
    assert method.metadata.output_tensor_meta(0).is_memory_planned() == outputs


@pytest.mark.parametrize("alignment", [16, 64, 4096])
def test_exported_alignment(alignment: int) -> None:
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a", torch.zeros(3))
            self.register_buffer("b", torch.zeros(5))

        def forward(self, x: Tensor) -> Tensor:
            self.a += x[:3]
            self.b += x
            return self.b.sin() + self.a.sum()

    x = torch.arange(5.0)
    pte = export(Two(), x, planning={"alignment": alignment}, emit_mutable_buffer_names=True)
    method = load(pte)
    module = Two()
    for _ in range(3):
        np.testing.assert_allclose(method(x.numpy()), module(x).numpy(), rtol=1e-5)
    for name in ("a", "b"):
        assert method.get_attribute(name).ctypes.data % alignment == 0


@pytest.mark.parametrize("offset", [16, 64, 256, 4096, 3 * 4096])
def test_addresses_keep_the_alignment_of_offsets(offset: int) -> None:
    """Two arenas, each aligned to the largest power of two that divides all its offsets (up to a
    page)."""
    plan = Plan()
    for memory, step in ((1, offset), (2, 16)):
        for i in range(3):
            plan.tensor((4,), at=(memory, i * step), name=f"{memory}.{i}")
    plan.take(1)
    method = load(build(plan))
    for i in range(3):
        for memory, step in ((1, offset), (2, 16)):
            address = method.get_attribute(f"{memory}.{i}").ctypes.data
            assert address % min(step & -step, 4096) == 0


def test_outputs_that_use_the_memory_of_inputs() -> None:
    """The planner reuses a dead input's memory for later values, but not the caller's array."""

    def run(x: Tensor) -> Tensor:
        y = x + 1
        y = y * 2
        return (y - 3).exp()

    pte = export(run, X)
    values = deserialize_pte_binary(pte).program.execution_plan[0].values
    tensors = [value.val for value in values if isinstance(value.val, schema.Tensor)]
    offsets = [t.allocation_info.memory_offset_low for t in tensors if t.allocation_info]
    assert len(set(offsets)) < len(offsets)
    check(run, X)


SOURCES: dict[str, Callable[[Tensor], Any]] = {
    "input as output": lambda x: (x, x + 1),
    "only the input": lambda x: x,
    "same output twice": lambda x: (lambda y: (y, y))(x * 2),
    "input twice": lambda x: (x, x, x + 1),
    "view of the input": lambda x: (x.view(-1), x + 1),
    "used view of the input": lambda x: x.view(3, 2) @ x,
    "view of a view": lambda x: x.view(-1).view(3, 2) + 1,
    "output and its view": lambda x: (lambda y: (y, y.view(-1), y.view(3, 2)))(x + 1),
    "only a view of a result": lambda x: (x + 1).view(6),
    "view and later use": lambda x: (lambda y: (y.view(6) * 2, y - 1))(x.exp()),
    "constant output": lambda x: (x + 1, torch.ones(2)),
    "only constants": lambda x: (torch.arange(3.0), 7, None, 0.5, True),
    "unused input": lambda x: torch.zeros(2, 2) + 1,
    "slices": lambda x: (x[:1], x[:, 1:], x[1]),
    "0-d": lambda x: (x.sum(), x[0, 1], x.sum().view(1, 1)),
    "squeezes": lambda x: (x.unsqueeze(0), x[:1].squeeze(0), x.unsqueeze(1).squeeze(1)),
}


NOTHING_PLANNED = {"alloc_graph_input": False, "alloc_graph_output": False}
UNPLANNED = [
    *("only the input", "view of the input", "output and its view", "only a view of a result"),
    *("unused input", "same output twice"),
]
ALIASES: list[tuple[str, dict[str, Any]]] = [
    *((case, {}) for case in SOURCES),
    *((case, {"official": False, "planning": NOTHING_PLANNED}) for case in UNPLANNED),
    ("used view of the input", {"remove_view_copy": False}),
    ("view and later use", {"remove_view_copy": False}),
]


@pytest.mark.parametrize("case, options", ALIASES)
def test_aliases(case: str, options: dict[str, Any]) -> None:
    check(SOURCES[case], X.clone(), **options)


def test_constant_outputs() -> None:
    """A constant of the file, and a view of one: outputs are writable copies."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return self.weight, self.weight.view(6), x + self.weight

    check(Net(), X, official=False)


def test_results_written_in_place() -> None:
    """run_reinplace_pass: kernels overwrite their inputs."""

    def run(x: Tensor, i: Tensor) -> Tensor:
        y = torch.index_put(x + 1, (i,), x[:1])
        return torch.index_put(y.exp(), (i,), x[:1]) * 2

    check(run, X, torch.tensor([1]), run_reinplace_pass=True)


def test_in_place_program_does_not_write_to_the_callers_array() -> None:
    """aten::copy_ on an input."""
    for planned in (True, False):
        plan = Plan()
        x, y = plan.input((4,), **({} if planned else {"at": None})), plan.output((4,))
        plan.call("aten::add.out", x, x, 1, y)
        plan.call("aten::copy_", x, y, False, returns=[x])
        plan.take(x)
        method = load(build(plan))
        value = ONES.copy()
        np.testing.assert_array_equal(method(value), [2 * ONES, 2 * ONES])
        np.testing.assert_array_equal(value, ONES)


@pytest.mark.parametrize("last", ["read", "read as a view", "an output"])
def test_an_input_whose_memory_is_overwritten_before_its_last_use(last: str) -> None:
    """Planned by hand: results are those of a copied input, although it could be used in place."""
    plan = Plan()
    x, y, z = plan.input((4,), at=0), plan.tensor((4,), at=0), plan.output((4,))
    other = x if last == "read" else y
    if last == "read as a view":
        other = plan.tensor((4,), at=0)
        plan.call("executorch_prim::et_view.default", x, [4], other)
    plan.call("aten::add.out", x, x, 1, y)
    plan.call("aten::add.out", y, other, 1, z)
    if last == "an output":
        plan.take(x)
    found = load(build(plan)).execute([ONES])
    np.testing.assert_array_equal(found, [4 * ONES, 2 * ONES][: len(found)])
    np.testing.assert_array_equal(found, reference(build(plan), ONES).outputs)


def test_an_output_that_is_read_before_it_is_written() -> None:
    """It starts with zeros, not with the contents of the caller's array."""
    plan = Plan()
    x, y = plan.input((4,)), plan.output((4,), at=None)
    plan.call("aten::add.out", x, y, 1, y)
    memory = 7 * ONES
    assert load(build(plan)).execute([ONES], out=[memory])[0] is memory
    np.testing.assert_array_equal(memory, ONES)


@pytest.mark.parametrize("offset", [0, 8, 16])
def test_kernel_whose_out_overlaps_its_input(offset: int) -> None:
    """Planned by hand in one place: the caller's array is not modified."""
    plan = Plan()
    x = plan.input((4,), at=0)
    plan.call("aten::add.out", x, x, 1, plan.output((4,), at=offset))
    method = load(build(plan))
    value = ONES.copy()
    result = method(value)
    np.testing.assert_array_equal(value, ONES)
    if offset in (0, 16):
        np.testing.assert_array_equal(result, 2 * ONES)


# ---- dynamic shapes --------------------------------------------------------------------------

SIZES = (5, 1, 8, 3, 0, 8, 2)
"""Within the bounds, as 0 is."""


def chain(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.cat([x, x * 2], 0).exp()
    return (y.reshape(-1) - 1).abs(), y.sum(0)


DYNAMIC = (({0: torch.export.Dim("n", min=1, max=8)},),)


@cache
def dynamic_pte() -> bytes:
    """Return a program with bounded shapes, exported once."""
    return export(chain, torch.randn(4, 3), dynamic_shapes=DYNAMIC)


def compare_sizes(method: executorch_c.Method, sizes: tuple[int, ...]) -> None:
    for n in sizes:
        x = torch.randn(n, 3)
        for output, wanted in zip(method.execute([x.numpy()]), chain(x), strict=True):
            assert output.shape == tuple(wanted.shape)
            assert compare(output, wanted).verdict != "differ", compare(output, wanted)


@pytest.mark.parametrize("kernels", ["default", "reference"])
def test_bounded_shapes(kernels: str) -> None:
    method = load(dynamic_pte(), kernels=kernels)
    compare_sizes(method, SIZES)
    info = method.metadata.input_tensor_meta(0)
    assert (info.sizes(), info.is_dynamic) == ((8, 3), True)
    for shape in ((9, 3), (2, 2, 3), (3,)):
        with pytest.raises(executorch_c.Error, match="input 0"):
            method(np.ones(shape, np.float32))
    compare_sizes(method, SIZES)


def test_only_the_number_of_elements_is_bounded() -> None:
    """As in the reference: (2, 12) fits where (8, 3) does."""
    plan = Plan()
    x, y = plan.input((8, 3), dynamism=BOUNDED), plan.output((8, 3), dynamism=BOUNDED)
    plan.call("aten::add.out", x, x, 1, y)
    pte = build(plan)
    value = np.arange(24, dtype=np.float32).reshape(2, 12)
    np.testing.assert_array_equal(load(pte)(value), 2 * value)
    np.testing.assert_array_equal(reference(pte, value).outputs, [2 * value])


def unbound(program: schema.Program, planned: bool = False) -> None:
    """Make every dynamic tensor DYNAMIC_UNBOUND, which the exporter cannot write yet."""
    for value in program.execution_plan[0].values:
        if isinstance(value.val, schema.Tensor) and value.val.shape_dynamism:
            value.val.shape_dynamism = schema.TensorShapeDynamism(UNBOUND)
            if not planned:
                value.val.allocation_info = None


@pytest.mark.parametrize("planned", [False, True])
def test_unbound_shapes(planned: bool) -> None:
    """They grow beyond every size in the file."""
    pte = edited(dynamic_pte(), lambda program: unbound(program, planned))
    method = load(pte)
    compare_sizes(method, (*SIZES, 100, 3, 20_000, 1, 9))
    assert method.memory()["heap"] > 0
    method.reset()
    compare_sizes(method, SIZES)
    assert reference(pte, np.ones((2, 3), np.float32)).outputs is None  # not supported there


def test_heap_memory_is_given_back_by_reset() -> None:
    method = load(edited(dynamic_pte(), unbound))
    compare_sizes(method, (50_000,))
    high = method.memory()["heap"]
    method.reset()
    assert method.memory()["heap"] < high // 4


def test_freed_tensors() -> None:
    """FreeCall releases memory until the end of the call; a later write needs new memory."""

    def free_all(program: schema.Program) -> None:
        unbound(program)
        plan = program.execution_plan[0]
        code = plan.chains[0].instructions
        free = [
            i
            for i, value in enumerate(plan.values)
            if isinstance(value.val, schema.Tensor)
            and value.val.shape_dynamism
            and i not in plan.inputs
            and i not in plan.outputs
        ]
        code.extend(schema.Instruction(schema.FreeCall(i)) for i in free)

    compare_sizes(load(edited(dynamic_pte(), free_all)), (*SIZES, 300, 2))


def test_use_after_free() -> None:
    plan = Plan()
    x, a = plan.input((4,)), plan.tensor((4,), at=None, dynamism=UNBOUND)
    plan.call("aten::add.out", x, x, 1, a)
    plan.free(a)
    plan.call("aten::add.out", x, a, 1, plan.output((4,)))
    method = load(build(plan))
    for _ in range(2):
        with pytest.raises(executorch_c.InvalidStateError, match="'other' has no data yet"):
            method(ONES)
    plan = Plan()
    x = plan.input((4,))
    y = plan.output((4,))
    plan.free(y)
    plan.call("aten::add.out", x, x, 1, y)
    method = load(build(plan))
    for _ in range(2):
        with pytest.raises(executorch_c.Error, match="no storage|no data"):
            method(ONES)


def test_a_freed_input_is_there_again_in_the_next_call() -> None:
    for at in (0, None):
        plan = Plan()
        x = plan.input((4,), at=at)
        plan.call("aten::add.out", x, x, 1, plan.output((4,)))
        plan.free(x)
        method = load(build(plan))
        for i in range(3):
            np.testing.assert_array_equal(method(i * ONES), 2 * i * ONES)


# ---- small things ----------------------------------------------------------------------------


def test_empty_and_0d_tensors() -> None:
    for shape in ((), (0,), (0, 3), (3, 0, 2), (1, 1)):
        for at in (0, None):
            plan = Plan()
            x = plan.input(shape, at=at)
            plan.call("aten::add.out", x, x, 1, plan.output(shape, at=at and 64))
            pte = build(plan)
            value = np.full(shape, 3, np.float32)
            result = load(pte)(value)
            assert result.shape == shape
            np.testing.assert_array_equal(result, 2 * value)


@pytest.mark.parametrize("sizes", [[], [0], [0, 0], [0, 0, 0, 0]])
def test_zero_size_arenas(sizes: list[int]) -> None:
    plan = Plan()
    x, y = plan.input((4,), at=None), plan.output((4,), at=None)
    plan.call("aten::add.out", x, x, 1, y)
    plan.plan.non_const_buffer_sizes = sizes
    pte = build(plan)
    np.testing.assert_array_equal(load(pte)(ONES), 2 * ONES)
    x = plan.input((0, 4), at=(len(sizes) or 1, 0))
    plan.plan.non_const_buffer_sizes = sizes
    if len(sizes) > 1:
        plan.plan.values[x].val.allocation_info.memory_id = 1
        method = load(build(plan))
        np.testing.assert_array_equal(method(ONES, np.ones((0, 4), np.float32)), 2 * ONES)
    else:
        with pytest.raises(executorch_c.Error, match="memory id"):
            load(build(plan))


def test_many_arenas() -> None:
    plan = Plan()
    x = plan.input((4,))
    for memory in range(2, 40):
        y = plan.tensor((4,), at=(memory, 16))
        plan.call("aten::add.out", x, x, 1, y)
        x = y
    plan.take(x)
    method = load(build(plan))
    np.testing.assert_array_equal(method(np.zeros(4, np.float32)), np.zeros(4))
    np.testing.assert_array_equal(method(ONES), 2.0**38 * ONES)


CUDA = schema.DeviceType.CUDA


@pytest.mark.parametrize(
    "field, value, message",
    [
        ("extra_tensor_info", schema.ExtraTensorInfo(device_type=CUDA), "only.*CPU"),
        ("non_const_buffer_device", [schema.NonConstBufferDevice(1, CUDA, 0)], "only.*CPU"),
        ("storage_offset", 4, "storage_offset 4"),
    ],
)
def test_memory_elsewhere(field: str, value: Any, message: str) -> None:
    """On another device, or after the first bytes of a storage."""
    plan = Plan()
    plan.take(plan.input((4,)))
    tensor = plan.plan.values[0].val
    setattr(tensor if hasattr(tensor, field) else plan.plan, field, value)
    with pytest.raises(executorch_c.NotSupportedError, match=message):
        load(build(plan))


def test_constants_beyond_their_segment() -> None:
    constants = Constants()
    plan = Plan()
    c = plan.constant(constants, ONES)
    plan.take(c)
    np.testing.assert_array_equal(load(build(plan, constants=constants)).execute([]), [ONES])
    plan.plan.values[c].val.sizes = [5]
    with pytest.raises(InvalidProgramError):
        load(build(plan, constants=constants))
    plan.plan.values[c].val.sizes = [4]
    plan.plan.values[c].val.data_buffer_idx = 2
    with pytest.raises(InvalidProgramError, match="2"):
        load(build(plan, constants=constants))


# ---- out= ------------------------------------------------------------------------------------


def doubling(**options: Any) -> executorch_c.Method:
    plan = Plan()
    x = plan.input((2, 3), **options)
    plan.call("aten::mul.Scalar_out", x, 2.0, plan.output((2, 3), **options))
    return load(build(plan))


VALUE = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("planned", [True, False])
def test_out_is_written_and_comes_back(planned: bool) -> None:
    method = doubling(**({} if planned else {"at": None}))
    for out in (
        np.empty((2, 3), np.float32),
        np.empty((2, 3), np.float32, order="F"),
        np.empty((4, 6), np.float32)[::2, ::-2],
        np.frombuffer(bytearray(25), np.uint8)[1:].view(np.float32).reshape(2, 3),
    ):
        out.fill(-1)
        assert method(VALUE, out=out) is out
        np.testing.assert_array_equal(out, 2 * VALUE)
        assert method.execute([VALUE], out=[out])[0] is out


def test_other_outs_are_not_touched() -> None:
    whole = np.full((6, 3), -1, np.float32)
    doubling()(VALUE, out=whole[2:4])
    np.testing.assert_array_equal(whole[2:4], 2 * VALUE)
    np.testing.assert_array_equal(whole[[0, 1, 4, 5]], -1)


@pytest.mark.parametrize("planned", [True, False])
def test_out_may_be_an_input(planned: bool) -> None:
    method = doubling(**({} if planned else {"at": None}))
    memory = np.arange(12, dtype=np.float32)
    for begin in range(4):
        source = memory[:6].reshape(2, 3)
        wanted = 2 * source
        out = memory[begin : begin + 6].reshape(2, 3)
        np.testing.assert_array_equal(method(source, out=out), wanted)
    turned = np.arange(9, dtype=np.float32).reshape(3, 3)
    wanted = 2 * turned[:2]
    np.testing.assert_array_equal(method(turned[:2], out=turned.T[:2]), wanted)


def test_one_array_as_two_outputs() -> None:
    """The last output wins, as when NumPy copies in order."""
    plan = Plan()
    x = plan.input((4,))
    plan.call("aten::mul.Scalar_out", x, 2.0, plan.output((4,)))
    plan.call("aten::mul.Scalar_out", x, 3.0, plan.output((4,)))
    method = load(build(plan))
    out = np.empty(4, np.float32)
    first, second = method(ONES, out=[out, out])
    assert first is out and second is out
    np.testing.assert_array_equal(out, 3 * ONES)
    first, second = method(ONES, out=[None, out])
    np.testing.assert_array_equal(first, 2 * ONES)


def test_out_of_dynamic_shape() -> None:
    plan = Plan()
    x, y = plan.input((8,), dynamism=BOUNDED), plan.output((8,), dynamism=BOUNDED)
    plan.call("aten::add.out", x, x, 1, y)
    method = load(build(plan))
    for n in (8, 3):
        out = np.empty(n, np.float32)
        assert method(np.ones(n, np.float32), out=out) is out
        np.testing.assert_array_equal(out, 2 * np.ones(n))
    with pytest.raises(InvalidArgumentError, match=r"\(3,\).*\(4,\)|\(4,\).*\(3,\)"):
        method(ONES, out=np.empty(3, np.float32))


WRONG = {
    "dtype": np.empty((2, 3), np.float64),
    "shape": np.empty((3, 2), np.float32),
    "rank": np.empty(6, np.float32),
    "read-only": np.frombuffer(bytes(24), np.float32).reshape(2, 3),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_out(case: str) -> None:
    with pytest.raises(InvalidArgumentError, match="out 0"):
        doubling()(VALUE, out=WRONG[case])
    with pytest.raises((InvalidArgumentError, TypeError)):
        doubling()(VALUE, out=[WRONG[case], None])


def test_outputs_of_a_list_cannot_be_lent() -> None:
    plan = Plan()
    x = plan.input((4,))
    plan.take([x, x], 5)
    method = load(build(plan))
    with pytest.raises(executorch_c.Error, match="out 0"):
        method(ONES, out=[ONES.copy(), None])
    items, five = method(ONES, out=[None, None])
    np.testing.assert_array_equal(items, [ONES, ONES])
    assert five == 5


def test_views_of_an_output_use_the_callers_array() -> None:
    """A second output over the memory of the first, without an instruction between them."""
    plan = Plan()
    x = plan.input((2, 2))
    plan.call("aten::mul.Scalar_out", x, 2.0, plan.output((2, 2), at=64))
    plan.output((4,), at=64)
    method = load(build(plan))
    for value in (1, 2):
        out = np.empty((2, 2), np.float32)
        first, second = method(np.full((2, 2), value, np.float32), out=[out, None])
        np.testing.assert_array_equal(first, np.full((2, 2), 2 * value))
        np.testing.assert_array_equal(second, np.full(4, 2 * value))
