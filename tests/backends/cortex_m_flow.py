"""The Cortex-M flow: quantised programs whose operators are those of `cortex_m`."""

import copy
from typing import Any

import executorch.kernels.quantized  # noqa: F401
import torch
from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config
from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
from executorch.exir import to_edge
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e


def export(model: torch.nn.Module, inputs: list[torch.Tensor], core: str) -> tuple[Any, bytes, Any]:
    """Return the quantised module, its program for a core ("M55"), and the lowered graph, whose
    operators are the flow's references; images are in channels-last layout."""
    if inputs[0].dim() == 4:
        inputs = [x.to(memory_format=torch.channels_last) for x in inputs]
    graph = torch.export.export(model, (inputs[0],)).module(check_guards=False)
    prepared = prepare_pt2e(graph, CortexMQuantizer())
    for x in inputs:
        prepared(x)
    converted = convert_pt2e(prepared)
    program = torch.export.export(converted, (inputs[0],))
    edge = to_edge(program, compile_config=cortex_m_edge_compile_config())
    target = CortexMTargetConfig(cpu=getattr(CortexM, core))
    passes = CortexMPassManager(
        edge.exported_program(), CortexMPassManager.pass_list, target_config=target
    )
    edge._edge_programs["forward"] = passes.transform()
    lowered = copy.deepcopy(edge.exported_program()).module(check_guards=False)
    return converted, bytes(edge.to_executorch().buffer), lowered
