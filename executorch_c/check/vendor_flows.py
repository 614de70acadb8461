"""Flows whose compiler is not here: the quantised, decomposed graph that their partitioner takes.

The flow's own quantizer and the passes before the one that folds quantize and dequantize nodes into
attributes run as in the vendor's export; the graph stays without a delegate. A partitioner asks the
vendor's library which nodes it supports, which is therefore not known.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from executorch_c._core import operators
from executorch_c.check import lowering


def _program(
    exported: Any, method: str, kept: Iterable[Any], passes: Iterable[Any], **config: Any
) -> Any:
    """Return the program of a graph in which `kept` operators are not decomposed.

    Operators without a kernel are.
    """
    import executorch.kernels.quantized  # noqa: F401  the out variants of quantised operators
    from executorch.exir import EdgeCompileConfig

    kernels = {row["name"] for row in operators()}
    kept = [operator for operator in kept if f"{operator._schema.name}.out" in kernels]
    settings = EdgeCompileConfig(_check_ir_validity=False, preserve_ops=kept, **config)
    return lowering.lower(exported, method, [], list(passes), settings)


# ---- Qualcomm ----------------------------------------------------------------------------------


@contextmanager
def without_download() -> Iterator[None]:
    """Have the quantizer use an SDK that is installed, but download none."""
    from executorch.backends.qualcomm.utils import qnn_sdk_setup

    if "QNN_SDK_ROOT" in os.environ:
        yield
        return
    was_ready = qnn_sdk_setup._sdk_ready
    os.environ["QNN_SDK_ROOT"] = ""  # the caller's to install
    try:
        yield
    finally:
        del os.environ["QNN_SDK_ROOT"]
        qnn_sdk_setup._sdk_ready = was_ready


def qnn_quantizer(dtype: str) -> Callable[[], Any]:
    """Return a function that makes Qualcomm's quantizer for a QuantDtype."""

    def quantizer() -> Any:
        from executorch.backends.qualcomm.quantizer import quantizer as qnn

        with without_download():
            result = qnn.QnnQuantizer()
        result.set_default_quant_config(getattr(qnn.QuantDtype, dtype), is_conv_per_channel=True)
        return result

    return quantizer


def lower_qnn(exported: Any, method: str) -> Any:
    """Return the program of Qualcomm's graph for the HTP, without delegate."""
    from executorch.backends.qualcomm._passes import AnnotateQuantAttrs
    from executorch.backends.qualcomm._passes.qnn_pass_manager import get_qnn_pass_manager_cls
    from executorch.backends.qualcomm.partition.utils import get_skip_decomp_table

    manager = get_qnn_pass_manager_cls()()
    transformed = manager.transform_for_export_pipeline(exported)
    passes = manager.get_to_edge_transform_passes(exported, compiler_specs=[])
    kinds = [type(each) for each in passes]
    passes = passes[: kinds.index(AnnotateQuantAttrs)]
    return _program(transformed, method, get_skip_decomp_table(), passes)


# ---- Samsung, MediaTek, NXP --------------------------------------------------------------------


def samsung_quantizer() -> Any:
    """Return Samsung's quantizer."""
    from executorch.backends.samsung.quantizer import EnnQuantizer

    return EnnQuantizer()


def decompose_attention(exported: Any) -> Any:
    """Return an exported program whose attention is written out, as Samsung's quantizer needs."""
    from executorch.backends.transforms.decompose_sdpa import DecomposeScaledDotProductAttention

    DecomposeScaledDotProductAttention()(exported.graph_module)
    return exported


SAMSUNG_KEPT = (
    *("hardswish.default", "max_pool2d.default", "linear.default", "_safe_softmax.default"),
    *("upsample_bilinear2d.vec", "upsample_nearest2d.vec", "prelu.default", "layer_norm.default"),
    *("pixel_shuffle.default", "hardsigmoid.default"),
)
"""Operators that EnnPartitioner does not decompose; its module needs the SDK."""


def lower_samsung(exported: Any, method: str) -> Any:
    """Return the program of Samsung's graph, without delegate."""
    import torch

    names = (name.split(".") for name in SAMSUNG_KEPT)
    kept = [getattr(getattr(torch.ops.aten, name), overload) for name, overload in names]
    return _program(exported, method, kept, [], _skip_dim_order=True)


