"""check_model, explain and validate on programs that the user has quantised: seen in the program
and in the model, right ones match, and planted faults are found."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests import exports

pytest.importorskip("torchao")

import executorch.kernels.quantized  # noqa: F401  the out variants of quantize and dequantize
from torch import Tensor, nn
from torchao.quantization import quantize_
from torchao.quantization.granularity import PerGroup

import executorch_c
from executorch_c import cli
from executorch_c.check import flows
from executorch_c.compare import tolerance, verdicts
from executorch_c.debug._graphs.quantized import is_quantized_model
from executorch_c.devtools import explain
from executorch_c.inspect.quantized import quantization_of
from executorch_c.inspect.structure import view_of
from executorch_c.testing import check_model
from tests.models.blocks import Attention

Inputs = tuple[Tensor, ...]


@cache
def model(name: str) -> tuple[nn.Module, Inputs]:
    torch.manual_seed(0)
    if name == "cnn":
        layers = (
            *(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 16)),
        )
        return nn.Sequential(*layers).eval(), (torch.randn(4, 3, 10, 10),)
    if name == "transformer":
        layers = nn.LayerNorm(32), Attention(32, heads=2), nn.Linear(32, 32)
        return nn.Sequential(*layers).eval(), (torch.randn(2, 6, 32),)
    layers = (nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    return nn.Sequential(*layers).eval(), (torch.randn(8, 64),)


SCHEMES = {**exports.SCHEMES, "portable": exports.SCHEMES["static"]}


def lower(module: nn.Module, inputs: Inputs, delegated: bool = True) -> bytes:
    return exports.lowered(module, *inputs, delegated=delegated)


@dataclass(frozen=True)
class Case:
    floats: nn.Module
    quantized: nn.Module
    inputs: Inputs
    pte: bytes


@cache
def case(name: str, scheme: str) -> Case:
    net, inputs = model(name)
    quantized = SCHEMES[scheme](net, inputs)
    return Case(net, quantized, inputs, lower(quantized, inputs, scheme != "portable"))


CASES = [
    ("mlp", "static"),
    ("mlp", "8da4w"),
    ("mlp", "portable"),
    pytest.param("cnn", "static", marks=pytest.mark.heavy),
    pytest.param("mlp", "per-tensor", marks=pytest.mark.heavy),
    pytest.param("mlp", "dynamic", marks=pytest.mark.heavy),
    pytest.param("cnn", "dynamic", marks=pytest.mark.heavy),
    *(pytest.param("transformer", scheme, marks=pytest.mark.heavy) for scheme in SCHEMES),
]
NAMES = {
    "static": "int8 static, XNNPACK",
    "per-tensor": "int8 static, XNNPACK",
    "dynamic": "int8 dynamic, XNNPACK",
    "8da4w": "int4 dynamic, XNNPACK",
    "portable": "int8 static, operators",
}


@pytest.mark.parametrize(("name", "scheme"), CASES)
def test_right_programs(name: str, scheme: str) -> None:
    """A right program matches its float model, its quantised module and that module's export."""
    one = case(name, scheme)
    floats = check_model(one.floats, one.inputs, program=one.pte, n_random=1)
    assert floats.verdict == "match" and not floats.failures, str(floats)
    assert floats.facts["quantised"] == NAMES[scheme] and floats.facts["model"] == "float"
    assert "the model is float: judged by SQNR" in " ".join(floats.notes)
    for reference in (one.quantized, torch.export.export(one.quantized, one.inputs)):
        result = check_model(reference, one.inputs, program=one.pte, n_random=1)
        assert result.verdict == "match" and not result.failures, str(result)
        assert result.facts["model"] == "quantised" and "least SQNR" not in result.facts
        assert "equal but for rounding ties" in " ".join(result.notes)


