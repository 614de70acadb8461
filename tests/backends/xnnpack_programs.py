"""Special programs with XNNPACK delegates, for test_xnnpack_runtime.py: methods that share weights,
constants in a data file, nodes that no exporter writes."""

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.backends import xnnpack_flow
from tests.backends.xnnpack_flow import Lowered, Net, Row
from tests.backends.xnnpack_payload import Payload, edited


class Classifier(nn.Module):
    """Convolutions, and a linear layer after a reshape that is not delegated."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3))
        self.pool, self.last = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.pool(self.convs(x)).flatten(1)).softmax(-1)


CLASSIFIER = Row(
    "classifier",
    Classifier,
    [[(n, 3, 6, 6)] for n in (8, 3, 3, 7, 1, 8)],
    ("XNNConv2d", "XNNFullyConnected"),
    dims={0: {0: 8}},
    delegates=None,
)


def classifier() -> Lowered:
    """Return the program of the classifier, for 1 to 8 images; it has two delegates."""
    found: Lowered = xnnpack_flow.cached(
        "classifier", __file__, lambda: xnnpack_flow.export(CLASSIFIER)
    )
    return found


def eager_classifier() -> Classifier:
    """Return the exported eager model: inputs are drawn before it is created."""
    torch.manual_seed(0)
    for shapes in CLASSIFIER.calls:
        CLASSIFIER.draw(*shapes)
    return Classifier().eval()


class Layers(nn.Module):
    """Two linear layers, 1 MB of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(256, 512), nn.Linear(512, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


WEIGHTS = 2 * 256 * 512
"""Number of elements of the matrices of `Layers`."""


@torch.no_grad()
def _two_methods(scheme: str) -> tuple[bytes, dict[str, Any]]:
    torch.manual_seed(0)
    inputs = {"prefill": torch.randn(6, 256), "decode": torch.randn(1, 256)}
    net = xnnpack_flow.SCHEMES[scheme](Layers().eval(), (inputs["prefill"],), None)
    programs = {name: torch.export.export(net, (x,)) for name, x in inputs.items()}
    pte = bytes(xnnpack_flow.lower(programs).buffer)
    return pte, {name: (x.numpy(), net(x).numpy()) for name, x in inputs.items()}


def two_methods(scheme: str = "float32") -> tuple[bytes, dict[str, Any]]:
    """Return a program with methods prefill and decode that share weights, and an input and output
    of each by name."""
    found: tuple[bytes, dict[str, Any]] = xnnpack_flow.cached(
        f"methods-{scheme}", __file__, lambda: _two_methods(scheme)
    )
    return found


class Tied(nn.Module):
    """A layer whose weights are used with two biases, and without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Linear(64, 64, bias=False)
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        self.first.weight = self.second.weight = self.plain.weight

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.plain(x), self.first(x), self.second(x)


@torch.no_grad()
def _tied(scheme: str) -> tuple[bytes, Any, list[Any]]:
    torch.manual_seed(0)
    x = torch.randn(3, 64)
    net = xnnpack_flow.SCHEMES[scheme](Tied().eval(), (x,), None)
    made = xnnpack_flow.lower(torch.export.export(net, (x,)))
    return bytes(made.buffer), x.numpy(), [y.numpy() for y in net(x)]


def tied(scheme: str) -> tuple[bytes, Any, list[Any]]:
    """Return a program whose linear layers share weights and differ in biases, with input and
    outputs."""
    found: tuple[bytes, Any, list[Any]] = xnnpack_flow.cached(
        f"tied-{scheme}", __file__, lambda: _tied(scheme)
    )
    return found


@torch.no_grad()
def _with_data_file() -> tuple[bytes, bytes, Any, Any]:
    from executorch.exir.passes.external_constants_pass import (
        delegate_external_constants_pass_unlifted,
    )

    torch.manual_seed(0)
    net, x = Net(nn.Linear(8, 4)).eval(), torch.randn(3, 8)
    graph = torch.export.export(net, (x,)).module()
    delegate_external_constants_pass_unlifted(graph, lambda node: "weights")
    made = xnnpack_flow.lower(torch.export.export(graph, (x,)))
    with tempfile.TemporaryDirectory() as folder:
        made.write_tensor_data_to_file(folder)
        [file] = Path(folder).glob("*.ptd")
        data = file.read_bytes()
    return bytes(made.buffer), data, x.numpy(), net(x).numpy()


def with_data_file() -> tuple[bytes, bytes, Any, Any]:
    """Return a program, its .ptd, an input and its output."""
    found: tuple[bytes, bytes, Any, Any] = xnnpack_flow.cached(
        "data_file", __file__, _with_data_file
    )
    return found


def attention(tokens: int, keys: int, channels: int, values: int) -> tuple[bytes, Any, Any]:
    """Return a program with ScaledDotProductAttention, which no exporter writes, its inputs (query,
    key, value, scale by channel, mask) and eager's output."""

    def stand_in(q: Any, k: Any, v: Any, scale: Any, mask: Any) -> Any:
        return (q * scale).bmm(k.transpose(1, 2)).add(mask).bmm(v)

    torch.manual_seed(0)
    shapes = (
        (2, tokens, channels),
        (2, keys, channels),
        (2, keys, values),
        (channels,),
        (tokens, keys),
    )
    inputs = tuple(torch.randn(shape) for shape in shapes)
    q, k, v, scale, mask = inputs
    wanted = ((q * scale) @ k.transpose(1, 2) + mask).softmax(-1) @ v

    def change(payload: Payload, named: dict[str, bytes]) -> Payload:
        graph = payload.graph
        keep = [value for value in graph["xvalues"] if value["xvalue_union"].get("flags", 0)]
        keep.sort(key=lambda value: value["xvalue_union"].get("external_id", 0))
        for i, value in enumerate(keep):
            value["xvalue_union"]["id_out"] = i
        names = ("query_id", "scale_id", "key_id", "mask_id", "value_id", "output_id")
        node = {name: i for i, name in enumerate(names)}
        graph["xvalues"], graph["constant_data"] = keep, graph["constant_data"][:1]
        graph["xnodes"] = [
            {
                "xnode_union_type": "XNNScaledDotProductAttention",
                "xnode_union": node,
                "debug_handle": 1,
            }
        ]
        return payload

    program = torch.export.export(Net(stand_in), inputs)
    pte = edited(bytes(xnnpack_flow.lower(program).buffer), change)
    return pte, [x.numpy() for x in inputs], wanted.numpy()
