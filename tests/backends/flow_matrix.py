"""The schemes of each device flow, one row each; programs of the six models of `flow_models`.

`load` lowers a model in a scheme, or reads the program from the cache, with the results of the
lowered module in eager, or the error with which the flow refuses the model.
"""

import copy
import dataclasses
import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from executorch_c.check import flows
from tests import ROOT, kept
from tests.models import flow_models

Inputs = list[Tensor]


@dataclass
class Lowered:
    """A program and the modules that it must equal."""

    graph: Any
    """The lowered module: quantised, if the scheme quantises."""
    pte: bytes
    exact: Any = None
    """A module with the device's own arithmetic, whose results are equal bit by bit."""
    chosen: Any = None
    """The lowered module with what the flow's compiler chose where two integers are as near."""


BACKENDS = {
    **{"vulkan": "VulkanBackend", "coreml": "CoreMLBackend", "tosa": "TOSABackend"},
    **{"vgf": "VgfBackend", "openvino": "OpenvinoBackend", "native": "NativeBackend"},
    **{
        "mlx": "MLXBackend",
        "xnnpack": "XnnpackBackend",
        "cadence": "cadence",
        "cortex-m": "cortex_m",
    },
}
"""The id of a flow's delegate, or the namespace of its operators."""
PACKAGES = {
    **dict.fromkeys(("tosa", "cortex-m"), ("tosa_serializer",)),
    "vgf": ("tosa_serializer", "model_converter"),
    "coreml": ("coremltools",),
    "openvino": ("openvino", "nncf"),
}
"""Packages of a flow that may be missing."""
Lower = Callable[[nn.Module, Inputs], Lowered]


@dataclass(frozen=True)
class Scheme:
    """A flow with its weights and activations in some type."""

    flow: str
    name: str
    lower: Lower
    limit: float = 1e-5
    """Relative error of results that are not quantised."""
    steps: int = 1
    """Steps that a quantised result may be off."""
    is_half: bool = False
    """Quantised results are rounded to float16."""
    models: tuple[str, ...] = tuple(flow_models.MODELS)
    slow: tuple[str, ...] = ()
    """More models, whose exports take minutes, or which others cover."""

    @property
    def id(self) -> str:
        return f"{self.flow}-{self.name}"

    @property
    def backend(self) -> str:
        return BACKENDS[self.flow]

    @property
    def packages(self) -> tuple[str, ...]:
        return PACKAGES.get(self.flow, ())


# ---- the package's own flows, also with other quantizers ---------------------------------------


def _exported(model: nn.Module, inputs: Inputs) -> Any:
    return flows.export(model, ((inputs[0],), {}), None)


def _quantized_by(row: Any, model: nn.Module, inputs: Inputs) -> Any:
    return flows._quantize(row, _exported(model, inputs), [((x,), {}) for x in inputs])


def _by_flow(name: str, **changes: Any) -> Lower:
    def lower(model: nn.Module, inputs: Inputs) -> Lowered:
        row = dataclasses.replace(flows.FLOWS[name], **changes)
        graph = model if row.quantizer is None else _quantized_by(row, model, inputs)
        exported, kept_graph = _exported(graph, inputs), copy.deepcopy(graph)  # passes change it
        return Lowered(kept_graph, bytes(flows._lower(exported, row, "forward").buffer))

    return lower


def _native(model: nn.Module, inputs: Inputs, **changes: Any) -> Lowered:
    """Lower a quantised model: quantize_... and dequantize_... are not delegated."""
    import executorch.kernels.quantized  # noqa: F401  their out variants

    return _by_flow("native", **changes)(model, inputs)


def _native_torchao(scheme: str, model: nn.Module, inputs: Inputs) -> Lowered:
    from tests.models import vulkan_zoo

    return _native(vulkan_zoo.SCHEMES[scheme](copy.deepcopy(model), tuple(inputs[:1])), inputs)


