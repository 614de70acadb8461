"""Small modules through the official export flow, for tests of a single option."""

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, ExecutorchProgramManager
from executorch.exir import to_edge, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass

from executorch_c.check.flows import FLOWS
from tests.models.blocks import Fn


def flow_params(names: Iterable[str]) -> list[Any]:
    """Return flows as parameters of a test, skipped where an optional package is missing."""
    return [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                not FLOWS[name].is_installed, reason=f"needs {', '.join(FLOWS[name].packages)}"
            ),
        )
        for name in names
    ]


class Decaying(torch.nn.Module):
    """The sine of a sum over calls, of three elements; each call scales the sum by `decay`."""

    total: torch.Tensor

    def __init__(self, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.copy_(self.total * self.decay + x)
        return torch.sin(self.total)


def two_conditions(x: torch.Tensor, clone: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute two conditions in a row, whose results share the official runtime's planned memory
    unless the first is cloned (executorch #21490)."""
    positive = x.sum() > 0
    a = torch.cond(positive, lambda v: v.sin() + 1, lambda v: v.cos(), [x])
    a = a.clone() if clone else a
    return a, torch.cond(positive, lambda v: v * 2, lambda v: v * 3, [x])


Source = torch.nn.Module | Callable[..., Any]


@torch.no_grad()
def manager(
    source: Source | Mapping[str, tuple[Source, Sequence[Any]]],
    *inputs: Any,
    dynamic_shapes: Any = None,
    planning: Mapping[str, Any] | None = None,
    constants: Mapping[str, Any] | None = None,
    partitioner: Any = None,
    **config: Any,
) -> ExecutorchProgramManager:
    """Export a module or function, or several with their inputs, by name.

    `planning` goes to MemoryPlanningPass, `config` to ExecutorchBackendConfig.
    """
    methods = source if isinstance(source, Mapping) else {"forward": (source, inputs)}
    programs = {}
    for name, (module, args) in methods.items():
        if not isinstance(module, torch.nn.Module):
            module = Fn(module)
        programs[name] = torch.export.export(
            module.eval(), tuple(args), dynamic_shapes=dynamic_shapes
        )
    edge = to_edge(
        programs,
        constant_methods=dict(constants) if constants else None,
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    if partitioner is not None:
        edge = edge.to_backend(partitioner)
    planner = MemoryPlanningPass(**(planning or {}))
    return edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planner, **config))


def export(*args: Any, **options: Any) -> bytes:
    """Return the bytes of the .pte; arguments as for `manager`."""
    return manager(*args, **options).buffer


@torch.no_grad()
def lowered(
    source: Source | Mapping[str, Any],
    *inputs: Any,
    delegated: bool = False,
    dynamic_shapes: Any = None,
    **options: Any,
) -> bytes:
    """Return the .pte that `to_edge_transform_and_lower` makes of a module, or of exported programs
    by name; `delegated`: with XNNPACK's partitioner."""
    if isinstance(source, torch.nn.Module):
        if not isinstance(source, torch.fx.GraphModule):
            source = source.eval()
        source = torch.export.export(source, inputs, dynamic_shapes=dynamic_shapes)
    if delegated:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        options["partitioner"] = [XnnpackPartitioner()]
    config = EdgeCompileConfig(_check_ir_validity=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edge = to_edge_transform_and_lower(source, compile_config=config, **options)
        return bytes(edge.to_executorch().buffer)


@torch.no_grad()
def quantized(
    model: torch.nn.Module, inputs: tuple[Any, ...], quantizer: Any = None, **config: Any
) -> torch.nn.Module:
    """Return the graph that PT2E makes with a quantizer, calibrated on the inputs. The default is
    XNNPACK's, with a symmetric configuration."""
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnnpack
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    if quantizer is None:
        scheme = xnnpack.get_symmetric_quantization_config(**config)
        quantizer = xnnpack.XNNPACKQuantizer().set_global(scheme)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(model.eval(), inputs).module(check_guards=False)
        graph = prepare_pt2e(exported, quantizer)
        graph(*inputs)
        return convert_pt2e(graph)


def quantized_by_group(model: torch.nn.Module) -> torch.nn.Module:
    """Return the model, whose weights torchao quantises to int4 in groups of 32, its activations at
    run time."""
    from torchao.quantization import quantize_
    from torchao.quantization.granularity import PerGroup
    from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig as Config

    quantize_(model, Config(weight_dtype=torch.int4, weight_granularity=PerGroup(32)))
    return model


def unwrapped_by_group(model: torch.nn.Module, _: tuple[Any, ...]) -> torch.nn.Module:
    from torchao.utils import unwrap_tensor_subclass

    return unwrap_tensor_subclass(quantized_by_group(copy.deepcopy(model)))


SCHEMES: dict[str, Callable[[torch.nn.Module, tuple[Any, ...]], torch.nn.Module]] = {
    "static": partial(quantized, is_per_channel=True),
    "per-tensor": partial(quantized, is_per_channel=False),
    "dynamic": partial(quantized, is_per_channel=True, is_dynamic=True),
    "8da4w": unwrapped_by_group,
}
"""Functions that return a quantised copy of a model, calibrated on its inputs."""
