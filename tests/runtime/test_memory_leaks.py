"""Objects may be deleted in any order, also while others use them; nothing else holds them."""

import gc
import itertools
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import Runtime
from tests.at_once import run_all
from tests.runtime.entry_points import INPUTS, everything
from tests.plans import Plan, adding, build, load

ONES = np.ones(4, np.float32)


def test_outputs_of_the_caller_are_not_held() -> None:
    method, out = load(build(adding(3)[0])), np.empty(4, np.float32)
    for _ in range(100):
        method(ONES, out=out)
    assert sys.getrefcount(out) == 2


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