def _half(flow: str, model: nn.Module, inputs: Inputs) -> Lowered:
    """Lower a model of float16 parameters: its eager results are of float16, too."""
    return _by_flow(flow)(copy.deepcopy(model).half(), [x.half() for x in inputs])


def _mlx_packed(config: str, group: int, model: nn.Module, inputs: Inputs) -> Lowered:
    """Lower a model whose linear layers have packed weights."""
    from executorch.extension.llm.export.quantize import quantize_model_

    packed = copy.deepcopy(model)
    quantize_model_(packed, config, group, skip_incompatible_shapes=True)
    return _by_flow("mlx")(packed, inputs)


def _openvino(mode: str, options: dict[str, Any], model: nn.Module, inputs: Inputs) -> Lowered:
    def quantizer() -> Any:
        from executorch.backends.openvino.quantizer import quantizer as openvino

        chosen = getattr(openvino.QuantizationMode, mode)
        return openvino.OpenVINOQuantizer(mode=chosen, **options)

    result = _by_flow("openvino-int8", quantizer=quantizer)(model, inputs)
    for layer in result.graph.modules():  # NNCF's module decompresses in float16
        if getattr(layer, "_scale", None) is not None and layer._scale.dtype == torch.float16:
            layer._scale = layer._scale.float()
    if "WO" not in mode:
        from tests.backends import openvino_ties

        result.chosen = openvino_ties.computed(result.graph, inputs[0], result.pte)
    return result


def _symmetric(is_dynamic: bool, weight_bits: int) -> Any:
    """Return a quantizer of Vulkan's flow."""
    from executorch.backends.vulkan.quantizer import vulkan_quantizer as vulkan

    settings = vulkan.get_symmetric_quantization_config(
        is_dynamic=is_dynamic, weight_bits=weight_bits
    )
    return vulkan.VulkanQuantizer().set_global(settings)


# ---- Vulkan ------------------------------------------------------------------------------------


def _vulkan(scheme: str, model: nn.Module, inputs: Inputs, **options: Any) -> Lowered:
    from tests.models import vulkan_zoo

    graph = vulkan_zoo.SCHEMES[scheme](copy.deepcopy(model), tuple(inputs[:1]))
    program = Lowered(graph, vulkan_zoo.lower(graph, (inputs[0],), options))
    if scheme == "8da8w":
        program.graph = without_activations(graph)
    return program


def _vulkan_half(scheme: str, model: nn.Module, inputs: Inputs) -> Lowered:
    """Lower with `force_fp16`. The results are those of the module with float16 where the payload
    has it: the scales of activations, too, whose integers are then others than in float32."""
    from tests.backends import vulkan_half
    from tests.models import vulkan_zoo

    if scheme in flows.FLOWS:
        graph = _quantized_by(flows.FLOWS[scheme], model, inputs)
    else:
        graph = vulkan_zoo.SCHEMES[scheme](copy.deepcopy(model), tuple(inputs[:1]))
    chosen = vulkan_half.Half(graph, inputs[0])
    program = vulkan_zoo.lower(graph, (inputs[0],), {"force_fp16": True})
    return Lowered(graph, program, chosen=chosen)


def without_activations(graph: Any) -> Any:
    """Return a graph whose activations are not quantised: FoldQDQPass removes it."""
    graph = copy.deepcopy(graph)
    for node in graph.graph.nodes:
        if "dequantize_per_t" not in str(node.target):
            continue
        source = node.args[0]
        if "quantize_per_t" in str(getattr(source, "target", "")):
            node.replace_all_uses_with(source.args[0])
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


# ---- XNNPACK -----------------------------------------------------------------------------------


