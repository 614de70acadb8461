"""Errors of the official runtime (1.5.1) for valid programs, correct in this one.

Layouts, state, memory, threads; test_hostile.py has invalid programs. The reference's failures are
asserted, too, so that a fixed version is noticed.
"""

import gc
import weakref

import numpy as np
import pytest
import torch

import executorch_c
from executorch_c import InvalidArgumentError, Runtime
from executorch_c.testing import compare
from tests.exports import export
from tests.plans import Plan, adding, build, load, reference

ONES = np.ones(4, np.float32)


# ---- layouts ---------------------------------------------------------------------------------


def layouts(shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Return the same values with many strides."""
    value = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    doubled = np.repeat(np.repeat(value, 2, 0), 2, -1)
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(value, 1, -1)), -1, 1)
    return {
        "contiguous": value,
        "channels last": last,
        "fortran": np.asfortranarray(value),
        "negative": np.ascontiguousarray(value[::-1, ..., ::-1])[::-1, ..., ::-1],
        "every second": doubled[::2, ..., ::2],
        "misaligned": np.frombuffer(b"x" + value.tobytes(), np.uint8)[1:]
        .view(np.float32)
        .reshape(shape),
        "read-only": np.frombuffer(value.tobytes(), np.float32).reshape(shape),
    }


@pytest.mark.parametrize("layout", layouts((2, 3, 4, 5)))
@pytest.mark.parametrize("traced", ["contiguous", "channels last"])
@pytest.mark.parametrize("rank", [4, 5])
def test_layout_of_an_input(layout: str, traced: str, rank: int) -> None:
    """An array of any strides gives eager's result; the reference permutes the values."""
    shape = (2, 3, 4, 5, 2)[:rank]
    order = [0, *range(2, rank), 1] if traced == "channels last" else list(range(rank))
    plan = Plan()
    x = plan.input(shape, order=order)
    y = plan.output(shape, order=order)
    plan.call("aten::mul.Scalar_out", x, 2.0, y)
    value = layouts(shape)[layout]
    before = value.copy()
    answer = load(build(plan))(value)
    np.testing.assert_array_equal(answer, 2 * value)
    np.testing.assert_array_equal(value, before)
    dense = np.empty([shape[d] for d in order], np.float32).transpose(np.argsort(order))
    assert answer.strides == dense.strides


def test_the_reference_misreads_a_layout() -> None:
    plan = Plan()
    x = plan.input((1, 2, 2, 2))
    plan.call("aten::mul.Scalar_out", x, 1.0, plan.output((1, 2, 2, 2)))
    value = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    last = np.ascontiguousarray(value.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    pte = build(plan)
    np.testing.assert_array_equal(load(pte)(last), value)
    outcome = reference(pte, last)
    assert outcome.outputs is None or (outcome.outputs[0] != value).any()


@pytest.mark.parametrize("rank", [4, 5])
def test_program_exported_from_channels_last_inputs(rank: int) -> None:
    """A rank-0 constant with a channels-last tensor: fails in the reference (0x12)."""
    shape = (2, 3, 4, 5, 2)[:rank]
    memory = torch.channels_last if rank == 4 else torch.channels_last_3d
    x = torch.randn(shape).to(memory_format=memory)
    pte = export(lambda x: x * 1.0 + 2.0, x)
    method = load(pte)
    for value in layouts(shape).values():
        np.testing.assert_array_equal(method(value), value * 1.0 + 2.0)
    np.testing.assert_array_equal(method(x), (x * 1.0 + 2.0).numpy())
    assert reference(pte, x.numpy()).outputs is None


@pytest.mark.parametrize("transposed", [False, True])
def test_convolution_on_both_layouts(transposed: bool) -> None:
    net = torch.nn.Conv2d(3, 4, 3, padding=1)
    x = torch.randn(1, 3, 6, 6)
    if transposed:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        wanted = net(x).numpy()
    method = load(export(net, x))
    for value in (x.contiguous(), x.contiguous(memory_format=torch.channels_last)):
        assert compare(method(value.numpy()), wanted), compare(method(value.numpy()), wanted)


# ---- state and memory ------------------------------------------------------------------------


def accumulating(name: str, size: int) -> Plan:
    """Return state += x with a copy as output; the state is at the start of memory 1."""
    plan = Plan(name)
    state = plan.tensor((size,), at=0)
    x, sum_, out = plan.input((size,)), plan.tensor((size,)), plan.output((size,))
    plan.call("aten::add.out", state, x, 1, sum_)
    plan.call("aten::mul.Scalar_out", sum_, 1.0, out)
    plan.call("aten::copy_", state, sum_, False, returns=[state])
    return plan


def test_methods_do_not_overwrite_each_others_state() -> None:
    other = Plan("other")
    x = other.input((64,))
    other.call("aten::mul.Scalar_out", x, 25.0, other.output((64,)))
    pte = build(accumulating("forward", 4), other)
    big = np.full(64, 7, np.float32)
    loaded = Runtime.get().load_program(pte)
    forward, second = loaded.load_method("forward"), loaded.load_method("other")
    np.testing.assert_array_equal(forward(ONES), ONES)
    np.testing.assert_array_equal(second(big), 25 * big)
    np.testing.assert_array_equal(forward(ONES), 2 * ONES)
    # Two programs are independent, too.
    np.testing.assert_array_equal(load(pte)(ONES), ONES)
    np.testing.assert_array_equal(forward(ONES), 3 * ONES)
    calls = [("forward", [ONES]), ("other", [big]), ("forward", [ONES])]
    outcome = reference(pte, calls=calls)
    assert outcome.outputs is not None
    assert (outcome.outputs[0] != 2 * ONES).any()


def test_outputs_do_not_alias() -> None:
    method = load(build(adding()[0]))
    results = [method(i * ONES) for i in range(5)]
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, 2 * i * ONES)
        assert result.flags.owndata and result.flags.writeable
        result[:] = -1
    np.testing.assert_array_equal(method(ONES), 2 * ONES)


@pytest.mark.parametrize("planned", [False, True])
def test_inputs_are_not_kept(planned: bool) -> None:
    """The reference keeps the address of an unplanned input after the call."""
    plan = Plan()
    x = plan.input((4,), **({} if planned else {"at": None}))
    plan.call("aten::add.out", x, x, 1, plan.output((4,)))
    method = load(build(plan))
    value = ONES.copy()
    gone = weakref.ref(value)
    method(value)
    del value
    gc.collect()
    assert gone() is None
    with pytest.raises(InvalidArgumentError, match="takes 1 input"):
        method.execute([])
    np.testing.assert_array_equal(method(3 * ONES), 6 * ONES)


def test_array_subclasses() -> None:
    class Mine(np.ndarray):
        pass

    method = load(build(adding()[0]))
    output = method(ONES.view(Mine))
    assert type(output) is np.ndarray
    np.testing.assert_array_equal(output, 2 * ONES)
    np.testing.assert_array_equal(method(torch.nn.Parameter(torch.ones(4)).detach()), 2 * ONES)


def test_errors_name_the_place() -> None:
    plan, (x, y) = adding()
    plan.call("aten::add.out", x, plan.tensor((3,)), 1, y)
    with pytest.raises(executorch_c.Error) as info:
        load(build(plan)).execute([ONES])
    text = str(info.value)
    for part in ("method 'forward'", "instruction 1", "aten::add.out", "(4,)", "(3,)"):
        assert part in text
    assert f"{info.value.code:#x}" in text
