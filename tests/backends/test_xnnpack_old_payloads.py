"""Payloads of older files and other exporters: equivalent encodings of a program give equal
outputs, here and in the official runtime."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("executorch")
pytest.importorskip("torchao")

from tests.backends import xnnpack_flow
from tests.backends import xnnpack_quantized_zoo
from tests.openers import Opener
from tests.backends.xnnpack_flow import Lowered
from tests.backends.xnnpack_payload import Graph, Payload, datatypes, edited

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")
Change = Callable[[Payload, dict[str, bytes]], Payload]


def row(name: str) -> Lowered:
    [found] = [row for row in xnnpack_quantized_zoo.TABLE.rows if row.id == name]
    return xnnpack_flow.load(found)


def of_type(payload: Payload, name: str) -> list[Graph]:
    """Return the quantised values of a datatype."""
    values = [value["xvalue_union"] for value in payload.graph["xvalues"]]
    number = datatypes().index(name)
    return [v for v in values if v.get("tensor_value", {}).get("datatype") == number]


def take_scales(payload: Payload, how: Graph, named: dict[str, bytes], dtype: str) -> np.ndarray:
    """Return the scales of a value's quantisation and remove their buffer."""
    entry = payload.graph["constant_data"][how.pop("scale_buffer_idx")]
    return np.frombuffer(named[entry["named_key"]], dtype)[: how.pop("num_scales")]


def scales_by_channel(payload: Payload, named: dict[str, bytes]) -> Payload:
    for value in of_type(payload, "qcint8"):
        how = value["quant_params"]
        how["scale"] = take_scales(payload, how, named, "<f4").tolist()
    return payload


def wide_scales_by_group(payload: Payload, named: dict[str, bytes]) -> Payload:
    """Encode scales as lists of float32, which the runtime converts to bfloat16."""
    for value in of_type(payload, "qbint4"):
        how = value["quant_params"]
        narrow = take_scales(payload, how, named, "<u2")
        how["scale"] = (narrow.astype("<u4") << 16).view("<f4").tolist()
    return payload


def scales_by_group(payload: Payload, named: dict[str, bytes]) -> Payload:
    """Encode scales as lists of bfloat16, the next format."""
    for value in of_type(payload, "qbint4"):
        how = value["quant_params"]
        how["scale_bf16"] = take_scales(payload, how, named, "<u2").tolist()
    return payload


def input_says_how(payload: Payload, named: dict[str, bytes]) -> Payload:
    """Remove the conversion and mark the input as dynamically quantised."""
    [(at, convert)] = [
        (at, node)
        for at, (kind, node) in enumerate(zip(payload.kinds, payload.nodes))
        if kind == "XNNConvert"
    ]
    source = payload.tensors[convert.get("input_id", 0)]
    source["dq_datatype"] = datatypes().index("qint8")
    payload.graph["xnodes"].pop(at)
    [linear] = payload.nodes
    assert linear["input1_id"] == convert["output_id"]
    linear["input1_id"] = convert.get("input_id", 0)
    return payload


def unsigned(payload: Payload, named: dict[str, bytes]) -> Payload:
    """Encode signed integers as unsigned ones, with the zero point shifted."""
    for value in of_type(payload, "qint8"):
        value["tensor_value"]["datatype"] = datatypes().index("quint8")
        value["quant_params"]["zero_point"] = value["quant_params"].get("zero_point", 0) + 128
    return payload


CASES: list[tuple[str, Change, bool]] = [
    ("linear-dynamic_channel", scales_by_channel, True),
    ("linear_relu-dynamic_channel", scales_by_channel, True),
    ("linear-8da4w_32", wide_scales_by_group, False),
    ("linear_bias-8da4w_32", wide_scales_by_group, False),
    ("linear-8da4w_64", scales_by_group, False),  # the official runtime has dropped it
    ("linear-dynamic_channel", input_says_how, True),
    ("linear-8da4w_32", input_says_how, True),
    ("add-static", unsigned, True),
    ("add_relu-static", unsigned, True),
    ("mul-static", unsigned, True),
    ("cat-static", unsigned, True),
]
each_case = pytest.mark.parametrize(
    ("name", "change", "official_reads"), CASES, ids=[f"{n}-{c.__name__}" for n, c, _ in CASES]
)


@each_case
def test_written_another_way(
    name: str, change: Change, official_reads: bool, ours: Opener, official: Opener
) -> None:
    lowered = row(name)
    changed = edited(lowered.pte, change)
    assert changed != lowered.pte
    runs = [ours(changed), *([official(changed)] if official_reads else [])]
    plain = ours(lowered.pte)
    for call in lowered.calls:
        wanted = plain("forward", call.inputs)
        for run in runs:
            for found, want in zip(run("forward", call.inputs), wanted, strict=True):
                np.testing.assert_allclose(found, want, rtol=0, atol=1e-6)


@pytest.mark.parametrize("count", [0, 5])
def test_lists_of_scales_that_are_too_short(count: int, ours: Opener) -> None:
    def change(payload: Payload, named: dict[str, bytes]) -> Payload:
        scales_by_channel(payload, named)
        for value in of_type(payload, "qcint8"):
            del value["quant_params"]["scale"][count:]
        return payload

    with pytest.raises(RuntimeError, match=f"{count} scales, expected 6"):
        ours(edited(row("linear-dynamic_channel").pte, change))("forward", [])
