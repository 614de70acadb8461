"""Planted faults in programs of each device flow: `explain` names the layer."""

import importlib.util
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.backends import flow_faults as faults, flow_matrix as matrix, openvino_blob

pytestmark = pytest.mark.heavy  # an export needs some seconds

Row = tuple[str, str, str]
"""A scheme, a model, a layer."""

ROWS = [
    *(("vulkan-fp32", "unet", "out"), ("vulkan-fp32", "transformer", "qkv")),
    *(("vulkan-4w", "transformer", "out"), ("coreml-fp32", "unet", "up")),
    *(("coreml-fp32", "transformer", "qkv"), ("coreml-fp16", "unet", "out")),
    *(("coreml-fp16", "transformer", "out"), ("coreml-ao-int4", "transformer", "out")),
    *(("coreml-ao-int8", "transformer", "qkv"), ("tosa-fp32", "unet", "out")),
    *(("tosa-fp32", "transformer", "out"), ("tosa-int8", "mobilenet", "block.3")),
    *(("tosa-int8", "mobilenet", "head"), ("tosa-int8", "mlp", "2"), ("tosa-int8", "cnn", "8")),
    *(("xnnpack-static8", "mlp", "2"), ("xnnpack-static8", "mobilenet", "block.3")),
    *(("native-fp32", "unet", "out"), ("native-fp32", "transformer", "qkv")),
    *(("mlx-fp32", "unet", "up"), ("mlx-fp16", "transformer", "out")),
    *(("mlx-4w", "mlp", "2"), ("mlx-nvfp4", "transformer", "qkv"), ("mlx-fp32", "cnn", "4")),
    *(("native-fp16", "unet", "up"), ("native-w8", "transformer", "out")),
    *(("cortex-m-m55", "mobilenet", "head"), ("cortex-m-m55", "cnn", "8")),
    *(("cadence-int8", "unet", "out"), ("cadence-int8", "transformer", "qkv")),
    *(("cadence-int8", "transformer", "out"), ("openvino-fp32", "unet", "out")),
    *(("openvino-fp32", "transformer", "qkv"), ("openvino-fp32", "transformer", "out")),
    *(("openvino-int8wo-sym", "transformer", "qkv"), ("openvino-fp32", "mlp", "0")),
    *(("openvino-fp32", "mlp", "2"), ("openvino-fp32", "mlp", "4"), ("vulkan-w8", "mlp", "2")),
    *(("vulkan-fp16", "mlp", "2"), ("vulkan-fp32", "cnn", "4"), ("vulkan-static8", "mlp", "2")),
    *(("vulkan-static8", "unet", "out"), ("vgf-fp32", "unet", "out"), ("vgf-int8", "mlp", "2")),
    *(("vgf-a16w8", "mlp", "2"), ("native-fp32", "mobilenet", "block.3")),
    ("native-fp32", "mobilenet", "head"),
]
"""Schemes, models, and the layers whose weight has wrong elements."""

SCALES = [
    *(("native-w8", "transformer", "out"), ("native-static8", "unet", "out")),
    *(("vulkan-4w", "transformer", "out"), ("coreml-ao-int8", "transformer", "out")),
    *(("coreml-ao-int4", "transformer", "qkv"), ("xnnpack-static8", "mlp", "2")),
    *(("xnnpack-static8", "cnn", "4"), ("vulkan-w8", "mlp", "2"), ("vulkan-static8", "mlp", "2")),
]
"""Likewise, the layers whose scales are wrong."""

MULTIPLIERS = [
    *(("tosa-int8", "mlp", "2"), ("tosa-int8", "cnn", "4")),
    *(("tosa-int8", "mobilenet", "block.3"), ("tosa-a8w4", "mlp", "0")),
    *(("tosa-a16w8", "mlp", "2"), ("tosa-a16w8", "unet", "deep"), ("vgf-int8", "mlp", "2")),
    ("vgf-a16w8", "mlp", "2"),
]
"""Likewise, the layers whose scales are wrong: integers of the RESCALE after it."""

