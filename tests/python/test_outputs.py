"""Outputs: new arrays, out=, lifetimes, attributes."""

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import executorch_c
from executorch_c import InvalidArgumentError, Method
from tests import plans
from tests.alone import alone
from tests.python import small_programs
from tests.python.small_programs import CHANNELS_LAST, IMAGE, channels_last, clone, values
from tests.single_op import Out, SingleOps

BF16 = ml_dtypes.bfloat16
KINDS = [3, 2.5, True, "hi", None]


@pytest.fixture(autouse=True)
def frozen() -> Iterator[None]:
    """Let gc.collect() see only what a test has made."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def add() -> Method:
    return small_programs.load(small_programs.add_pte(), "forward")


@pytest.fixture(scope="module")
def kinds() -> Method:
    return small_programs.load(small_programs.kinds_pte(KINDS, list(range(10))), "forward")


def test_outputs_are_fresh_and_own_their_memory(add: Method) -> None:
    x = values((2, 2), "float32")
    first = add.execute([x, x])[0]
    kept = first.copy()
    second = add.execute([x + 1, x])[0]
    assert first.flags.owndata and first.flags.writeable and first.base is None
    assert not np.shares_memory(first, second)
    assert_array_equal(first, kept)


def test_dynamic_outputs_own_their_memory() -> None:
    method = small_programs.load(small_programs.dynamic_pte(), "forward")
    outputs = []
    for n in (4, 1, 0, 3):
        x = values((n, 2), "float32")
        outputs.append(method(x, x))
        assert_array_equal(outputs[-1], x + x, strict=True)
        assert outputs[-1].flags.owndata
    assert_array_equal(outputs[0], values((4, 2), "float32") * 2)
    with pytest.raises(executorch_c.NotSupportedError, match="input 0"):
        method(np.ones((5, 2), np.float32), np.ones((5, 2), np.float32))


def test_no_references_leak(add: Method) -> None:
    x, out = values((2, 2), "float32"), np.zeros((2, 2), np.float32)
    inputs = [x, x.T]
    before = sys.getrefcount(x), sys.getrefcount(out), sys.getrefcount(inputs)
    for _ in range(10):
        add.execute(inputs)
        add(x, x, out=out)
        add.execute(inputs, out=[out])
        for bad in ([x], [x, x[0]], [x, "a"], [x, object()], [x, x.astype(int)]):
            with pytest.raises(InvalidArgumentError):
                add.execute(bad)
    del bad
    assert (sys.getrefcount(x), sys.getrefcount(out), sys.getrefcount(inputs)) == before
    y = add(x, x)
    assert sys.getrefcount(y) == 2


def test_a_method_outlives_program_and_bytes() -> None:
    pte = bytearray(small_programs.add_pte())
    method = executorch_c.Runtime.get().load_program(bytes(pte)).load_method("forward")
    gc.collect()
    x = np.ones((2, 2), np.float32)
    assert_array_equal(method(x, x), x * 2)
    meta = method.metadata
    info = meta.input_tensor_meta(0)
    del method, meta
    gc.collect()
    assert info.shape == (2, 2)


def test_a_writable_buffer_may_change_after_loading() -> None:
    pte = bytearray(small_programs.add_pte())
    program = executorch_c.Runtime.get().load_program(pte)
    pte[:] = bytes(len(pte))
    x = np.ones((2, 2), np.float32)
    assert_array_equal(program.load_method("forward")(x, x), x * 2)


def test_bytes_are_kept_alive_and_released() -> None:
    pte = small_programs.add_pte()
    x = memoryview(pte)
    before = sys.getrefcount(pte)
    program = executorch_c.Runtime.get().load_program(pte)
    method = program.load_method("forward")
    del program
    assert sys.getrefcount(pte) >= before
    del method
    assert sys.getrefcount(pte) == before
    x.release()


# ---- out= ----


def test_out_is_written_and_returned(add: Method) -> None:
    x = values((2, 2), "float32")
    out = np.zeros((2, 2), np.float32)
    assert add(x, x, out=out) is out
    assert_array_equal(out, x + x)
    for argument in (out, [out], (out,)):
        out[:] = 0
        result = add.execute([x, x], out=argument)
        assert len(result) == 1 and result[0] is out
        assert_array_equal(out, x + x)
    assert add(x, x, out=None) is not out
    assert add.execute([x, x], out=[None])[0] is not out


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.zeros((2, 2), np.float32, order="F"),
        lambda: np.zeros((4, 4), np.float32)[::2, ::-2],
        lambda: np.zeros((2, 2), ">f4"),
        lambda: np.zeros(17, np.uint8)[1:].view(np.float32).reshape(2, 2),
    ],
)
def test_out_with_other_layouts(add: Method, make: Callable[[], np.ndarray]) -> None:
    x, out = values((2, 2), "float32"), make()
    assert add(x, x.T, out=out) is out
    assert_array_equal(out, x + x.T)


@pytest.mark.parametrize("order", [None, CHANNELS_LAST])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, channels_last])
def test_out_in_both_image_layouts(order: Any, layout: Callable[..., np.ndarray]) -> None:
    x, out = values(IMAGE, "float32"), layout(np.zeros(IMAGE, np.float32))
    strides = out.strides
    assert clone(IMAGE, "float32", order)(x, out=out) is out
    assert_array_equal(out, x)
    assert out.strides == strides


def test_out_may_overlap_inputs(add: Method) -> None:
    x = values((2, 2), "float32")
    expected = x + x.T
    assert_array_equal(add(x, x.T, out=x), expected)
    memory = np.arange(6, dtype=np.float32)
    a, b = memory[:4].reshape(2, 2), memory[2:].reshape(2, 2)
    expected = a + a
    assert_array_equal(add(a, a, out=b), expected)


def test_out_of_a_dynamic_output_is_checked_afterwards() -> None:
    method = small_programs.load(small_programs.dynamic_pte(), "forward")
    x, out = values((3, 2), "float32"), np.zeros((3, 2), np.float32)
    assert method(x, x, out=out) is out
    assert_array_equal(out, x + x)
    with pytest.raises(InvalidArgumentError, match=r"out 0: found shape \(3, 2\).* \(1, 2\)"):
        method(x[:1], x[:1], out=out)


def test_out_that_cannot_be_written(add: Method, kinds: Method) -> None:
    x = values((2, 2), "float32")
    readonly = np.zeros((2, 2), np.float32)
    readonly.flags.writeable = False
    cases: list[tuple[Any, str]] = [
        (readonly, "out 0: found a read-only array"),
        (np.zeros((2, 2)), "out 0: found an array of dtype float64"),
        (np.zeros((2, 3), np.float32), "out 0: found shape (2, 3); the output has shape (2, 2)"),
        ([x, x], "has 1 outputs, but out has 2 items"),
        ([b"x"], "out 0: found bytes"),
    ]
    for out, text in cases:
        with pytest.raises(InvalidArgumentError) as error:
            add(x, x, out=out)
        assert text in str(error.value)
    with pytest.raises(TypeError, match="`out` must be"):
        add(x, x, out=3)  # type: ignore[arg-type]
    outs: list[Any] = [None] * 11
    outs[2] = x
    with pytest.raises(InvalidArgumentError, match="out 2: .*expected None.* kind Int"):
        kinds.execute([x[0], *KINDS], out=outs)


def test_bfloat16_out() -> None:
    out = np.zeros(2, BF16)
    assert clone((2,), "bfloat16")([1, 2], out=out) is out
    assert out.astype(float).tolist() == [1, 2]


# ---- attributes ----


def test_attributes_alias_the_methods_memory() -> None:
    method = small_programs.load(small_programs.counter_pte(), "forward")
    assert method.attribute_names == ("total",)
    method([1, 2])
    total = method.get_attribute("total")
    assert_array_equal(total, [1, 2])
    method([1, 2])
    assert_array_equal(total, [2, 4])
    total[:] = 10
    assert_array_equal(method([1, 2]), [11, 12])
    method.set_attribute("total", np.zeros(2, np.float32))
    assert_array_equal(method([1, 2]), [1, 2])
    method.reset()
    assert_array_equal(total, [0, 0])
    method = None  # type: ignore[assignment]
    gc.collect()
    total[:] = 3
    assert_array_equal(total, [3, 3])


def stateful() -> Method:
    """y = x + total, z = total * total, then total += 1."""
    plan, constants = plans.Plan(), plans.Constants()
    start = constants.add_mutable(np.arange(4, dtype=np.float32))
    x, y, z = plan.input((4,)), plan.output((4,)), plan.output((4,))
    total = plan.tensor((4,), at=(2, 0), buffer=start, name="total")
    one = plan.constant(constants, np.ones(4, np.float32))
    plan.call("aten::add.out", total, one, 1, total)
    plan.call("aten::add.out", x, total, 1, y)
    plan.call("aten::mul.out", total, total, z)
    return plans.load(plans.build(plan, constants=constants))


@pytest.mark.parametrize("at", [0, 1])
def test_out_may_be_an_attribute(at: int) -> None:
    method = stateful()
    arguments: list[Any] = [None, None]
    arguments[at] = total = method.get_attribute("total")
    expected = [np.arange(1.0, 5) + 1, np.arange(1.0, 5) ** 2]
    results = method.execute([np.ones(4, np.float32)], out=arguments)
    assert results[at] is total
    assert_array_equal(results[0], expected[0])
    assert_array_equal(results[1], expected[1])
    assert_array_equal(method.get_attribute("total"), expected[at])


def test_attributes_as_inputs_and_wrong_ones() -> None:
    method = small_programs.load(small_programs.counter_pte(), "forward")
    with pytest.raises(KeyError, match="no attribute 'x'"):
        method.get_attribute("x")
    with pytest.raises(InvalidArgumentError, match="found dtype float64, expected float32"):
        method.set_attribute("total", np.zeros(2))
    with pytest.raises(InvalidArgumentError, match="shape"):
        method.set_attribute("total", np.zeros(3, np.float32))
    method = stateful()
    y, z = method.execute([method.get_attribute("total")])
    assert_array_equal(y, [1, 3, 5, 7])  # the value before the call
    assert_array_equal(z, [1, 4, 9, 16])


def test_memory_is_reported(add: Method) -> None:
    memory = add.memory()
    assert set(memory) == set(
        "planned shared native merged folded packed recorded scratch heap".split()
    )
    assert memory["planned"] >= 48 and memory["shared"] == 0


# ---- arrays that change meanwhile ----


class Foreign:
    """An input whose conversion runs arbitrary code."""

    def __init__(self, x: np.ndarray, run: Callable[[], object]) -> None:
        self.x, self.run = x, run

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        self.run()
        return self.x


def with_other_memory(x: np.ndarray) -> None:
    x.resize((1,), refcheck=False)


def with_other_state(x: np.ndarray) -> None:
    x.__setstate__((1, (1,), np.dtype(np.float32), False, b"abcd"))


def read_only(x: np.ndarray) -> None:
    x.flags.writeable = False


def of_other_dtype(x: np.ndarray) -> None:
    x.dtype = np.int32


CHANGES = [with_other_memory, with_other_state, read_only, of_other_dtype]
SIZE = 1 << 20


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("shape", ["fixed", "dynamic"])
def test_out_modified_by_foreign_code(change: Callable[[Any], None], shape: str) -> None:
    """The output is inspected before inputs are converted."""
    make = small_programs.dynamic_pte if shape == "dynamic" else small_programs.add_pte

    def run() -> None:
        method = small_programs.load(make((SIZE,)), "forward")
        x, out = np.ones(SIZE, np.float32), np.empty(SIZE, np.float32)
        with pytest.raises(InvalidArgumentError, match="out 0: .*(changed|found shape)"):
            method.execute([x, Foreign(x, lambda: change(out))], out=[out])
        assert_array_equal(method(x, x), 2 * x)

    alone(run)


@pytest.mark.parametrize("change", [with_other_memory, with_other_state])
def test_input_modified_by_foreign_code(change: Callable[[Any], None]) -> None:
    """An array is converted before the next one."""

    def run() -> None:
        method = small_programs.load(small_programs.add_pte((SIZE,)), "forward")
        x, y = np.ones(SIZE, np.float32), np.ones(SIZE, np.float32)
        with pytest.raises(executorch_c.Error, match="input 0"):
            method(x, Foreign(y, lambda: change(x)))

    alone(run)


@pytest.mark.parametrize("change", CHANGES)
def test_out_that_changes_while_the_method_is_waited_for(change: Callable[[Any], None]) -> None:
    def run() -> None:
        called, may_return = threading.Event(), threading.Event()

        def slow(x: np.ndarray) -> np.ndarray:
            called.set()
            assert may_return.wait(30)
            return x

        schema = "outputs::slow.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"
        executorch_c.register_operator(schema, slow)
        ops = SingleOps()
        ops.add("outputs::slow.out", np.ones(SIZE, "f4"), Out((SIZE,)), name="forward")
        method = small_programs.load(ops.build(), "forward")
        x, out = np.ones(SIZE, np.float32), np.empty(SIZE, np.float32)
        first = threading.Thread(target=lambda: method(x))
        first.start()
        assert called.wait(30)
        errors: list[Exception] = []

        def call() -> None:
            try:
                method(x, out=out)
            except InvalidArgumentError as error:
                errors.append(error)

        second = threading.Thread(target=call)
        second.start()
        time.sleep(0.3)  # it waits for the lock
        change(out)
        may_return.set()
        first.join(30)
        second.join(30)
        assert "out 0: the array was changed while the method was called" in str(errors[0])

    alone(run)
