"""The official XNNPACK flow for tests: rows of models, quantisation, lowering, caching.

A `Row` is one module with its inputs, its quantisation scheme and the required contents of its
delegates, so that no row silently tests the portable operators. `load` exports a row, or reads it
from the cache of the zoo (keyed by this file, the row's file, and versions), with its calls and
eager's outputs.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests import kept, variation
from tests.backends import xnnpack_payload
from tests.backends.xnnpack_judge import assert_close
from tests.exports import Fn
from tests.openers import Runner

Shape = tuple[int, ...]
Inputs = tuple[Any, ...]


def normal(*shapes: Shape) -> Inputs:
    return tuple(torch.randn(shape) for shape in shapes)


def positive(*shapes: Shape) -> Inputs:
    return tuple(torch.rand(shape) + 0.1 for shape in shapes)


@dataclass(frozen=True)
class Row:
    """A row: `make` returns a function or module; `calls` are shapes of inputs, the first is
    exported, and what is smaller in others is dynamic.

    `kinds` and `datatypes` must all be in the delegates, whose number is `delegates`; all operators
    must be, unless `is_whole` is False. `scheme` is a name in SCHEMES.
    """

    name: str
    make: Callable[[], Callable[..., Any]]
    calls: Sequence[Sequence[Shape]]
    kinds: tuple[str, ...]
    datatypes: tuple[str, ...]
    scheme: str
    file: str
    draw: Callable[..., Inputs] = normal
    partitioner: Mapping[str, Any] = field(default_factory=dict)
    delegates: int | None = 1
    is_whole: bool = True

    @property
    def id(self) -> str:
        return f"{self.name}-{self.scheme}"


class Rows:
    """Builder of a table of rows."""

    def __init__(self, file: str, **defaults: Any) -> None:
        self.file, self.defaults, self.rows = file, defaults, list[Row]()

    def add(
        self,
        name: str,
        make: Callable[[], Any],
        calls: Sequence[Any],
        *kinds: str,
        schemes: Iterable[str] = ("float32",),
        datatypes: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        """Add one row per scheme, with its datatypes. `calls` may also be the shapes of the only
        call, or of its input."""
        if isinstance(calls, tuple):
            calls = [calls]
        if isinstance(calls[0], tuple):
            calls = [calls]
        for scheme in schemes:
            types = datatypes or datatypes_of(scheme, kinds, has_bias="no_bias" not in name)
            places = {"scheme": scheme, "file": self.file, **self.defaults, **options}
            nodes = tuple(f"XNN{kind}" for kind in kinds)
            self.rows.append(Row(name, make, calls, nodes, types, **places))

    def ids(self) -> list[str]:
        ids = [row.id for row in self.rows]
        assert len(set(ids)) == len(ids)
        return ids

    def load(self, name: str) -> "Lowered":
        """Return the program of the row with this id."""
        [row] = [row for row in self.rows if row.id == name]
        return load(row)


@dataclass(frozen=True)
class Call:
    """Inputs as arrays, eager's outputs, and the limit of each element's error (variation.py). The
    dimension orders in memory survive pickling."""

    inputs: list[Any]
    outputs: list[np.ndarray]
    rooms: list[Any]

    def __getstate__(self) -> Any:
        return [[_in_order(x) for x in self.inputs], self.outputs, self.rooms]

    def __setstate__(self, state: Any) -> None:
        inputs = [x.transpose(np.argsort(order)) for x, order in state[0]]
        self.__dict__.update(inputs=inputs, outputs=state[1], rooms=state[2])


def _in_order(array: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Return a C-contiguous array and the axes that restore its order in memory."""
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    return array.transpose(order), order


@dataclass(frozen=True)
class Lowered:
    """A program and its calls."""

    pte: bytes
    calls: list[Call]


# ---- schemes: (module, inputs) -> the module to export, which is also the oracle --------------


def calibration(inputs: Inputs) -> list[Inputs]:
    return [inputs, *(tuple(x * s for x in inputs) for s in (0.5, -0.8))]


def pt2e(*, channel: bool = False, dynamic: bool = False, bits: int = 8) -> Any:
    """Quantise with XNNPACKQuantizer's symmetric scheme."""

    def quantize(module: nn.Module, inputs: Inputs, dims: Any) -> nn.Module:
        from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
        )
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        limits = {} if bits == 8 else {"weight_qmin": -8, "weight_qmax": 7}
        config = get_symmetric_quantization_config(
            is_per_channel=channel, is_dynamic=dynamic, **limits
        )
        graph = torch.export.export(module, inputs, dynamic_shapes=dims).module()
        graph = prepare_pt2e(graph, XNNPACKQuantizer().set_global(config))
        for sample in calibration(inputs):
            graph(*sample)
        graph = convert_pt2e(graph)
        if not dynamic:
            round_biases(graph)
        return graph

    return quantize


