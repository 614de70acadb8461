"""Every quantiser and torchao config of the installed wheels, one row each, and three models."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from executorch_c.check import flows, vendor_flows
from tests.models import flow_models

Quantize = Callable[[nn.Module, list[Tensor]], Any]


class Convolution(nn.Module):
    """A convolution whose rows and channels are whole groups of 32."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(32, 32, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).relu()


class Embedded(nn.Module):
    """An embedding, the transformer of the flows, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.layer = nn.Embedding(32, 32), flow_models.Transformer()
        self.head = nn.Linear(32, 32)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layer(self.embed(tokens)))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "linear": (lambda: nn.Linear(256, 32), lambda: torch.randn(8, 256)),
    "convolution": (Convolution, lambda: torch.randn(1, 32, 6, 6)),
    "transformer": (Embedded, lambda: torch.randint(0, 32, (1, 6))),
}


def _class(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _by_config(
    path: str, model: nn.Module, inputs: list[Tensor], **options: Callable[[], Any]
) -> Any:
    """Quantise the layers that a torchao config is for: those of its model's kind."""
    from torchao.quantization import quantize_

    config = _class(path)(**{key: value() for key, value in options.items()})
    kinds = (nn.Linear, nn.Conv2d, nn.Embedding)
    if len(list(model.children())) > 1:
        kinds = (nn.Linear,)  # of a transformer
    quantize_(model, config, filter_fn=lambda layer, _: isinstance(layer, kinds))
    return model


def _by_llm(
    linear: str, embedding: str | None, group: int, model: nn.Module, inputs: list[Tensor]
) -> Any:
    """Quantise as ExecuTorch's export of language models does."""
    from executorch.extension.llm.export.quantize import quantize_model_

    sizes = {"qlinear_group_size": group, "qembedding_group_size": group}
    quantize_model_(model, qlinear_config=linear, qembedding_config=embedding, **sizes)
    return model


def _by_pt2e(
    make: Callable[[], Any],
    decompose: Callable[[Any], Any] | None,
    model: nn.Module,
    inputs: list[Tensor],
) -> Any:
    row = flows.Flow("pt2e", "", list, make, has_guards=False, decompose=decompose)
    exported = flows.export(model, ((inputs[0],), {}), None)
    return flows._quantize(row, exported, [((x,), {}) for x in inputs])


@dataclass(frozen=True)
class Scheme:
    """A way to quantise a module."""

    name: str
    quantize: Quantize
    is_bfloat16: bool = False
    """The quantiser takes models of bfloat16 alone."""


def _group(size: int | None) -> Callable[[], Any]:
    def granularity() -> Any:
        from torchao.quantization import granularity as kinds

        return kinds.PerAxis(0) if size is None else kinds.PerGroup(size)

    return granularity


def _of(value: Any) -> Callable[[], Any]:
    return lambda: value


def _row(path: str) -> Callable[[], Any]:
    return lambda: _class(f"torchao.quantization.granularity.{path}")()


AO = "torchao.quantization.quant_api"
PROTOTYPE = "torchao.prototype"
DYNAMIC_INTX = f"{AO}.Int8DynamicActivationIntxWeightConfig"


def _ao(name: str, path: str, is_bfloat16: bool = False, **options: Callable[[], Any]) -> Scheme:
    return Scheme(name, partial(_by_config, path, **options), is_bfloat16)


def _planar(bits: int, model: nn.Module, inputs: list[Tensor]) -> Any:
    """Quantise as the CUDA flow of GGUF files does: planes of bits, in a tensor of its own."""
    mapping, weights = ("ASYMMETRIC", "int5") if bits == 5 else ("SYMMETRIC", "int6")
    options = {"weight_dtype": _dtype(weights), "mapping_type": _mapping(mapping)}
    if isinstance(model, Convolution):
        return model
    model = _by_config(INTX, model, inputs, granularity=_group(32 if bits == 5 else 16), **options)
    importlib.import_module("executorch.backends.cuda.quantize_op_dispatch")
    module = f"executorch.backends.cuda.dp4a_planar_int{bits}_tensor"
    planar = _class(f"{module}.CudaDp4aPlanarInt{bits}Tensor")
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            layer.weight = nn.Parameter(planar._from_intx_int8(layer.weight), requires_grad=False)
    return model


