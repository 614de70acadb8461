"""Quantisation and export by the official flow."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("torch", "executorch", "torchao", "transformers")


def float32(module: nn.Module, inputs: tuple[Tensor, ...]) -> nn.Module:
    return module


def static_int8(module: nn.Module, inputs: tuple[Tensor, ...]) -> nn.Module:
    """Quantise with XNNPACKQuantizer: activations by calibration, weights per channel."""
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    config = xnnpack_quantizer.get_symmetric_quantization_config(is_per_channel=True)
    graph = torch.export.export(module, inputs).module()
    keep_integers(graph)
    graph = prepare_pt2e(graph, xnnpack_quantizer.XNNPACKQuantizer().set_global(config))
    graph(*inputs)
    return convert_pt2e(graph)


SCALARS = {
    torch.ops.aten.add.Tensor: torch.ops.aten.add.Scalar,
    torch.ops.aten.mul.Tensor: torch.ops.aten.mul.Scalar,
}


def keep_integers(graph: torch.fx.GraphModule) -> None:
    """Rename additions and products of integers with a number, in place.

    The quantiser makes a tensor of float32 of the number, and so floats of positions and indices
    (transformers' masks, Swin's biases), which then index nothing.
    """
    for node in graph.graph.nodes:
        value = node.meta.get("val")
        if (
            node.target in SCALARS
            and isinstance(node.args[1], int)
            and isinstance(value, Tensor)
            and not value.is_floating_point()
        ):
            node.target = SCALARS[node.target]
    graph.recompile()


def dynamic(bits: int) -> Callable[[nn.Module, tuple[Tensor, ...]], nn.Module]:
    """Quantise with torchao: activations of linear layers to int8 per token; 4-bit weights by
    groups."""

    def quantize(module: nn.Module, inputs: tuple[Tensor, ...]) -> nn.Module:
        from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
        from torchao.quantization.granularity import PerAxis, PerGroup

        config = Int8DynamicActivationIntxWeightConfig(
            weight_dtype=getattr(torch, f"int{bits}"),
            weight_granularity=PerAxis(0) if bits == 8 else PerGroup(32),
        )
        quantize_(module, config)
        return module

    return quantize


SCHEMES = {"fp32": float32, "int8": static_int8, "8da8w": dynamic(8), "8da4w": dynamic(4)}


@torch.no_grad()
def program(
    module: nn.Module, inputs: tuple[Tensor, ...], scheme: str, delegated: bool = True
) -> bytes:
    """Return the program of a module in eval mode, delegated to XNNPACK or not."""
    import executorch.kernels.quantized  # noqa: F401  (the out forms of quantized_decomposed)
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = SCHEMES[scheme](module, inputs)
        edge = to_edge_transform_and_lower(
            torch.export.export(module, inputs),
            partitioner=[XnnpackPartitioner()] if delegated else None,
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
        return bytes(edge.to_executorch().buffer)


def write(path: Path, data: bytes) -> None:
    """Write a file at once, so that no other process reads a part of it."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write a file of arrays at once."""
    data = io.BytesIO()
    np.savez(data, **arrays)
    write(path, data.getvalue())


def key(sources: Sequence[Path], packages: Sequence[str] = PACKAGES) -> str:
    """Return a hash of source files and of the versions of packages."""
    versions: list[Any] = [version(name) for name in packages]
    texts = b"".join(path.read_bytes() for path in sources)
    return hashlib.sha256(texts + repr(versions).encode()).hexdigest()[:8]
