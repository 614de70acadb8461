"""Mutable buffers: kept between calls, initialised, reset, copied, shared, read and written
by name.

long: all that concerns state
"""

import copy
import gc
import resource
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch import Tensor

import executorch_c
from executorch_c import InvalidArgumentError, InvalidStateError, NotFoundError, Runtime
from executorch_c.testing import compare
from tests.alone import alone
from tests.at_once import run_all
from tests.exports import export
from tests.models import zoo
from tests.plans import BOUNDED, Constants, Plan, V, build, load, reference

ONES = np.ones(4, np.float32)


class Counter(torch.nn.Module):
    """Adds its input to a buffer and returns twice the sum so far."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.register_buffer("total", start)

    def forward(self, x: Tensor) -> Tensor:
        self.total += x
        return self.total * 2.0


def steps(module: torch.nn.Module, values: list[np.ndarray]) -> list[np.ndarray]:
    """Return eager's outputs; the module itself does not change."""
    module = copy.deepcopy(module)
    return [module(torch.from_numpy(value)).numpy() for value in values]


VALUES = [np.arange(4, dtype=np.float32) * k for k in (1, -2, 3, 0)]
X = torch.from_numpy(VALUES[0])


@cache
def counter(named: bool = False, planned: bool = True) -> bytes:
    """Return the program of a counter that starts from zeros, exported once."""
    planning = {"alloc_mutable_buffers": planned}
    return export(Counter(torch.zeros(4)), X, planning=planning, emit_mutable_buffer_names=named)


SUMS = steps(Counter(torch.zeros(4)), VALUES)


@pytest.mark.parametrize("initial", [False, True])
def test_buffers_are_kept_between_calls_until_a_reset(initial: bool) -> None:
    module = Counter(torch.arange(4.0) if initial else torch.zeros(4))
    pte = export(module, X, passes=[InitializedMutableBufferPass(["total"])] * initial)
    method, wanted = load(pte), steps(module, VALUES)
    for calls in (3, 1, 4):
        np.testing.assert_array_equal([method(v) for v in VALUES[:calls]], wanted[:calls])
        method.reset()
    outcome = reference(pte, calls=[("forward", [value]) for value in VALUES])
    np.testing.assert_array_equal([outputs[0] for outputs in outcome.every or []], wanted)


def test_initial_values_that_are_not_in_the_file_are_zeros() -> None:
    """The default export drops them; both runtimes start from zeros."""
    pte = export(Counter(torch.arange(4.0)), X)
    np.testing.assert_array_equal(load(pte)(ONES), 2 * ONES)
    np.testing.assert_array_equal(reference(pte, ONES).outputs, [2 * ONES])


def test_initial_values_of_several_dtypes() -> None:
    """Neither the offsets nor the sizes in the segment are aligned."""

    class Mixed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("flags", torch.tensor([True, False, True]))
            self.register_buffer("count", torch.tensor(41))
            self.register_buffer("mean", torch.tensor([0.5, -2.0], dtype=torch.float64))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            self.flags.logical_not_()
            self.count += 1
            self.mean += x
            return self.flags.clone(), self.count + 0, self.mean * 1.0

    module = Mixed()
    x = torch.ones(2, dtype=torch.float64)
    names = ["flags", "count", "mean"]
    pte = export(module, x, passes=[InitializedMutableBufferPass(names)])
    method = load(pte)
    for _ in range(3):
        for output, wanted in zip(method.execute([x.numpy()]), module(x), strict=True):
            np.testing.assert_array_equal(output, wanted.numpy())
            assert output.dtype == wanted.numpy().dtype


def test_initial_values_outside_the_segment() -> None:
    constants = Constants()
    plan = Plan()
    buffer = constants.add_mutable(ONES)
    plan.take(plan.tensor((4,), buffer=buffer))
    pte = build(plan, constants=constants)
    np.testing.assert_array_equal(load(pte).execute([]), [ONES])
    plan.plan.values[0].val.data_buffer_idx = 2
    with pytest.raises(executorch_c.InvalidProgramError, match="2"):
        load(build(plan, constants=constants))
    plan.plan.values[0].val.data_buffer_idx = 1
    with pytest.raises(executorch_c.InvalidProgramError, match="mutable_data_segments"):
        load(build(plan))


def test_programs_do_not_share_state() -> None:
    first, second = load(counter()), load(counter())
    first(ONES)
    np.testing.assert_array_equal(second(ONES), 2 * ONES)
    np.testing.assert_array_equal(first(ONES), 4 * ONES)


