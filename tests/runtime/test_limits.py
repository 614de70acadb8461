"""Costs of loading and calls: small files with large requirements, and the limits of a user."""

import ctypes
import resource
import time
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import MemoryAllocationFailedError, OutOfResourcesError, Runtime
from tests.alone import alone
from tests.backends.fake_backend import Fake
from tests.plans import Constants, Plan, V, adding, build, load, schema

ONES = np.ones(4, np.float32)
MB = 1 << 20


def peak() -> int:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def cost(pte: bytes, error: type[Exception] | None = None, **options: Any) -> tuple[float, int]:
    """Return the seconds and MB of loading a method, which may fail."""

    def run() -> tuple[float, int]:
        loaded = Runtime.get().load_program(pte)
        before, start = peak(), time.perf_counter()
        if error:
            with pytest.raises(error, match="max_bytes=|max_steps="):
                loaded.load_method("forward", **options)
        else:
            loaded.load_method("forward", **options)
        return time.perf_counter() - start, peak() - before

    return alone(run)


# ---- files that ask for much -----------------------------------------------------------------


def nested(times: int, deep: int, inner: bytes | None = None) -> bytes:
    """Return a program with the given number of delegates, each containing the same program,
    recursively."""
    if deep == 0:
        return inner or build(adding()[0])
    plan = Plan()
    plan.take(plan.input((4,)))
    for _ in range(times):
        plan.delegate("ExecutorBackend", 0)
    return build(plan, payloads=[nested(times, deep - 1, inner)])


def test_programs_in_programs_in_programs() -> None:
    """20 ** 6 programs in a file of 20 KB."""
    pte = nested(20, 6)
    assert len(pte) < 40_000
    seconds, megabytes = cost(pte, OutOfResourcesError)
    assert seconds < 20 and megabytes < 1000
    assert cost(nested(20, 2))[1] < 100


def test_one_payload_for_many_delegates() -> None:
    """Each delegate reads the whole payload."""
    constants = Constants()
    plan = Plan()
    plan.take(plan.constant(constants, np.zeros(MB, np.uint8)))
    seconds, megabytes = cost(
        nested(5000, 1, build(plan, constants=constants)), OutOfResourcesError
    )
    assert seconds < 20 and megabytes < 1000


def test_one_list_for_many_calls() -> None:
    """Calls share the items of a list; earlier, its tensors were copied for each call."""
    items, calls = 20_000, 6000
    plan = Plan()
    x, y = plan.input((4,)), plan.output((4,))
    tensors = plan.value([x] * items)
    for _ in range(calls):
        plan.call("aten::cat.out", tensors, 0, y)
    seconds, megabytes = cost(build(plan), OutOfResourcesError)
    assert seconds < 10 and megabytes < 500


def test_one_list_of_outputs_for_many_memories() -> None:
    """Earlier, each list of each call was searched for state, for each planned memory."""
    plan = Plan()
    x, y = plan.input((4,)), plan.tensor((4,))
    tensors = plan.value([y] * 2000)
    plan.take(x)
    for _ in range(2000):
        plan.call("aten::split_copy.Tensor_out", x, 1, 0, tensors)
    plan.plan.non_const_buffer_sizes += [16] * 250
    seconds, megabytes = cost(build(plan))
    assert seconds < 10 and megabytes < 500