def mtk_quantizer() -> Any:
    """Return MediaTek's quantizer."""
    from executorch.backends.mediatek import NeuropilotQuantizer

    return NeuropilotQuantizer()


def lower_mtk(exported: Any, method: str) -> Any:
    """Return the program of MediaTek's graph, without delegate."""
    from executorch.backends.mediatek import NeuropilotPartitioner

    kept, _ = NeuropilotPartitioner([]).ops_to_not_decompose(exported)
    return _program(exported, method, kept, [], _skip_dim_order=True)


def neutron_quantizer() -> Any:
    """Return NXP's quantizer for an i.MX RT700."""
    from executorch.backends.nxp.backend.neutron_target_spec import NeutronTargetSpec
    from executorch.backends.nxp.quantizer.neutron_quantizer import NeutronQuantizer

    return NeutronQuantizer(NeutronTargetSpec("imxrt700"))


def lower_neutron(exported: Any, method: str) -> Any:
    """Return the program of NXP's graph, without delegate."""
    from executorch.backends.nxp.edge_passes.neutron_edge_pass_manager import (
        NeutronEdgePassManager,
    )

    return _program(exported, method, [], [NeutronEdgePassManager()])


# ---- NVIDIA ------------------------------------------------------------------------------------


def lower_cuda(exported: Any, method: str) -> Any:
    """Return the program of the graph for AOTInductor, without delegate, in ATen's operators."""
    import torch
    from executorch.backends.aoti.aoti_partitioner import AotiPartitioner

    from torch._inductor.decomposition import conv1d_to_conv2d

    exported = exported.run_decompositions({torch.ops.aten.conv1d.default: conv1d_to_conv2d})
    kept, _ = AotiPartitioner("CudaBackend", []).ops_to_not_decompose(exported)
    return _program(exported, method, kept, [])


# ---- rows --------------------------------------------------------------------------------------

INT8 = {"about": "PT2E: int8", "has_guards": False}
UNFOLDED = {**INT8, "folds_weights": False}
FLOWS: dict[str, dict[str, Any]] = {
    "qnn": {**INT8, "quantizer": qnn_quantizer("use_8a8w")},
    "qnn-a16w8": {
        **INT8,
        "about": "PT2E: int16, weights of int8",
        "quantizer": qnn_quantizer("use_16a8w"),
    },
    "qnn-a16w4": {
        **INT8,
        "about": "PT2E: int16, weights of 4 bits",
        "quantizer": qnn_quantizer("use_16a4w"),
    },
    "samsung": {**UNFOLDED, "quantizer": samsung_quantizer, "decompose": decompose_attention},
    "mtk": {**UNFOLDED, "quantizer": mtk_quantizer, "packages": ("mtk_converter", "mtk_neuron")},
    "neutron": {**INT8, "quantizer": neutron_quantizer, "packages": ("eiq_neutron_sdk",)},
    "cuda": {"about": "floats"},
}
"""Fields of each flow; the name before the hyphen is its vendor's."""
VENDORS: dict[str, tuple[Callable[[Any, str], Any], str, str]] = {
    "qnn": (lower_qnn, "Qualcomm's compiler", "Qualcomm's last passes and its compiler"),
    "samsung": (lower_samsung, "Samsung's compiler", "Samsung's passes and compiler"),
    "mtk": (lower_mtk, "MediaTek's compiler", "MediaTek's compiler"),
    "neutron": (lower_neutron, "NXP's compiler", "NXP's compiler"),
    "cuda": (lower_cuda, "AOTInductor for CUDA", "AOTInductor, its passes and Triton kernels"),
}
"""Functions that lower, the compiler, and what follows the graph that is checked."""


def rows() -> Iterator[dict[str, Any]]:
    """Yield the fields of each flow."""
    for name, fields in FLOWS.items():
        lower, compiler, rest = VENDORS[name.partition("-")[0]]
        about = f"{fields['about']}, the graph that {compiler} gets; no delegate"
        left_out = (
            f"checked is the graph before {rest}, in this runtime's arithmetic; not the choice of "
            "nodes, the compiled program, nor the device"
        )
        yield {**fields, "name": name, "about": about, "lower": lower, "leaves_out": left_out}
