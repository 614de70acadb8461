"""Every scheme of every device flow, for each of six models, equals eager of the lowered module."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_c import Error, Runtime
from executorch_c.check import flows, vendor_flows
from executorch_c.testing import check_model
from tests.backends import flow_matrix as matrix
from tests.models import flow_models

ROWS = [(scheme, name) for scheme in matrix.SCHEMES for name in scheme.models]
SLOW = [(scheme, name) for scheme in matrix.SCHEMES for name in scheme.slow]

REFUSED = {
    # The weight of ten features is padded to twelve, its scales are not.
    ("vulkan-8da4w", "cnn"): "FusePatternsPass",
    ("vulkan-8da4w-fp16", "cnn"): "FusePatternsPass",
    # The channels of a transposed convolution's weight are in another dimension than its scales.
    **{
        (scheme, "unet"): r"size of tensor a \(8\) must match the size of tensor b \(16\)"
        for scheme in ("tosa-a8w4", "vgf-a8w4", "tosa-u55-a8w4", "tosa-u85-a8w4")
    },
    # NativePartitioner leaves torchao's operators outside, and they have no out variants; the U-Net
    # has no linear layer.
    **{
        (f"native-ao-{name}", model): "Missing out variants: .*torchao::dequantize_affine"
        for name in ("4w", "8da4w")
        for model in matrix.flow_models.MODELS
        if model != "unet"
    },
    **{(f"cortex-m-{m}", "transformer"): "ReplaceScalarWithTensorArgPass" for m in ("m55", "m4")},
    # The observers of layer_norm's bias, a vector, and of a list (test_openvino_flow.py proves it),
    # and of an LSTM's weights.
    ("openvino-int8-sym", "transformer"): "IndexError: Dimension out of range",
    ("openvino-int8-mixed", "transformer"): "IndexError: Dimension out of range",
    ("openvino-int8-transformer", "transformer"): "'list' object has no attribute 'numel'",
    **{
        (f"openvino-int8-{mode}", "lstm"): "TypeError: 'NoneType' object is not iterable"
        for mode in ("sym", "mixed", "transformer")
    },
}
"""Errors of flows that refuse a model, by scheme and model."""

MISLOWERED = {
    # The skip connection is rescaled as another value, also in Arm's reference model (below).
    **{(scheme, "unet"): "" for scheme in ("tosa-int8", "tosa-u55", "tosa-u85", "vgf-int8")},
    # A delegate's int16 result is declared float32, and quantised as if it were one: 32,074 of
    # 65,536 steps off, and 4 if the partitioner is mended (below).
    ("tosa-u55-a16w8", "transformer"): "",
    # coremltools drops a requantisation before a reshape (below).
    ("coreml-static8", "mobilenet"): "",
    # All steps share a bias in integers of the first step's scale; operators take their own.
    **{
        (f"cadence-{name}", "lstm"): ""
        for name in ("int8", "layer-norm", "fused-relu", "wake-word")
    },
    # A convolution drops its ReLU, also where zero is not the least integer: its results before
    # the skip connection have the zero point -96, and negative ones remain.
    ("cadence-fused-relu", "unet"): "",
    # The flow hands over the weight as a linear layer has it, [out, in], where its operator takes
    # [in, out], also in its reference.
    ("cadence-w8a32", "cnn"): "quantized_w8a32_linear.out: 'bias' has 10 elements, expected 16",
    ("cadence-w8a32", "mobilenet"): "w8a32_linear.out: 'bias' has 8 elements, expected 16",
    ("cadence-w8a32", "lstm"): "w8a32_linear.out: 'bias' has 64 elements, expected 16",
    # A convolution before a skip connection remains aten.convolution, of int8 with a bias of int32.
    **{(f"cortex-m-{m}", "unet"): "'bias': dtype int32, expected int8" for m in ("m55", "m4")},
}
"""Models that a flow lowers to other results than the quantised module's: the error of the call, if
any. Should a flow mend one, its row fails, and belongs to the others."""

OF_LINEAR = set("w8 w4 8da8w 4w 8da4w ao-int8 ao-int4 ao-codebook ao-4w ao-8da4w linear16".split())
OF_CONVOLUTIONS = {"conv16"}
OF_ROWS = {"w8a32"}
"""Likewise, linear layers of one row."""
OF_PRODUCTS = {"matmul16"}
"""Names of schemes that quantise one kind of operator alone."""


def quantises(scheme: matrix.Scheme, model_name: str) -> bool:
    """Return True if a model has operators that a scheme quantises."""
    name = scheme.name.removesuffix("-fp16")
    if scheme.id == "coreml-w8":  # convolutions, too
        return True
    if name in OF_LINEAR:
        return model_name != "unet"
    if name in OF_CONVOLUTIONS:
        return model_name in ("cnn", "mobilenet", "unet")
    if name in OF_ROWS:
        return model_name in ("cnn", "mobilenet", "lstm")
    return name not in OF_PRODUCTS or model_name == "transformer"


STEPS = {"cadence-conv16": 2}
"""Steps of 65,536 that results of schemes may be off: a step of a convolution, as near to a tie as
float32 rounds its sum, is more than one after the next."""

TIES = 0.1
"""The share of results that may be a step off: eager scales sums in float32, devices in integers,
so that a sum at the boundary between two steps is rounded to either, there or in a layer before."""

HALF_TIES = 0.01
"""The same where the module rounds as the payload does: only float32 sums are in another order."""


def load(scheme: matrix.Scheme, model_name: str) -> matrix.Loaded:
    if not all(map(importlib.util.find_spec, scheme.packages)):
        pytest.skip(f"needs {', '.join(scheme.packages)}")
    return matrix.load(scheme, model_name)


def run(pte: bytes, inputs: list[np.ndarray]) -> list[np.ndarray]:
    method = Runtime.get().load_program(pte).load_method("forward")
    return [method.execute([x])[0] for x in inputs]


def check_close(scheme: matrix.Scheme, step: float, actual: Any, expected: Any) -> None:
    """Check floats to the scheme's limit, quantised results to its steps."""
    steps = STEPS.get(scheme.id, scheme.steps)
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    assert expected.std() > 0.3  # results that say something
    off = np.abs(actual.astype(np.float64) - expected)
    limit = scheme.limit * max(1.0, float(np.abs(expected).max()))
    # Two results a step apart are each rounded by half a unit in the last place.
    rounding = float(np.spacing(np.float16(np.abs(expected).max()))) if scheme.is_half else 0.0
    most = max(limit, 1.001 * steps * step + rounding)
    assert off.max() <= most, (off.max(), limit, step)
    if steps <= 2:
        share = HALF_TIES if scheme.is_half else TIES
        assert np.count_nonzero(off > limit) <= max(1, share * off.size)


