"""Recurrent layers, whose steps are small calls on the same weights: results of eager, the same
bits in each call and for any number of threads."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from executorch_c import Runtime
from tests.exports import lowered

LSTM, GRU, RNN = nn.LSTM, nn.GRU, nn.RNN


class Layer(nn.Module):
    """A recurrent layer that returns all outputs and states, and reads states if `takes`."""

    def __init__(self, net: nn.Module, takes: bool = False) -> None:
        super().__init__()
        self.net, self.takes = net, takes

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        hidden = (state if len(state) > 1 else state[0]) if self.takes else None
        y, last = self.net(x, hidden)
        return (y, *(last if isinstance(last, tuple) else (last,)))


class Cells(nn.Module):
    """A cell whose gates are read by others, too: the state between its steps is an output."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.gate = nn.LSTMCell(24, 32), nn.Linear(32, 128)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        h = c = x.new_zeros(2, 32)
        seen = []
        for k in range(3):
            h, c = self.cell(x[k], (h, c))
            seen += [h, c.tanh(), self.gate(h).chunk(4, 1)[1]]
        return (*seen, torch.stack(seen[::3], 1))


def case(
    net: nn.Module, *shape: int, states: int = 0
) -> Callable[[], tuple[nn.Module, list[Tensor]]]:
    rows = shape[0] if getattr(net, "batch_first", False) else shape[1]
    width = getattr(net, "hidden_size", 0)
    hidden = [torch.randn(1, rows, width) for _ in range(states)]
    return lambda: (Layer(net, bool(states)), [torch.randn(*shape), *hidden])


CASES = {
    "lstm": lambda: case(LSTM(24, 64, batch_first=True), 1, 4, 24)(),
    "lstm_2": lambda: case(LSTM(24, 64, num_layers=2), 4, 2, 24)(),
    "lstm_5": lambda: case(LSTM(24, 40, batch_first=True), 5, 3, 24)(),
    "lstm_wide": lambda: case(LSTM(64, 128, batch_first=True), 2, 3, 64)(),
    "bidirectional": lambda: case(LSTM(24, 32, bidirectional=True), 3, 2, 24)(),
    "projection": lambda: case(LSTM(24, 64, proj_size=16), 3, 2, 24)(),
    "lstm_states": lambda: case(LSTM(24, 64), 3, 2, 24, states=2)(),
    "gru": lambda: case(GRU(24, 72, batch_first=True), 1, 4, 24)(),
    "gru_2": lambda: case(GRU(24, 72, num_layers=3), 3, 2, 24)(),
    "gru_states": lambda: case(GRU(24, 64), 3, 1, 24, states=1)(),
    "tanh": lambda: case(RNN(24, 72), 4, 2, 24)(),
    "relu": lambda: case(RNN(24, 72, nonlinearity="relu", batch_first=True), 1, 4, 24)(),
    "cells": lambda: (Cells(), [torch.randn(3, 2, 24)]),
}
FEW = ("lstm", "lstm_2", "lstm_wide", "gru_2", "cells")


def inputs_of(inputs: list[Tensor], delegated: bool) -> list[list[Tensor]]:
    """Return the inputs, and others; without a delegate, which may lose them, infinity and NaN."""
    other = [x.flip(0) * 3 for x in inputs]
    broken = []
    for value in () if delegated else (float("inf"), float("nan")):
        x = inputs[0].clone()
        x.flatten()[5] = value
        broken.append([x, *inputs[1:]])
    return [inputs, other, *broken, inputs]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FEW else pytest.mark.heavy) for n in CASES]
)
@pytest.mark.parametrize("delegated", [False, True], ids=["kernels", "delegated"])
def test_recurrent_layers(name: str, delegated: bool) -> None:
    torch.manual_seed(0)
    model, inputs = CASES[name]()
    program = Runtime.get().load_program(lowered(model.eval(), *inputs, delegated=delegated))
    kinds = (
        [{}, {"num_threads": 2}]
        if delegated
        else [
            {"delegate_at_load": False},
            {"delegate_at_load": False, "num_threads": 2},
            {"delegate_at_load": False, "passes": ["fold"]},
            {},
        ]
    )
    methods = [program.load_method("forward", **kind) for kind in kinds]
    for tensors in inputs_of(inputs, delegated):
        arrays = [x.numpy() for x in tensors]
        with torch.no_grad():
            expected = [x.numpy() for x in model(*tensors)]
        results = [[m.execute(arrays) for _ in range(3)] for m in methods]
        for calls in results:
            for outputs in calls:
                for one, other, first in zip(outputs, expected, calls[0], strict=True):
                    np.testing.assert_array_equal(one, first)
                    np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-6)
        for one, other in zip(results[0][0], results[1][0], strict=True):
            np.testing.assert_array_equal(one, other)  # any number of threads
        with methods[0].tracing() as trace:
            traced = methods[0].execute(arrays)
        assert len(trace.events) > 20
        for one, other in zip(traced, results[0][0], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