def _xnnpack(group: int | None, model: nn.Module, inputs: Inputs) -> Lowered:
    """Lower layers with weights of 4 bits, by channel or by group, where a row is whole groups: the
    partitioner refuses others."""
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_

    config = Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=_granularity(group)
    )
    model = copy.deepcopy(model)

    def is_whole(layer: nn.Module, _: str) -> bool:
        return isinstance(layer, nn.Linear) and layer.in_features % 32 == 0

    quantize_(model, config, filter_fn=is_whole)
    for layer in model.modules():
        weight = getattr(layer, "weight", None)
        if hasattr(weight, "scale"):  # stored as bfloat16
            weight.scale = weight.scale.bfloat16().float()
    return _by_flow("xnnpack")(model, inputs)


def _granularity(group: int | None) -> Any:
    from torchao.quantization.granularity import PerAxis, PerGroup

    return PerAxis(0) if group is None else PerGroup(group)


# ---- Core ML -----------------------------------------------------------------------------------


def _coreml(
    ios: int = 17,
    half: bool = False,
    weights: Any = None,
    quantize: Any = None,
    palettes: bool = False,
) -> Lower:
    """Lower for a version of iOS.

    Args:
        weights: Options of coremltools' quantizer of weights.
        quantize: Returns a quantised module of a model and inputs.
        palettes: Compress each tensor of weights to sixteen values.
    """

    def lower(model: nn.Module, inputs: Inputs) -> Lowered:
        from tests.models import coreml_zoo

        graph = copy.deepcopy(model) if quantize is None else quantize(model, inputs)
        steps = [coreml_zoo.palettize(mode="uniform", nbits=4)] if palettes else []
        with torch.no_grad():
            exported = torch.export.export(graph, (inputs[0],))
        with coreml_zoo.converting(steps):
            program = Lowered(graph, coreml_zoo.lower(exported, ios, half, weights))
        if weights is None and not palettes:
            return program
        with coreml_zoo.converting([*steps, coreml_zoo.decompress]):
            program.exact = coreml_zoo.lower(exported, ios, half, weights)
        return program

    return lower


@functools.cache
def _keep_patterns() -> None:
    """Have the quantizer export each of its hundreds of patterns once in a process: it exports them
    anew for each model. It gets copies, because its matcher changes a pattern's output."""
    from executorch.backends.apple.coreml.quantizer import _coreml_quantizer_utils as utils

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        kept = functools.cache(function)
        return lambda *args, **kwargs: copy.deepcopy(kept(*args, **kwargs))

    for name in ("conv", "conv_bn", "linear", "linear_bn", "binary_op_act"):
        function = f"get_{name}_pattern"
        setattr(utils, function, keep(getattr(utils, function)))


def _pt2e(activations: torch.dtype, model: nn.Module, inputs: Inputs) -> Any:
    """Quantise weights by channel to int8, and activations to a type; float32: they stay."""
    import coremltools as ct
    from executorch.backends.apple.coreml.quantizer import CoreMLQuantizer

    _keep_patterns()
    settings = ct.optimize.torch.quantization
    config = settings.LinearQuantizerConfig(
        global_config=settings.ModuleLinearQuantizerConfig(
            quantization_scheme="symmetric",
            weight_per_channel=True,
            weight_dtype=torch.qint8,
            activation_dtype=activations,
        )
    )
    row = dataclasses.replace(flows.FLOWS["coreml"], quantizer=lambda: CoreMLQuantizer(config))
    return _quantized_by(row, model, inputs)


def _torchao(bits: int, group: int | None, model: nn.Module, inputs: Inputs) -> Any:
    from torchao.quantization import IntxWeightOnlyConfig

    dtype = getattr(torch, f"int{bits}")
    config = IntxWeightOnlyConfig(weight_dtype=dtype, granularity=_granularity(group))
    return _quantized_by_torchao(config, model)


def _codebook(model: nn.Module, inputs: Inputs) -> Any:
    from torchao.prototype.quantization.codebook_coreml import CodebookWeightOnlyConfig

    config = CodebookWeightOnlyConfig(dtype=torch.uint4, block_size=[-1, 16])
    return _quantized_by_torchao(config, model)