def check_runs_there(scheme: matrix.Scheme, program: Any, quantised: bool) -> None:
    """Check that the flow's backend, or its operators, compute the program."""
    (method,) = program.info()["methods"]
    if scheme.flow in ("cadence", "cortex-m"):
        assert not method["delegates"]
        own = any(op["name"].startswith(f"{scheme.backend}::") for op in method["operators"])
        assert own or not quantised
    else:
        assert {use["id"] for use in method["delegates"]} == {scheme.backend}


def check_program(scheme: matrix.Scheme, model_name: str) -> None:
    """Check that a program equals eager, or is refused or wrong as listed."""
    result, row = load(scheme, model_name), (scheme.id, model_name)
    if row in REFUSED:
        assert re.search(REFUSED[row], result.error), result.error
        return
    assert not result.error, result.error
    if row in MISLOWERED:
        check_mislowered(result, MISLOWERED[row])
        if row == ("coreml-static8", "mobilenet"):
            check_requantisation(result)
        return
    check_runs_there(scheme, Runtime.get().load_program(result.pte), result.quantized > 0)
    results = run(result.pte, result.inputs)
    if isinstance(result.exact, bytes):  # the weights as coremltools decompresses them
        assert b"constexpr_" in result.pte and b"constexpr_" not in result.exact
        for actual, expected in zip(results, run(result.exact, result.inputs), strict=True):
            np.testing.assert_array_equal(actual, expected)
        return
    if scheme.name not in ("fp32", "fp16"):
        assert (result.quantized > 0) == quantises(scheme, model_name)
    for at, (actual, expected) in enumerate(zip(results, result.eager, strict=True)):
        check_close(scheme, result.step, actual, expected)
        if result.exact is not None:  # the flow's own references of its operators
            np.testing.assert_array_equal(actual, result.exact[at])


@pytest.mark.sweep(97)
@pytest.mark.parametrize(("scheme", "model_name"), ROWS, ids=lambda x: getattr(x, "id", x))
def test_a_program_equals_eager(scheme: matrix.Scheme, model_name: str) -> None:
    check_program(scheme, model_name)


