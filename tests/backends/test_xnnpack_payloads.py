"""Payloads that today's exporter does not write: of older files and of other exporters, whose
equivalent encodings give equal outputs; and without conversions and outputs that they need, as the
official flow (1.5.1) writes them for a padding after a quantised node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import executorch_c as et
from tests.backends import xnnpack_flow as flow
from tests.backends import xnnpack_graphs, xnnpack_payload
from tests.backends.xnnpack_graphs import Graph
from tests.backends.xnnpack_series import needs_xnnpack
from tests.backends.xnnpack_payload import Payload, datatypes, edited
from tests.backends.xnnpack_zoo import TABLE
from tests.openers import Opener

pytestmark = needs_xnnpack
Change = Callable[[Payload, dict[str, bytes]], Payload]
Fields = dict[str, Any]

# ---- other encodings ----------------------------------------------------------------------------


def of_type(payload: Payload, name: str) -> list[Fields]:
    """Return the quantised values of a datatype."""
    values = [value["xvalue_union"][1] for value in payload.graph["xvalues"]]
    number = datatypes().index(name)
    return [v for v in values if v.get("tensor_value", {}).get("datatype") == number]


def take_scales(payload: Payload, how: Fields, named: dict[str, bytes], dtype: str) -> np.ndarray:
    """Return the scales of a value's quantisation and remove their buffer."""
    entry = payload.graph["constant_data"][how.pop("scale_buffer_idx")]
    return np.frombuffer(named[entry["named_key"]], dtype)[: how.pop("num_scales")]


def scales_by_channel(payload: Payload, named: dict[str, bytes]) -> Payload:
    for value in of_type(payload, "qcint8"):
        _, how = value["quant_params"]
        how["scale"] = take_scales(payload, how, named, "<f4").tolist()
    return payload


def wide_scales_by_group(payload: Payload, named: dict[str, bytes]) -> Payload:
    """Encode scales as lists of float32, which the runtime converts to bfloat16."""
    for value in of_type(payload, "qbint4"):
        _, how = value["quant_params"]
        narrow = take_scales(payload, how, named, "<u2")
        how["scale"] = (narrow.astype("<u4") << 16).view("<f4").tolist()
    return payload


def scales_by_group(payload: Payload, named: dict[str, bytes]) -> Payload:
    """Encode scales as lists of bfloat16, the next format."""
    for value in of_type(payload, "qbint4"):
        _, how = value["quant_params"]
        how["scale_bf16"] = take_scales(payload, how, named, "<i2").tolist()
    return payload


def input_says_how(payload: Payload, named: dict[str, bytes]) -> Payload:
    """Remove the conversion and mark the input as dynamically quantised."""
    at = payload.kinds.index("XNNConvert")
    convert = payload.graph["xnodes"].pop(at)["xnode_union"][1]
    source = payload.tensors[convert.get("input_id", 0)]
    source["dq_datatype"] = datatypes().index("qint8")
    [linear] = payload.nodes
    assert linear["input1_id"] == convert["output_id"]
    linear["input1_id"] = convert.get("input_id", 0)
    return payload


def unsigned(payload: Payload, named: dict[str, bytes]) -> Payload:
    """Encode signed integers as unsigned ones, with the zero point shifted."""
    for value in of_type(payload, "qint8"):
        value["tensor_value"]["datatype"] = datatypes().index("quint8")
        _, how = value["quant_params"]
        how["zero_point"] = how.get("zero_point", 0) + 128
    return payload


CASES: list[tuple[str, Change, bool]] = [
    ("linear-dynamic_channel", scales_by_channel, True),
    ("linear-8da4w_32", wide_scales_by_group, False),
    ("linear-8da4w_64", scales_by_group, False),  # the official runtime has dropped it
    ("linear-dynamic_channel", input_says_how, True),
    ("linear-8da4w_32", input_says_how, True),
    ("add-static", unsigned, True),
    ("cat-static", unsigned, True),
]
MORE: list[tuple[str, Change, bool]] = [
    ("linear_relu-dynamic_channel", scales_by_channel, True),
    ("linear_bias-8da4w_32", wide_scales_by_group, False),
    ("add_relu-static", unsigned, True),
    ("mul-static", unsigned, True),
]
"""Other programs with the same changes."""


