"""Wrong constants planted between `torch.export` and a flow's lowering, and rows of schemes.

The flow gets an ExportedProgram with one wrong constant of a layer; the model, its export and the
quantised graph, to which `check_model` compares the program, stay right.
"""

import copy
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from executorch_c._eager_caches import kept_caches
from executorch_c.check import flows
from executorch_c.debug._graphs.reference import module_of
from executorch_c.debug._judge import layer_of
from tests.backends import scheme_rows, vendor_packages
from tests.models import cache_models, flow_models, plain_models

LAYERS = ("aten.conv", "aten.linear", "aten.lstm", "aten.embedding", "aten.mm.")
"""Operators with a weight."""

# ---- constants of a layer ----------------------------------------------------------------------


@dataclass
class Layer:
    """The constants of a layer in an ExportedProgram."""

    exported: Any
    path: str
    weight: Any
    """Node of the weight, or of its codes."""
    reader: Any = None
    """The node that dequantises the weight."""
    bias: Any = None
    activation: Any = None
    """The node that dequantises the input with a scale of calibration."""

    def find(self, node: Any, part: str = "qdata") -> tuple[Any, str]:
        """Return the table and key of a constant: of a parameter, or of a part of one that torchao
        has quantised."""
        is_part = "access_subclass" in str(node.target)
        if is_part:
            node, own = node.args
            part = own if part == "qdata" else part
        signature = self.exported.graph_signature
        names = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        name, state = names[node.name], self.exported.state_dict
        table = state if name in state else self.exported.constants
        is_part |= hasattr(table[name], "qdata")
        return (vars(table[name]), part) if is_part else (table, name)

    @property
    def is_quantized(self) -> bool:
        table, name = self.find(self.weight)
        return self.reader is not None or name == "qdata"


def layers_of(exported: Any) -> Iterator[Layer]:
    """Yield the layers of an exported program that have a weight."""
    for node in exported.graph.nodes:
        path = module_of(node) if node.op == "call_function" else None
        if path and str(node.target).startswith(LAYERS):
            yield _layer(exported, path, node)


def _layer(exported: Any, path: str, node: Any) -> Layer:
    _, weight, *rest = node.args
    bias = rest[0] if rest else None
    if "lstm" in str(node.target):
        _, _, (weight, _, bias, *_), *_ = node.args
    elif "embedding" in str(node.target):
        weight, bias = node.args[0], None
    layer = Layer(exported, path, weight)
    while layer.weight.op != "placeholder" and "access_subclass" not in str(layer.weight.target):
        if "dequantize" in str(layer.weight.target):
            layer.reader = layer.weight
        layer.weight = layer.weight.args[0]
    while isinstance(bias, torch.fx.Node) and bias.op != "placeholder":
        bias = bias.args[0]
    layer.bias = bias
    layer.activation = _calibrated(node.args[0])
    return layer


def _calibrated(node: Any) -> Any:
    """Return a node that dequantises by numbers; a view of it has the same values."""
    while isinstance(node, torch.fx.Node) and "view" in str(node.target):
        node = node.args[0]
    is_known = "dequantize_per_tensor" in str(getattr(node, "target", ""))
    return node if is_known and isinstance(node.args[1], float) else None


# ---- faults: functions of a layer; False: it has no place for one ------------------------------

Change = Callable[[Tensor], None]
SIGNS = 0x88
"""Signs of two floats of four bits."""
INDEX = 0x08
"""A bit of an index into a codebook of 16 values."""


def _changed(layer: Layer, node: Any, change: Change, part: str = "qdata") -> bool:
    if not isinstance(node, torch.fx.Node):
        return False
    table, name = layer.find(node, part)
    if name not in table:
        return False
    old = table[name]
    values = old.detach().clone()
    change(values)
    table[name] = nn.Parameter(values, False) if isinstance(old, nn.Parameter) else values
    return not torch.equal(values.view(torch.uint8), old.detach().view(torch.uint8))


def _scaled(values: Tensor, index: Any, factor: float) -> None:
    values[index] = (values[index].float() * factor).to(values.dtype)


def _element(at: int, values: Tensor) -> None:
    """Change the number whose place among the largest is `at`."""
    if values.dtype == torch.uint32:
        values = values.view(torch.uint8)
    flat = values.view(-1)
    index = flat.float().abs().argsort(descending=True)[at]
    if values.dtype == torch.uint8:
        flat[index] ^= SIGNS if flat.max() > 0xF else INDEX
    elif values.is_floating_point():
        _scaled(flat, index, -2.0 if values.element_size() > 1 else -1.0)
    else:
        flat[index] = flat[index] // 2 - flat[index]


