"""Sample arguments of the operators in csrc/kernels/pool, by operator name."""

from collections.abc import Iterator

import numpy as np

from tests.kernels.eager import Samples, array, eager

# By the number of spatial dimensions.
LAYOUTS = {
    1: [((2, 3, 9), None), ((1, 18, 8), (0, 2, 1)), ((4, 9), None), ((0, 3, 9), None)],
    2: [
        *(((2, 3, 8, 9), None), ((1, 18, 7, 8), (0, 2, 3, 1)), ((4, 8, 9), None)),
        ((0, 3, 8, 9), None),
    ],
    3: [
        *(((1, 2, 4, 3, 5), None), ((1, 6, 3, 4, 3), (0, 2, 3, 4, 1)), ((2, 3, 4, 5), None)),
        ((0, 3, 4, 4, 5), None),
    ],
}


def inputs(rng: np.random.Generator, dtype: str, axes: int) -> list[np.ndarray]:
    return [array(rng, shape, dtype, order) for shape, order in LAYOUTS[axes]]


def max_pool(axes: int) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for x in inputs(rng, dtype, axes):
            yield [x, [2] * axes, [], [0] * axes, [1] * axes, False]
            yield [x, [3], [2], [1], [1], True]
            yield [x, [3, 2, 2][:axes], [2, 3, 1][:axes], [1, 0, 1][:axes], [1, 2, 2][:axes], True]

    return samples


def avg_pool(axes: int) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for x in inputs(rng, dtype, axes):
            for divisor in ([7], [None]) if axes > 1 else ([], []):
                yield [x, [2] * axes, [], [0] * axes, False, True, *divisor]
                lists = [[3, 2, 3][:axes], [2, 1, 2][:axes], [1, 0, 1][:axes]]
                yield [x, *lists, True, True, *divisor]
                yield [x, [3], [2], [1], True, False, *divisor]

    return samples


def adaptive(axes: int) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for x in inputs(rng, dtype, axes):
            # eager computes a single output as a mean, which supports complex numbers
            for size in ([1, 1, 1] if axes > 1 else [2], [3, 4, 2], [10, 8, 3]):
                yield [x, size[:axes]]

    return samples


def fractional(axes: int) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        if "int" in dtype or dtype == "bool":
            return
        for x in inputs(rng, dtype, axes):
            n = x.shape[0] if x.ndim == axes + 2 else 1
            for kernel, size in (([2, 1, 2], [1, 2, 1]), ([1, 2, 1], [2, 1, 2])):
                random = rng.random((n, x.shape[-axes - 1], axes)).astype(x.dtype)
                yield [x, kernel[:axes], size[:axes], random]

    return samples


def gradient(rng: np.random.Generator, dtype: str, pooled: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return gradients of a pooling's output, in the order of its input."""
    return array(rng, pooled.shape, dtype, np.argsort([-s for s in x.strides], kind="stable"))


def max_pool_backward(axes: int) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for x, *lists in max_pool(axes)(rng, dtype):
            name = f"aten::max_pool{axes}d_with_indices.out"
            pooled, indices = eager(name, [x.real.astype("float32"), *lists])
            lists[1] = lists[1] or lists[0]
            yield [gradient(rng, dtype, pooled, x), x, *lists, indices]

    return samples


def avg_pool_backward(axes: int) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for x, *rest in avg_pool(axes)(rng, dtype):
            (pooled,) = eager(f"aten::avg_pool{axes}d.out", [x.real.astype("float32"), *rest])
            rest[1] = rest[1] or rest[0]
            yield [gradient(rng, dtype, pooled, x), x, *rest]

    return samples


def adaptive_backward(axes: int, indexed: bool) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for x, size in adaptive(axes)(rng, dtype):
            if x.size == 0:
                continue  # eager ends the process
            name = f"aten::adaptive_max_pool{axes}d.out"
            pooled, indices = eager(name, [x.real.astype("float32"), size])
            yield [gradient(rng, dtype, pooled, x), x, *([indices] if indexed else [])]

    return samples


def fractional_backward(axes: int) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for x, kernel, size, random in fractional(axes)(rng, "float32"):
            if x.size:
                name = f"aten::fractional_max_pool{axes}d.output"
                pooled, indices = eager(name, [x, kernel, size, random])
                grad = gradient(rng, dtype, pooled, x)
                yield [grad, x.astype(grad.dtype), kernel, size, indices]

    return samples


SAMPLES = {
    "aten::max_pool2d_with_indices.out": max_pool(2),
    "aten::max_pool3d_with_indices.out": max_pool(3),
    "aten::avg_pool1d.out": avg_pool(1),
    "aten::avg_pool2d.out": avg_pool(2),
    "aten::avg_pool3d.out": avg_pool(3),
    "aten::adaptive_avg_pool1d.out": adaptive(1),
    "aten::_adaptive_avg_pool2d.out": adaptive(2),
    "aten::_adaptive_avg_pool3d.out": adaptive(3),
    "aten::adaptive_max_pool2d.out": adaptive(2),
    "aten::adaptive_max_pool3d.out": adaptive(3),
    "aten::fractional_max_pool2d.output": fractional(2),
    "aten::fractional_max_pool3d.output": fractional(3),
    "aten::max_pool2d_with_indices_backward.grad_input": max_pool_backward(2),
    "aten::max_pool3d_with_indices_backward.grad_input": max_pool_backward(3),
    "aten::avg_pool2d_backward.grad_input": avg_pool_backward(2),
    "aten::avg_pool3d_backward.grad_input": avg_pool_backward(3),
    "aten::_adaptive_avg_pool2d_backward.out": adaptive_backward(2, False),
    "aten::_adaptive_avg_pool3d_backward.out": adaptive_backward(3, False),
    "aten::adaptive_max_pool2d_backward.grad_input": adaptive_backward(2, True),
    "aten::adaptive_max_pool3d_backward.grad_input": adaptive_backward(3, True),
    "aten::fractional_max_pool2d_backward.grad_input": fractional_backward(2),
    "aten::fractional_max_pool3d_backward.grad_input": fractional_backward(3),
}