@pytest.mark.parametrize(
    ("name", "change", "official_reads"),
    [*CASES, *(pytest.param(*row, marks=pytest.mark.heavy) for row in MORE)],
    ids=[f"{name}-{change.__name__}" for name, change, _ in [*CASES, *MORE]],
)
def test_written_another_way(
    name: str, change: Change, official_reads: bool, ours: Opener, official: Opener
) -> None:
    lowered = TABLE.load(name)
    changed = edited(lowered.pte, change)
    assert changed != lowered.pte
    runs = [ours(changed), *([official(changed)] if official_reads else [])]
    plain = ours(lowered.pte)
    for call in lowered.calls:
        expected = plain("forward", call.inputs)
        for run in runs:
            for output, wanted in zip(run("forward", call.inputs), expected, strict=True):
                np.testing.assert_allclose(output, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("count", [0, 5])
def test_lists_of_scales_that_are_too_short(count: int, ours: Opener) -> None:
    def change(payload: Payload, named: dict[str, bytes]) -> Payload:
        scales_by_channel(payload, named)
        for value in of_type(payload, "qcint8"):
            del value["quant_params"][1]["scale"][count:]
        return payload

    with pytest.raises(RuntimeError, match=f"{count} scales, expected 6"):
        ours(edited(TABLE.load("linear-dynamic_channel").pte, change))("forward", [])


CONSTANTS = {
    "behind_the_graph": xnnpack_payload.with_constants_inside,
    "in_the_graph": xnnpack_payload.with_constants_in_the_graph,
}
STORED = ("conv-float32", "linear-float16", "conv-static_channel", "linear-dynamic_4bit")


@pytest.mark.parametrize("place", CONSTANTS)
@pytest.mark.parametrize("name", [*STORED, "linear-8da4w_32"])
def test_constants_inside_the_payload(
    name: str, place: str, ours: Opener, official: Opener
) -> None:
    """Constants inside the payload, as from older exporters: the program has no named data."""
    lowered = TABLE.load(name)
    pte = edited(lowered.pte, CONSTANTS[place], drop_named=True)
    assert not xnnpack_payload.parse_program(pte).named_data
    for run in (ours(pte), official(pte)):
        flow.check(run, lowered.calls[:1])
    first, plain = (ours(x)("forward", lowered.calls[0].inputs)[0] for x in (pte, lowered.pte))
    np.testing.assert_array_equal(first, plain)


# ---- missing conversions ------------------------------------------------------------------------

CODES = xnnpack_graphs.Tensor(0.125, -3)
NUMBERS = np.random.default_rng(7).normal(scale=6, size=(2, 5)).astype(np.float32)


class Padded(nn.Module):
    """A quantised sum, padded, as in the window partition of a Swin transformer."""

    def __init__(self, pad: tuple[int, ...], after: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.pad, self.after = nn.Linear(8, 8), pad, after

    def forward(self, x: Tensor) -> Tensor:
        x = (x + self.linear(x)).view(-1, 4, 4, 8)
        return self.after(F.pad(x, self.pad))


def windows(x: Tensor) -> Tensor:
    return x.view(x.shape[0], -1, 2, 8).permute(0, 2, 1, 3).reshape(x.shape[0], -1, 8)


PADDINGS = flow.Rows(__file__, delegates=None)
for size, pad in {"nothing": (0, 0, 0, 0), "rows": (0, 0, 0, 2, 0, 1)}.items():
    for name, after in (("last", lambda x: x), ("windows", windows), ("exp", torch.exp)):
        # With a dynamic batch, the flow does not delegate the permutation.
        PADDINGS.add(
            f"{name}_{size}",
            lambda pad=pad, after=after: Padded(pad, after),
            [[(3, 16, 8)], *([[(2, 16, 8)]] if name != "windows" else [])],
            "StaticConstantPad",
            schemes=["static_channel"],
            datatypes=("qint8", "fp32"),
        )


@pytest.mark.sweep(3)
@pytest.mark.parametrize("row", PADDINGS.rows, ids=PADDINGS.ids())
def test_padding_of_a_quantised_sum(row: flow.Row, ours: Opener, official: Opener) -> None:
    """Equal to quantised eager; the official runtime refuses it."""
    lowered = flow.load(row)
    flow.check(ours(lowered.pte), lowered.calls)
    with pytest.raises(RuntimeError, match="Failed to load method"):
        official(lowered.pte)("forward", lowered.calls[0].inputs)


def test_traces_show_the_conversions() -> None:
    lowered = PADDINGS.load("last_rows-static_channel")
    method = et.Runtime.get().load_program(lowered.pte).load_method("forward")
    with method.tracing(values=True) as trace:
        (output,) = method.execute(lowered.calls[0].inputs)
    names = [event.name.split(" (")[0] for event in trace.events if event.delegate is not None]
    assert names[-3:] == ["Constant Pad", "Unary Elementwise", "Unary Elementwise"]
    np.testing.assert_array_equal(output, method.execute(lowered.calls[0].inputs)[0])


def quantised(x: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x / CODES.scale) + CODES.zero_point, -128, 127).astype(np.int8)


def dequantised(x: np.ndarray) -> np.ndarray:
    return ((x.astype(np.float32) - CODES.zero_point) * CODES.scale).astype(np.float32)


def test_both_sides_of_a_sum() -> None:
    """An addition of int8 and float32 to int8 adds in float32."""
    graph = Graph()
    x = graph.input((2, 5))
    codes = graph.step("Convert", x, dtype="qint8", how=CODES)
    graph.binary("Add", codes, x, graph.output((2, 5), "qint8", CODES))
    expected = quantised(dequantised(quantised(NUMBERS)) + NUMBERS)
    np.testing.assert_array_equal(graph.run(NUMBERS)[0], expected)


def test_concatenation_of_int8_and_float32() -> None:
    graph = Graph()
    x = graph.input((2, 5))
    codes = graph.step("Convert", x, dtype="qint8", how=CODES)
    graph.concatenate([codes, x], graph.output((4, 5)), axis=0)
    expected = np.concatenate([dequantised(quantised(NUMBERS)), NUMBERS])
    np.testing.assert_array_equal(graph.run(NUMBERS)[0], expected)


class Twice(nn.Module):
    """A quantised sum that a delegate reads as integers, and an operator outside as floats."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.first(x) + 1.0
        return self.last(y - y.mean(-1, keepdim=True)), F.layer_norm(y, (16,))


def test_an_input_that_is_only_dequantised_is_said_to_be_lost() -> None:
    """The flow gives the layer norm a delegate's output that the payload does not have. Here and in
    the official runtime, its memory has another tensor; check_model finds the outputs wrong."""
    from executorch_c.testing import check_model

    result = check_model(Twice().eval(), (torch.randn(4, 16),), flow="xnnpack-int8", n_random=0)
    assert result.verdict == "differ", str(result)
    notes = [note for note in result.notes if "nothing writes" in note]
    assert len(notes) == 1 and "native_layer_norm" in notes[0], result.notes
    assert "only dequantised" in notes[0]


# ---- missing outputs ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["fp32", "qint8"])
def test_lost_output(dtype: str) -> None:
    """The only result that nothing reads is the last argument; its integers are dequantised."""
    graph = Graph()
    x, y = graph.input((2, 5)), graph.output((2, 5))
    z = graph.output((2, 5), dtype, CODES if dtype == "qint8" else None)
    graph.unary("Abs", x, y)
    graph.unary("Negate", x, z)
    graph.lost.add(z)
    rounded = dequantised(quantised(-NUMBERS)) if dtype == "qint8" else -NUMBERS
    for output, expected in zip(graph.run(NUMBERS), [np.abs(NUMBERS), rounded], strict=True):
        np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize("lost", [(0,), (0, 1), (1,)])
def test_outputs_that_cannot_be_found(lost: tuple[int, ...]) -> None:
    """An output before another one, two outputs, or one of two results may be anything."""
    graph = Graph()
    x = graph.input((2, 5))
    outputs = [graph.output((2, 5)), graph.output((2, 5))]
    for kind, y in zip(("Abs", "Negate"), outputs, strict=True):
        graph.unary(kind, x, y)
    graph.unary("Square", x, graph.value((2, 5)))
    graph.lost.update(outputs[place] for place in lost)
    with pytest.raises(et.Error, match="it has no outputs|lost an output"):
        graph.run(NUMBERS)
