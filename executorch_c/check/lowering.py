"""Lowerings that are more than a partitioner: the programs of exported methods."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from executorch_c._paths import OwnedPath


@contextmanager
def quiet(*loggers: str) -> Iterator[None]:
    """Ignore the exporter's own warnings, and what loggers say beneath warnings."""
    levels = {name: logging.getLogger(name).level for name in loggers}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for name in loggers:
                logging.getLogger(name).setLevel(logging.WARNING)
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


def lower(
    exported: Any, method: str, partitioners: list[Any], passes: Any = None, config: Any = None
) -> Any:
    """Return the program that partitioners, after passes, make of an exported method.

    Without `config`, operators that are not core ATen are allowed.
    """
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    with quiet():
        edge = to_edge_transform_and_lower(
            {method: exported},
            transform_passes=passes,
            partitioner={method: partitioners} if partitioners else None,
            compile_config=config or EdgeCompileConfig(_check_ir_validity=False),
        )
        return edge.to_executorch()


LARGE_BYTES = 1 << 27
"""Bytes of the weights of a model whose copies are avoided."""


def is_large(exported: Any) -> bool:
    """Return True if copies of a model's weights would take much memory."""
    size: int = sum(one.nbytes for one in _weights(exported))
    return size >= LARGE_BYTES


def _weights(exported: Any) -> list[Any]:
    values = (*exported.state_dict.values(), *exported.constants.values())
    return [one for one in values if hasattr(one, "nbytes")]


@contextmanager
def sharing_weights(exported: Any) -> Iterator[None]:
    """Let copies of an exported program share its weights, which a partitioner otherwise copies for
    each delegate. Raises RuntimeError at the end if the weights were written to."""
    weights = {id(one): one for one in _weights(exported)}.values()
    versions = [one._version for one in weights]
    for one in weights:
        one.__deepcopy__ = partial(_itself, one)
    try:
        yield
    finally:
        for one in weights:
            del one.__deepcopy__
    if versions != [one._version for one in weights]:
        raise RuntimeError("the flow's passes write to the weights of the model")


def _itself(value: Any, memo: Any) -> Any:
    return value


def written(program: Any) -> Any:
    """Return the path of a temporary file with the program of a manager, which a runtime maps
    without a copy; a manager with data files as it is."""
    if not hasattr(program, "write_to_file") or getattr(program, "_tensor_data", None):
        return program
    path = OwnedPath.new(".pte")
    with open(path, "wb") as file:
        program.write_to_file(file)
    return path


def free_graphs() -> None:
    """Free the graphs of an export that nothing uses: they refer to themselves, and caches of torch
    and of the exporter to their nodes and delegates."""
    from executorch.exir.backend import utils
    from torch._subclasses.fake_tensor import FakeTensorMode

    FakeTensorMode.cache_clear()
    for value in vars(utils).values():
        if hasattr(type(value), "cache_clear"):  # of functools
            value.cache_clear()
    gc.collect()
    with suppress(OSError, AttributeError):  # of glibc, which keeps freed blocks of a few MB
        ctypes.CDLL(None).malloc_trim(0)


def native(exported: Any, method: str) -> Any:
    """Return the program with ExecuTorch's portable graphs, which hold their constants."""
    from executorch.backends.native import get_default_compile_config
    from executorch.backends.native.partitioner import NativePartitioner
    from executorch.backends.native.passes import get_default_passes

    partitioners = [NativePartitioner(external_constants_tag=None)]
    config = get_default_compile_config()
    return lower(exported, method, partitioners, get_default_passes(), config)


def native_package(exported: Any, method: str) -> bytes:
    """Return the native package (.ptn) of a method. Raises ValueError if it is not one graph."""
    from executorch.exir.native.native import to_native

    with quiet(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ptn"
        try:
            to_native({method: exported}).save(os.fspath(path))
        except ValueError as error:
            if "native delegates; exactly one" not in str(error):
                raise
            raise ValueError(
                f"a native package has one graph of method '{method}', and ExecuTorch's "
                "partitioner makes several: it ends one at an operator of several results, such as "
                "batch norm, max pooling or split; flow 'native' lowers such a model"
            ) from error
        return path.read_bytes()


def mlx(exported: Any, method: str) -> Any:
    """Return the program for MLX, Apple's GPUs."""
    from executorch_c.check import mlx_bindings

    with quiet("executorch.backends.mlx"):  # it lists operators that it does not take
        mlx_bindings.install()
        from executorch.backends.mlx import MLXPartitioner
        from executorch.backends.mlx.passes import get_default_passes
        from executorch.exir import EdgeCompileConfig

        config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
        return lower(exported, method, [MLXPartitioner()], get_default_passes(), config)


def coreai(exported: Any, method: str) -> Any:
    """Return the program for Core AI; the model's state stays outside the delegates, which cannot
    hold it."""
    from coreai.authoring import AIProgram
    from executorch.backends.apple import coreai as flow

    if not hasattr(AIProgram, "get_graph"):  # ExecuTorch 1.5.1 calls it by its earlier name
        AIProgram.get_graph = AIProgram._get_graph
    partitioners = [flow.CoreAIPartitioner(take_over_mutable_buffer=False)]
    passes, config = flow.get_default_passes(), flow.get_default_compile_config()
    with quiet("executorch.backends.apple.coreai"):
        return lower(exported, method, partitioners, passes, config)
