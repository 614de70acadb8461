"""Repeated calls and loads do not grow the process; objects may be deleted in any order."""

import gc
import itertools
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import Runtime
from tests.at_once import run_all
from tests.plans import BOUNDED, UNBOUND, Constants, Plan, V, adding, build, load, schema
from tests.resident import resident_bytes

ONES = np.ones(4, np.float32)
SINE = b"1version:0#op:demo::aten.sin.default, numel:1, dtype:torch.float32<debug_handle>1#"


def assert_constant(action: Callable[[], object], times: int, slack: int = 1 << 20) -> None:
    """Assert that `times` repetitions grow the process by less than `slack` bytes.

    A leak grows the process in each of three rounds; caches and other threads of pytest do not.
    """
    for _ in range(times // 5):
        action()
    growth = []
    for _ in range(3):
        gc.collect()
        before, blocks = resident_bytes("RssAnon"), sys.getallocatedblocks()
        for _ in range(times):
            action()
        gc.collect()
        growth.append((resident_bytes("RssAnon") - before, sys.getallocatedblocks() - blocks))
        if growth[-1][0] < slack and growth[-1][1] < 100 + times // 10:
            return
    raise AssertionError(f"grows in each round by (bytes, blocks): {growth}")


def everything() -> bytes:
    """Return a program with scratch memory, lists, strings, views, moves, numbers, a delegate and
    unbound tensors."""
    constants = Constants()
    plan = Plan()
    x = plan.input((64, 8), dynamism=BOUNDED)
    s = plan.input((1,))
    weight = plan.constant(constants, np.ones((8, 8), np.float32))
    y, z = plan.output((64, 8), dynamism=BOUNDED), plan.output((64, 8), dynamism=UNBOUND, at=None)
    plan.call("aten::mm.out", x, weight, y)
    plan.call("aten::cat.out", [x, y], 0, z)
    rows = plan.value(0)
    plan.call("aten::sym_size.int", x, 0, rows, returns=[])
    shape = plan.value([8])
    plan.plan.values[shape].val.items.insert(0, int(rows))
    view = plan.output((64, 8), dynamism=BOUNDED, at=None)
    plan.call("executorch_prim::et_view.default", y, shape, view)
    slot = plan.output((64, 8), dynamism=BOUNDED)
    plan.move(y, slot)
    sine = plan.output((1,))
    delegate = plan.delegate("BackendWithCompilerDemo", 0)
    plan.append(schema.DelegateCall(delegate, [s, sine]))
    plan.take(rows, "text", None, 0.5, [x, y], [1, 2])
    return build(plan, constants=constants, payloads=[SINE])


INPUTS = [[np.ones((n, 8), np.float32), np.ones(1, np.float32)] for n in (3, 64, 17)]


def test_calls() -> None:
    method = load(everything())
    turns = itertools.cycle(INPUTS)
    assert_constant(lambda: method.execute(next(turns)), 10_000)


def test_calls_with_arrays_that_are_converted() -> None:
    method = load(everything())
    wide = np.ones((8, 64), np.float32).T
    numbers = [[1.0] * 8] * 4
    turns = itertools.cycle([[wide, [2.0]], [numbers, np.float32(1).reshape(1)]])
    assert_constant(lambda: method.execute(next(turns)), 2_000)


def test_calls_with_out() -> None:
    method = load(build(adding(3)[0]))
    out = np.empty(4, np.float32)
    strided = np.empty(8, np.float32)[::2]
    assert_constant(lambda: (method(ONES, out=out), method(ONES, out=strided)), 10_000)
    assert sys.getrefcount(out) == 2


def test_calls_that_fail() -> None:
    plan = Plan()
    x, y = plan.input((8,), dynamism=BOUNDED), plan.output((8,), dynamism=UNBOUND, at=None)
    plan.call("aten::add.out", x, x, 1, y)
    plan.call("aten::add.out", y, plan.tensor((4,)), 1, plan.output((4,)))
    method = load(build(plan))
    wrongs = itertools.cycle([np.ones(8, np.float32), np.ones(9, np.float32), "x", [None], 1j])

    def fail() -> None:
        with pytest.raises((executorch_c.Error, TypeError, ValueError)):
            method.execute([next(wrongs)])

    assert_constant(fail, 3_000)
    np.testing.assert_array_equal(method(ONES)[0], 2 * ONES)


def test_loads() -> None:
    pte = everything()

    def once() -> None:
        loaded = Runtime.get().load_program(pte)
        loaded.load_method("forward").execute(INPUTS[0])
        loaded.metadata("forward").inputs  # noqa: B018
        loaded.info()
        loaded.requirements()

    assert_constant(once, 200)
    assert_constant(once, 200, slack=256 << 10)


def test_loads_from_files_with_arenas(tmp_path: Path) -> None:
    plan, _ = adding(1)
    plan.plan.non_const_buffer_sizes[1] = 8 << 20
    file = tmp_path / "m.pte"
    file.write_bytes(build(plan))

    def once() -> None:
        method = load(str(file))
        method(ONES)
        method.reset()  # touches all of the arena

    assert_constant(once, 200)


def test_loads_that_fail() -> None:
    plan, _ = adding(2)
    plan.append(schema.MoveCall(0, 99))
    bad_code = build(plan)
    plan, _ = adding()
    plan.delegate("BackendWithCompilerDemo", 0)
    plan.delegate("NoSuchBackend", 0)
    half_loaded = build(plan, payloads=[SINE])
    good = build(adding()[0])
    files = [bad_code, half_loaded, good[:-50], b"", b"x" * 100]

    def once() -> None:
        for data in files:
            with pytest.raises(executorch_c.Error):
                load(data)
        with pytest.raises(executorch_c.Error):
            Runtime.get().load_program(good, data_path=[good])

    assert_constant(once, 200)


def test_attributes() -> None:
    plan = Plan()
    plan.call("aten::copy_", plan.tensor((4,), name="a"), plan.input((4,)), False, returns=[V(0)])
    method = load(build(plan))

    def once() -> None:
        method.set_attribute("a", ONES)
        method.get_attribute("a")[:] = 2
        method.attribute_names  # noqa: B018
        method.reset()

    assert_constant(once, 10_000)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_any_order_of_deletion(order: tuple[int, ...]) -> None:
    """Program, method, array on its memory, result."""
    plan = Plan()
    state, x = plan.tensor((4,), name="state"), plan.input((4,))
    y = plan.output((4,))
    plan.call("aten::add.out", state, x, 1, y)
    plan.call("aten::copy_", state, y, False, returns=[state])
    program: Any = Runtime.get().load_program(bytes(bytearray(build(plan))))
    method = program.load_method("forward")
    result = method(ONES)
    things = [program, method, method.get_attribute("state"), result]
    del program, method, result
    for index in order:
        things[index] = None
        for thing in things:
            if isinstance(thing, np.ndarray):
                np.testing.assert_array_equal(thing, ONES)
            elif isinstance(thing, executorch_c.Program):
                assert thing.method_names == {"forward"}
            elif thing is not None:
                thing.reset()
                np.testing.assert_array_equal(thing(ONES), ONES)


def test_metadata_outlives_its_program() -> None:
    loaded = Runtime.get().load_program(bytes(bytearray(everything())))
    meta, info = loaded.metadata("forward"), loaded.metadata("forward").input_tensor_meta(0)
    del loaded
    gc.collect()
    assert (meta.name(), meta.num_inputs(), info.sizes()) == ("forward", 2, (64, 8))
    del meta
    gc.collect()
    assert info.shape == (64, 8)


def test_a_mutable_buffer_is_not_held() -> None:
    """A read-only view does not protect its memory: the buffer is copied and released at once."""

    class Owner(np.ndarray):
        pass

    data = np.frombuffer(build(adding()[0]), np.uint8).copy().view(Owner)
    data.flags.writeable = False
    gone = weakref.ref(data)
    loaded: Any = Runtime.get().load_program(data)
    method: Any = loaded.load_method("forward")
    del data, loaded
    gc.collect()
    assert gone() is None
    np.testing.assert_array_equal(method(ONES), 2 * ONES)


def test_no_cycles_are_left() -> None:
    """Objects are freed with their last reference, without the collector."""
    gc.collect()
    gc.disable()
    try:
        data = bytes(bytearray(everything()))
        before = sys.getrefcount(data)
        method = load(data)
        method.execute(INPUTS[0])
        method.metadata.inputs  # noqa: B018
        del method
        assert sys.getrefcount(data) == before
    finally:
        gc.enable()


def test_the_last_reference_goes_in_another_thread() -> None:
    for _ in range(20):
        box = [load(bytes(bytearray(everything())))]
        method = box.pop()
        box.append(method)
        del method
        run_all(lambda box=box: box.pop().execute(INPUTS[0]))  # type: ignore[misc]


def test_a_running_call_holds_its_method() -> None:
    """No other reference exists while it runs."""
    plan, _ = adding()
    plan.jump_false(False, 0)
    box = [load(build(plan))]

    def run() -> None:
        with pytest.raises(executorch_c.InvalidProgramError, match="without an end"):
            box.pop().execute([ONES])

    run_all(run)