NIBBLES = [
    *(("vulkan-4w", "transformer", "out"), ("coreml-ao-int4", "transformer", "out")),
    *(("coreml-ao-int4", "mlp", "2"), ("vulkan-8da4w", "mlp", "2")),
    *(("vulkan-8da4w", "transformer", "qkv"), ("coreml-ao-codebook", "mlp", "2")),
    *(("coreml-ao-codebook", "transformer", "qkv"), ("tosa-a8w4", "mlp", "0")),
    *(("tosa-a8w4", "mlp", "2"), ("tosa-a8w4", "mlp", "4"), ("xnnpack-8da4w", "mlp", "2")),
    *(("xnnpack-qb4w", "transformer", "qkv"), ("vulkan-w4", "mlp", "2"), ("vgf-a8w4", "mlp", "2")),
]
"""Likewise, the layers whose pairs of four-bit weights are swapped."""


OPENVINO = [
    ("openvino-fp32", "mobilenet", "head", "aten_addmm_default"),
    ("openvino-int8-sym", "mlp", "0", "aten_addmm_default"),
    ("openvino-int8-sym", "mlp", "2", "aten_addmm_default_1"),
    ("openvino-int8-sym", "mlp", "4", "aten_addmm_default_2"),
    ("openvino-int8-sym", "cnn", "4", "aten_convolution_default_1"),
    ("openvino-int8-sym", "mobilenet", "block.3", "aten_convolution_default_2"),
    ("openvino-int8-sym", "mobilenet", "head", "aten_addmm_default"),
    ("openvino-int8-sym", "unet", "deep", "aten_convolution_default_1"),
    ("openvino-int4wo-asym", "transformer", "qkv", "aten_addmm_default"),
    ("openvino-int4wo-asym", "transformer", "out", "aten_addmm_default_1"),
]
"""Likewise, with the node of the exported graph by which OpenVINO's model calls the layer: the
engine's compiler has quantised or joined its weights, and its scales are in no other place."""

NODES = {row[:3]: row[3] for row in OPENVINO}


def change(data: np.ndarray) -> np.ndarray:
    """Flip a bit of each of some bytes: of a float, in its exponent."""
    changed = data.copy()
    changed[3:64:4] ^= 64
    return changed


def lowered(scheme_id: str, model_name: str) -> tuple[matrix.Lowered, Any]:
    """Return a lowered model and an input."""
    scheme = matrix.scheme_of(scheme_id)
    if not all(map(importlib.util.find_spec, scheme.packages)):
        pytest.skip(f"needs {', '.join(scheme.packages)}")
    program, (x, *_) = matrix.export(scheme, model_name)
    return program, x


RIGHT = [
    *(("tosa-int8", name) for name in ("transformer", "lstm", "cnn")),
    *(("tosa-a8w4", name) for name in ("transformer", "lstm")),
    *(("tosa-a16w8", name) for name in ("mlp", "cnn", "mobilenet", "unet", "transformer")),
]
"""Schemes and models without a fault. TOSA rescales operands of sums to int32, under the debug
handle of the quantising node; factors of int16 have 15 bits, and results are some steps off."""


@pytest.mark.parametrize(("scheme_id", "model_name"), RIGHT)
def test_integers_of_right_programs_are_not_blamed(scheme_id: str, model_name: str) -> None:
    from executorch_c.devtools import explain

    result, x = lowered(scheme_id, model_name)
    report = explain(result.graph, (x,), program=result.pte)
    assert report.verdict == "match" and not faults.sources(report), str(report)


def test_a_program_that_the_flow_lowers_wrongly_is_refused() -> None:
    """The quantised U-Net loses the value of its skip connection (test_flow_matrix.py)."""
    from executorch_c.devtools import explain

    result, x = lowered("tosa-int8", "unet")
    report = explain(result.graph, (x,), program=result.pte)
    assert report.verdict == "differ" and report.first is not None, str(report)
    assert report.first.name.startswith("RESCALE (convolution"), str(report)
    assert report.first.module == "down" and len(faults.sources(report)) == 1, str(report)