def round_biases(graph: torch.fx.GraphModule) -> None:
    """Round biases to integers in the scale of the products, as payloads store them."""
    tensors = dict(graph.named_parameters()) | dict(graph.named_buffers())
    for node in graph.graph.nodes:
        operands = [a for a in node.args[:3] if isinstance(a, torch.fx.Node)]
        if len(operands) < 3 or not str(node.target).startswith(("aten.conv", "aten.linear")):
            continue
        scales = [a.args[1] for a in operands[:2] if "dequantize" in str(a.target)]
        if len(scales) == 2:
            each = [tensors[x.target] if isinstance(x, torch.fx.Node) else x for x in scales]
            bias, step = tensors[operands[2].target], each[0] * torch.as_tensor(each[1])
            with torch.no_grad():
                bias.copy_(torch.round(bias / step) * step)


def torchao(weight: str, group: int | None, dtype: torch.dtype = torch.float32) -> Any:
    """Quantise with torchao: dynamic int8 activations per token, n-bit weights per channel or
    group."""

    def quantize(module: nn.Module, inputs: Inputs, dims: Any) -> nn.Module:
        from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
        from torchao.quantization.granularity import PerAxis, PerGroup

        granularity = PerAxis(0) if group is None else PerGroup(group)
        config = Int8DynamicActivationIntxWeightConfig(
            weight_dtype=getattr(torch, weight), weight_granularity=granularity
        )
        module = module.to(dtype)
        quantize_(module, config)
        for parameter in module.parameters():
            if weight == "int4" and hasattr(parameter, "scale"):
                # payloads store block scales as bfloat16
                parameter.scale = parameter.scale.bfloat16().to(dtype)
        return module

    return quantize


def cast(dtype: torch.dtype) -> Any:
    return lambda module, inputs, dims: module.to(dtype)


SCHEMES: dict[str, Any] = {
    "float32": cast(torch.float32),
    "float16": cast(torch.float16),
    "bfloat16": cast(torch.bfloat16),
    "static": pt2e(),
    "static_channel": pt2e(channel=True),
    "static_4bit": pt2e(channel=True, bits=4),
    "dynamic_channel": pt2e(channel=True, dynamic=True),
    "dynamic_4bit": pt2e(channel=True, dynamic=True, bits=4),
    "8da8w": torchao("int8", None),
    "8da4w": torchao("int4", None),
    "8da4w_32": torchao("int4", 32),
    "8da4w_64": torchao("int4", 64),
    "8da4w_32_half": torchao("int4", 32, torch.float16),
}
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "8da4w_32_half": torch.float16}
WEIGHTED = {"Conv2d", "DepthwiseConv2d", "ConvTranspose2d", "FullyConnected"}
DATATYPES: dict[str, tuple[str, ...]] = {
    "float16": ("fp16",),
    "bfloat16": ("bf16",),
    "static": ("qint8", "qint32"),
    "static_channel": ("qint8", "qcint8", "qcint32"),
    "static_4bit": ("qint8", "qcint4", "qcint32"),
    "dynamic_channel": ("qdint8", "qcint8"),
    "dynamic_4bit": ("qdint8", "qcint4"),
    "8da8w": ("qdint8", "qcint8"),
    **dict.fromkeys(("8da4w", "8da4w_32", "8da4w_64"), ("qdint8", "qbint4")),
    "8da4w_32_half": ("qdint8", "qbint4", "fp16"),
}
"""Datatypes in delegates by scheme: of activations, weights and biases."""


def datatypes_of(scheme: str, kinds: Iterable[str], has_bias: bool) -> tuple[str, ...]:
    types = DATATYPES.get(scheme, ())
    if not WEIGHTED.intersection(kinds):
        return types[:1]
    return tuple(kind for kind in types if has_bias or "int32" not in kind)


TOKENWISE = {"dynamic_channel", "dynamic_4bit"}
"""Eager quantises a whole activation with one scale, XNNPACK each row with its own: the results are
equal for one row at a time."""


# ---- export -----------------------------------------------------------------------------------


def dynamic_shapes(row: Row) -> Any:
    """Return the dynamic shapes of `forward(*args)` for torch.export: dimensions that differ in
    calls; equal maxima are one dimension."""
    each = [
        {
            axis: torch.export.Dim(f"n{sizes[0]}", min=1, max=sizes[0])
            for axis, sizes in enumerate(zip(*shapes, strict=True))
            if len(set(sizes)) > 1
        }
        for shapes in zip(*row.calls, strict=True)
    ]
    return (tuple(each),) if any(each) else None