@pytest.mark.parametrize(("name", "scheme"), CASES)
def test_explain_accuses_no_layer_of_a_right_program(name: str, scheme: str) -> None:
    one = case(name, scheme)
    report = explain(one.floats, list(one.inputs), program=one.pte)
    assert report.verdict == "match" and report.first is None, str(report)
    assert any("the model is float" in note for note in report.notes)
    graph = explain(one.quantized, list(one.inputs), program=one.pte)
    assert graph.verdict == "match", str(graph)
    assert not any("the model is float" in note for note in graph.notes)


# ---- faults -----------------------------------------------------------------------------------


def _tensor(module: nn.Module, number: int) -> Tensor:
    """Return the quantised weight of a layer."""
    weights = [
        value
        for key, value in module.state_dict().items()
        if value.dtype == torch.int8 and value.ndim > 1 and value.shape[-1] > 2
    ]
    weights = weights or [value for key, value in vars(module).items() if "_frozen" in key]
    return weights[number]


def swap_filters(module: nn.Module) -> None:
    weight = _tensor(module, 0)
    weight[:2] = weight[:2].flip(0).clone()


def negate(module: nn.Module) -> None:
    weight = _tensor(module, 0)
    weight.copy_(torch.where(weight == -8, weight, -weight))


def _activation(module: nn.Module, change: Callable[[float, int], tuple[float, int]]) -> None:
    """Change scale and zero point of the second activation where it is read."""
    nodes = [
        node
        for node in module.graph.nodes
        if "dequantize_per_tensor" in str(node.target) and node.args[0].op != "get_attr"
    ]
    value, scale, zero, *rest = nodes[1].args
    nodes[1].args = (value, *change(scale, zero), *rest)
    module.recompile()


FAULTS: dict[str, Callable[[nn.Module], None]] = {
    "swapped filters": swap_filters,
    "negative weights": negate,
    "wrong scale": lambda module: _activation(module, lambda s, z: (s * 1.2, z)),
    "wrong zero point": lambda module: _activation(module, lambda s, z: (s, z + 1)),
    "scale of another tensor": lambda module: _activation(module, lambda s, z: (s * 8, z)),
}
GROSS = ("negative weights", "scale of another tensor", "swapped filters")
"""Faults that are larger than quantising explains: against the float model, too."""
PLANTED = [
    *(("static", "swapped filters"), ("static", "negative weights"), ("static", "wrong scale")),
    *(("portable", "wrong zero point"), ("portable", "scale of another tensor")),
    *(("8da4w", "swapped filters"), ("8da4w", "negative weights")),
]
"""XNNPACK's exporter takes the scale and zero point of a value from its writer."""


@pytest.mark.sweep(2)
@pytest.mark.parametrize(("scheme", "fault"), PLANTED)
def test_planted_faults(scheme: str, fault: str) -> None:
    """The quantised module finds each fault, the float model those that an SQNR shows, of the
    outputs or of a channel of a layer."""
    one = case("mlp", scheme)
    wrong = copy.deepcopy(one.quantized)
    FAULTS[fault](wrong)
    pte = lower(wrong, one.inputs, scheme != "portable")
    result = check_model(one.quantized, one.inputs, program=pte, n_random=0)
    assert result.verdict == "differ", str(result)
    floats = check_model(one.floats, one.inputs, program=pte, n_random=0)
    assert (floats.verdict == "differ") is (fault in GROSS), str(floats)
    if (scheme, fault) == ("static", "swapped filters"):
        assert "of '0'" in str(floats) and "channels err far more" in str(floats)
    if fault == "negative weights":
        assert "SQNR" in str(floats) and "min_sqnr_db" in str(floats)
        report = explain(one.floats, list(one.inputs), program=pte)
        assert report.first is not None and report.first.module == "0", str(report)
        assert report.first.verdict == "source"


