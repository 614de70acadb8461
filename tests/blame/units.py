"""Programs that the simulated devices run: ten models in ten schemes of five backends."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

import executorch_c
from executorch_c import Program
from executorch_c.check import flows
from tests import ROOT, kept
from tests.backends import flow_matrix
from tests.blame import models
from tests.models import flow_models

SCHEMES: dict[str, tuple[str, ...]] = {
    "xnnpack": ("float32",),
    "xnnpack-int8": ("int8",),
    "vulkan": ("float32",),
    "vulkan-fp16": ("float16",),
    "coreml-fp32": ("float32",),
    "coreml-fp16": ("float16",),
    "tosa": ("float32",),
    "tosa-int8": ("int8",),
    "mlx": ("float32",),
    "mlx-fp16": ("float16",),
}
"""The arithmetic that a device has for a scheme, as its backend documents it."""
RECIPE = 1
"""Counts changes of the functions below that change programs."""
DYNAMIC = {"mlp-dynamic": ("mlp", 0, 12), "transformer-dynamic": ("transformer", 1, 16)}
"""Models of which a dimension of the input varies: model, dimension, largest size."""
MODELS = (*models.MODELS, *DYNAMIC)
STATIC = ("tosa", "tosa-int8", "xnnpack-int8")
"""Schemes without dynamic shapes here."""
REFUSED = [
    (scheme, "transformer-dynamic")
    for scheme in ("vulkan", "vulkan-fp16", "coreml-fp32", "coreml-fp16")
]
"""Programs that do not run here: a size is the output of Vulkan's delegate, as a tensor; Core ML's
products have more than three dimensions, some of them unknown."""


@dataclass(frozen=True)
class Unit:
    """A model with weights of a seed, in a scheme."""

    scheme: str
    model: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.scheme}, {self.model}, weights {self.seed}"

    @property
    def base(self) -> str:
        return DYNAMIC[self.model][0] if self.model in DYNAMIC else self.model

    @property
    def varies(self) -> tuple[int, int] | None:
        """The dimension of the input that varies, and its largest size; None: none does."""
        return DYNAMIC[self.model][1:] if self.model in DYNAMIC else None

    def pte(self) -> bytes:
        """Return the program, exported on first use."""
        sources = [RECIPE, ROOT / "tests/models/flow_models.py"]
        if self.base not in flow_models.MODELS:
            sources.append(ROOT / "tests/blame/models.py")
        packages = ("torch", "executorch")
        digest = kept.digest(self, *sources, packages=packages)
        return kept.data(f"blame/{digest}.pte", lambda: _export(self))

    @functools.cached_property
    def program(self) -> Program:
        return executorch_c.load(self.pte())

    def inputs(self, seed: int, extent: int | None = None) -> list[np.ndarray]:
        """Return one call's inputs; `extent` is the size of the dimension that varies."""
        shape = list(models.MODELS[self.base][1])
        if self.model in DYNAMIC and extent is not None:
            shape[DYNAMIC[self.model][1]] = extent
        dtype = np.float16 if self.scheme == "mlx-fp16" else np.float32
        return [np.random.default_rng(seed).standard_normal(shape).astype(dtype)]


@dataclass(frozen=True)
class Recorded(Unit):
    """A program that the tests keep, by its path below tests/."""

    path: str = ""
    bounds: tuple[int, int] | None = None
    """Dimension of the input that varies, and its largest size."""

    @property
    def varies(self) -> tuple[int, int] | None:
        return self.bounds

    def pte(self) -> bytes:
        return (ROOT / "tests" / f"{self.path}.pte").read_bytes()

    def inputs(self, seed: int, extent: int | None = None) -> list[np.ndarray]:
        with np.load(ROOT / "tests" / f"{self.path}.npz") as file:
            example = file["in0"]
        shape = list(example.shape)
        if self.bounds is not None and extent is not None:
            shape[self.bounds[0]] = extent
        return [np.random.default_rng(seed).standard_normal(shape).astype(example.dtype)]