@pytest.mark.heavy
@pytest.mark.parametrize(("scheme", "model_name"), SLOW, ids=lambda x: getattr(x, "id", x))
def test_a_slow_export_equals_eager(scheme: matrix.Scheme, model_name: str) -> None:
    """Some minutes in all; CI leaves these rows out, for the time."""
    check_program(scheme, model_name)


def check_mislowered(program: matrix.Loaded, error: str) -> None:
    """Check that the program is as wrong as the flow made it."""
    if error:
        with pytest.raises(Error, match=error):
            run(program.pte, program.inputs)
        if program.exact is None:
            return
    # Where it is an error, the lowered graph in eager.
    results = program.exact if error else run(program.pte, program.inputs)
    for actual, expected in zip(results, program.eager, strict=True):
        assert np.abs(actual - expected).max() > 10 * program.step


INTEGER = [
    (scheme, name)
    for scheme, name in ROWS
    if scheme.flow == "tosa" and scheme.name != "fp32" and (scheme.id, name) not in REFUSED
]


def delegate_calls(program: Any, x: np.ndarray) -> Iterator[tuple[int, list[Any], list[Any]]]:
    """Run a program, and return its delegates' indices, inputs and results."""
    method, values = program.load_method("forward"), {}
    with method.tracing(values=True) as trace:
        method.execute([x])
    for event in trace.events:
        outputs = {value.slot: value.data for value in event.outputs}
        if event.kind == "delegate":
            assert event.delegate is not None
            inputs = [values[value.slot] for value in event.inputs]
            yield event.delegate, inputs, list(outputs.values())
        if event.kind != "node":
            values.update(outputs)


@pytest.mark.heavy
@pytest.mark.parametrize(("scheme", "model_name"), INTEGER, ids=lambda x: getattr(x, "id", x))
def test_integers_of_tosa_equal_arms_reference_model(
    scheme: matrix.Scheme, model_name: str
) -> None:
    """Bit by bit, also where the flow's graph is wrong, or an int16 table off by some steps."""
    reference = pytest.importorskip("tosa_reference_model")
    result = load(scheme, model_name)
    program = Runtime.get().load_program(result.pte)
    for x in result.inputs:
        calls = list(delegate_calls(program, x))
        assert len(calls) == len(program.info()["methods"][0]["delegates"])
        for index, inputs, results in calls:
            payload = bytes(program._payload("forward", index))
            expected, _ = reference.run(payload, list(map(np.ascontiguousarray, inputs)))
            for actual, wanted in zip(results, map(np.asarray, expected), strict=True):
                assert np.issubdtype(wanted.dtype, np.integer)
                np.testing.assert_array_equal(actual, wanted.reshape(actual.shape))


@pytest.mark.heavy
def test_arms_partitioner_leaves_a_quantize_node_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node loses the tag of its reader's partition and does not get that of its input's, whose
    graph of integers then ends in what the program declares float32; mended, the flow is right."""
    scheme = matrix.scheme_of("tosa-u55-a16w8")
    result = load(scheme, "transformer")
    calls = list(delegate_calls(Runtime.get().load_program(result.pte), result.inputs[0]))
    (numbers,) = (x for _, _, results in calls for x in results if x.dtype == np.float32)
    assert np.abs(numbers).max() > 100 and np.array_equal(numbers, np.rint(numbers))
    quantised = np.clip(numbers / result.step, -32767, 32767)
    assert sum(np.array_equal(x, quantised) for x in calls[1][1]) == 1

    from executorch.backends.arm.tosa import partitioner

    tag_module, left = partitioner.TOSAPartitioner._tag_module, []

    def tag(self: Any, module: Any, *rest: Any) -> Any:
        tags = tag_module(self, module, *rest)
        for node in module.graph.nodes:
            inputs = node.all_input_nodes
            if node.target in partitioner.Q_OPS and "delegation_tag" in inputs[0].meta:
                left.extend([node] if "delegation_tag" not in node.meta else [])
                node.meta.setdefault("delegation_tag", inputs[0].meta["delegation_tag"])
        return tags

    monkeypatch.setattr(partitioner.TOSAPartitioner, "_tag_module", tag)
    program, _ = matrix.export(scheme, "transformer")
    assert len(left) == 1
    for actual, expected in zip(run(program.pte, result.inputs), result.eager, strict=True):
        check_close(scheme, result.step, actual, expected)


def check_requantisation(program: matrix.Loaded) -> None:
    """Check what coremltools drops: the pool's result is quantised by one scale, and dequantised by
    that of flatten's result."""
    inside: Any = Runtime.get().load_program(program.pte)._delegate("forward", 0)
    nodes = [(node["name"], node["note"]) for node in inside["nodes"]]
    (at,) = (i for i, (name, _) in enumerate(nodes) if name == "reshape")
    assert [name for name, _ in nodes[at - 1 : at + 2]] == ["quantize", "reshape", "dequantize"]
    before, after = (float(re.findall(r"scale=([\d.]+)", nodes[i][1])[0]) for i in (at - 1, at + 1))
    assert before / after > 1.5


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["fp32", "int8", "a8w4", "a16w8"])
def test_arms_converter_keeps_the_nodes(name: str) -> None:
    """A graph in SPIR-V has the nodes of the TOSA graph that it is converted from."""
    nodes = []
    for flow in ("vgf", "tosa"):
        lowered = load(matrix.scheme_of(f"{flow}-{name}"), "mobilenet")
        inside: Any = Runtime.get().load_program(lowered.pte)._delegate("forward", 0)
        nodes.append(sorted(node["name"] for node in inside["nodes"]))
    assert nodes[0] == nodes[1]


