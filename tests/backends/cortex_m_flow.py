"""The Cortex-M flow: quantised programs whose operators are those of `cortex_m`."""

from __future__ import annotations

from dataclasses import dataclass

import executorch.kernels.quantized  # noqa: F401
import torch
from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config
from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
from executorch.exir import to_edge
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

CALLS = 3  # inputs to compare, of 8 that calibrate


class Convolutions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.depthwise = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.last = torch.nn.Linear(8, 5)
        with torch.no_grad():
            self.norm.running_mean.normal_()
            self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.max_pool2d(self.norm(self.first(x)).relu(), 2, 2)
        x = self.depthwise(x).relu() + x
        return self.last(x.mean((2, 3)))


def _model(kind: str) -> tuple[torch.nn.Module, list[tuple[torch.Tensor]]]:
    torch.manual_seed(2)
    if kind == "cnn":
        shape = (1, 3, 12, 12)
        inputs = [torch.randn(shape).to(memory_format=torch.channels_last) for _ in range(8)]
        return Convolutions().eval(), [(x,) for x in inputs]
    layers = torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 7)
    return torch.nn.Sequential(*layers).eval(), [(torch.randn(4, 20),) for _ in range(8)]


@dataclass
class Exported:
    """A program of the flow and its results by other engines."""

    pte: bytes
    inputs: list[torch.Tensor]
    dialect: list[torch.Tensor]
    """Outputs of the lowered graph, whose operators are the flow's references."""
    eager: list[torch.Tensor]
    """Outputs of the quantised module, which rescales in float32 and not in fixed point."""
    step: float
    """The scale of the output."""


def _last_scale(graph: torch.fx.GraphModule) -> float:
    nodes = [node for node in graph.graph.nodes if "dequantize" in str(node.target)]
    return float(nodes[-1].args[1])


def export(kind: str, core: str) -> Exported:
    """Return a quantised program for a core ("M55")."""
    model, inputs = _model(kind)
    graph = torch.export.export(model, inputs[0]).module(check_guards=False)
    prepared = prepare_pt2e(graph, CortexMQuantizer())
    for given in inputs:
        prepared(*given)
    converted = convert_pt2e(prepared)
    program = torch.export.export(converted, inputs[0])
    edge = to_edge(program, compile_config=cortex_m_edge_compile_config())
    target = CortexMTargetConfig(cpu=getattr(CortexM, core))
    passes = CortexMPassManager(
        edge.exported_program(), CortexMPassManager.pass_list, target_config=target
    )
    edge._edge_programs["forward"] = passes.transform()
    with torch.no_grad():
        lowered = edge.exported_program().module(check_guards=False)
        dialect, eager = ([f(*given) for given in inputs[:CALLS]] for f in (lowered, converted))
    used = [given[0] for given in inputs[:CALLS]]
    return Exported(edge.to_executorch().buffer, used, dialect, eager, _last_scale(converted))
