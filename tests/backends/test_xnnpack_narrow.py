"""Float layers of few outputs, for which there are narrower kernels, compared with PyTorch."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")

import executorch_c as et
from tests.backends.xnnpack_graphs import Graph

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")

CHANNELS = (1, 2, 6, 15, 16, 17, 31, 32, 33, 48, 80, 112, 113)
"""Multiples of 16 and 32, their neighbours, and counts on both sides of each choice of kernel."""


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def check(graph: Graph, x: np.ndarray, expected: torch.Tensor) -> None:
    """Run with one and two threads, which give the same bits."""
    program = et.Runtime.get().load_program(graph.program())
    one, two = (
        program.load_method("forward", num_threads=threads).execute([x])[0] for threads in (1, 2)
    )
    assert np.array_equal(one, two)
    np.testing.assert_allclose(one, expected.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("count", CHANNELS)
def test_convolutions(count: int, window: int, groups: int) -> None:
    x, bias = numbers(1, 9, 11, 5 * groups), numbers(count * groups)
    weight, pad = numbers(count * groups, window, window, 5), window // 2
    graph = Graph()
    ends = [
        graph.input(x.shape),
        graph.constant(weight),
        graph.constant(bias),
        graph.output((1, 9, 11, count * groups)),
    ]
    graph.conv(
        "Conv2d",
        *ends,
        window=(window, window),
        channels=(5, count),
        groups=groups,
        padding=(pad,) * 4,
    )
    expected = torch.conv2d(
        torch.from_numpy(x).permute(0, 3, 1, 2),
        torch.from_numpy(weight).permute(0, 3, 1, 2),
        torch.from_numpy(bias),
        padding=pad,
        groups=groups,
    )
    check(graph, x, expected.permute(0, 2, 3, 1))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("count", CHANNELS)
def test_transposed_convolutions(count: int, stride: int) -> None:
    x, weight, bias = numbers(1, 5, 9, 7), numbers(count, 2, 2, 7), numbers(count)
    expected = torch.conv_transpose2d(
        torch.from_numpy(x).permute(0, 3, 1, 2),
        torch.from_numpy(weight).permute(3, 0, 1, 2),
        torch.from_numpy(bias),
        stride=stride,
    ).permute(0, 2, 3, 1)
    graph = Graph()
    ends = [
        graph.input(x.shape),
        graph.constant(weight),
        graph.constant(bias),
        graph.output(tuple(expected.shape)),
    ]
    graph.conv(
        "ConvTranspose2d", *ends, window=(2, 2), channels=(7, count), stride=(stride, stride)
    )
    check(graph, x, expected)


@pytest.mark.parametrize("rows", [1, 2, 7, 20])
@pytest.mark.parametrize("count", CHANNELS)
def test_products(count: int, rows: int) -> None:
    x, weight, bias = numbers(rows, 19), numbers(count, 19), numbers(count)
    graph = Graph()
    graph.node(
        "FullyConnected",
        input1_id=graph.input(x.shape),
        filter_id=graph.constant(weight),
        bias_id=graph.constant(bias),
        output_id=graph.output((rows, count)),
    )
    check(graph, x, torch.from_numpy(x @ weight.T + bias))