def unaligned(count: int, step: int) -> bytes:
    """Return tensors of 1 MB each, with constants at odd addresses, `step` bytes apart."""
    constants = Constants()
    plan = Plan()
    constants.add(np.zeros(16, np.uint8))
    buffers = [constants.add(np.zeros(2 * MB, np.uint8))]
    while step and len(buffers) < count:
        buffers.append(constants.add(np.zeros(16, np.uint8)))
    for i in range(count):
        plan.tensor((MB // 8,), "float64", at=None, buffer=buffers[i % len(buffers)])
    plan.take(1)
    pte = build(plan, constants=constants)
    at = pte.find(np.array([0, 0, 16], np.uint64).tobytes()) + 16
    assert at > 16, "the file has offsets of constants"
    offsets = 20 + step * np.arange(len(buffers), dtype=np.uint64)
    return pte[:at] + offsets.tobytes() + pte[at + offsets.nbytes :]


@pytest.mark.parametrize(("step", "most"), [(0, 100), (8, 2000)])
def test_constants_at_odd_addresses(step: int, most: int) -> None:
    """Earlier, each tensor had its own copy of bytes that all of them share."""
    seconds, megabytes = cost(unaligned(3000, step), OutOfResourcesError if step else None)
    assert seconds < 20 and megabytes < most


class Greedy(Fake):
    """A backend whose delegates allocate 2000 MB each."""

    def _init(self, _self: int, host: int, _call: int, _init: object, _handle: object) -> int:
        function = ctypes.c_void_p.from_address(host + 24).value  # ec_host.alloc
        allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(function)
        return 0 if all(allocate(MB) for _ in range(2000)) else 0x21


def test_delegates_that_allocate_without_an_end() -> None:
    """A payload may request a copy of one of its constants for each of many values."""
    backend = Greedy("GreedyBackend", {})
    executorch_c.register_backend(backend.capsule)
    plan = Plan()
    plan.take(plan.input((4,)))
    plan.delegate("GreedyBackend", 0)
    pte = build(plan, payloads=[b"x"])
    says = r"after 100\d{5} steps: max_steps="

    def run() -> None:
        with pytest.raises(MemoryAllocationFailedError, match=says):
            limited(pte)

    alone(run)
    alone(lambda: None if limited(pte, max_steps=1 << 40) else None)


def test_one_initial_value_for_many_tensors() -> None:
    constants = Constants()
    plan = Plan()
    buffer = constants.add_mutable(np.zeros(MB, np.uint8))
    for _ in range(20_000):
        plan.tensor((MB,), "uint8", at=0, buffer=buffer)
    plan.take(1)
    seconds, _ = cost(build(plan, constants=constants), OutOfResourcesError)
    assert seconds < 10


def test_the_sentence_about_many_inputs_is_short() -> None:
    plan = Plan()
    x = plan.input((4,))
    plan.plan.inputs += [x] * 40_000
    plan.take(x)
    method = load(build(plan))
    start = time.perf_counter()
    says = "and 39985 more, but got 0"
    with pytest.raises(executorch_c.InvalidArgumentError, match=says) as info:
        method()
    assert time.perf_counter() - start < 5 and len(str(info.value)) < 2000


def test_many_methods_with_long_names() -> None:
    """Name comparison must not be quadratic."""
    plans = []
    for i in range(3000):
        plan = Plan("x" * 2000 + str(i))
        plan.take(1)
        plans.append(plan)
    pte = build(*plans)
    start = time.perf_counter()
    loaded = Runtime.get().load_program(pte)
    assert time.perf_counter() - start < 3
    assert len(loaded.method_names) == 3000


# ---- results ---------------------------------------------------------------------------------


def repeated(kind: str, times: int) -> bytes:
    """Return a program with one tensor of 1 MB as an output `times` times, by itself or in a list;
    or a list of ints."""
    plan = Plan()
    x = plan.input((MB // 4,))
    if kind == "list":
        plan.take(plan.value([x] * times))
    elif kind == "outputs":
        plan.take(*[x] * times)
    else:
        plan.take(*[plan.value([1] * 20_000)] * times)
    return build(plan)


@pytest.mark.parametrize("kind", ["list", "outputs", "ints"])
def test_results_without_an_end(kind: str) -> None:
    x = np.ones(MB // 4, np.float32)

    def run() -> int:
        loaded = Runtime.get().load_program(repeated(kind, 1000))
        method = loaded.load_method("forward", max_bytes=100 * MB)
        before = peak()
        with pytest.raises(MemoryAllocationFailedError, match=r"104857600.*\(max_bytes=\)"):
            method.execute([x])
        return peak() - before

    assert alone(run) < 300
    method = limited(repeated(kind, 3), max_bytes=100 * MB)
    assert len(method.execute([x])) == (1 if kind == "list" else 3)


# ---- the limits of a user --------------------------------------------------------------------


def looping(count: int, shape: tuple[int, ...] = (4,)) -> Plan:
    """Return a program with the given number of iterations of four instructions."""
    plan = Plan()
    x, i, done = plan.input(shape), plan.value(0), plan.value(False)
    plan.call("aten::mul.Scalar_out", x, 1.0, plan.output(shape))
    plan.call("executorch_prim::add.Scalar", i, 1, i)
    plan.call("executorch_prim::ge.Scalar", i, count, done)
    plan.jump_false(done, 0)
    return plan


def limited(pte: bytes, **options: Any) -> executorch_c.Method:
    return Runtime.get().load_program(pte).load_method("forward", **options)


def test_steps_of_a_call() -> None:
    pte = build(looping(100))
    for _ in range(2):
        np.testing.assert_array_equal(limited(pte, max_steps=401)(ONES), ONES)
        method = limited(pte, max_steps=300)
        for _ in range(2):
            with pytest.raises(OutOfResourcesError, match=r"instruction \d: .*300 steps \(max_st"):
                method(ONES)


def test_steps_of_large_tensors() -> None:
    """4096 elements of inputs or outputs are a step, like an instruction."""
    pte = build(looping(10, (MB,)))
    x = np.ones(MB, np.float32)
    with pytest.raises(OutOfResourcesError, match="2000 steps"):
        limited(pte, max_steps=2000)(x)
    np.testing.assert_array_equal(limited(pte, max_steps=10_000)(x), x)


def test_more_instructions_than_the_default() -> None:
    pte = build(looping(2_600_000))
    with pytest.raises(executorch_c.InvalidProgramError, match=r"10000000 instr.*max_steps="):
        limited(pte)(ONES)
    np.testing.assert_array_equal(limited(pte, max_steps=1 << 62)(ONES), ONES)


def test_nested_programs_take_from_the_same_steps() -> None:
    plan = Plan()
    x, y, z = plan.input((4,)), plan.tensor((4,)), plan.output((4,))
    for source, target in ((x, y), (y, z)):
        number = plan.delegate("ExecutorBackend", 0)
        plan.append(schema.DelegateCall(number, [source, target]))
    pte = build(plan, payloads=[build(looping(1000))])
    np.testing.assert_array_equal(limited(pte, max_steps=9000)(ONES), ONES)
    with pytest.raises(OutOfResourcesError, match=r"nested program: .*5000 steps \(max_steps=\)"):
        limited(pte, max_steps=5000)(ONES)


def test_bytes_of_loading() -> None:
    """Planned memory counts as soon as its size is declared."""
    plan, _ = adding()
    plan.plan.non_const_buffer_sizes = [0, 10 * MB]
    pte = build(plan)
    with pytest.raises(MemoryAllocationFailedError, match=r"\(1048576 bytes .*max_bytes=\)"):
        limited(pte, max_bytes=MB)
    np.testing.assert_array_equal(limited(pte, max_bytes=11 * MB)(ONES), 2 * ONES)


def test_bytes_of_nested_programs() -> None:
    plan, _ = adding()
    plan.plan.non_const_buffer_sizes = [0, 10 * MB]
    pte = nested(4, 1, build(plan))
    with pytest.raises(MemoryAllocationFailedError, match="max_bytes="):
        limited(pte, max_bytes=35 * MB)
    limited(pte, max_bytes=45 * MB)


def test_bytes_of_a_call() -> None:
    """An unbound tensor grows; memory kept by one call does not count for the next."""
    plan = Plan()
    n, y = plan.input((), "int64"), plan.output((4,), at=None, dynamism=2)
    size = plan.value(0)
    shape = V(plan.value([0]))
    plan.plan.values[shape].val.items[0] = int(size)
    plan.call("aten::_local_scalar_dense", n, size, returns=[])
    plan.call("aten::full.out", shape, 1.0, y)
    method = limited(build(plan), max_bytes=10 * MB)
    for count in (10, MB, 20, MB, MB):
        assert method(np.array(count)).shape == (count,)
    with pytest.raises(MemoryAllocationFailedError, match=r"instruction 1: .*max_bytes="):
        method(np.array(4 * MB))
    assert method(np.array(MB)).shape == (MB,)


@pytest.mark.parametrize("op", ["full", "repeat", "constant_pad_nd", "arange"])
def test_growth_that_nobody_asked_for(op: str) -> None:
    """A small file cannot grow a tensor to gigabytes, unless max_bytes= allows it."""
    plan, many = Plan(), 1 << 28
    x, y = plan.input((1,)), plan.output((1,), at=None, dynamism=2)
    arguments = {
        "full": ([many], 1.0),
        "repeat": (x, [many]),
        "arange": (many,),
        "constant_pad_nd": (x, [many, 0], 1.0),
    }
    plan.call(f"aten::{op}.out", *arguments[op], y)
    pte = build(plan)

    def run() -> int:
        before = peak()
        with pytest.raises(MemoryAllocationFailedError, match=r"without a bound.*max_bytes="):
            limited(pte)(np.ones(1, np.float32))
        return peak() - before

    assert alone(run) < 50


def test_growth_with_the_inputs() -> None:
    """Inputs raise the bound, and so does max_bytes=."""
    plan = Plan()
    x, y = plan.input((1,), dynamism=2, at=None), plan.output((1,), at=None, dynamism=2)
    plan.call("aten::repeat.out", x, [14], y)
    pte, array = build(plan), np.ones(10 * MB, np.float32)
    loaded = Runtime.get().load_program(pte)
    assert loaded.load_method("forward")(array).shape == (140 * MB,)
    plan = Plan()
    y = plan.output((1,), at=None, dynamism=2)
    plan.call("aten::full.out", [135 * MB], 1.0, y)
    with pytest.raises(MemoryAllocationFailedError, match="max_bytes="):
        limited(build(plan))()
    assert limited(build(plan), max_bytes=2000 * MB)().shape == (135 * MB,)


def test_traces_do_not_take_from_the_bytes() -> None:
    plan, _ = adding(50)
    method = limited(build(plan), max_bytes=100_000)
    with method.tracing(values=True) as trace:
        np.testing.assert_array_equal(method(ONES), 51 * ONES)
    assert "aten::add.out" in str(trace)


def test_functions_of_operators_are_not_limited() -> None:
    """Functions are the caller's code; the programs that they load have their own limits."""
    executorch_c.register_operator(
        "limits::load.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        lambda x: load(build(adding(3)[0]))(x),
    )
    try:
        plan = Plan()
        plan.call("limits::load.out", plan.input((4,)), plan.output((4,)))
        method = limited(build(plan), max_bytes=10_000, max_steps=20)
        np.testing.assert_array_equal(method(ONES), 4 * ONES)
        np.testing.assert_array_equal(method(ONES), 4 * ONES)
    finally:
        executorch_c.unregister_operator("limits::load.out")


@pytest.mark.parametrize("name", ["max_bytes", "max_steps"])
def test_limits_are_ints(name: str) -> None:
    pte = build(adding()[0])
    for value in (0, -1, -(1 << 70)):
        with pytest.raises(ValueError, match=f"`{name}` must be at least 1"):
            limited(pte, **{name: value})
    for wrong in (True, 1.5, "1"):
        with pytest.raises(TypeError):
            limited(pte, **{name: wrong})
    for value in (None, 1 << 40, 1 << 63, 1 << 100, np.int64(1 << 40)):
        np.testing.assert_array_equal(limited(pte, **{name: value})(ONES), 2 * ONES)


def test_a_method_with_limits_is_one_of_its_own() -> None:
    loaded = Runtime.get().load_program(build(adding()[0]))
    one = loaded.load_method("forward", max_steps=1000)
    assert one is not loaded.load_method("forward", max_steps=1000)
    assert loaded.load_method("forward", max_bytes=None) is loaded.load_method("forward")