def _dtype(name: str) -> Callable[[], Any]:
    return lambda: getattr(torch, name)


def _mapping(name: str) -> Callable[[], Any]:
    return lambda: getattr(_class("torchao.quantization.quant_primitives.MappingType"), name)


INTX = f"{AO}.IntxWeightOnlyConfig"
FLOAT8 = f"{AO}.Float8DynamicActivationFloat8WeightConfig"
TORCHAO = [
    *(
        _ao(f"int{bits}", INTX, weight_dtype=_dtype(f"int{bits}"), granularity=_group(None))
        for bits in (4, 8)
    ),
    *(
        _ao(f"int{bits}-group", INTX, weight_dtype=_dtype(f"int{bits}"), granularity=_group(32))
        for bits in range(1, 9)
    ),
    _ao(
        *("int4-group-asymmetric", INTX),
        weight_dtype=_dtype("int4"),
        granularity=_group(32),
        mapping_type=_mapping("ASYMMETRIC"),
    ),
    *(
        _ao(
            *(f"int8-dynamic-int{bits}", DYNAMIC_INTX),
            weight_dtype=_dtype(f"int{bits}"),
            weight_granularity=_group(None),
        )
        for bits in (4, 8)
    ),
    *(
        _ao(
            *(f"int8-dynamic-int{bits}-group", DYNAMIC_INTX),
            weight_dtype=_dtype(f"int{bits}"),
            weight_granularity=_group(32),
        )
        for bits in range(1, 9)
    ),
    _ao("int8-weight-only", f"{AO}.Int8WeightOnlyConfig"),
    _ao("int8-dynamic-int8-rows", f"{AO}.Int8DynamicActivationInt8WeightConfig"),
    _ao(
        "int8-dynamic-int8-tensor",
        f"{AO}.Int8DynamicActivationInt8WeightConfig",
        granularity=_row("PerTensor"),
    ),
    _ao(
        "int8-static-int8",
        f"{AO}.Int8StaticActivationInt8WeightConfig",
        act_quant_scale=lambda: torch.tensor([[0.05]]),
        granularity=_row("PerTensor"),
    ),
    *(
        _ao(
            f"int4-{packing.replace('_', '-')}",
            f"{AO}.Int4WeightOnlyConfig",
            packing == "tile_packed_to_4d",
            group_size=_of(32),
            int4_packing_format=_of(packing),
        )
        for packing in ("plain", "preshuffled", "plain_int32", "tile_packed_to_4d")
    ),
    _ao("float8-weight-only", f"{AO}.Float8WeightOnlyConfig"),
    _ao("float8-weight-only-group", f"{AO}.Float8WeightOnlyConfig", granularity=_group(32)),
    _ao("float8-dynamic-tensor", FLOAT8),
    _ao("float8-dynamic-rows", FLOAT8, granularity=_row("PerRow")),
    _ao("float8-dynamic-int4", f"{AO}.Float8DynamicActivationInt4WeightConfig"),
    _ao(
        "float8-static",
        f"{PROTOTYPE}.quantization.quant_api.Float8StaticActivationFloat8WeightConfig",
        act_quant_scale=lambda: torch.tensor([[0.01]]),
        granularity=_row("PerTensor"),
    ),
    _ao(
        "mxfp8",
        f"{PROTOTYPE}.mx_formats.inference_workflow.MXDynamicActivationMXWeightConfig",
        True,
    ),
    _ao(
        "mxfp4",
        f"{PROTOTYPE}.mx_formats.inference_workflow.MXDynamicActivationMXWeightConfig",
        True,
        activation_dtype=_dtype("float4_e2m1fn_x2"),
        weight_dtype=_dtype("float4_e2m1fn_x2"),
    ),
    _ao(
        "nvfp4-dynamic",
        f"{PROTOTYPE}.mx_formats.inference_workflow.NVFP4DynamicActivationNVFP4WeightConfig",
        use_triton_kernel=_of(False),
    ),
    _ao(
        "nvfp4-weight-only",
        f"{PROTOTYPE}.mx_formats.inference_workflow.NVFP4WeightOnlyConfig",
    ),
    _ao(
        "codebook",
        f"{PROTOTYPE}.quantization.codebook.codebook_quantized_tensor.CodebookWeightOnlyConfig",
        block_size=_of((1, 1)),
        scale_block_size=_of(32),
    ),
    _ao(
        "codebook-coreml",
        f"{PROTOTYPE}.quantization.codebook_coreml.CodebookWeightOnlyConfig",
        dtype=_dtype("uint4"),
        block_size=_of([-1, 16]),
    ),
    _ao(
        "codebook-groupwise",
        f"{PROTOTYPE}.quantization.codebook_groupwise.GroupwiseLutWeightConfig",
        use_qdq_reference=_of(True),
        lut_block_shape=_of([2, -1]),
        has_scale=_of(False),
    ),
    _ao(
        "gguf",
        f"{PROTOTYPE}.quantization.gguf.api.GGUFWeightOnlyConfig",
        n_blocks_per_superblock=_of(1),
    ),
    _ao(
        "uintx",
        f"{PROTOTYPE}.quantization.quant_api.UIntxWeightOnlyConfig",
        group_size=_of(32),
    ),
    _ao(
        "int8-dynamic-uintx",
        f"{PROTOTYPE}.quantization.quant_api.Int8DynamicActivationUIntxWeightConfig",
        group_size=_of(32),
    ),
    _ao(
        "uintx-mps",
        "torchao.experimental.quant_api.UIntxWeightOnlyConfig",
        group_size=_of(32),
    ),
    _ao(
        "int4-prototype",
        f"{PROTOTYPE}.quantization.int4.inference_workflow.PrototypeInt4WeightOnlyConfig",
        group_size=_of(32),
    ),
    _ao(
        "int8-dynamic-int4-prototype",
        f"{PROTOTYPE}.quantization.int4.inference_workflow.Int8DynamicActivationInt4WeightConfig",
    ),
    _ao(
        "intn-naive",
        f"{PROTOTYPE}.quantization.mixed_precision.scripts.naive_intNwo.IntNWeightOnlyConfig",
        n=_of(5),
    ),
    _ao("nf4", f"{PROTOTYPE}._nf4tensor_api.NF4WeightOnlyConfig"),
    _ao(
        "stretched-intx",
        f"{PROTOTYPE}.parq.quant.config_torchao.StretchedIntxWeightConfig",
        b=_of(4),
        quant_min=_of(-8),
        quant_max=_of(7),
    ),
    *(Scheme(f"int{bits}-planar", partial(_planar, bits)) for bits in (5, 6)),
    _ao(
        "float8-opaque",
        f"{PROTOTYPE}.float8_opaque_tensor.inference_workflow."
        "Float8DynamicActivationFloat8WeightOpaqueTensorConfig",
    ),
    _ao("mxfp8-exportable", "executorch.extension.llm.export.mx.ExportableMXConfig"),
    _ao("mxfp-arm", "executorch.backends.arm.ao_ext.mxfp.MXFPOpConfig"),
    _ao("nvfp4-exportable", "executorch.extension.llm.export.nvfp4.ExportableNVFP4Config"),
]