def _quantized_by_torchao(config: Any, model: nn.Module) -> Any:
    from torchao.quantization import quant_api
    from torchao.utils import unwrap_tensor_subclass

    model = copy.deepcopy(model)
    quant_api.quantize_(model, config)
    return unwrap_tensor_subclass(model)


INT8 = {"mode": "linear_symmetric", "dtype": "int8", "weight_threshold": 0}
INT4 = {**INT8, "dtype": "int4", "granularity": "per_block", "block_size": 8}

# ---- operators of libraries --------------------------------------------------------------------


def _cadence(quantizer: str | None, model: nn.Module, inputs: Inputs) -> Lowered:
    from tests.backends import cadence_flow

    return Lowered(*cadence_flow.export(copy.deepcopy(model), inputs, quantizer))


def _cortex_m(core: str, model: nn.Module, inputs: Inputs) -> Lowered:
    from tests.backends import cortex_m_flow

    return Lowered(*cortex_m_flow.export(copy.deepcopy(model), inputs, core))


NAMES = tuple(flow_models.MODELS)
LAYERS = NAMES[:-1]
"""Models without the LSTM: some quantisers find nothing in it, and its program is in float32."""
INT16 = 6
"""Steps of 65,536 that results may be off: see SCHEMES."""

SCHEMES = [
    Scheme("vulkan", "fp32", partial(_vulkan, "float")),
    Scheme("vulkan", "fp16", partial(_vulkan, "float", force_fp16=True), 3e-3),
    *(
        Scheme("vulkan", name, partial(_vulkan, name))
        for name in ("w8", "w4", "8da8w", "4w", "8da4w")
    ),
    Scheme("vulkan", "static8", _by_flow("vulkan-int8")),
    *(
        Scheme("vulkan", f"{name}-fp16", partial(_vulkan, name, force_fp16=True), 3e-3)
        for name in ("w8", "w4", "8da8w", "4w")
    ),
    # 3e-3: six roundings to float16.
    Scheme(
        *("vulkan", "8da4w-fp16", partial(_vulkan_half, "8da4w"), 3e-3),
        models=("mlp", "mobilenet", "transformer"),
        slow=("cnn", "unet", "lstm"),
    ),
    # Equal but for float32 sums at a tie: 1 of 308 calls of the transformer.
    Scheme(
        *("vulkan", "static8-fp16", partial(_vulkan_half, "vulkan-int8"), 0.0),
        *(1, True, LAYERS, ("lstm",)),
    ),
    *(
        Scheme("coreml", name, lower, 3e-3 if "fp16" in name else 1e-5)
        for name, lower in (
            ("fp32", _coreml()),
            ("fp16", _coreml(18, half=True)),
            ("int8", _coreml(17, weights=INT8)),
            ("int4", _coreml(18, weights=INT4)),
            ("lut4", _coreml(17, palettes=True)),
            ("lut4-fp16", _coreml(18, half=True, palettes=True)),
            ("ao-int8", _coreml(18, quantize=partial(_torchao, 8, None))),
            ("ao-int4", _coreml(18, quantize=partial(_torchao, 4, 16))),
            ("ao-codebook", _coreml(18, quantize=_codebook)),
        )
    ),
    *(
        Scheme(
            *("coreml", name, _coreml(17, quantize=partial(_pt2e, activations))),
            models=NAMES[:count],  # minutes each
            slow=NAMES[count:],
        )
        for name, activations, count in (("w8", torch.float32, 3), ("static8", torch.quint8, 4))
    ),
    *(
        Scheme(flow, name, _by_flow(row), steps=INT16 if name == "a16w8" else 1)
        for flow in ("tosa", "vgf")
        for name, row in (
            *(("fp32", flow), ("int8", f"{flow}-int8"), ("a8w4", f"{flow}-a8w4")),
            ("a16w8", f"{flow}-a16w8"),
        )
    ),
    *(
        Scheme("tosa", name, _by_flow(f"ethos-{name}"), steps=INT16 if "a16w8" in name else 1)
        for core in ("u55", "u85")
        for name in (core, f"{core}-a8w4", f"{core}-a16w8")
    ),
    Scheme("openvino", "fp32", _by_flow("openvino")),
    # Equal to their modules with the ties of weights as the compiler rounds them, and without
    # rounding before a residual sum: openvino_ties.py.
    *(
        Scheme(
            *("openvino", mode.lower().replace("_", "-"), partial(_openvino, mode, options)),
            steps=steps,
        )
        for modes, steps, options in (
            ("INT8_SYM INT8_MIXED INT8_TRANSFORMER", 0, {}),
            ("INT8WO_SYM INT8WO_ASYM", 1, {}),
            ("INT4WO_SYM INT4WO_ASYM", 1, {"group_size": 16}),
        )
        for mode in modes.split()
    ),
    *(Scheme("cortex-m", core.lower(), partial(_cortex_m, core)) for core in ("M55", "M4")),
    *(
        Scheme("cadence", name, partial(_cadence, quantizer and f"Cadence{quantizer}Quantizer"))
        for name, quantizer in (
            # Not CadenceWithSoftmaxQuantizer (test_cadence_programs.py): the flow's export of the
            # LSTM and of MobileNet takes minutes, and once took 21 GB.
            *(("fp32", None), ("int8", "Default"), ("layer-norm", "WithLayerNorm")),
            *(("fused-relu", "FusedConvRelu"), ("linear16", "With16BitLinearActivations")),
            *(("wake-word", "WakeWord"), ("w8a32", "W8A32Mixed")),
        )
    ),
    *(
        Scheme("cadence", f"{name}16", partial(_cadence, quantizer), models=LAYERS)
        for name, quantizer in (
            ("conv", "CadenceWith16BitConvActivationsQuantizer"),
            ("matmul", "CadenceWith16BitMatmulActivationsQuantizer"),
        )
    ),
    Scheme("mlx", "fp32", _by_flow("mlx")),
    Scheme("mlx", "fp16", partial(_half, "mlx"), 3e-3),
    *(
        Scheme("mlx", name, partial(_mlx_packed, name, group), models=("mlp", "transformer"))
        for name, group in (("4w", 32), ("8w", 32), ("nvfp4", 16))
    ),
    Scheme("native", "fp32", _by_flow("native")),
    Scheme("native", "fp16", partial(_half, "native"), 3e-3),
    *(
        Scheme("native", name, partial(_native, quantizer=quantizer))
        for name, quantizer in (
            ("static8", flows._symmetric(False)),
            ("dynamic8", flows._symmetric(True)),
            *((f"w{bits}", partial(_symmetric, False, bits)) for bits in (8, 4)),
            *((f"8da{bits}w", partial(_symmetric, True, bits)) for bits in (8, 4)),
        )
    ),
    *(Scheme("native", f"ao-{name}", partial(_native_torchao, name)) for name in ("4w", "8da4w")),
]
"""All schemes; those whose packages are missing are skipped by the tests.

INT16: the format, not its interpreter, is some of 65,536 steps off: results equal Arm's reference
model bit by bit (test_integers_of_tosa_equal_arms_reference_model). RESCALE of int48 multiplies by
15 bits, up to a step a layer (4 of 256 results of the MLP's first), and TABLE interpolates. The
largest: MLP 6, U-Net 3, transformer and LSTM 2, MobileNet 1, CNN 0.
"""