# ---- attributes ------------------------------------------------------------------------------


def test_attributes_by_name() -> None:
    method = load(counter(named=True))
    assert method.attribute_names == ("total",)
    assert method.metadata.num_attributes() == 1
    info = method.metadata.attribute_tensor_meta(0)
    assert (info.name, info.sizes()) == ("total", (4,))
    state = method.get_attribute("total")
    np.testing.assert_array_equal(state, 0 * ONES)
    method(3 * ONES)
    np.testing.assert_array_equal(state, 3 * ONES)  # the method's own memory
    state[:] = 7
    np.testing.assert_array_equal(method(ONES), 16 * ONES)
    method.set_attribute("total", np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(method(ONES), [2, 4, 6, 8])
    method.set_attribute("total", np.arange(8, dtype=np.float32)[::-2])
    np.testing.assert_array_equal(method(0 * ONES), [14, 10, 6, 2])
    method.reset()
    np.testing.assert_array_equal(state, 0 * ONES)


def test_attributes_are_checked() -> None:
    method = load(counter(named=True))
    method(ONES)
    with pytest.raises(NotFoundError, match="'nope'.*total"):
        method.get_attribute("nope")
    with pytest.raises(NotFoundError, match="'nope'.*total"):
        method.set_attribute("nope", ONES)
    for wrong in (ONES[:3], ONES.reshape(2, 2), ONES.astype(np.float64), np.float32(1)):
        with pytest.raises(InvalidArgumentError, match="attribute 'total'"):
            method.set_attribute("total", wrong)
    np.testing.assert_array_equal(method.get_attribute("total"), ONES)


def test_programs_without_names_have_no_attributes() -> None:
    method = load(counter())
    assert method.attribute_names == ()
    with pytest.raises(NotFoundError):
        method.get_attribute("total")


def test_an_attribute_outlives_its_method() -> None:
    method = load(counter(named=True))
    method(5 * ONES)
    state = method.get_attribute("total")
    del method
    gc.collect()
    np.testing.assert_array_equal(state, 5 * ONES)
    state += 1
    np.testing.assert_array_equal(state, 6 * ONES)


def test_a_constant_with_a_name_is_read_only() -> None:
    constants = Constants()
    plan = Plan()
    c = plan.constant(constants, ONES, name="weight")
    plan.call("aten::add.out", plan.input((4,)), c, 1, plan.output((4,)))
    pte = build(plan, constants=constants)
    method = load(pte)
    weight = method.get_attribute("weight")
    np.testing.assert_array_equal(weight, ONES)
    assert not weight.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        weight.flags.writeable = True
    with pytest.raises(InvalidStateError, match="attribute 'weight' is a constant"):
        method.set_attribute("weight", ONES)


def test_buffers_without_planned_memory() -> None:
    """alloc_mutable_buffers=False: the file has a name but no place."""
    method = load(counter(named=True, planned=False))
    assert method.attribute_names == ("total",)
    for _ in range(2):
        np.testing.assert_array_equal([method(value) for value in VALUES], SUMS)
        method.set_attribute("total", ONES)
        np.testing.assert_array_equal(method(ONES), 4 * ONES)
        method.reset()


def test_buffers_without_planned_memory_in_a_program_without_arenas() -> None:
    plan = Plan()
    state = plan.tensor((4,), at=None, name="state")
    x, y = plan.input((4,), at=None), plan.output((4,), at=None)
    plan.call("aten::add.out", state, x, 1, y)
    plan.call("aten::copy_", state, y, False, returns=[state])
    for sizes in ([], [0], [0, 0]):
        plan.plan.non_const_buffer_sizes = sizes
        method = load(build(plan))
        for i in range(1, 4):
            np.testing.assert_array_equal(method(ONES), i * ONES)
        assert method.memory()["planned"] == 0


# ---- shared between methods ------------------------------------------------------------------


def methods_of(pte: bytes, *names: str, **options: Any) -> list[executorch_c.Method]:
    """Load methods of one program, in this order."""
    loaded = Runtime.get().load_program(pte)
    return [loaded.load_method(name, **options) for name in names]


def test_shared_buffers() -> None:
    """Two methods over one buffer, planned with share_mutable_buffers=True."""
    exported = zoo.load("shared_state")
    methods = methods_of(exported.pte, *exported.calls)
    total = np.zeros(4, np.float32)
    for i, (name, method) in enumerate([*zip(exported.calls, methods)] * 3):
        x = exported.calls[name][i % 2].inputs[0]
        total += x
        np.testing.assert_allclose(method(x), total, rtol=1e-6)
    memory = methods[0].memory()
    assert memory["planned"] > memory["shared"] > 0
    methods[0].reset()
    np.testing.assert_array_equal(methods[1](ONES), ONES)


def test_without_the_option_nothing_is_shared() -> None:
    exported = zoo.load("shared_state")
    loaded = Runtime.get().load_program(exported.pte, share_mutable_buffers=False)
    for name in exported.calls:
        method = loaded.load_method(name)
        np.testing.assert_array_equal(method(ONES), ONES)
        np.testing.assert_array_equal(method(ONES), 2 * ONES)
        assert method.memory()["shared"] == 0


def test_shared_buffers_outlive_the_method_that_made_them() -> None:
    """A second method does not clear what the first has written."""
    exported = zoo.load("shared_state")
    left, right = exported.calls
    loaded = Runtime.get().load_program(exported.pte)
    first = loaded.load_method(left, kernels="reference")
    first(ONES)
    second = loaded.load_method(right)
    del first
    gc.collect()
    np.testing.assert_array_equal(second(ONES), 2 * ONES)


def test_activations_are_never_shared() -> None:
    """Memory 2, which kernels write results to, is not state, even with the option."""
    plans = []
    for name in ("left", "right"):
        plan = Plan(name)
        x, y = plan.input((4,)), plan.tensor((4,), at=(2, 0))
        plan.call("aten::add.out", x, x, 1, y)
        plan.call("aten::add.out", y, x, 1, plan.output((4,)))
        plans.append(plan)
    for method in methods_of(build(*plans), "left", "right"):
        assert method.memory()["shared"] == 0
        np.testing.assert_array_equal(method(ONES), 3 * ONES)


def test_threads_on_shared_buffers() -> None:
    """Methods over shared memory run one at a time: no addition is lost."""
    exported = zoo.load("shared_state")
    methods = methods_of(exported.pte, *exported.calls)

    def run(method: executorch_c.Method) -> None:
        for _ in range(250):
            method(ONES)

    run_all(*(partial(run, method) for method in methods * 2))
    np.testing.assert_array_equal(methods[0](0 * ONES), 1000 * ONES)


def summing(
    name: str, buffer: int, at: int = 0, size: int = 32, count: int = 4, is_kept: bool = True
) -> Plan:
    """Return a method that adds its input to floats at an offset of shared memory, and keeps the
    sum there or returns it only."""
    plan = Plan(name)
    state = plan.tensor((count,), at=(2, at), buffer=buffer)
    x, sum_ = plan.input((count,)), plan.output((count,))
    plan.call("aten::add.out", state, x, 1, sum_)
    if is_kept:
        plan.call("aten::copy_", state, sum_, False, returns=[state])
    plan.plan.non_const_buffer_sizes[2] = size
    return plan


def test_shared_initial_values() -> None:
    constants = Constants()
    buffer = constants.add_mutable(5 * ONES)
    pte = build(summing("left", buffer), summing("right", buffer), constants=constants)
    loaded = Runtime.get().load_program(pte)
    left = loaded.load_method("left")
    np.testing.assert_array_equal(left(ONES), 6 * ONES)
    right = loaded.load_method("right")
    np.testing.assert_array_equal(right(ONES), 7 * ONES)
    right.reset()
    np.testing.assert_array_equal(left(ONES), 6 * ONES)


def two_states() -> bytes:
    """Return two methods, each with its own state in the block that they share."""
    constants = Constants()
    ones, twos = constants.add_mutable(ONES), constants.add_mutable(2 * ONES)
    left, right = (
        summing("left", ones, is_kept=False),
        summing("right", twos, at=16, is_kept=False),
    )
    return build(left, right, constants=constants)


@pytest.mark.parametrize("names", [("left", "right"), ("right", "left")])
def test_initial_values_do_not_depend_on_the_order_of_loading(names: tuple[str, str]) -> None:
    """A reset of either method puts all shared state back."""
    methods = dict(zip(names, methods_of(two_states(), *names)))
    for _ in range(2):
        np.testing.assert_array_equal(methods["left"](0 * ONES), ONES)
        np.testing.assert_array_equal(methods["right"](0 * ONES), 2 * ONES)
        methods[names[0]].reset()


@pytest.mark.parametrize("first", ["left", "right"])
def test_different_initial_values_for_one_place(first: str) -> None:
    """No exporter writes this. The first method of the file wins, in any order of loading."""
    constants = Constants()
    ones, twos = constants.add_mutable(ONES), constants.add_mutable(2 * ONES)
    pte = build(summing("left", ones), summing("right", twos), constants=constants)
    loaded = Runtime.get().load_program(pte)
    loaded.load_method(first)
    for name in ("left", "right"):
        np.testing.assert_array_equal(loaded.load_method(name)(0 * ONES), ONES)


def test_initial_values_after_a_load_that_failed() -> None:
    constants = Constants()
    buffer = constants.add_mutable(5 * ONES)
    name = "state::later.out"
    plan = summing("forward", buffer)
    plan.call(name, V(2), plan.tensor((4,)))
    loaded = Runtime.get().load_program(build(plan, constants=constants))
    with pytest.raises(executorch_c.OperatorMissingError, match=name):
        loaded.load_method("forward")
    executorch_c.register_operator(
        f"{name[:-4]}.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", lambda x: x
    )
    try:
        np.testing.assert_array_equal(loaded.load_method("forward")(0 * ONES), 5 * ONES)
    finally:
        executorch_c.unregister_operator(name)


def test_initial_values_with_an_invalid_method() -> None:
    """A method that cannot be loaded does not affect the others."""
    constants = Constants()
    ones = constants.add_mutable(ONES)
    wrong, right = summing("wrong", 9, at=16), summing("right", ones, is_kept=False)
    pte = build(wrong, right, constants=constants)
    loaded = Runtime.get().load_program(pte)
    for _ in range(2):
        with pytest.raises(executorch_c.InvalidProgramError, match="value 0"):
            loaded.load_method("wrong")
        np.testing.assert_array_equal(loaded.load_method("right")(0 * ONES), ONES)


def test_loading_methods_that_share_state_at_once() -> None:
    pte = two_states()
    for _ in range(20):
        loaded = Runtime.get().load_program(pte)
        outputs: list[tuple[str, np.ndarray]] = []

        def run(name: str, loaded: Any = loaded, outputs: Any = outputs) -> None:
            method = loaded.load_method(name, seed=1)
            outputs.append((name, method(0 * ONES)))

        run_all(*(partial(run, name) for name in ("left", "right") * 4))
        assert len(outputs) == 8
        for name, value in outputs:
            np.testing.assert_array_equal(value, ONES if name == "left" else 2 * ONES)


def test_methods_of_one_size_share_with_other_sizes_present() -> None:
    """In any order of loading: a block has an id and a size."""
    plans = [summing("small", 0, size=16), summing("left", 0), summing("right", 0)]
    small, left, right = methods_of(build(*plans, constants=Constants()), "small", "left", "right")
    np.testing.assert_array_equal(left(ONES), ONES)
    np.testing.assert_array_equal(right(ONES), 2 * ONES)
    np.testing.assert_array_equal(small(ONES), ONES)


def test_reset_of_large_unused_memory() -> None:
    """Pages that no call has written are not touched."""

    def run() -> int:
        plan = Plan()
        plan.take(1)
        plan.plan.non_const_buffer_sizes = [0, 1 << 30, 1 << 30]
        method = load(build(plan))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        method.reset()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert alone(run) < 100_000


def test_reset_of_large_memory_that_is_in_use() -> None:
    plan = Plan()
    state = plan.tensor((3 << 20,), "uint8", at=7, name="state")
    x = plan.input((3 << 20,), "uint8")
    plan.call("aten::copy_", state, x, False, returns=[state])
    plan.plan.non_const_buffer_sizes[1] += 5 << 20
    method = load(build(plan))
    for _ in range(2):
        method(np.full(3 << 20, 9, np.uint8))
        assert (method.get_attribute("state") == 9).all()
        method.reset()
        assert (method.get_attribute("state") == 0).all()


def test_shared_blocks_of_different_sizes() -> None:
    """Blocks are shared only if they have the same size in both methods."""
    pte = build(summing("left", 0, size=16), summing("right", 0, count=8))
    left, right = methods_of(pte, "left", "right")
    wide = np.ones(8, np.float32)
    for i in range(1, 4):
        np.testing.assert_array_equal(left(ONES), i * ONES)
        np.testing.assert_array_equal(right(wide), i * wide)


# ---- failed calls ----------------------------------------------------------------------------


def fragile() -> Plan:
    """Return state += 1, then an instruction that fails unless the input has 4 elements."""
    plan = Plan()
    x = plan.input((8,), dynamism=BOUNDED)
    one, state, sum_ = (plan.tensor((4,)) for _ in range(3))
    plan.call("aten::full.out", [4], 1.0, one)
    plan.call("aten::add.out", state, one, 1, sum_)
    plan.call("aten::copy_", state, sum_, False, returns=[state])
    plan.call("aten::add.out", x, sum_, 1, plan.output((4,)))
    return plan


def test_a_failed_call_keeps_state_written_before_the_failure() -> None:
    method = load(build(fragile()))
    np.testing.assert_array_equal(method(0 * ONES), ONES)
    with pytest.raises(executorch_c.Error, match="instruction 3"):
        method(np.ones(8, np.float32))
    np.testing.assert_array_equal(method(0 * ONES), 3 * ONES)
    method.reset()
    np.testing.assert_array_equal(method(0 * ONES), ONES)


def test_a_rejected_call_changes_nothing() -> None:
    method = load(build(fragile()))
    np.testing.assert_array_equal(method(0 * ONES), ONES)
    for wrong in (ONES.astype(np.float64), np.ones(9, np.float32), ONES.reshape(2, 2), "x", None):
        with pytest.raises(executorch_c.Error, match="input 0"):
            method(wrong)
    with pytest.raises(executorch_c.Error, match="takes 1 input"):
        method()
    np.testing.assert_array_equal(method(0 * ONES), 2 * ONES)


def test_numbers_start_from_the_file_in_every_call() -> None:
    """Also after a call that failed half-way: the counter is not state."""
    plan = Plan()
    x = plan.input((8,), dynamism=BOUNDED)
    count = plan.value(10)
    plan.call("executorch_prim::add.Scalar", count, 1, count)
    plan.call("aten::add.out", x, plan.tensor((4,)), 1, plan.output((4,)))
    plan.take(count)
    method = load(build(plan))
    assert method(ONES)[1] == 11
    with pytest.raises(executorch_c.Error, match="instruction 1"):
        method(np.ones(8, np.float32))
    assert method(ONES)[1] == 11


# ---- copies ----------------------------------------------------------------------------------


def test_a_copy_of_the_state() -> None:
    method = load(counter())
    method(VALUES[0])
    saved = method.get_state()
    assert saved.dtype == np.uint8 and saved.shape == (16,) and saved.flags.owndata
    for _ in range(2):
        np.testing.assert_array_equal([method(v) for v in VALUES[1:]], SUMS[1:])
        method.set_state(saved)
    method.set_state(bytes(16))
    np.testing.assert_array_equal([method(value) for value in VALUES], SUMS)


@pytest.mark.parametrize("name", ["kv_cache_slice", "kv_cache_index_put", "kv_cache_index_copy"])
def test_copies_of_caches(name: str) -> None:
    """Caches are those of eager again after a reset, and after a copy of them is set."""
    exported = zoo.load(name)
    method, calls = load(exported.pte), exported.calls["forward"]
    half = len(calls) // 2

    def run(some: list[Any]) -> None:
        for call in some:
            (output,) = method.execute(call.inputs)
            assert compare(output, call.outputs[0]), compare(output, call.outputs[0])

    run(calls[:half])
    saved = method.get_state()
    run(calls[half:])
    method.reset()
    assert saved.size == method.get_state().size < method.memory()["planned"]
    run(calls)
    method.set_state(saved)
    run(calls[half:])


def test_copies_of_shared_and_unplanned_buffers() -> None:
    exported = zoo.load("shared_state")
    left, right = (Runtime.get().load_program(exported.pte).load_method(n) for n in exported.calls)
    left(ONES)
    left.set_state(left.get_state())
    np.testing.assert_array_equal(left(ONES), 2 * ONES)
    method = load(counter(named=True, planned=False))
    method(ONES)
    saved = method.get_state()
    method(ONES)
    method.set_state(saved)
    np.testing.assert_array_equal(method(ONES), 4 * ONES)


def test_a_program_without_state_has_an_empty_copy() -> None:
    method = load(export(lambda x: x.sin() + x, X))
    assert method.get_state().shape == (0,)
    method.set_state(b"")


def test_copies_are_checked() -> None:
    method = load(counter())
    for wrong in (b"", bytes(15), np.zeros(17, np.uint8)):
        with pytest.raises(
            InvalidArgumentError, match="the state of method 'forward' has 16 bytes"
        ):
            method.set_state(wrong)
    with pytest.raises(TypeError):
        method.set_state(3)  # type: ignore[arg-type]
    with pytest.raises((BufferError, ValueError)):
        method.set_state(np.zeros((8, 2), np.uint16)[:, 0])
