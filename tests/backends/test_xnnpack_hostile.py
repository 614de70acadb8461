"""Invalid and damaged payloads: each is computed, or rejected with a message that names the place,
before XNNPACK reads it; never a crash.

Named cases change one number of a payload of the zoo. Random ones run in a separate process
(`xnnpack_mutate.py`), so that a crash is a failure and not the end of the tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c as et
from tests import kept, plans, process
from tests.backends.xnnpack_series import needs_xnnpack
from tests.backends import xnnpack_flow as flow
from tests.backends import xnnpack_sanitized
from tests.backends.test_xnnpack_tables import BYTES, joined
from tests.backends.xnnpack_payload import Payload, edited, layout
from tests.backends.xnnpack_zoo import TABLE

pytestmark = needs_xnnpack
Change = Callable[[Payload], None]
Test = Callable[[dict[str, Any]], bool]


def first(graph: dict[str, Any], kind: str) -> dict[str, Any]:
    unions = (node["xnode_union"] for node in graph["xnodes"])
    return next(fields for name, fields in unions if name == f"XNN{kind}")


def node(kind: str, **changes: Any) -> Change:
    return lambda payload: first(payload.graph, kind).update(changes)


def tensor(where: Test, **changes: Any) -> Change:
    def change(payload: Payload) -> None:
        next(t for t in payload.tensors if where(t)).update(changes)

    return change


def quantisation(kind: str, **changes: Any) -> Change:
    """Return the quantisation of the first value with this datatype."""

    def change(payload: Payload) -> None:
        values = (entry["xvalue_union"][1] for entry in payload.graph["xvalues"])
        params = (value["quant_params"] for value in values if "quant_params" in value)
        next(fields for name, fields in params if name == kind).update(changes)

    return change


def no_position(payload: Payload, where: Test, **changes: Any) -> None:
    """Make a value one of the graph, and change the graph."""
    tensor(where, flags=0, external_id=-1)(payload)
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
    ("conv-float32", node("Conv2d", group_output_channels=-1 << 31), "groups of"),
    ("conv-float32", node("Conv2d", kernel_height=4), "expected \\["),
    ("conv-float32", node("Conv2d", subsampling_width=0), "stride 0"),
    ("conv-float32", node("Conv2d", dilation_width=1 << 20), "dilation 1048576"),
    ("conv-float32", node("Conv2d", dilation_width=100), "does not fit"),
    ("conv-float32", node("Conv2d", padding_top=-1), "padding 4294967295"),
    ("conv-float32", node("Conv2d", flags=0x100), "flags 0x100"),
    ("conv-float32", tensor(is_constant, dims=[5, 3, 3, 4]), "needs 720 bytes, its data has 540"),
    ("conv-float32", tensor(is_constant, dims=[-1 << 31, -1 << 31, 3, 3]), "too large"),
    ("conv-float32", tensor(is_constant, constant_buffer_idx=77), "constant 77 of"),
    ("conv-float32", tensor(is_constant, datatype=12), "does not support it for datatypes"),
    ("conv-float32", tensor(is_constant, datatype=11), "datatype number 11"),
    ("conv-float32", tensor(is_input, num_dims=3, dims=[2, 3, 7]), "has shape|of shape|dimensions"),
    ("conv-float32", tensor(is_input, dims=[1] * 7), "at most 6"),
    ("conv-float32", tensor(is_input, external_id=9), "which is out of range"),
    ("conv-float32", tensor(is_output, external_id=0), "which is already another value"),
    ("conv-float32", tensor(is_output, flags=4), "flags 0x4"),
    ("conv-float32", tensor(is_output, flags=3), "input and an output"),
    ("cat_2-float32", lambda p: no_position(p, is_output, num_externs=2), "it has no outputs"),
    ("conv-float32", tensor(is_input, datatype=2), "dtype|datatypes"),
    ("conv-static_channel", quantisation("PerChannelQuant", channel_dim=3), "scale_count 5, expe"),
    (
        "conv-static_channel",
        quantisation("PerChannelQuant", channel_dim=3, num_scales=0),
        "dimension 3|channels",
    ),
    ("conv-static_channel", quantisation("PerChannelQuant", channel_dim=9), "dimension 9"),
    ("conv-static_channel", quantisation("PerTensorQuant", zero_point=1000), "zero point 1000"),
    ("conv-static_channel", quantisation("PerTensorQuant", zero_point=0, scale=0.0), "scale 0"),
    ("conv-static_channel", quantisation("PerTensorQuant", zero_point=0, scale=-1.0), "scale -1"),
    ("depthwise-float32", node("DepthwiseConv2d", group_input_channels=0), "groups of 0"),
    ("depthwise-float32", node("DepthwiseConv2d", group_output_channels=3), "expected \\["),
    ("conv_transpose-float32", node("ConvTranspose2d", adjustment_height=5), "5 more"),
    ("conv_transpose-float32", node("ConvTranspose2d", padding_top=60000), "padding 60000"),
    ("max_pool-float32", node("MaxPooling2d", pooling_height=0), "window of 0"),
    ("max_pool-float32", node("MaxPooling2d", pooling_height=1 << 30), "window of 1073741824"),
    (
        "max_pool-float32",
        node("MaxPooling2d", pooling_height=9999, padding_top=60000),
        "window|places",
    ),
    ("linear-float32", tensor(is_constant, dims=[6, 8]), "rows of 8"),
    ("linear-float32", tensor(is_constant, num_dims=1, dims=[54]), "expected a matrix"),
    ("linear-float32", tensor(is_constant, dims=[54]), "num_dims 2, its shape has 1 dimensions"),
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
    ("slice-float32", node("StaticSlice", sizes=[-1 << 31, 1]), "2147483648 elements"),
    ("slice-float32", node("StaticSlice", sizes=[1]), "1 sizes"),
    ("cat_2-float32", node("Concatenate2", axis=7), "axis 7"),
    ("cat_2-float32", node("Concatenate2", axis=0), "does not continue"),
    ("bmm-float32", node("BatchMatrixMultiply", flags=1), "matrices of shapes"),
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
    ("chain-float32", tensor(is_inner, id_out=-2), "has id 4294967294"),
    ("conv-float32", node("Conv2d", filter_id=99), "no value has id 99"),
    ("conv-float32", node("Conv2d", kernel_height=0), "expected \\["),
    ("avg_pool-float32", node("AvgPooling2d", padding_left=-1 << 31), "padding 2147483648"),
    ("linear-float32", node("FullyConnected", filter_id=0), "bias of shape"),
    ("reshape-float32", node("StaticReshape", new_shape=[0, 0, 2]), "does not fit into"),
    ("pad-float32", node("StaticConstantPad", pre_paddings=[-1] * 3), "too large"),
    ("add-float32", node("Add", input1_id=-1), "4294967295"),
    ("bmm-float32", node("BatchMatrixMultiply", input2_id=0), "value with id 0"),
]
BASES = sorted({name for name, *_ in CASES})


def run(pte: bytes, call: flow.Call) -> list[Any]:
    return et.Runtime.get().load_program(pte).load_method("forward").execute(call.inputs)


@pytest.mark.parametrize("name", BASES)
def test_unchanged(name: str) -> None:
    """The payload that the other cases change runs after a round trip through the writer."""
    lowered = TABLE.load(name)
    pte = edited(lowered.pte, lambda payload, data: payload)
    for output, expected in zip(run(pte, lowered.calls[0]), lowered.calls[0].outputs, strict=True):
        assert np.asarray(output).shape == expected.shape


@pytest.mark.parametrize(
    ("name", "change", "message"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_refused(name: str, change: Any, message: str) -> None:
    lowered = TABLE.load(name)
    pte = layout().edited(lowered.pte, lambda graph: change(Payload(graph)))
    with pytest.raises(et.Error, match=message):
        run(pte, lowered.calls[0])


def test_missing_constants() -> None:
    pte = edited(TABLE.load("conv-float32").pte, lambda payload, data: payload, drop_named=True)
    says = "value .*named data '[0-9a-f]{64}'.* missing in the program and in the data files"
    with pytest.raises(et.Error, match=says):
        et.Runtime.get().load_program(pte).load_method("forward")


@pytest.mark.parametrize("size", [0, 1, 3, 7, 8, 16, 29, 30, 31, 40, 64, 0.5, -17])
def test_cut_off(size: float) -> None:
    def cut(payload: Payload, data: object) -> bytes:
        packed = payload.pack()
        return packed[: int(size * len(packed)) if size == 0.5 else int(size)]

    lowered = TABLE.load("conv-float32")
    with pytest.raises(et.Error, match="payload"):
        run(edited(lowered.pte, cut), lowered.calls[0])


def test_another_dtype_than_the_delegate_has() -> None:
    """The program declares int8, the delegate expects float32."""

    def edit(program: Any) -> None:
        plan = program.execution_plan[0]
        plan.values[plan.inputs[1]].val.scalar_type = plans.schema.ScalarType.CHAR

    lowered = TABLE.load("add-float32")
    method = plans.load(plans.edited(lowered.pte, edit))
    x = lowered.calls[0].inputs[0]
    with pytest.raises(et.Error, match="argument 1 .*dtype"):
        method.execute([x, x.astype(np.int8)])


# ---- random damage ------------------------------------------------------------------------------

COUNT = int(os.environ.get("EXECUTORCH_C_FUZZ_CASES", "3000"))
SEED = int(os.environ.get("EXECUTORCH_C_FUZZ_SEED", "1"))
OTHERS = (
    "conv_chain bilinear gelu softmax prelu leaky_relu hardswish sub_constant mul sqrt div relu6 "
    "global_avg_pool"
)
DAMAGED = [*BASES, *(f"{name}-float32" for name in OTHERS.split())]


def write_programs(folder: Path) -> None:
    folder.mkdir()
    for name in DAMAGED:
        lowered = TABLE.load(name)
        assert b"XH00" in lowered.pte, name
        arrays = {f"x{i}": x for i, x in enumerate(lowered.calls[0].inputs)}
        np.savez(folder / name, pte=np.frombuffer(lowered.pte, np.uint8), **arrays)
    for name in ("silu", "decomposed"):  # chains that become tables
        pte = joined(name, (4, 64)).program()
        x = BYTES.reshape(4, 64)
        np.savez(folder / f"{name}_table", pte=np.frombuffer(pte, np.uint8), x0=x)


def run_damaged(*extension: object, env: dict[str, str] | None = None) -> None:
    sources = (Path(__file__), Path(flow.__file__), Path(TABLE.file))
    key = kept.digest(*sources, packages=("torch", "executorch", "numpy"))
    programs = kept.file(f"damaged-{key}", write_programs)
    worker = Path(__file__).with_name("xnnpack_mutate.py")
    done = process.python(worker, programs, COUNT, SEED, *extension, timeout=900, env=env)
    loaded, ran = map(int, done.stdout.split()[-2:])
    assert COUNT / 50 < ran <= loaded < COUNT / 2


@pytest.mark.heavy  # below, the same under sanitizers
def test_damaged() -> None:
    run_damaged()


def test_damaged_under_sanitizers() -> None:
    run_damaged(xnnpack_sanitized.build(), env=xnnpack_sanitized.environment())