CHECKED = [
    *("vgf", "vgf-int8", "vgf-a8w4", "vgf-a16w8"),
    *(f"ethos-{core}{kind}" for core in ("u55", "u85") for kind in ("", "-a8w4", "-a16w8")),
]
"""Flows of Arm."""


@pytest.mark.heavy
@pytest.mark.parametrize("flow", CHECKED)
@pytest.mark.parametrize("model_name", ["mlp", "unet"])
def test_check_model_agrees(model_name: str, flow: str) -> None:
    """The flows mis-lower the U-Net in int8, and refuse it with weights of four bits (above)."""
    if not flows.FLOWS[flow].is_installed:
        pytest.skip(f"needs {', '.join(flows.FLOWS[flow].packages)}")
    model, (x, *more) = flow_models.make(model_name)
    options: dict[str, Any] = {"flow": flow, "n_random": 1, "real_inputs": [(y,) for y in more[:3]]}
    if model_name == "unet" and flow.endswith("-a8w4"):
        with pytest.raises(RuntimeError, match="size of tensor a"):
            check_model(model, (x,), **options)
        return
    result = check_model(model, (x,), **options)
    wrong = model_name == "unet" and flow in ("vgf-int8", "ethos-u55", "ethos-u85")
    assert result.verdict == ("differ" if wrong else "match"), str(result)
    (method,) = result.program.info()["methods"]
    delegate = "VgfBackend" if flow.startswith("vgf") else "TOSABackend"
    assert {use["id"] for use in method["delegates"]} == {delegate} and len(list(result)) == 5


def test_the_lists_name_rows() -> None:
    rows = {(scheme.id, name) for scheme, name in ROWS + SLOW}
    assert REFUSED.keys() | MISLOWERED.keys() <= rows and not REFUSED.keys() & MISLOWERED.keys()
    names = {scheme.name for scheme in matrix.SCHEMES}
    assert OF_LINEAR | OF_CONVOLUTIONS | OF_PRODUCTS | OF_ROWS <= names
    assert STEPS.keys() <= {scheme.id for scheme in matrix.SCHEMES}
    assert {name for _, name in rows} == set(flow_models.MODELS)


def test_the_documentation_names_each_scheme_and_flow() -> None:
    docs = Path(__file__).parents[2] / "executorch_c" / "docs"
    whole = (docs / "backends.md").read_text()
    text = whole.partition("## Schemes")[2]
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `")]
    ids = [name for row in rows for name in re.findall("`(.+?)`", row[0])]
    assert sorted(ids) == sorted(scheme.id for scheme in matrix.SCHEMES)
    names = [name for row in rows for name in re.findall('"(.+?)"', row[1])]
    own = {"coreai", "native-package", *vendor_flows.FLOWS}
    others = {"portable", "xnnpack", "xnnpack-int8", "xnnpack-dynamic"}
    assert sorted(names) == sorted(flows.FLOWS.keys() - own - others)
    assert not [name for name in own if not re.search(f'["`]{name}["`]', whole)]