def _symmetric(path: str, function: str, quantizer: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        module = importlib.import_module(path)
        return getattr(module, quantizer)().set_global(getattr(module, function)(**options))

    return make


XNNPACK = (
    "executorch.backends.xnnpack.quantizer.xnnpack_quantizer",
    "get_symmetric_quantization_config",
    "XNNPACKQuantizer",
)
VULKAN = (
    "executorch.backends.vulkan.quantizer.vulkan_quantizer",
    "get_symmetric_quantization_config",
    "VulkanQuantizer",
)


def _pt2e(
    name: str, make: Callable[[], Any], decompose: Callable[[Any], Any] | None = None
) -> Scheme:
    return Scheme(name, partial(_by_pt2e, make, decompose))


def _x86(path: str, quantizer: str, function: str) -> Callable[[], Any]:
    return _symmetric(f"torchao.quantization.pt2e.quantizer.{path}", function, quantizer)


def _openvino(mode: str) -> Callable[[], Any]:
    def make() -> Any:
        module = importlib.import_module("executorch.backends.openvino.quantizer.quantizer")
        return module.OpenVINOQuantizer(mode=getattr(module.QuantizationMode, mode))

    return make


def _by_compression(mode: str, model: nn.Module, inputs: list[Tensor]) -> Any:
    """Quantise weights as OpenVINO's flow does."""
    from nncf.experimental.torch.fx import compress_pt2e

    exported = flows.export(model, ((inputs[0],), {}), None)
    return compress_pt2e(exported.module(check_guards=False), _openvino(mode)())


def _cadence_form(kind: str) -> Any:
    return _class(f"executorch.backends.cadence.aot.quantizer.quantizer.Cadence{kind}Quantizer")()


PT2E = [
    _pt2e("xnnpack-tensor", _symmetric(*XNNPACK, is_per_channel=False)),
    _pt2e("xnnpack-channel", _symmetric(*XNNPACK, is_per_channel=True)),
    _pt2e("xnnpack-dynamic", _symmetric(*XNNPACK, is_per_channel=True, is_dynamic=True)),
    _pt2e("xnnpack-dynamic-tensor", _symmetric(*XNNPACK, is_per_channel=False, is_dynamic=True)),
    _pt2e(
        "xnnpack-int4",
        _symmetric(*XNNPACK, is_per_channel=True, weight_qmin=-8, weight_qmax=7),
    ),
    *(
        _pt2e(
            f"vulkan-{'8da' if dynamic else 'w'}{bits}{'w' if dynamic else ''}",
            _symmetric(*VULKAN, is_dynamic=dynamic, weight_bits=bits),
        )
        for dynamic in (False, True)
        for bits in (8, 4)
    ),
    *(
        _pt2e(f"arm-{name}", flows._arm_quantizer(f"TOSA-1.0+INT{extension}", config))
        for name, _, config, extension in flows.ARM_PRECISIONS
    ),
    *(
        _pt2e(f"openvino-{mode.lower().replace('_', '-')}", _openvino(mode))
        for mode in "INT8_SYM INT8_MIXED INT8_TRANSFORMER".split()
    ),
    *(
        Scheme(f"openvino-{mode.lower().replace('_', '-')}", partial(_by_compression, mode))
        for mode in "INT8WO_SYM INT8WO_ASYM".split()
    ),
    *(
        _pt2e(f"qnn-{dtype}", vendor_flows.qnn_quantizer(f"use_{dtype}"))
        for dtype in "8a8w 8a4w 16a4w 16a8w 16a16w 16a4w_block 16a2w".split()
    ),
    _pt2e("enn", vendor_flows.samsung_quantizer),
    _pt2e("cortex-m", flows._cortex_m),
    _pt2e("cadence", flows._cadence, flows._decompose_cadence),
    *(
        _pt2e(f"cadence-{name}", partial(_cadence_form, kind), flows._decompose_cadence)
        for name, kind in {
            "nop": "Nop",
            "rms-norm-nop": "RmsNormNop",
            "w8a32": "W8A32Mixed",
            "wake-word": "WakeWord",
            "fused-conv-relu": "FusedConvRelu",
            "conv-16bit": "With16BitConvActivations",
            "linear-16bit": "With16BitLinearActivations",
            "matmul-16bit": "With16BitMatmulActivations",
            "layer-norm": "WithLayerNorm",
            "softmax": "WithSoftmax",
        }.items()
    ),
    _pt2e(
        "example",
        lambda: _class("executorch.backends.example.example_quantizer.ExampleQuantizer")(),
    ),
    _pt2e(
        "x86-inductor",
        _x86(
            "x86_inductor_quantizer",
            "X86InductorQuantizer",
            "get_default_x86_inductor_quantization_config",
        ),
    ),
    _pt2e(
        "arm-inductor",
        _x86(
            "arm_inductor_quantizer",
            "ArmInductorQuantizer",
            "get_default_arm_inductor_quantization_config",
        ),
    ),
    _pt2e(
        "embedding",
        lambda: _class(
            "torchao.quantization.pt2e.quantizer.embedding_quantizer.EmbeddingQuantizer"
        )(),
    ),
]
LLM = [
    *(
        Scheme(f"llm-{linear}", partial(_by_llm, linear, None, group))
        for linear, group in (("4w", 32), ("8w", 0), ("8da4w", 32), ("8da8w", 0), ("nvfp4", 16))
    ),
    *(
        Scheme(f"llm-embedding-{name}", partial(_by_llm, None, name, group))
        for name, group in (("4w", 32), ("8w", 0), ("nvfp4", 16))
    ),
]
SCHEMES = [*TORCHAO, *LLM, *PT2E]