def test_a_noisy_layer_behind_good_outputs_is_inconclusive() -> None:
    """The SQNR of the outputs does not show a wrong layer that hardly adds to them."""
    torch.manual_seed(1)
    layers = {"main": nn.Linear(64, 32), "side": nn.Linear(64, 32)}
    net = exports.Fn(lambda x, main, side: main(x) + 0.01 * side(x), **layers)
    x = torch.randn(8, 64)
    wrong = copy.deepcopy(net)
    with torch.no_grad():
        wrong.side.weight.neg_()
    for module, verdict in (net, "match"), (wrong, "inconclusive"):
        pte = lower(SCHEMES["static"](module, (x,)), (x,))
        result = check_model(net, (x,), program=pte, n_random=0)
        assert result.verdict == verdict, str(result)
        assert verdict == "match" or "of 'side'" in str(result)


# ---- recognition ------------------------------------------------------------------------------


def test_what_is_quantised() -> None:
    """A program by its payload, a model by its graph or its tensors."""
    for scheme in ("static", "8da4w"):
        one = case("mlp", scheme)
        program = executorch_c.Runtime.get().load_program(one.pte)
        assert str(quantization_of(program, ["forward"])) == NAMES[scheme]
        view = view_of(program, "forward")
        assert str(quantization_of(program, ["forward"], view)) == NAMES[scheme]
        assert is_quantized_model(one.quantized) and not is_quantized_model(one.floats)
        assert is_quantized_model(torch.export.export(one.quantized, one.inputs))
    by_group = exports.quantized_by_group(copy.deepcopy(model("mlp")[0]))
    assert is_quantized_model(by_group)  # before its tensors are unwrapped
    plain = lower(*model("mlp"))
    assert quantization_of(executorch_c.Runtime.get().load_program(plain), ["forward"]) is None
    rounded = exports.Fn(lambda x: torch.relu(x.round()))
    assert not is_quantized_model(torch.export.export(rounded, (torch.randn(3),)))


def test_a_function_that_quantises_is_a_flow() -> None:
    """The function returns a quantised program; the model that it gets is float."""
    one = case("mlp", "static")
    result = check_model(one.floats, one.inputs, flow=lambda exported: one.pte, n_random=1)
    assert result.verdict == "match" and result.facts["model"] == "float", str(result)


def test_interpreted_backends() -> None:
    """Vulkan's payload shows its quantised nodes."""
    net, inputs = model("cnn")
    exported = torch.export.export(net, inputs)
    lowered = flows._from_flow(
        flows.FLOWS["vulkan-int8"], exported, None, [(inputs, {})], "forward"
    )
    result = check_model(net, inputs, program=lowered.program, n_random=1)
    assert result.verdict == "match", str(result)
    assert result.facts["quantised"] == "int8 static, Vulkan"
    graph = check_model(lowered.quantized, inputs, program=lowered.program, n_random=1)
    assert graph.verdict == "match" and graph.facts["model"] == "quantised", str(graph)


def weights_of(bits: str) -> object:
    """Return a configuration of torchao for weights alone."""
    from torchao.prototype.quantization.codebook_coreml import CodebookWeightOnlyConfig
    from torchao.quantization import IntxWeightOnlyConfig

    if bits == "codebook":
        return CodebookWeightOnlyConfig(dtype=torch.uint4, block_size=[-1, 16])
    return IntxWeightOnlyConfig(weight_dtype=getattr(torch, bits), granularity=PerGroup(32))