XNNPACK = [
    Scheme("xnnpack", "static8", _by_flow("xnnpack-int8")),
    Scheme("xnnpack", "8da4w", partial(_xnnpack, None)),
    Scheme("xnnpack", "qb4w", partial(_xnnpack, 32)),
]
"""Schemes of XNNPACK, for planted faults: the rows of `xnnpack_models.py` compare its results."""


def scheme_of(scheme_id: str) -> Scheme:
    (scheme,) = (scheme for scheme in [*SCHEMES, *XNNPACK] if scheme.id == scheme_id)
    return scheme


@dataclass
class Loaded:
    """A program, or the error of the flow; inputs and results of `flow_models.CALLS` calls."""

    pte: bytes = b""
    inputs: list[np.ndarray] = dataclasses.field(default_factory=list)
    eager: list[np.ndarray] = dataclasses.field(default_factory=list)
    """Results of the lowered module."""
    exact: Any = None
    """Results that are equal bit by bit, or a program with the same results; None: unknown."""
    step: float = 0.0
    """The largest scale of the activations that the results depend on; 0 if none is quantised."""
    quantized: int = 0
    """Nodes of the lowered module that quantise or dequantise."""
    error: str = ""
    """The exception's type and message, if the flow refuses the model."""


def _is_quantizing(node: Any) -> bool:
    return "quant" in str(node.target) or "decompressor" in str(node.target)


