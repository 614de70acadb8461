"""Programs of linear layers as large as those of a language model, written without a model: gated
feed-forward blocks, each a delegate, and a last layer.

    write(path, Sizes(blocks=45, width=4096, hidden=14336, vocabulary=128256), {"forward": 1})

has 8.5 billion weights of 4 bits. Weights are random; the blocks' have the same bytes, which the
file has once for each of them. Inputs of layers are dynamically quantised, as in 8da4w.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests import plans
from tests.backends.xnnpack_graphs import ABSENT, Channel, Graph, Group, Token
from tests.backends.xnnpack_payload import BACKEND

SPREAD = {"qbint4": 4.3, "qcint4": 4.3, "qcint8": 74}
"""Standard deviations of uniform integers."""
UPDATE = 0.1
"""The part of its input that a block adds, so that many blocks do not overflow."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a program, and the datatype of its weights: groups of 4 bits, or channels."""

    blocks: int
    width: int
    hidden: int
    vocabulary: int
    group: int = 32
    dtype: str = "qbint4"
    has_bias: bool = False

    @property
    def weights(self) -> int:
        """Return the number of weights."""
        return self.width * (3 * self.blocks * self.hidden + self.vocabulary)


@dataclass
class Layers:
    """The linear layers of a program and the data of their weights."""

    sizes: Sizes
    named: dict[str, bytes] = field(default_factory=dict)
    made: dict[str, tuple[bytes, np.ndarray[Any, Any]]] = field(default_factory=dict)

    def weights(self, name: str, outputs: int, inputs: int) -> tuple[bytes, np.ndarray[Any, Any]]:
        """Return the bytes of weights, and scales: results are as large as inputs, or UPDATE."""
        if name not in self.made:
            rng, dtype = np.random.default_rng(len(self.made)), self.sizes.dtype
            groups = inputs // self.sizes.group if dtype == "qbint4" else 1
            if dtype == "qcint8":
                integers = rng.integers(0, 256, outputs * inputs, "uint8")
            else:
                low, high = rng.integers(1, 16, (2, outputs * inputs // 2), "uint8")  # of mean 8
                integers = low | high << 4
            size = (UPDATE if name == "down" else 1) / SPREAD[dtype] / inputs**0.5
            scales = rng.uniform(0.5, 1.5, outputs * groups) * size
            self.made[name] = integers.tobytes(), scales.astype("float32")
        return self.made[name]

    def add(self, graph: Graph, x: int, block: str, name: str, y: int) -> None:
        """Add a linear layer that reads `x` and writes `y`, with named weights."""
        outputs, inputs, dtype = graph.dims(y)[-1], graph.dims(x)[-1], self.sizes.dtype
        content, scales = self.weights(name, outputs, inputs)
        is_grouped = dtype == "qbint4"
        how = Group([], self.sizes.group) if is_grouped else Channel([])
        index = graph.data(content, f"{block}.{name}")
        weight = graph.value((outputs, inputs), dtype, how, constant_buffer_idx=index)
        fields = graph.values[weight]["xvalue_union"][1]["quant_params"][1]
        data = (scales.view("uint32") >> 16).astype("uint16") if is_grouped else scales
        fields["num_scales"] = len(scales)
        fields["scale_buffer_idx"] = graph.data(data.tobytes(), f"{block}.{name}.scales")
        bias = ABSENT
        if self.sizes.has_bias:
            content = np.linspace(-1, 1, outputs, dtype="float32").tobytes()
            index = graph.data(content, f"{block}.{name}.bias")
            bias = graph.value((outputs,), constant_buffer_idx=index)
        graph.linear(x, weight, bias, y)
        self.named |= graph.named

    def block(self, rows: int, number: int) -> Graph:
        """Return a delegate: x + down(sigmoid(gate(x)) * up(x))."""
        graph, hidden = Graph(), (rows, self.sizes.hidden)
        x = graph.input((rows, self.sizes.width))
        tokens = graph.step("Convert", x, dtype="qdint8", how=Token(1))
        gate, up = graph.value(hidden), graph.value(hidden)
        self.add(graph, tokens, f"{number}", "gate", gate)
        self.add(graph, tokens, f"{number}", "up", up)
        active = graph.step("Multiply", graph.step("Sigmoid", gate), up)
        tokens = graph.step("Convert", active, dtype="qdint8", how=Token(1))
        update = graph.value((rows, self.sizes.width))
        self.add(graph, tokens, f"{number}", "down", update)
        graph.binary("Add", x, update, graph.output((rows, self.sizes.width)))
        return graph

    def last(self, rows: int) -> Graph:
        """Return the delegate of the last layer."""
        graph = Graph()
        x = graph.input((rows, self.sizes.width))
        tokens = graph.step("Convert", x, dtype="qdint8", how=Token(1))
        self.add(graph, tokens, "last", "head", graph.output((rows, self.sizes.vocabulary)))
        return graph


def write(path: Path, sizes: Sizes, methods: Mapping[str, int]) -> None:
    """Write a program whose methods share the weights, each with a number of rows at most."""
    layers, payloads, made = Layers(sizes), list[bytes](), list[plans.Plan]()
    for name, rows in methods.items():
        plan = plans.Plan(name)
        x = plan.input((rows, sizes.width), dynamism=plans.BOUNDED)
        graphs = [layers.block(rows, number) for number in range(sizes.blocks)]
        for graph in [*graphs, layers.last(rows)]:
            add = plan.tensor if graph in graphs else plan.output
            y = add(graph.dims(graph.outputs[0]), dynamism=plans.BOUNDED)
            delegate = plan.delegate(BACKEND, len(payloads))
            plan.append(plans.schema.DelegateCall(delegate, [int(x), int(y)]))
            payloads.append(graph.payload())
            x = y
        made.append(plan)
    plans.write(path, *made, payloads=payloads, named=layers.named)