def lower(programs: Any, **partitioner: Any) -> Any:
    """Return the manager of the official flow's program: `.buffer` is the .pte."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    edge = to_edge_transform_and_lower(
        programs,
        partitioner=[XnnpackPartitioner(**partitioner)],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    return edge.to_executorch()


def arrays(values: Any) -> list[Any]:
    """Return flat outputs as NumPy arrays (bfloat16 by ml_dtypes), in the tensors' memory
    orders."""

    def array(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        value = value.detach()
        if value.dtype == torch.bfloat16:
            import ml_dtypes

            return value.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
        return value.numpy()

    return [array(value) for value in torch.utils._pytree.tree_leaves(values)]


def eager(row: Row, module: nn.Module, inputs: Inputs) -> list[np.ndarray]:
    if row.scheme not in TOKENWISE or inputs[0].ndim != 2:
        return arrays(module(*inputs))
    each = [arrays(module(*(x[i : i + 1] for x in inputs))) for i in range(len(inputs[0]))]
    return [np.concatenate(parts) for parts in zip(*each, strict=True)]


def called(row: Row, module: nn.Module, inputs: Inputs) -> Call:
    """Return eager's outputs. XNNPACK's float16 operators round each step, those of bfloat16
    compute in float32."""
    dtype = "float16" if DTYPES.get(row.scheme) == torch.float16 else "float32"
    rooms = variation.rooms(lambda: eager(row, module, inputs), variation.LAST_PLACES[dtype])
    return Call(arrays(inputs), eager(row, module, inputs), rooms)


@torch.no_grad()
def export(row: Row) -> Lowered:
    torch.manual_seed(0)
    dtype = DTYPES.get(row.scheme, torch.float32)
    calls = [
        tuple(x.to(dtype) if x.is_floating_point() else x for x in row.draw(*shapes))
        for shapes in row.calls
    ]
    module = Fn(row.make()).eval()
    dims = dynamic_shapes(row)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = SCHEMES[row.scheme](module, calls[0], dims)
        if dims and isinstance(module, torch.fx.GraphModule):
            (dims,) = dims  # the module takes one row at a time
        program = torch.export.export(module, calls[0], dynamic_shapes=dims)
        pte = bytes(lower(program, **row.partitioner).buffer)
    return Lowered(pte, [called(row, module, c) for c in calls])


def cached(name: str, file: str, make: Callable[[], Any]) -> Any:
    """Return the result of `make`; from the cache while `file` and the versions are unchanged."""
    sources = [Path(path) for path in (__file__, variation.__file__, file)]
    packages = ("torch", "executorch", "torchao", "transformers", "numpy")
    key = kept.digest(*sources, packages=packages)
    return kept.pickled(f"xnnpack-{name}-{key}", make)


def load(row: Row) -> Lowered:
    lowered: Lowered = cached(row.id, row.file, lambda: export(row))
    check_delegated(row, lowered.pte)
    return lowered


def check_delegated(row: Row, pte: bytes) -> None:
    """Assert that the row's nodes and datatypes are in delegates, and no other operators
    outside."""
    payloads = xnnpack_payload.payloads(pte)
    kinds = {kind for payload in payloads for kind in payload.kinds}
    types = {kind for payload in payloads for kind in payload.datatypes}
    assert row.delegates is None or len(payloads) == row.delegates, f"{len(payloads)} delegates"
    assert set(row.kinds) <= kinds, f"nodes {sorted(kinds)}"
    assert set(row.datatypes) <= types, f"datatypes {sorted(types)}"
    assert not (row.is_whole and xnnpack_payload.operators(pte))


def check(run: Runner, calls: Iterable[Call]) -> None:
    """Assert that a program's outputs are within the limits of eager's."""
    for call in calls:
        assert_close(run("forward", call.inputs), call.outputs, call.rooms)


if __name__ == "__main__":  # print a row: python -m tests.backends.xnnpack_flow FILE [NAME]
    import importlib

    for one in importlib.import_module(f"tests.backends.{sys.argv[1]}").TABLE.rows:
        if one.id.startswith(tuple(sys.argv[2:]) or ("",)):
            try:
                pte = export(one).pte
                payloads = xnnpack_payload.payloads(pte)
                parts = [(payload.kinds, payload.datatypes) for payload in payloads]
                print(one.id, *parts, xnnpack_payload.operators(pte))
            except Exception as error:
                print(one.id, "FAILED", repr(error)[:300])