def _step(graph: Any) -> float:
    """Return the scale of the last quantised activation, of each branch: the largest."""
    scales, seen = [], set()
    pending = [next(node for node in graph.graph.nodes if node.op == "output")]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if "dequantize_per_tensor" in str(node.target) and node.args[0].op == "call_function":
            if isinstance(node.args[1], torch.fx.Node):  # chosen at run time: no step of its own
                pending.append(node.args[0])
            else:
                scales.append(float(node.args[1]))
        else:
            pending.extend(node.all_input_nodes)
    return max(scales, default=0.0)


def _quantized(graph: Any) -> int:
    if not hasattr(graph, "graph"):  # torchao replaces parameters of a module
        names = {type(p).__name__ for p in graph.parameters()} - {"Parameter"}
        parametrized = [m for m in graph.modules() if hasattr(m, "parametrizations")]
        return len(names) + len(parametrized)
    return sum(map(_is_quantizing, graph.graph.nodes))


def export(scheme: Scheme, model_name: str) -> tuple[Lowered, Inputs]:
    """Lower a model; raises as the flow does."""
    logging.getLogger().setLevel(logging.ERROR)
    model, inputs = flow_models.make(model_name)
    torch.manual_seed(0)
    program = scheme.lower(model, inputs)
    if scheme.name == "fp16" and scheme.flow in ("mlx", "native"):
        inputs = [x.half() for x in inputs]
    return program, inputs


def _load(scheme: Scheme, model_name: str) -> Loaded:
    try:
        program, inputs = export(scheme, model_name)
    except Exception as error:
        return Loaded(error=f"{type(error).__name__}: {error}")
    graph, result = program.chosen or program.graph, Loaded(program.pte)
    with torch.no_grad():
        for x in inputs[: flow_models.CALLS]:
            result.inputs.append(x.numpy())
            result.eager.append(graph(x).numpy())
        if callable(program.exact):
            result.exact = [program.exact(x).numpy() for x in inputs[: flow_models.CALLS]]
        else:
            result.exact = program.exact
    result.step = _step(graph) if hasattr(graph, "graph") else 0.0
    result.quantized = _quantized(graph)
    return result


FILES = [
    ROOT / "tests" / f"{name}.py"
    for name in "models/flow_models models/coreml_zoo backends/flow_matrix backends/cadence_flow "
    "backends/cortex_m_flow backends/openvino_ties backends/vulkan_half".split()
]

DISTRIBUTIONS = {"tosa_serializer": "tosa-tools", "model_converter": "ai-ml-sdk-model-converter"}
"""Distributions of packages, where the names differ."""


def load(scheme: Scheme, model_name: str) -> Loaded:
    packages = ("torch", "executorch", "torchao", *scheme.packages)
    packages = tuple(DISTRIBUTIONS.get(name, name) for name in packages)
    key = kept.digest(*FILES, packages=packages)
    name = f"flow-{scheme.id}-{model_name}-{key}"
    return kept.pickled(name, lambda: _load(scheme, model_name))  # type: ignore[no-any-return]
