"""Large loops run on several threads, with bitwise equal results."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401  (torch.ops.llama)
import numpy as np
import pytest
import torch
from torch.nn import functional as F

import executorch_c
from executorch_c.testing import compare
from tests.exports import export

EXAMPLE = Path(executorch_c.__file__).parent / "examples" / "digits.pte"
runtime = executorch_c.Runtime.get()
pooled = runtime.load_program(EXAMPLE).load_method("forward", num_threads=2).num_threads == 2
pytestmark = pytest.mark.skipif(not pooled, reason="built without pthreadpool: one thread")


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=torch.float32).to(dtype)
    return torch.randint(-50, 50, shape, generator=generator).to(dtype)


def channels_last(*shape: int) -> torch.Tensor:
    return tensor(*shape).to(memory_format=torch.channels_last)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    start = k.shape[1] - q.shape[1]
    return torch.ops.llama.custom_sdpa(q, k, v, start, None, 0.0, True)


Case = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]
CASES: dict[str, Case] = {
    "mm": (torch.mm, (tensor(301, 257), tensor(257, 403))),
    "mm deep": (torch.mm, (tensor(150, 3000), tensor(3000, 290))),
    "mm turned": (lambda a, b: torch.mm(a.T, b.T), (tensor(257, 301), tensor(403, 257))),
    "mm int": (torch.mm, tuple(tensor(300, 300, dtype=torch.int64) for _ in range(2))),
    "bmm": (torch.bmm, (tensor(3, 200, 190), tensor(3, 190, 210))),
    "linear of a vector": (F.linear, (tensor(1, 2000), tensor(1501, 2000), tensor(1501))),
    "linear half": (
        F.linear,
        tuple(tensor(*s, dtype=torch.float16) for s in ((257, 400), (500, 400), (500,))),
    ),
    "vector times matrix": (torch.mm, (tensor(1, 1500), tensor(1500, 2003))),
    "convolution": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        (tensor(1, 33, 61, 67), tensor(70, 33, 3, 3), tensor(70)),
    ),
    "convolution of groups": (
        lambda x, w: F.conv2d(x, w, stride=2, groups=2),
        (tensor(2, 64, 75, 75), tensor(64, 32, 3, 3)),
    ),
    "transposed convolution": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        (tensor(1, 32, 50, 50), tensor(32, 40, 3, 3)),
    ),
    "depthwise": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=96),
        (tensor(2, 96, 71, 73), tensor(96, 1, 3, 3), tensor(96)),
    ),
    "depthwise, stride": (
        lambda x, w: F.conv2d(x, w, stride=2, groups=96),
        (tensor(1, 96, 111, 113), tensor(96, 1, 5, 5)),
    ),
    "depthwise, channels last": (
        lambda x, w: F.conv2d(x, w, padding=2, groups=96),
        (channels_last(1, 96, 71, 73), tensor(96, 1, 5, 5)),
    ),
    "add": (torch.add, (tensor(1_000_003), tensor(1_000_003))),
    "gelu": (F.gelu, (tensor(77, 5003),)),
    "broadcast": (torch.mul, (tensor(700, 1, 31), tensor(1, 31, 1))),
    "turned": (lambda a, b: a + b.T, (tensor(1200, 900), tensor(900, 1200))),
    "mixed dtypes": (torch.add, (tensor(400_001, dtype=torch.int32), tensor(1))),
    "half": (torch.sigmoid, (tensor(601, 703, dtype=torch.float16),)),
    "compare": (torch.gt, (tensor(3, 333_333), tensor(3, 1))),
    "softmax": (lambda x: F.softmax(x, -1), (tensor(999, 501),)),
    "softmax, outer": (lambda x: F.softmax(x, 1), (tensor(5, 300, 307),)),
    "log_softmax of few rows": (lambda x: F.log_softmax(x, -1), (tensor(3, 200_003),)),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (501,), w, b),
        (tensor(7, 151, 501), tensor(501), tensor(501)),
    ),
    "group_norm": (lambda x: F.group_norm(x, 6), (tensor(4, 18, 67, 65),)),
    "batch_norm": (lambda x, m: F.batch_norm(x, m, m * m + 1), (tensor(2, 7, 219, 101), tensor(7))),
    "sum of rows": (lambda x: x.sum(-1), (tensor(701, 503),)),
    "sum of columns": (lambda x: x.sum(0), (tensor(503, 701),)),
    "sum of planes": (lambda x: x.sum((1, 3)), (tensor(9, 31, 37, 41),)),
    "mean of rows, half": (lambda x: x.mean(-1), (tensor(1201, 503, dtype=torch.float16),)),
    "mean of all": (torch.mean, (tensor(701, 1003),)),
    "var": (lambda x: x.var(0), (tensor(503, 701),)),
    "var of all": (torch.var, (tensor(701, 1003),)),
    "amax": (lambda x: x.amax(1), (tensor(99, 501, 17),)),
    "max of all": (torch.max, (tensor(701, 1003, dtype=torch.int64),)),
    "argmin": (lambda x: x.argmin(-1), (tensor(701, 503, dtype=torch.int32),)),
    "argmax of all": (torch.argmax, (tensor(701, 1003, dtype=torch.int32),)),
    "any of all": (lambda x: x.ne(x).any(), (tensor(701, 1003),)),
    "prod": (lambda x: (x * 0.01 + 1).prod(0), (tensor(503, 701),)),
    "permute": (
        lambda x: x.permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format),
        (tensor(3, 17, 101, 103),),
    ),
    "transpose, half": (lambda x: x.t().contiguous(), (tensor(1001, 603, dtype=torch.float16),)),
    "cast": (lambda x: x.to(torch.int32), (tensor(701, 1003),)),
    "cat": (lambda x, y: torch.cat([x, y], 1), (tensor(901, 300), tensor(901, 403))),
    "unfold": (lambda x: x.unfold(1, 8, 4), (tensor(133, 1501),)),
    "pad": (lambda x: F.pad(x, (1, 2, 3, 4)), (tensor(3, 17, 101, 103),)),
    "expand": (lambda x: x.expand(701, 503).clone(), (tensor(1, 503),)),
    "full": (lambda x: torch.full_like(x, 2.5), (tensor(701, 1003),)),
    "tril": (lambda x: x.tril(-3), (tensor(3, 503, 401),)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), (tensor(2, 17, 101, 103),)),
    "max_pool2d, channels last": (
        lambda x: F.max_pool2d(x, 3, 2, 1),
        (channels_last(1, 24, 101, 103),),
    ),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), (tensor(1, 17, 101, 103),)),
    "avg_pool2d, channels last": (
        lambda x: F.avg_pool2d(x, 3, 2, 1),
        (channels_last(1, 24, 101, 103),),
    ),
    "adaptive_avg_pool2d, half": (
        lambda x: F.adaptive_avg_pool2d(x, (7, 5)),
        (tensor(2, 17, 101, 103, dtype=torch.float16),),
    ),
    "embedding": (F.embedding, (tensor(1501).long().abs(), tensor(60, 301))),
    "index_select": (
        lambda x, i: x.index_select(1, i),
        (tensor(301, 60, 7), tensor(301).long().abs()),
    ),
    "index": (lambda x, i: x[i], (tensor(60, 301), tensor(1501).long().abs())),
    "index_put": (
        lambda x, i, y: x.index_put((i,), y),
        (tensor(60, 3001), tensor(151).long().abs(), tensor(151, 3001)),
    ),
    "gather": (
        lambda x, i: x.gather(1, i),
        (tensor(301, 60), tensor(301, 1003, dtype=torch.int64).abs()),
    ),
    "attention of one row": (attention, (tensor(1, 1, 12, 64), *[tensor(1, 1001, 12, 64)] * 2)),
    "attention, grouped": (attention, (tensor(2, 2, 12, 40), *[tensor(2, 1001, 4, 40)] * 2)),
    "attention of blocks": (attention, (tensor(1, 201, 6, 64), *[tensor(1, 401, 2, 64)] * 2)),
    "hadamard": (torch.ops.llama.fast_hadamard_transform, (tensor(301, 28 * 64),)),
    "delta rule": (
        lambda *args: torch.ops.llama.gated_delta_rule(*args)[0],
        (
            *(tensor(1, 12, 9, 64), tensor(1, 6, 9, 64) / 30, tensor(1, 6, 9, 70)),
            *(tensor(1, 6, 9).sigmoid(), tensor(1, 6, 9).sigmoid(), tensor(1, 6, 64, 70)),
        ),
    ),
}


def thread_count() -> int:
    """Return the number of threads; joined ones stay in /proc for a moment."""
    result, again = -1, len(os.listdir("/proc/self/task"))
    while result != again:
        time.sleep(0.02)
        result, again = again, len(os.listdir("/proc/self/task"))
    return result


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", CASES)
def test_the_same_bits(name: str) -> None:
    fn, inputs = CASES[name]
    program = runtime.load_program(export(fn, *inputs))
    arrays = [x.numpy() for x in inputs]
    alone = program.load_method("forward", num_threads=1, delegate_at_load=False)(*arrays)
    expected = fn(*inputs)
    assert compare(alone, expected).verdict != "differ", compare(alone, expected)
    for threads in (2, 3, 6):
        before = thread_count()  # before constants are folded, on all threads
        method = program.load_method("forward", num_threads=threads, delegate_at_load=False)
        for _ in range(3):
            np.testing.assert_array_equal(method(*arrays), alone)
        if threads != runtime.num_threads:  # other tests may have started its pool
            assert thread_count() == before + threads - 1, "ran on one thread"
        del method


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_delegated_at_load(name: str) -> None:
    fn, inputs = CASES[name]
    program = runtime.load_program(export(fn, *inputs))
    arrays = [x.numpy() for x in inputs]
    options = {"delegate_at_load": "always"}
    alone, *others = [
        program.load_method("forward", num_threads=n, **options)(*arrays) for n in (1, 2, 3, 6)
    ]
    for result in others:
        np.testing.assert_array_equal(result, alone)


def test_small_loops_and_reference_kernels_stay_on_one() -> None:
    small = runtime.load_program(export(torch.mm, tensor(40, 40), tensor(40, 40)))
    large = runtime.load_program(export(torch.add, *CASES["add"][1]))
    for program, options, shape in (
        (small, {}, (40, 40)),
        (large, {"kernels": "reference"}, (1_000_003,)),
    ):
        method = program.load_method("forward", num_threads=7, delegate_at_load=False, **options)
        before = thread_count()
        method(np.ones(shape, np.float32), np.ones(shape, np.float32))
        assert thread_count() == before


def test_bad_index_on_any_thread() -> None:
    index = torch.zeros(300, 1003, dtype=torch.int64)
    program = runtime.load_program(export(lambda x, i: x.gather(1, i), tensor(300, 60), index))
    method = program.load_method("forward", num_threads=3)
    x = tensor(300, 60).numpy()
    for bad in ((0, 0), (299, 1002), (100, 7)):
        i = index.numpy().copy()
        i[bad] = 60
        i[-1, -1] = 61 if bad != (299, 1002) else 60
        with pytest.raises(executorch_c.InvalidArgumentError, match="index 60 is out of range"):
            method(x, i)
    np.testing.assert_array_equal(method(x, index.numpy()), x[:, :1].repeat(1003, 1))


def test_division_by_zero_on_any_thread() -> None:
    x = torch.ones(1_000_000, dtype=torch.int64)
    program = runtime.load_program(export(lambda a, b: torch.remainder(a, b), x, x))
    method = program.load_method("forward", num_threads=3)
    for at in (0, 500_000, 999_999):
        zero = np.ones(1_000_000, np.int64)
        zero[at] = 0
        with pytest.raises(executorch_c.InvalidArgumentError, match="division by zero"):
            method(x.numpy(), zero)
    np.testing.assert_array_equal(method(x.numpy(), x.numpy()), 0)