@pytest.mark.heavy
@pytest.mark.parametrize(("bits", "name"), [("codebook", "int4"), ("int4",) * 2, ("int8",) * 2])
def test_compressed_weights_of_core_ml(bits: str, name: str) -> None:
    """The float model and the quantised module match a right program, and find swapped filters."""
    ct = pytest.importorskip("coremltools")
    from executorch.backends.apple.coreml.compiler import CoreMLBackend
    from executorch.backends.apple.coreml.partition import CoreMLPartitioner

    net, inputs = model("mlp")
    specs = CoreMLBackend.generate_compile_specs(
        minimum_deployment_target=ct.target.iOS18, compute_precision=ct.precision.FLOAT32
    )

    def lowered(module: nn.Module) -> tuple[nn.Module, bytes]:
        quantize_(module, weights_of(bits))
        partitioner = [CoreMLPartitioner(compile_specs=specs)]
        return module, exports.lowered(module, *inputs, partitioner=partitioner)

    quantized, right = lowered(copy.deepcopy(net))
    swapped = copy.deepcopy(net)
    with torch.no_grad():
        swapped[0].weight[:2] = swapped[0].weight[:2].flip(0).clone()
    _, wrong = lowered(swapped)
    for pte, verdict in (right, "match"), (wrong, "differ"):
        for reference in net, quantized:
            result = check_model(reference, inputs, program=pte, n_random=0, engines=("here",))
            assert (result.verdict, result.facts["quantised"]) == (
                verdict,
                f"{name} weights only, Core ML",
            )
            is_float = reference is net
            assert result.facts["model"] == ("float" if is_float else "quantised"), str(result)


# ---- options, validate ------------------------------------------------------------------------


def test_a_minimum_without_effect_is_an_error() -> None:
    one = case("mlp", "static")
    for message, net, pte, options in (
        ("the program has no quantised values", one.floats, lower(*model("mlp")), {}),
        ("the model is quantised itself", one.quantized, one.pte, {}),
        ("rtol and atol decide", one.floats, one.pte, {"atol": 1.0}),
    ):
        with pytest.raises(ValueError, match=f"no effect: {message}"):
            check_model(net, one.inputs, program=pte, min_sqnr_db=20, **options)
    result = check_model(one.floats, one.inputs, program=one.pte, min_sqnr_db=60, n_random=0)
    assert result.verdict == "differ" and "at least 60 dB expected" in " ".join(str(result).split())


def validate(folder: Path, pte: bytes, net: nn.Module, inputs: Inputs, least: Any) -> int:
    """Return the exit code of `validate` on a program and its float model's arrays."""
    (folder / "model.pte").write_bytes(pte)
    np.save(folder / "x.npy", inputs[0].numpy())
    np.save(folder / "y.npy", net(*inputs).detach().numpy())
    model, x, y = (str(folder / name) for name in ("model.pte", "x.npy", "y.npy"))
    options = [] if least is None else ["--min-sqnr", str(least)]
    return cli.main(["validate", model, "--inputs", x, "--expect", y, *options])


@pytest.mark.parametrize("scheme", ["static", "8da4w"])
@pytest.mark.parametrize("least", [None, 60])
def test_validate_agrees(
    scheme: str, least: float | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`validate` has the verdict of check_model on the same arrays."""
    one = case("mlp", scheme)
    result = check_model(one.floats, one.inputs, program=one.pte, n_random=0, min_sqnr_db=least)
    code = validate(tmp_path, one.pte, one.floats, one.inputs, least)
    assert code == {"match": 0, "differ": 3}[result.verdict]
    assert result.verdict == ("match" if least is None else "differ")
    assert ("SQNR" in capsys.readouterr().out) is (least is not None)


def test_validate_refuses_a_minimum_without_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net, inputs = model("mlp")
    assert validate(tmp_path, lower(net, inputs), net, inputs, 20) == 1
    assert "`min_sqnr_db` has no effect" in capsys.readouterr().err


def test_classes_of_a_quantised_program_are_undecided_where_many_differ() -> None:
    expected = np.arange(40) % 7
    for count, verdict in ((0, "match"), (3, "match"), (9, "inconclusive")):
        actual = expected.copy()
        actual[:count] += 1
        rule = tolerance.against_float(actual, expected, 10.0)
        comparison = verdicts.judge(actual, expected, rule)
        assert comparison.verdict == verdict
    assert "9 of 40 integers differ from the float model's" in comparison.reason