def _channel(at: int, values: Tensor) -> None:
    _scaled(values, values.flatten(1).float().abs().sum(1).argsort(descending=True)[at], 0.5)


def _rows(at: int, values: Tensor) -> None:
    values[at : at + 2] = values[at : at + 2].flip(0)


def _group(at: int, values: Tensor) -> None:
    _scaled(values.view(-1), (values.numel() // 2 + at) % values.numel(), 2.0)


def _next(at: int, values: Tensor) -> None:
    values.view(-1)[(values.numel() // 2 + at) % values.numel()] += 1


def _stale(at: int, values: Tensor) -> None:
    values.copy_(values.roll(1 + at))


def _quantization(which: int, change: Change, layer: Layer) -> bool:
    """Change the scales (0) or zero points (1) of a weight: constants, or a number."""
    if layer.reader is None:
        return _changed(layer, layer.weight, change, ("scale", "zero_point")[which])
    at = 1 + which + ("affine" in str(layer.reader.target))  # a block's shape comes before
    value = layer.reader.args[at]
    if not isinstance(value, (int, float)):
        return _changed(layer, value, change)
    changed = torch.tensor([value])
    change(changed)
    layer.reader.update_arg(at, changed.item())
    return True


def _activation(factor: float, step: int, layer: Layer) -> bool:
    """Change how the layer and others read its input."""
    if layer.activation is None:
        return False
    value, scale, zero, low, high, *rest = layer.activation.args
    changed = zero + step if zero < high else zero - step
    layer.activation.args = (value, scale * factor, changed, low, high, *rest)
    return True


def _fault(name: str, at: int, layer: Layer) -> bool:
    """Plant a fault; `at` is the place in the weight, from the likeliest to be seen."""
    if name in ("input scale", "input zero"):
        return _activation(*{"input scale": (1.5, 0), "input zero": (1.0, 1)}[name], layer)
    changes = {"scale": _group, "zero": _next, "bias": _stale}
    changes |= {"element": _element, "channel": _channel, "rows": _rows}
    change = partial(changes[name], at)
    if name in ("scale", "zero"):
        return _quantization(int(name == "zero"), change, layer)
    return _changed(layer, layer.bias if name == "bias" else layer.weight, change)


WEIGHTS = ("element", "channel", "rows", "bias")
CODES = (*WEIGHTS, "scale", "zero")
ACTIVATIONS = ("input scale", "input zero")
VISIBLE = 0.005
"""The least relative change of the outputs: a fault that changes less need not be found."""
VISIBLE_STEPS = 8
"""The same of outputs in half precision, in units of their epsilon."""
TRIES = 6


def _is_visible(exported: Any, wrong: Any, inputs: Sequence[Any]) -> bool:
    """Return True if a wrong program has other outputs in eager."""
    with torch.no_grad():
        for x in inputs:
            with kept_caches():
                right = exported.module(check_guards=False)(x)
            with kept_caches():
                other = wrong.module(check_guards=False)(x)
            share = max(VISIBLE, VISIBLE_STEPS * torch.finfo(right.dtype).eps)
            change = (other.double() - right.double()).norm()
            if float(change) >= share * float(right.double().norm()):
                return True
    return False


Place = tuple[str, "str | None"]
"""A fault, and the module that a report has to name: for the quantisation of an activation, the one
that computes it."""


def plant(
    exported: Any, faults: Sequence[str], number: int, inputs: Sequence[Any]
) -> tuple[Any, Place]:
    """Return a copy of an exported program with the first fault that its outputs show, and its
    place.

    The layer: of those with quantised weights if there are any, the `number`-th that has a place
    for the fault. Raises LookupError without such a place.
    """
    layers = list(layers_of(exported))
    places = [at for at, layer in enumerate(layers) if layer.is_quantized]
    places = places or list(range(len(layers)))
    orders = [places[(number + at) % len(places)] for at in range(len(places))]
    for fault, index, place in itertools.product(faults, orders, range(TRIES)):
        wrong = copy.deepcopy(exported)
        layer = list(layers_of(wrong))[index]
        if _fault(fault, place, layer) and _is_visible(exported, wrong, inputs):
            named = layer_of(layer.activation) if fault in ACTIVATIONS else layer.path
            return wrong, (fault, named)
    raise LookupError(f"no layer has a place for any fault of {faults}")


@contextmanager
def planted(
    flow: str, faults: Sequence[str], number: int, inputs: Sequence[Any]
) -> Iterator[list[Place]]:
    """Have a flow lower a wrong constant; the list gets its place."""
    row, places = flows.FLOWS[flow], []

    def lower(exported: Any, method: str) -> Any:
        wrong, place = plant(exported, faults, number, inputs)
        places.append(place)
        return flows._lower(wrong, row, method)

    flows.FLOWS[flow] = dataclasses.replace(row, lower=lower)
    try:
        yield places
    finally:
        flows.FLOWS[flow] = row


# ---- schemes -----------------------------------------------------------------------------------

Prepared = tuple[nn.Module, list[Tensor]]


def _float(model_name: str, dtype: torch.dtype = torch.float32) -> Prepared:
    model, inputs = flow_models.make(model_name)
    return model.to(dtype), [x.to(dtype) for x in inputs]


def _plain(model_name: str) -> Prepared:
    return plain_models.make(model_name)


def _wide(model_name: str) -> Prepared:
    """Return a model with a head whose weight has a whole group in each row."""
    if model_name == "embedding":
        torch.manual_seed(0)
        make, draw = scheme_rows.MODELS["transformer"]
        return make().eval(), [draw() for _ in range(2)]
    model, inputs = flow_models.make(model_name)
    torch.manual_seed(0)
    width = model(inputs[0]).shape[-1]
    head = nn.Linear(width, 64), nn.Tanh(), nn.Linear(64, 64), nn.Linear(64, 9)
    return nn.Sequential(model, *head).eval(), inputs


def _quantized(quantize: scheme_rows.Quantize, model_name: str) -> Prepared:
    model, inputs = _wide(model_name)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return quantize(model, inputs), inputs


def _intx(bits: int, group: int, asymmetric: bool = False) -> scheme_rows.Quantize:
    def quantize(model: nn.Module, inputs: list[Tensor]) -> Any:
        from torchao.quantization import IntxWeightOnlyConfig, MappingType, quantize_

        kind = MappingType.ASYMMETRIC if asymmetric else MappingType.SYMMETRIC
        dtype = getattr(torch, f"int{bits}")
        config = IntxWeightOnlyConfig(dtype, scheme_rows._group(group)(), mapping_type=kind)
        quantize_(model, config, filter_fn=_has_groups(group))
        return model

    return quantize


def _has_groups(group: int) -> Callable[[nn.Module, str], bool]:
    def is_whole(layer: nn.Module, _: str) -> bool:
        return isinstance(layer, nn.Linear) and layer.in_features % group == 0

    return is_whole


def _packed(config: str, group: int, model: nn.Module, inputs: list[Tensor]) -> Any:
    from executorch.extension.llm.export.quantize import quantize_model_

    quantize_model_(model, config, group, skip_incompatible_shapes=True)
    return model


def _of_config(path: str, group: int, **options: Any) -> scheme_rows.Quantize:
    def quantize(model: nn.Module, inputs: list[Tensor]) -> Any:
        from torchao.quantization import quantize_

        config = scheme_rows._class(path)(**{key: value() for key, value in options.items()})
        quantize_(model, config, filter_fn=_has_groups(group))
        return model

    return quantize


def _by_intx(group: int | None, model: nn.Module, inputs: list[Tensor]) -> Any:
    """Quantise activations as they come, weights to 4 bits; XNNPACK stores scales as bfloat16."""
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_

    config = Int8DynamicActivationIntxWeightConfig(torch.int4, scheme_rows._group(group)())
    quantize_(model, config, filter_fn=_has_groups(32))
    for layer in model.modules():
        weight = getattr(layer, "weight", None)
        if hasattr(weight, "scale"):
            weight.scale = weight.scale.bfloat16().float()
    return model


@dataclass(frozen=True)
class Scheme:
    """A flow with the models that it lowers, and the faults of its constants."""

    name: str
    flow: str
    prepare: Callable[[str], Prepared] = _float
    faults: tuple[str, ...] = WEIGHTS
    options: tuple[tuple[str, Any], ...] = ()
    """Of check_model."""
    models: tuple[str, ...] = tuple(flow_models.MODELS)
    scope: Callable[[str], AbstractContextManager[None]] = lambda model_name: nullcontext()
    """Around the checks of a model."""


VENDOR = (*CODES, *ACTIVATIONS)
WIDE = (*flow_models.MODELS, "embedding")


def _packs(name: str, flow: str, quantize: scheme_rows.Quantize, faults: Any = CODES) -> Scheme:
    return Scheme(name, flow, partial(_quantized, quantize), faults, models=WIDE)


AO = scheme_rows.AO
CODEBOOK = f"{scheme_rows.PROTOTYPE}.quantization.codebook_coreml.CodebookWeightOnlyConfig"
MX = "executorch.extension.llm.export.mx.ExportableMXConfig"
SCHEMES = [
    Scheme("native-package", "native-package", _plain, models=tuple(plain_models.MODELS)),
    Scheme("mlx", "mlx"),
    Scheme("mlx-fp16", "mlx", partial(_float, dtype=torch.float16)),
    Scheme("mlx-bf16", "mlx", partial(_float, dtype=torch.bfloat16)),
    *(_packs(f"mlx-int{bits}", "mlx", _intx(bits, 32)) for bits in (2, 4, 5, 6, 8)),
    _packs("mlx-int4-asymmetric", "mlx", _intx(4, 32, True)),
    _packs("mlx-nvfp4", "mlx", partial(_packed, "nvfp4", 16), ("element", "rows", "bias", "scale")),
    _packs("mlx-mxfp8", "mlx", _of_config(MX, 32), ("element", "rows", "bias", "scale")),
    Scheme("coreai", "coreai"),
    _packs("portable-int8-weight-only", "portable", _of_config(f"{AO}.Int8WeightOnlyConfig", 32)),
    _packs(
        *("portable-codebook", "portable"),
        _of_config(CODEBOOK, 32, dtype=lambda: torch.uint4, block_size=lambda: [-1, 16]),
        ("element", "rows", "bias"),
    ),
    *(
        _packs(name, "xnnpack", partial(_by_intx, group), (*WEIGHTS, "scale"))  # no zero points
        for name, group in (("xnnpack-8da4w", None), ("xnnpack-qb4w", 32))
    ),
    *(Scheme(name, name, faults=VENDOR) for name in ("qnn", "qnn-a16w8")),
    # Four bits leave the multilayer perceptron 9.4 dB against its float model, right or wrong.
    Scheme("qnn-a16w4", "qnn-a16w4", faults=VENDOR, options=(("min_sqnr_db", 5.0),)),
    Scheme("neutron", "neutron", faults=VENDOR),
    # The compiler quantises the weights, by scales of the graph.
    *(Scheme(name, name, faults=(*WEIGHTS, *ACTIVATIONS)) for name in ("samsung", "mtk")),
    Scheme("cuda", "cuda"),
    Scheme(
        *("mlx-kv-cache", "mlx", cache_models.make, WEIGHTS, (("n_random", 0),)),
        *(tuple(cache_models.MODELS), cache_models.cache),
    ),
]


def rows(scheme: Scheme) -> Iterator[tuple[str, int]]:
    """Yield models, and the numbers of their faults: another one in each model, from another one in
    each scheme."""
    start = SCHEMES.index(scheme)
    for at, model_name in enumerate(scheme.models):
        yield model_name, (start + at) % len(scheme.faults)


def missing(scheme: Scheme) -> tuple[str, ...]:
    """Return the packages that a scheme's flow needs, if one is missing that has no stand-in."""
    row = flows.FLOWS[scheme.flow]
    with vendor_packages.installed():
        return () if row.is_installed else row.packages


@dataclass
class Outcome:
    """Results of the checks of a right program, and of the same program with a fault."""

    right: str
    accused: list[str | None]
    """Modules that the report of the right program says to be wrong."""
    wrong: str
    fault: str
    layer: str | None
    """The module with the fault."""
    named: list[str | None]
    """Modules that the report of the wrong program says to be wrong."""
    notes: Sequence[str]
    """Of the check of the wrong program."""
    text: str
    """The reports."""

    @property
    def is_right(self) -> bool:
        found = self.wrong == "differ" and set(self.named) == {self.layer}
        return self.right == "match" and not self.accused and found


def outcome(scheme: Scheme, model_name: str, number: int) -> Outcome:
    """Check a model in a flow, and the same with a fault: the `number`-th of the scheme, or the
    next one that has a place."""
    from executorch_c.testing import check_model

    model, inputs = scheme.prepare(model_name)
    options: dict[str, Any] = {"flow": scheme.flow, "n_random": 1, "progress": False}
    options |= {"real_inputs": [(x,) for x in inputs[1:3]], **dict(scheme.options)}
    faults = scheme.faults[number:] + scheme.faults[:number]
    with torch.no_grad(), scheme.scope(model_name), vendor_packages.installed():
        right = check_model(model, (inputs[0],), **options)
        at = scheme.models.index(model_name)
        with planted(scheme.flow, faults, at, inputs[:3]) as places:
            wrong = check_model(model, (inputs[0],), **options)
        reports = [right.explain(right.cases[0])]
        reports += [] if wrong.verdict == "match" else [wrong.explain()]
    accused, named = (faults_of_report(r) for r in (reports[0], reports[-1]))
    ((fault, layer),) = places
    text = "\n".join(map(str, (right, wrong, *reports)))
    return Outcome(right.verdict, accused, wrong.verdict, fault, layer, named, wrong.notes, text)


def faults_of_report(report: Any) -> list[str | None]:
    return [line.module for line in report if line.verdict == "source"]
