"""Invalid payloads: each is rejected with a message that names the place, before XNNPACK reads it.

Named cases change one number of an exported payload; test_xnnpack_damaged.py changes random ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("executorch")
pytest.importorskip("torchao")

import executorch_c as et
import torch
from tests.backends import xnnpack_flow as flow
from tests.backends import xnnpack_payload
from torch import nn
from torch.nn import functional as F

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")

TABLE = flow.Rows(__file__, delegates=1)
IMAGE = (2, 3, 7, 8)
TABLE.add("conv", lambda: nn.Conv2d(3, 4, 3, padding=1), IMAGE, "XNNConv2d")
TABLE.add("conv", lambda: nn.Conv2d(3, 4, 3), IMAGE, schemes=["static_channel"])
TABLE.add("depthwise", lambda: nn.Conv2d(3, 6, 3, groups=3), IMAGE, "XNNDepthwiseConv2d")
TABLE.add("deconv", lambda: nn.ConvTranspose2d(3, 4, 3, 2), IMAGE, "XNNConvTranspose2d")
TABLE.add("pool", lambda: nn.MaxPool2d(3, 2, 1), IMAGE, "XNNMaxPooling2d")
TABLE.add(
    "linear",
    lambda: nn.Linear(32, 6),
    (3, 32),
    "XNNFullyConnected",
    schemes=["float32", "8da4w_32", "8da8w"],
)
TABLE.add("reshape", lambda: lambda x: F.softmax(x.reshape(4, 6), -1), (2, 3, 4))
TABLE.add("slice", lambda: lambda x: x[:, 1:3], (3, 4), "XNNStaticSlice")
TABLE.add("cat", lambda: lambda *parts: torch.cat(parts, 1), [(2, 3), (2, 4)])
TABLE.add("matmul", lambda: torch.bmm, [(2, 3, 4), (2, 4, 5)])
TABLE.add("permute", lambda: lambda x: x.permute(2, 0, 1).relu(), (2, 3, 4))
TABLE.add("chain", lambda: lambda x, y: (x.exp() + y).tanh(), [(2, 3), (2, 3)])


def first(graph: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(n["xnode_union"] for n in graph["xnodes"] if n["xnode_union_type"] == "XNN" + kind)


def node(kind: str, **changes: Any) -> Callable[[xnnpack_payload.Payload], None]:
    return lambda payload: first(payload.graph, kind).update(changes)


def tensor(
    where: Callable[[dict[str, Any]], bool], **changes: Any
) -> Callable[[xnnpack_payload.Payload], None]:
    def change(payload: xnnpack_payload.Payload) -> None:
        next(t for t in payload.tensors if where(t)).update(changes)

    return change


def quantisation(kind: str, **changes: Any) -> Callable[[xnnpack_payload.Payload], None]:
    """Return the quantisation of the first value with this datatype."""

    def change(payload: xnnpack_payload.Payload) -> None:
        unions = [entry["xvalue_union"] for entry in payload.graph["xvalues"]]
        found = next(u for u in unions if u.get("quant_params_type") == kind)
        found["quant_params"].update(changes)

    return change


def no_position(
    payload: xnnpack_payload.Payload, where: Callable[[dict[str, Any]], bool], **changes: Any
) -> None:
    """Make a value one of the graph, and change the graph."""
    tensor(where, flags=0, external_id=-1 & 0xFFFFFFFF)(payload)
    payload.graph.update(changes)


def is_input(t: dict[str, Any]) -> bool:
    return bool(t.get("flags", 0) & 1)


def is_output(t: dict[str, Any]) -> bool:
    return bool(t.get("flags", 0) & 2)


def is_constant(t: dict[str, Any]) -> bool:
    return bool(t.get("constant_buffer_idx", 0))


def is_inner(t: dict[str, Any]) -> bool:
    return not (is_input(t) or is_output(t) or is_constant(t))


CASES = [
    ("conv-float32", node("Conv2d", input1_id=99), "no value has id 99"),
    ("conv-float32", node("Conv2d", groups=3), "groups|filter|channels"),
    ("conv-float32", node("Conv2d", groups=0), "0 groups"),
    ("conv-float32", node("Conv2d", group_input_channels=2), "expected \\["),
    ("conv-float32", node("Conv2d", group_output_channels=1 << 31), "groups of"),
    ("conv-float32", node("Conv2d", kernel_height=4), "expected \\["),
    ("conv-float32", node("Conv2d", subsampling_width=0), "stride 0"),
    ("conv-float32", node("Conv2d", dilation_width=1 << 20), "dilation 1048576"),
    ("conv-float32", node("Conv2d", dilation_width=100), "does not fit"),
    ("conv-float32", node("Conv2d", padding_top=(1 << 32) - 1), "padding 4294967295"),
    ("conv-float32", node("Conv2d", flags=0x100), "flags 0x100"),
    ("conv-float32", tensor(is_constant, dims=[4, 3, 3, 4]), "needs 576 bytes, its data has 432"),
    ("conv-float32", tensor(is_constant, dims=[1 << 31, 1 << 31, 3, 3]), "too large"),
    ("conv-float32", tensor(is_constant, constant_buffer_idx=77), "constant 77 of"),
    ("conv-float32", tensor(is_constant, datatype=12), "does not support it for datatypes"),
    ("conv-float32", tensor(is_constant, datatype=11), "datatype number 11"),
    ("conv-float32", tensor(is_input, dims=[2, 3, 7]), "has shape|of shape|dimensions"),
    ("conv-float32", tensor(is_input, dims=[1] * 7), "at most 6"),
    ("conv-float32", tensor(is_input, external_id=9), "which is out of range"),
    ("conv-float32", tensor(is_output, external_id=0), "which is already another value"),
    ("conv-float32", tensor(is_output, flags=4), "flags 0x4"),
    ("conv-float32", tensor(is_output, flags=3), "input and an output"),
    ("cat-float32", lambda p: no_position(p, is_output, num_externs=2), "it has no outputs"),
    ("conv-float32", tensor(is_input, datatype=2), "dtype|datatypes"),
    ("conv-static_channel", quantisation("PerChannelQuant", channel_dim=3), "dimension 3|channels"),
    ("conv-static_channel", quantisation("PerChannelQuant", channel_dim=9), "dimension 9"),
    ("conv-static_channel", quantisation("PerTensorQuant", zero_point=1000), "zero point 1000"),
    ("conv-static_channel", quantisation("PerTensorQuant", zero_point=0, scale=0.0), "scale 0"),
    ("conv-static_channel", quantisation("PerTensorQuant", zero_point=0, scale=-1.0), "scale -1"),
    ("depthwise-float32", node("DepthwiseConv2d", group_input_channels=0), "groups of 0"),
    ("depthwise-float32", node("DepthwiseConv2d", group_output_channels=3), "expected \\["),
    ("deconv-float32", node("ConvTranspose2d", adjustment_height=5), "5 more"),
    ("deconv-float32", node("ConvTranspose2d", padding_top=60000), "padding 60000"),
    ("pool-float32", node("MaxPooling2d", pooling_height=0), "window of 0"),
    ("pool-float32", node("MaxPooling2d", pooling_height=1 << 30), "window of 1073741824"),
    ("pool-float32", node("MaxPooling2d", pooling_height=9999, padding_top=60000), "window|places"),
    ("linear-float32", tensor(is_constant, dims=[6, 31]), "rows of 31"),
    ("linear-float32", tensor(is_constant, dims=[192]), "expected a matrix"),
    ("linear-float32", node("FullyConnected", bias_id=0), "bias of shape"),
    ("linear-float32", node("FullyConnected", flags=1), "rows of|bias"),
    ("linear-8da4w_32", quantisation("PerChannelGroupQuant", group_size=31), "groups of 31"),
    ("linear-8da4w_32", quantisation("PerChannelGroupQuant", group_size=0), "groups of 0"),
    ("linear-8da4w_32", quantisation("PerChannelGroupQuant", scale_buffer_idx=99), "constant 99"),
    ("linear-8da4w_32", quantisation("PerChannelGroupQuant", scale_buffer_idx=0), "0 scales"),
    ("linear-8da4w_32", quantisation("PerTokenDynamicQuant", num_nonbatch_dims=0), "over 0 of"),
    ("linear-8da4w_32", quantisation("PerTokenDynamicQuant", num_nonbatch_dims=3), "over 3 of"),
    ("reshape-float32", node("StaticReshape", new_shape=[5, 5]), "does not fit into"),
    ("reshape-float32", node("StaticReshape", new_shape=[0, 0]), "does not fit into"),
    ("reshape-float32", node("StaticReshape", new_shape=[1] * 9), "9 dimensions"),
    ("slice-float32", node("StaticSlice", offsets=[0, 4]), "elements at 4"),
    ("slice-float32", node("StaticSlice", sizes=[1 << 31, 1]), "2147483648 elements"),
    ("slice-float32", node("StaticSlice", sizes=[1]), "1 sizes"),
    ("cat-float32", node("Concatenate2", axis=7), "axis 7"),
    ("cat-float32", node("Concatenate2", axis=0), "does not continue"),
    ("matmul-float32", node("BatchMatrixMultiply", flags=1), "matrices of shapes"),
    ("permute-float32", node("StaticTranspose", perm=[0, 1, 1]), "not a permutation"),
    ("permute-float32", node("StaticTranspose", perm=[0, 1, 9]), "not a permutation"),
    ("permute-float32", node("StaticTranspose", perm=[0, 1]), "2 dimensions in perm"),
    ("chain-float32", node("Exp", input_id=4), "by an earlier node|already defined|no value"),
    ("chain-float32", node("Tanh", output_id=0), "which is already defined"),
    ("chain-float32", node("Add", input2_id=77), "no value has id 77"),
    ("chain-float32", lambda p: p.graph["xnodes"].pop(), "no node computes"),
    ("chain-float32", lambda p: p.graph["xnodes"].reverse(), "not computed by an earlier node"),
    ("chain-float32", lambda p: p.graph.update(xnodes=[]), "0 nodes"),
    ("chain-float32", lambda p: p.graph.update(num_externs=5000), "5000 arguments"),
    ("chain-float32", lambda p: p.tensors[0].update(id_out=p.tensors[1]["id_out"]), "both have id"),
    ("chain-float32", tensor(is_inner, id_out=(1 << 32) - 2), "has id 4294967294"),
]


def named(name: str) -> flow.Lowered:
    return flow.load(next(row for row in TABLE.rows if row.id == name))


def run(pte: bytes, call: flow.Call) -> list[Any]:
    return et.Runtime.get().load_program(pte).load_method("forward").execute(call.inputs)


@pytest.mark.parametrize("row", TABLE.rows, ids=TABLE.ids())
def test_unchanged(row: flow.Row) -> None:
    """The payload that the other cases change runs after a round trip through the writer."""
    lowered = flow.load(row)
    pte = xnnpack_payload.edited(lowered.pte, lambda payload, data: payload)
    for found, expected in zip(run(pte, lowered.calls[0]), lowered.calls[0].outputs, strict=True):
        assert np.asarray(found).shape == expected.shape


@pytest.mark.parametrize(
    ("name", "change", "message"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_refused(name: str, change: Any, message: str) -> None:
    lowered = named(name)

    def edit(payload: xnnpack_payload.Payload, data: object) -> xnnpack_payload.Payload:
        change(payload)
        return payload

    pte = xnnpack_payload.edited(lowered.pte, edit)
    with pytest.raises(et.Error, match=message):
        run(pte, lowered.calls[0])


def test_missing_constants() -> None:
    lowered = named("conv-float32")
    pte = xnnpack_payload.edited(lowered.pte, lambda payload, data: payload, drop_named=True)
    with pytest.raises(et.Error, match="missing in the program and in the data files"):
        run(pte, lowered.calls[0])


@pytest.mark.parametrize("size", [0, 1, 7, 8, 29, 30, 31, 64])
def test_cut_off(size: int) -> None:
    lowered = named("conv-float32")
    pte = xnnpack_payload.edited(lowered.pte, lambda payload, data: payload.pack()[:size])
    with pytest.raises(et.Error, match="payload"):
        run(pte, lowered.calls[0])