def place_of(made: matrix.Lowered, row: Row) -> slice:
    """Return the place of a layer's weight."""
    scheme_id, _, layer = row
    if row in NODES:
        return openvino_constant(made.pte, NODES[row], scales=False)
    if scheme_id == "coreml-ao-codebook":  # two places in the table for each byte
        module = dict(made.graph.named_modules())[layer]
        return faults.coreml_record(made.pte, module.weight.numel() // 2)
    weight = faults.weight_of(made.graph, layer)
    if scheme_id in ("vulkan-w4", "vulkan-4w", "vulkan-8da4w"):  # nibbles in blocks, of two columns
        return faults.vulkan_constant(made.pte, (weight.shape[0], weight.shape[1] // 2))
    return faults.place_of(made.pte, weight)


def openvino_constant(pte: bytes, node: str, scales: bool) -> slice:
    """Return the place of a node's weight, the largest constant, or of its scales."""
    from executorch_c import Runtime

    payload = Runtime.get().load_program(pte)._payload("forward", 0)
    result = openvino_blob.constants_of(pte, payload, node)
    if scales:
        readers = ("Multiply", "FullyConnectedCompressed")
        result = [one for one in result if one.dtype == "f32" and one.reader in readers]
        return result[-1].place  # a compressed layer reads its bias before
    return max((one.place for one in result), key=lambda place: place.stop - place.start)


# ---- how a fault is planted: functions of a lowered model and its row -------------------------


def wrong_weight(made: matrix.Lowered, row: Row) -> bytes:
    return faults.plant(made.pte, place_of(made, row), change)


def swapped_nibbles(made: matrix.Lowered, row: Row) -> bytes:
    return faults.plant(made.pte, place_of(made, row), faults.swap_nibbles)


def wrong_scales(made: matrix.Lowered, row: Row) -> bytes:
    """Enlarge the scales of a weight."""
    if row not in NODES:
        return faults.enlarge_scales(made.pte, faults.scales_of(made.graph, row[2]))
    place = openvino_constant(made.pte, NODES[row], scales=True)
    return faults.plant(
        made.pte, place, lambda data: (data.view("<f4") * np.float32(1.5)).view(np.uint8)
    )


def wrong_multipliers(made: matrix.Lowered, row: Row, part: float) -> bytes:
    """Make them smaller: half of them, or two per cent less."""
    factors = faults.multipliers_of(made.graph, row[2])
    less = (factors * part).astype(factors.dtype).view(np.uint8)
    return faults.plant(made.pte, faults.place_of(made.pte, factors), lambda _: less)


PLANTED: dict[str, tuple[Any, list[Row]]] = {
    "weight": (wrong_weight, [*ROWS, *NODES]),
    "nibbles": (swapped_nibbles, NIBBLES),
    # openvino-fp32 has no scales.
    "scales": (wrong_scales, [*SCALES, *(row for row in NODES if row[0] != "openvino-fp32")]),
    "halves": (partial(wrong_multipliers, part=0.5), MULTIPLIERS),
    "less": (partial(wrong_multipliers, part=0.98), MULTIPLIERS),
}


@pytest.mark.parametrize(
    ("fault", "row"),
    [(fault, row) for fault, (_, rows) in PLANTED.items() for row in rows],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_explain_names_the_layer(fault: str, row: Row) -> None:
    """It blames nothing in the program, and one layer in the wrong one: NNCF's decompression of its
    weight, if OpenVINO's compiler does not fuse that with the layer on this processor."""
    from executorch_c.devtools import explain

    result, x = lowered(*row[:2])
    right = explain(result.graph, (x,), program=result.pte)
    assert not faults.sources(right), str(right)
    report = explain(result.graph, (x,), program=PLANTED[fault][0](result, row))
    names = [row[2], f"asymmetric_weights_decompressor_{row[2]}_weight"]
    assert report.verdict == "differ" and report.first is not None, str(report)
    assert faults.sources(report) == [report.first.module], str(report)
    assert report.first.module in names, str(report)


def test_explain_names_attentions_factor_in_openvino() -> None:
    """The compiler moves it before the product, which then has the multiplication's name."""
    from executorch_c.devtools import explain

    result, x = lowered("openvino-fp32", "transformer")
    factor = np.float32(0.35).tobytes()
    assert result.pte.count(factor) == 1
    right = explain(result.graph, (x,), program=result.pte)
    assert right and any(line.name.startswith("aten.mul.Tensor") for line in right), str(right)
    wrong = result.pte.replace(factor, np.float32(0.36).tobytes())
    report = explain(result.graph, (x,), program=wrong)
    (name,) = [line.name for line in report if line.verdict == "source"]
    assert name.startswith("aten.mul.Tensor (") and name.endswith("bmm, view_copy, mul)"), name
