"""Differences of the official runtime: the table and its look-up, remarks on programs in
channels-last, compared with runs; and signs of quantised values in programs and payloads."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("executorch.exir")

from executorch_c import Runtime
from executorch_c.inspect import device, quantized, reference
from executorch_c.inspect.quantized import Quantization
from executorch_c.inspect.reference import Behaviour, OperatorCall
from executorch_c.inspect.structure import View
from tests.exports import Fn, lowered
from tests.plans import Plan, build, reference as official_outcome


def step(name: str, plan: Plan) -> tuple[Behaviour, ...]:
    """Return the behaviours of the last call of a plan."""
    view = View(Runtime.get().load_program(build(plan)), "forward")
    assert view.steps[-1].title == name
    return reference.of_step(view, view.steps[-1])


def padding(*pad: int) -> Plan:
    plan = Plan()
    x, out = plan.input((1, 3, 4, 4)), plan.output((1, 3, 4, 4 + sum(pad)))
    plan.call("aten::constant_pad_nd.out", x, list(pad), 0.0, out)
    return plan


def remainder(dtype: str) -> Plan:
    plan = Plan()
    x, y, out = plan.input((4,), dtype), plan.input((4,), dtype), plan.output((4,), dtype)
    plan.call("aten::remainder.Tensor_out", x, y, out)
    return plan


def test_rows_of_the_table() -> None:
    (row,) = step("aten::constant_pad_nd.out", padding(-1, 2))
    assert (row.does, row.when, row.is_certain) == ("rejects", "pad: negative", True)
    assert not step("aten::constant_pad_nd.out", padding(1, 2))
    (row,) = reference.behaviours("aten::_softmax.out", ["float32"], ["channels-last"])
    assert (row.does, row.is_certain) == ("rejects", True)
    assert not reference.behaviours("aten::_softmax.out", ["float32"], ["contiguous"])
    rows = step("aten::remainder.Tensor_out", remainder("int16"))
    assert {row.does for row in rows} == {"differs"}
    assert not step("aten::remainder.Tensor_out", remainder("float32"))
    (row,) = reference.behaviours("aten::as_strided_scatter.out", ["float32"])
    assert row.does == "lacks"
    assert not reference.behaviours("aten::relu.out", ["float32"], ["contiguous"])
    assert not reference.behaviours("test::nobody_knows.out")


CALLS = [(frozenset({"pad: negative"}), "rejects"), (frozenset({"value: 0"}), "differs")]


@pytest.mark.parametrize("features, does", CALLS, ids=["certain", "uncertain"])
def test_certain_rows_come_first(
    features: frozenset[str], does: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (
        Behaviour("t::t", "differs", ("int8",), (), reference.SOME),
        Behaviour("t::t", "rejects", (), (), "pad: negative"),
    )
    monkeypatch.setattr(reference, "table", lambda: {"t::t": rows})
    rows_of_call = reference.matching(OperatorCall("t::t", "int8", "contiguous", features))
    assert [row.does for row in rows_of_call] == [does]


def test_the_table_is_read_as_written() -> None:
    rows = [row for every in reference.table().values() for row in every]
    assert len({row.operator for row in rows}) > 200
    assert all(row.does in reference.DOES for row in rows)


CALLED_BY_MODELS = {"aten", "llama", "preprocess"}
"""Namespaces of operators that a model can call, which is then told to avoid them."""


def test_operators_of_the_flow_have_advice() -> None:
    """`avoid it in the model` helps nobody whose model has no such operator."""
    rows = [row for name in reference.table() for row in reference.behaviours(name)]
    spaces = {row.operator.partition("::")[0] for row in rows}
    advised = {name.partition("::")[0] for name in device.FLOW_ADVICE}
    assert spaces - CALLED_BY_MODELS == advised - CALLED_BY_MODELS
    (copy,) = {device._advice(row) for row in reference.behaviours("et_copy::_h2d_copy.out")}
    assert "target_device" in copy and "avoid" not in copy


def network() -> Any:
    """Return a convolution, normalised, and a depthwise one, with weights in channels-last."""
    first, depthwise = (torch.nn.Conv2d(4, 4, 3, padding=1, groups=groups) for groups in (1, 4))
    layers = first, torch.nn.BatchNorm2d(4), torch.nn.ReLU(), depthwise
    return torch.nn.Sequential(*layers).to(memory_format=torch.channels_last)


MODELS: dict[str, Callable[[], Any]] = {
    "chain": lambda: Fn(lambda x: (x.abs().clamp(0, 1).exp() * x + x).relu().sigmoid()),
    "conv": network,
    "max_pool": lambda: Fn(lambda x: F.max_pool2d(x, 2)),
    "avg_pool": lambda: Fn(lambda x: F.avg_pool2d(x, 2)),
    "softmax": lambda: Fn(lambda x: x.softmax(1)),
    "log_softmax": lambda: Fn(lambda x: x.log_softmax(1)),
    "cat": lambda: Fn(lambda x: torch.cat([x, x], 1)),
    "amax": lambda: Fn(lambda x: x.amax(1)),
    "pad": lambda: Fn(lambda x: F.pad(x, (1, 1, 1, 1))),
    "mean": lambda: Fn(lambda x: x.mean((2, 3), keepdim=True)),
    "layer_norm": lambda: Fn(lambda x: F.layer_norm(x, (6,))),
    "nonzero": lambda: Fn(lambda x: x.relu().nonzero()),
}


@pytest.mark.parametrize("name", MODELS)
def test_remarks_are_true(name: str) -> None:
    torch.manual_seed(0)
    model, x = MODELS[name]().eval(), torch.randn(2, 4, 6, 6)
    x = x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        wanted = model(x)
    pte = lowered(model, x)
    remarks = device.remarks(Runtime.get().load_program(pte), "forward")
    outcome = official_outcome(pte, x)
    if outcome.outputs is None:
        kind = "rejects"
    else:
        outputs = torch.from_numpy(outcome.outputs[0])
        kind = None if torch.allclose(outputs, wanted, atol=1e-5) else "differs"
    assert {one.kind for one in remarks} == ({kind} if kind else set())


def inside(*names: str, dtype: str = "fp32", constant: bool = False, note: str = "") -> Any:
    """Return a delegate with nodes, and one value of 4 rows."""
    values = [{"dtype": dtype, "constant": constant, "shape": (4, 8), "note": note}]
    return {"values": values, "nodes": [{"name": name} for name in names]}


@pytest.mark.parametrize(
    ("name", "scheme", "bits"),
    [
        ("et_vk.q8ta_conv2d.default", "static", 8),
        ("et_vk.linear_q8ta_q8csw.default", "static", 8),
        ("et_vk.linear_q4gsw.default", "weights", 4),
        ("et_vk.linear_qcs4w.default", "weights", 4),
        ("et_vk.linear_dq8ca_q4gsw.default", "dynamic", 4),
        ("RESCALE", "static", 8),
        ("aten._weight_int8pack_mm.default", "weights", 8),
        ("FakeQuantize", "static", 8),
        ("quantized_decomposed.quantize_per_tensor.default", "static", 8),
        ("torchao.choose_qparams_affine.default", "dynamic", 8),
        ("dequantize", "weights", 8),
    ],
)
def test_nodes_on_quantised_numbers(name: str, scheme: str, bits: int) -> None:
    [sign] = quantized._inside(inside("CONV2D", name, "aten.view_copy.default"), "X")
    assert (sign.scheme, sign.bits, sign.place) == (scheme, bits, "X")


@pytest.mark.parametrize(
    ("dtype", "constant", "scheme"),
    [
        *(("qint8", False, ("static", 8)), ("qint8", True, ("weights", 8))),
        *(("qdint8", False, ("dynamic", 8)), ("qbint4", True, ("weights", 4))),
        *(("qcint32", True, ("weights", 32)), ("uint4", True, ("weights", 4))),
        *(("int8", False, None), ("int32", True, None), ("bool", True, None)),
        ("fp16", True, None),
    ],
)
def test_values_of_delegates(dtype: str, constant: bool, scheme: tuple[str, int] | None) -> None:
    signs = list(quantized._inside(inside("CONV2D", dtype=dtype, constant=constant), "X"))
    assert [(sign.scheme, sign.bits) for sign in signs] == ([] if scheme is None else [scheme])


@pytest.mark.parametrize(
    ("note", "bits"),
    [
        *(("w, uint4 constexpr_lut_to_dense", [4]), ("w, int8 constexpr_affine_dequantize", [8])),
        *(("w, fp16 constexpr_cast", []), ("w", []), (None, [])),
    ],
)
def test_constants_that_are_decompressed(note: str, bits: list[int]) -> None:
    signs = list(quantized._inside(inside("linear", constant=True, note=note), "Core ML"))
    assert [sign.bits for sign in signs] == bits and all(s.scheme == "weights" for s in signs)


@pytest.mark.parametrize(
    "name",
    ["CONV2D", "aten.linear.default", "Fully Connected", "linear", "reduce_mean", "rescaled", None],
)
def test_other_nodes(name: str) -> None:
    assert not list(quantized._inside(inside(name), "X"))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("quantized_decomposed::embedding_4bit.dtype_out", True),
        ("torchao::linear_8bit_act", True),
        ("cortex_m::quantized_add.out", True),
        ("cadence::quantized_conv2d_nhwc.out", True),
        ("llama::custom_quantized_sdpa.out", True),
        ("llama::custom_sdpa.out", False),
        ("aten::linear.out", False),
        ("aten::round.out", False),
    ],
)
def test_operators(name: str, known: bool) -> None:
    assert quantized._is_quantized(name) is known


def test_how_it_is_said() -> None:
    quantization = Quantization("weights", 4, ("Core ML", "operators"))
    assert str(quantization) == "int4 weights only, Core ML, operators"