def recorded() -> list[Unit]:
    """Return the programs that are kept: they need no exporter."""
    golden = "release/golden/1.5.1"
    return [
        Recorded("xnnpack", "cnn", 9, f"{golden}/xnnpack_cnn"),
        Recorded("xnnpack", "transformer", 9, f"{golden}/xnnpack_block"),
        Recorded("xnnpack-int8", "cnn", 9, f"{golden}/xnnpack_int8"),
        Recorded("vulkan", "mlp-dynamic", 9, "backends/vulkan_programs/mlp_dyn", (0, 16)),
        Recorded("vulkan-fp16", "cnn", 9, "backends/vulkan_programs/cnn_fp16"),
        Recorded("vulkan-fp16", "mlp", 9, "backends/vulkan_programs/mlp_fp16"),
        Recorded("coreml-fp16", "cnn", 9, "backends/coreml_programs/cnn_fp16"),
        Recorded("coreml-fp16", "mlp", 9, "backends/coreml_programs/mlp_fp16"),
        Recorded("tosa", "mlp", 9, "backends/tosa_programs/mlp_fp"),
        Recorded("tosa-int8", "cnn", 9, "backends/tosa_programs/cnn_int8"),
        Recorded("tosa-int8", "mlp", 9, "backends/tosa_programs/mlp_int8"),
        Recorded("mlx", "cnn", 9, "backends/mlx_programs/cnn"),
    ]


def units(seeds: int = 2) -> list[Unit]:
    """Return all units."""
    return [
        Unit(scheme, model, seed)
        for scheme in SCHEMES
        for model in MODELS
        for seed in range(seeds)
        if not (model in DYNAMIC and scheme in STATIC) and (scheme, model) not in REFUSED
    ]


def _model(unit: Unit) -> tuple[nn.Module, list[torch.Tensor]]:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(unit.seed)
        build, shape = models.MODELS[unit.base]
        model = build().eval()
        inputs = [torch.randn(shape) for _ in range(flow_models.CALIBRATION)]
        flow_models._train(models.Last(model), inputs)
    return model, inputs


def _export(unit: Unit) -> bytes:
    model, inputs = _model(unit)
    if unit.model in DYNAMIC:
        return _dynamic(unit, model, inputs)
    return LOWER[unit.scheme](model, inputs).pte


LOWER: dict[str, Callable[[nn.Module, list[torch.Tensor]], Any]] = {
    "xnnpack": flow_matrix._by_flow("xnnpack"),
    "xnnpack-int8": flow_matrix._by_flow("xnnpack-int8"),
    "vulkan": flow_matrix.scheme_of("vulkan-fp32").lower,
    "vulkan-fp16": flow_matrix.scheme_of("vulkan-fp16").lower,
    "coreml-fp32": flow_matrix.scheme_of("coreml-fp32").lower,
    "coreml-fp16": flow_matrix.scheme_of("coreml-fp16").lower,
    "tosa": flow_matrix.scheme_of("tosa-fp32").lower,
    "tosa-int8": flow_matrix.scheme_of("tosa-int8").lower,
    "mlx": flow_matrix.scheme_of("mlx-fp32").lower,
    "mlx-fp16": flow_matrix.scheme_of("mlx-fp16").lower,
}


def _dynamic(unit: Unit, model: nn.Module, inputs: list[torch.Tensor]) -> bytes:
    _, dimension, largest = DYNAMIC[unit.model]
    size = torch.export.Dim("size", min=1, max=largest)
    x = inputs[0]
    if unit.scheme == "mlx-fp16":
        model, x = copy.deepcopy(model).half(), x.half()
    exported = flows.export(model, ((x,), {}), ({dimension: size},))
    if unit.scheme.startswith("vulkan"):
        from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner

        from executorch_c.check import lowering

        options = {"require_dynamic_shapes": True, "force_fp16": unit.scheme == "vulkan-fp16"}
        return bytes(lowering.lower(exported, "forward", [VulkanPartitioner(options)]).buffer)
    if unit.scheme.startswith("coreml"):
        from tests.models import coreml_zoo

        half = unit.scheme == "coreml-fp16"
        return coreml_zoo.lower(exported, 18 if half else 17, half, None)
    flow = flows.FLOWS["mlx" if unit.scheme.startswith("mlx") else unit.scheme]
    return bytes(flows._lower(exported, flow, "forward").buffer)
