"""Sample arguments of the operators in csrc/kernels/norm, by operator name."""

from collections.abc import Iterator

import numpy as np

from tests.dtypes import np_dtype
from tests.kernels.eager import array

Rng = np.random.Generator


def softmax(rng: Rng, dtype: str) -> Iterator[list]:
    for shape in ((), (3, 37), (2, 5, 3, 20), (2, 0)):
        order = (0, 2, 3, 1) if len(shape) == 4 else None
        x = array(rng, shape, dtype, order)
        for dim in range(-1, max(len(shape), 1)):
            yield [x, dim, False]


def layer_norm(rng: Rng, dtype: str) -> Iterator[list]:
    for shape, order in (((2, 40), None), ((2, 3, 4, 5), None), ((3, 4, 5), (2, 0, 1))):
        for inner in (1, 2):
            sizes = list(shape[len(shape) - inner :])
            w, b = array(rng, sizes, dtype), array(rng, sizes, dtype)
            yield [array(rng, shape, dtype, order), sizes, w, b, 1e-5]
    yield [array(rng, (2, 40), dtype), [40], None, None, 1e-2]


def group_norm(rng: Rng, dtype: str) -> Iterator[list]:
    for shape, groups in (((2, 6, 4, 5), 3), ((1, 4, 30), 1), ((3, 4), 2)):
        n, c = shape[:2]
        w, b = array(rng, (c,), dtype), array(rng, (c,), dtype)
        yield [array(rng, shape, dtype), w, b, n, c, int(np.prod(shape[2:])), groups, 0.1]


MASKS = [[True, True, True], [True, False, False], [False, True, True], [True, False, True]]


def layer_norm_backward(rng: Rng, dtype: str) -> Iterator[list]:
    none = [array(rng, (0, 5), dtype), [5], *[array(rng, (5,), dtype)] * 2]
    cases = [*layer_norm(rng, dtype), none]
    for i, (x, sizes, w, b, *_) in enumerate(cases):
        stats = (*x.shape[: x.ndim - len(sizes)], *[1] * len(sizes))
        mean, rstd = array(rng, stats, dtype), abs(array(rng, stats, dtype))
        order = range(x.ndim)[::-1] if i % 2 else None
        mask = MASKS[1 if w is None else i % 4]
        yield [array(rng, x.shape, dtype, order), x, sizes, mean, rstd, w, b, mask]


def group_norm_backward(rng: Rng, dtype: str) -> Iterator[list]:
    wide = [array(rng, (2, 4, 3, 3), dtype, (0, 2, 3, 1)), None, None, 2, 4, 9, 2]
    none = [array(rng, (0, 4, 3), dtype), array(rng, (4,), dtype), None, 0, 4, 3, 2]
    for i, (x, w, _, n, *rest) in enumerate([*(a[:7] for a in group_norm(rng, dtype)), wide, none]):
        mean, rstd = (array(rng, (n, rest[2]), dtype) for _ in range(2))
        order = np.argsort([-n for n in x.strides], kind="stable")  # eager's order is that of x
        grad, mask = array(rng, x.shape, dtype, order), MASKS[1 if w is None else i % 4]
        yield [grad, x, mean, abs(rstd), w, n, *rest, mask]


def batch(rng: Rng, dtype: str) -> Iterator[list]:
    """Yield input, weight, bias, running mean and variance."""
    for shape, order in (((2, 3, 4, 5), None), ((2, 20, 3, 4), (0, 2, 3, 1)), ((4, 3), None)):
        vectors = [array(rng, shape[1:2], dtype) for _ in range(4)]
        vectors[3] = abs(vectors[3]) + np_dtype(dtype).type(0.5)
        yield [array(rng, shape, dtype, order), *vectors]


def no_training(rng: Rng, dtype: str) -> Iterator[list]:
    for args in batch(rng, dtype):
        yield [*args, 0.1, 1e-3]


def legit(rng: Rng, dtype: str) -> Iterator[list]:
    for args in batch(rng, dtype):
        for training in (True, False):
            copies = [a.copy("K") for a in args]  # running statistics are written
            yield [*copies, training, 0.1, 1e-3]


def no_stats(rng: Rng, dtype: str) -> Iterator[list]:
    for args in batch(rng, dtype):
        yield [*args[:3], True, 0.1, 1e-3]


SAMPLES = {
    "aten::_softmax.out": softmax,
    "aten::_log_softmax.out": softmax,
    "aten::native_layer_norm.out": layer_norm,
    "aten::native_group_norm.out": group_norm,
    "aten::native_layer_norm_backward.out": layer_norm_backward,
    "aten::native_group_norm_backward.out": group_norm_backward,
    "aten::_native_batch_norm_legit_no_training.out": no_training,
    "aten::_native_batch_norm_legit.out": legit,
    "aten::_native_batch_norm_legit.no_stats_out": no_stats,
}
