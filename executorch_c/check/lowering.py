"""Lowerings that are more than a partitioner: the programs of exported methods."""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore the exporter's own warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def native(exported: Any, method: str) -> Any:
    """Return the program with ExecuTorch's portable graphs, which hold their constants."""
    from executorch.backends.native import get_default_compile_config
    from executorch.backends.native.partitioner import NativePartitioner
    from executorch.backends.native.passes import get_default_passes
    from executorch.exir import to_edge_transform_and_lower

    with quiet():
        edge = to_edge_transform_and_lower(
            {method: exported},
            transform_passes=get_default_passes(),
            partitioner={method: [NativePartitioner(external_constants_tag=None)]},
            compile_config=get_default_compile_config(),
        )
        return edge.to_executorch()


def native_package(exported: Any, method: str) -> bytes:
    """Return the native package (.ptn) of a method, which has to be one graph."""
    from executorch.exir.native.native import to_native

    with quiet(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ptn"
        to_native({method: exported}).save(os.fspath(path))
        return path.read_bytes()


def mlx(exported: Any, method: str) -> Any:
    """Return the program for MLX, Apple's GPUs."""
    from executorch_c.check import mlx_bindings

    with quiet():
        return mlx_bindings.lower(exported, method)


def coreai(exported: Any, method: str) -> Any:
    """Return the program for Core AI; the model's state stays outside the delegates, which cannot
    hold it."""
    from coreai.authoring import AIProgram
    from executorch.backends.apple import coreai as flow
    from executorch.exir import to_edge_transform_and_lower

    if not hasattr(AIProgram, "get_graph"):  # ExecuTorch 1.5.1 calls it by its earlier name
        AIProgram.get_graph = AIProgram._get_graph
    logging.getLogger("executorch.backends.apple.coreai").setLevel(logging.WARNING)
    with quiet():
        edge = to_edge_transform_and_lower(
            {method: exported},
            transform_passes=flow.get_default_passes(),
            partitioner={method: [flow.CoreAIPartitioner(take_over_mutable_buffer=False)]},
            compile_config=flow.get_default_compile_config(),
        )
        return edge.to_executorch()
