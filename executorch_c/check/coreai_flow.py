"""The flow of Core AI."""

from __future__ import annotations

import logging
import warnings
from typing import Any


def lower(exported: Any, method: str) -> Any:
    """Return the program for Core AI; the model's state stays outside the delegates, which cannot
    hold it."""
    from coreai.authoring import AIProgram
    from executorch.backends.apple import coreai
    from executorch.exir import to_edge_transform_and_lower

    if not hasattr(AIProgram, "get_graph"):  # ExecuTorch 1.5.1 calls it by its earlier name
        AIProgram.get_graph = AIProgram._get_graph
    logging.getLogger("executorch.backends.apple.coreai").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edge = to_edge_transform_and_lower(
            {method: exported},
            transform_passes=coreai.get_default_passes(),
            partitioner={method: [coreai.CoreAIPartitioner(take_over_mutable_buffer=False)]},
            compile_config=coreai.get_default_compile_config(),
        )
        return edge.to_executorch()
