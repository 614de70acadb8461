"""inspect/quantized.py: names of operators, and of nodes and values in delegates."""

from typing import Any

import pytest

from executorch_c.inspect import quantized
from executorch_c.inspect.quantized import Quantization


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
    [found] = quantized._inside(inside("CONV2D", name, "aten.view_copy.default"), "X")
    assert (found.scheme, found.bits, found.place) == (scheme, bits, "X")


@pytest.mark.parametrize(
    ("dtype", "constant", "found"),
    [
        *(("qint8", False, ("static", 8)), ("qint8", True, ("weights", 8))),
        *(("qdint8", False, ("dynamic", 8)), ("qbint4", True, ("weights", 4))),
        *(("qcint32", True, ("weights", 32)), ("uint4", True, ("weights", 4))),
        *(("int8", False, None), ("int32", True, None), ("bool", True, None)),
        ("fp16", True, None),
    ],
)
def test_values_of_delegates(dtype: str, constant: bool, found: tuple[str, int] | None) -> None:
    signs = list(quantized._inside(inside("CONV2D", dtype=dtype, constant=constant), "X"))
    assert [(sign.scheme, sign.bits) for sign in signs] == ([] if found is None else [found])


@pytest.mark.parametrize(
    ("note", "bits"),
    [
        ("w, uint4 constexpr_lut_to_dense", [4]),
        ("w, int8 constexpr_affine_dequantize", [8]),
        ("w, fp16 constexpr_cast", []),
        ("w", []),
        (None, []),
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
    found = Quantization("weights", 4, ("Core ML", "operators"))
    assert str(found) == "int4 weights only, Core ML, operators"
