"""Payloads without conversions and outputs that they need, as the official flow (1.5.1) writes them
for a padding after a quantised node: equal to quantised eager. The official runtime refuses them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")
pytest.importorskip("torchao")

import executorch_c as et
from tests.backends import xnnpack_flow as flow
from tests.openers import Opener
from torch import Tensor, nn
from torch.nn import functional as F
from tests.backends.xnnpack_graphs import Graph
from tests.backends.xnnpack_graphs import Tensor as Scaled
from tests.backends.xnnpack_judge import assert_close

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")

CODES = Scaled(0.125, -3)
NUMBERS = np.random.default_rng(7).normal(scale=6, size=(2, 5)).astype(np.float32)


class Padded(nn.Module):
    """A quantised sum, padded, as in the window partition of a Swin transformer."""

    def __init__(self, pad: tuple[int, ...], after: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.pad, self.after = nn.Linear(8, 8), pad, after

    def forward(self, x: Tensor) -> Tensor:
        x = (x + self.linear(x)).view(-1, 4, 4, 8)
        return self.after(F.pad(x, self.pad))


def windows(x: Tensor) -> Tensor:
    return x.view(x.shape[0], -1, 2, 8).permute(0, 2, 1, 3).reshape(x.shape[0], -1, 8)


TABLE = flow.Rows(__file__, delegates=None, datatypes=("qint8", "fp32"))
SHAPES = {"nothing": (0, 0, 0, 0), "rows": (0, 0, 0, 2, 0, 1)}
AFTER: dict[str, Callable[[Tensor], Tensor]] = {
    "last": lambda x: x,
    "windows": windows,
    "exp": torch.exp,
}
for size, pad in SHAPES.items():
    for name, after in AFTER.items():
        # With a dynamic batch, the flow does not delegate the permutation.
        dynamic = name != "windows"
        TABLE.add(
            f"{name}_{size}",
            lambda pad=pad, after=after: Padded(pad, after),
            [[(3, 16, 8)], *([[(2, 16, 8)]] if dynamic else [])],
            "XNNStaticConstantPad",
            schemes=["static_channel"],
            dims={0: {0: 3}} if dynamic else {},
        )


@pytest.mark.parametrize("row", TABLE.rows, ids=TABLE.ids())
def test_padding_of_a_quantised_sum(row: flow.Row, ours: Opener, official: Opener) -> None:
    lowered = flow.load(row)
    run = ours(lowered.pte)
    for call in lowered.calls:
        assert_close(run("forward", call.inputs), call.outputs, call.rooms)
    with pytest.raises(RuntimeError, match="Failed to load method"):
        official(lowered.pte)("forward", lowered.calls[0].inputs)


def test_traces_show_the_conversions() -> None:
    [row] = [row for row in TABLE.rows if row.name == "last_rows"]
    lowered = flow.load(row)
    method = et.Runtime.get().load_program(lowered.pte).load_method("forward")
    with method.tracing(values=True) as trace:
        (found,) = method.execute(lowered.calls[0].inputs)
    names = [event.name.split(" (")[0] for event in trace.events if event.delegate is not None]
    assert names[-3:] == ["Constant Pad", "Unary Elementwise", "Unary Elementwise"]
    np.testing.assert_array_equal(found, method.execute(lowered.calls[0].inputs)[0])


def quantised(x: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x / CODES.scale) + CODES.zero_point, -128, 127).astype(np.int8)


def dequantised(x: np.ndarray) -> np.ndarray:
    return ((x.astype(np.float32) - CODES.zero_point) * CODES.scale).astype(np.float32)


def coded(graph: Graph, kind: str, of: int, dims: tuple[int, ...] = (2, 5)) -> int:
    """Add a node that makes int8 out of a value."""
    result = graph.value(dims, "qint8", CODES)
    graph.unary(kind, of, result)
    return result


def run(graph: Graph, *inputs: np.ndarray) -> Any:
    return et.Runtime.get().load_program(graph.program()).load_method("forward").execute(inputs)


def test_both_sides_of_a_sum() -> None:
    """An addition of int8 and float32 to int8 adds in float32."""
    graph = Graph()
    x = graph.input((2, 5))
    y = graph.output((2, 5), "qint8", CODES)
    graph.binary("Add", coded(graph, "Convert", x), x, y)
    expected = quantised(dequantised(quantised(NUMBERS)) + NUMBERS)
    np.testing.assert_array_equal(run(graph, NUMBERS)[0], expected)


def test_concatenation_of_int8_and_float32() -> None:
    graph = Graph()
    x = graph.input((2, 5))
    y = graph.output((4, 5))
    graph.concatenate([coded(graph, "Convert", x), x], y, axis=0)
    expected = np.concatenate([dequantised(quantised(NUMBERS)), NUMBERS])
    np.testing.assert_array_equal(run(graph, NUMBERS)[0], expected)


@pytest.mark.parametrize("codes", [None, CODES], ids=["float32", "int8"])
def test_lost_output(codes: Scaled | None) -> None:
    """The only result that nothing reads is the last argument; its integers are dequantised."""
    graph = Graph()
    x, y = graph.input((2, 5)), graph.output((2, 5))
    z = graph.output((2, 5), "qint8" if codes else "fp32", codes)
    graph.unary("Abs", x, y)
    graph.unary("Negate", x, z)
    graph.lost.add(z)
    rounded = dequantised(quantised(-NUMBERS)) if codes else -NUMBERS
    for found, expected in zip(run(graph, NUMBERS), [np.abs(NUMBERS), rounded], strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("lost", [(0,), (0, 1), (1,)])
def test_outputs_that_cannot_be_found(lost: tuple[int, ...]) -> None:
    """An output before another one, two outputs, or one of two results may be anything."""
    graph = Graph()
    x = graph.input((2, 5))
    outputs = [graph.output((2, 5)), graph.output((2, 5))]
    for kind, y in zip(("Abs", "Negate"), outputs, strict=True):
        graph.unary(kind, x, y)
    graph.unary("Square", x, graph.value((2, 5)))
    graph.lost.update(outputs[place] for place in lost)
    with pytest.raises(et.Error, match="it has no outputs|lost an output"):
        run(graph, NUMBERS)


class Twice(nn.Module):
    """A quantised sum that a delegate reads as integers, and an operator outside as floats."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.first(x) + 1.0
        return self.last(y - y.mean(-1, keepdim=True)), F.layer_norm(y, (16,))


def test_an_input_that_is_only_dequantised_is_said_to_be_lost() -> None:
    """The flow gives the layer norm a delegate's output that the payload does not have. Here and in
    the official runtime, its memory has another tensor; check_model finds the outputs wrong."""
    from executorch_c.testing import check_model

    torch.manual_seed(0)
    found = check_model(Twice().eval(), (torch.randn(4, 16),), flow="xnnpack-int8", n_random=0)
    assert found.verdict == "differ", str(found)
    notes = [note for note in found.notes if "nothing writes" in note]
    assert len(notes) == 1 and "native_layer_norm" in notes[0], found.notes
    assert "only dequantised" in notes[0]
