"""Programs of the Cadence flow, and hostile arguments of its operators."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import executorch_c
from executorch_c import Runtime
from executorch_c.check import flows
from executorch_c.testing import check_model
from tests.backends import cadence_flow, flow_matrix
from tests.backends.cadence_calls import FACTOR, INT8, SCALES, UINT8, bias, method_of, one, out_name
from tests.backends.cadence_calls import real, whole
from tests.backends.recorded import Recorded
from tests.single_op import Out

X, W = whole(1, 4, 6, 6), whole(2, 4, 3, 3)
STEPS = [1, 1], [0, 0], [1, 1], 1, 0, 0
TAIL = *SCALES, *FACTOR
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "name, args, sentence",
    [
        ("quantize_per_tensor", [real(3), NAN, 0, -128, 127, INT8], "'scale' is nan, expected a"),
        ("quantize_per_tensor", [real(3), 0.0, 0, -128, 127, INT8], "'scale' is 0, expected a"),
        ("quantize_per_tensor", [real(3), 0.1, 2**40, -128, 127, INT8], "'zero_point' is 10995116"),
        ("quantize_per_tensor", [real(3), 0.1, 0, -129, 127, INT8], "'quant_min' is -129 and 'qua"),
        ("quantize_per_tensor", [real(3), 0.1, 0, 0, 127, UINT8], "'dtype' is 0 and the quantized"),
        (
            "quantize_per_tensor_asym8u",
            [real(3), 0.1, 0, 0, 127, UINT8],
            "'out' has int8 .ScalarType 1., expected uint8",
        ),
        ("quantize_per_tensor", [whole(3), 0.1, 0, -128, 127, INT8], "'input' has int8 .* float32"),
        (
            "quantized_add.per_tensor",
            [whole(3), 0.1, 0, whole(4), 0.1, 0, 0.1, 0],
            "3 and 4 elements in dimension -1, which do not broadcast",
        ),
        (
            "quantized_add.per_tensor",
            [whole(3), 0.1, 0, whole(3), INF, 0, 0.1, 0],
            "'Y_scale' is inf",
        ),
        (
            "quantized_add",
            [whole(3), torch.ones(2), one(0), whole(3), one(0.1), one(0), 0.1, 0],
            "'X_scale' has 2 elements, expected 1",
        ),
        ("quantized_relu.per_tensor", [whole(3), 0, 0, 0, 0], "'out_multiplier' is 0 and 'out"),
        ("quantized_relu.per_tensor", [whole(3), 0, 0, 1, 99], "'out_shift' 99, expected a number"),
        (
            "quantized_linear.per_tensor",
            [whole(3, 4), whole(2, 5), bias(2), 0, 0, 1, 0, 0, None],
            "the input has 4 features, 'weight' takes 5",
        ),
        (
            "quantized_linear.per_tensor",
            [whole(1, 2, 4, 4), whole(4, 4), bias(3), 0, 0, 1, 0, 0, None],
            "'bias' has 3 elements, expected 4",
        ),
        (
            "quantized_fully_connected.per_tensor",
            [whole(3, 4), whole(2, 4), bias(2), 0, 0, 1, 0, 0, None],
            "'src' has 3 rows, expected 1",
        ),
        (
            "quantized_matmul",
            [whole(3, 4), 0, whole(5, 2), 0, None, 1, 0, 0, False],
            "'X' has 4 columns, 'Y' 5 rows",
        ),
        (
            "quantized_matmul",
            [whole(3, 4), 0, whole(4, 2), 0, bias(2), 1, 0, 0, False],
            "'bias' is .*, expected 0 or None",
        ),
        (
            "quantized_conv2d_nchw.per_tensor",
            [X, W, bias(2), [0, 1], *STEPS[1:], *TAIL],
            "'stride' has the item 0, expected 1 to",
        ),
        (
            "quantized_conv2d_nchw.per_tensor",
            [X, W, bias(2), [1] * 3, *STEPS[1:], *TAIL],
            "'stride' has 3 items, expected 2",
        ),
        (
            "quantized_conv2d_nchw.per_tensor",
            [X, W, bias(2), *STEPS[:3], 3, 0, 0, *TAIL],
            "'groups' is 3 for 4 channels of 'input' and 2 of 'weight'",
        ),
        (
            "quantized_conv2d_nchw.per_tensor",
            [X, W, bias(2), *STEPS[:3], -1, 0, 0, *TAIL],
            "'groups' is -1",
        ),
        (
            "quantized_conv2d_nchw.per_tensor",
            [X, W[:, :3], bias(2), *STEPS, *TAIL],
            "'input' has 4 channels, 'weight' takes 3",
        ),
        (
            "quantized_conv2d_nchw.per_tensor",
            [X, W, bias(2), *STEPS[:2], [9, 1], *STEPS[3:], *TAIL],
            "a kernel of 3 does not fit an input of 6",
        ),
        (
            "quantized_conv2d_nchw.per_tensor",
            [X, W, bias(2), *STEPS, NAN, *TAIL[1:]],
            "'bias_scale' is nan",
        ),
        (
            "quantized_conv2d_nchw.per_tensor",
            [X[:, :, :0], W, bias(2), *STEPS, *TAIL],
            "'input' has 0 pixels in a dimension",
        ),
        (
            "quantized_conv2d_nchw.per_tensor",
            [X, W[0], bias(2), *STEPS, *TAIL],
            "'weight' has 3 dimensions, expected 4",
        ),
        (
            "quantized_depthwise_conv1d_ncl.per_tensor",
            [whole(1, 4, 9), whole(2, 4, 3), bias(2), [1], [0], [1], 1, 0, 0, *TAIL],
            "expected a depthwise convolution",
        ),
        (
            "quantized_conv2d_nhwc_asym8uxsym8u_asym8u.per_tensor",
            [X, W, bias(2), *STEPS, *TAIL],
            "'input' has int8 .*, expected uint8",
        ),
        (
            "im2row.per_tensor",
            [X, [2, 2], [1, 1], [0, 0], [1, 1], 128, False],
            "'in_zero_point' is 128, beyond the dtype of 'input'",
        ),
        (
            "im2row",
            [X, [2, 2], [1, 1], [0, 0], [1, 1], bias(3), False],
            "'in_zero_point' has 3 elements, expected 1 or one for each of 1 images",
        ),
        (
            "quantized_max_pool2d_nchw",
            [X, [2, 2], [1, 1], [2, 0], [1, 1], False],
            "a padding of 2 is more than half of the window's 2",
        ),
        (
            "avg_pool2d",
            [X, [2, 2], [1, 1], [0, 0], False, True, None, None, False],
            "'input' has int8 .*, expected float32",
        ),
        (
            "avg_pool2d",
            [X, [2, 2], [1, 1], [0, 0], False, True, 0, one(3), False],
            "'divisor_override' is 0",
        ),
        (
            "quantized_layer_norm.per_tensor",
            [X, 0.1, 0, [5], real(5), real(5), 1e-5, 0.1, 0],
            "'normalized_shape' is not that of the last 1 dimensions",
        ),
        (
            "quantized_softmax.per_tensor",
            [X, X, 7, 0, X, 0.1, 0, 0.1, 0],
            "'dim' is 7 for 4 dimensions",
        ),
        ("quantized_softmax.per_tensor", [X, X, 1, 1, X, 0.1, 0, 0.1, 0], "'mask_type' is 1, ex"),
        (
            "rope",
            [real(1, 6, 3, 10), real(9, 5), real(9, 5), torch.tensor([0, 0, 0, 9, 0, 0])],
            "'pos' has row 9 at 3, beyond 9 rows",
        ),
        ("rope", [real(1, 6, 3, 10), real(5, 5), real(9, 5), None], "'sin_tensor' is 5 x 5, ex"),
        (
            "quantized_embedding_byte",
            [whole(4, 8), real(4), None, torch.tensor([-5]), False],
            "'indices' has row -1 at 0, beyond 4 rows",
        ),
        (
            "quantized_embedding_byte",
            [whole(4, 8), real(4, 3), None, torch.tensor([1]), False],
            "'weight_scales' has 12 scales for a table of 4 x 8",
        ),
        ("sdpa_bitwise_mask_gen", [real(3, 9), 0.0], "'mask' has 9 elements in its last dimension"),
        (
            "quantized_w8a32_gru",
            [
                *(real(1, 9), real(1, 6), whole(18, 9), 0.1, whole(18, 6), 0.1, whole(18), 0.1),
                whole(18),
            ],
            "'hidden' has 6 elements, expected",
        ),
        ("roi_align_box_processor", [real(2, 5), 0, 3, 2, True], "the output size 0 and 'sa"),
    ],
)
def test_bad_arguments(name: str, args: list[Any], sentence: str) -> None:
    floats = ("avg_pool2d", "rope", "quantized_embedding_byte", "quantized_w8a32_gru")
    dtype = "float32" if name in floats else "int8"
    method, inputs = method_of(f"cadence::{out_name(name)}", args, Out((1, 2, 4, 4), dtype))
    for _ in range(2):  # the method stays usable
        with pytest.raises(executorch_c.Error, match=sentence):
            method(*inputs)


PROGRAMS = Recorded(Path(__file__).with_name("cadence_programs"))


@pytest.mark.parametrize("name", PROGRAMS.names())
def test_recorded_programs(name: str) -> None:
    assert PROGRAMS.error(name, name) <= 6e-8


@pytest.mark.parametrize("name", PROGRAMS.names())
def test_damaged_programs(name: str) -> None:
    data = (PROGRAMS.folder / f"{name}.pte").read_bytes()
    PROGRAMS.check_damaged(name, 64, len(data), cases=250)


def test_every_program_of_the_flow_is_fused() -> None:
    """The quantised programs call the flow's operators and no others of quantisation."""
    for name in PROGRAMS.names():
        operators = Runtime.get().load_program(PROGRAMS.folder / f"{name}.pte").requirements()
        assert any(operator.startswith("cadence::") for operator in operators["operators"])
        assert not any(
            operator.startswith("quantized_decomposed") for operator in operators["operators"]
        )


@pytest.mark.parametrize(
    ("make", "shape", "quantizer"),
    [
        (cadence_flow.Residual, (1, 3, 12, 12), "CadenceWithSoftmaxQuantizer"),
        (cadence_flow.Attention, (1, 5, 16), "CadenceDefaultQuantizer"),
    ],
)
def test_programs_of_the_flow(make: Any, shape: tuple[int, ...], quantizer: str) -> None:
    """Programs equal eager, up to a step of the output: eager rescales each operator."""
    torch.manual_seed(2)
    model, inputs = make().eval(), [torch.randn(shape) for _ in range(8)]
    eager, pte = cadence_flow.export(model, inputs, quantizer)
    step = flow_matrix._step(eager)
    method = Runtime.get().load_program(pte).load_method("forward")
    for x in inputs[:3]:
        got, want = np.asarray(method(x.numpy())), eager(x).numpy()
        assert np.abs(got - want).max() <= max(1.001 * step, 1e-6)
        assert np.abs(got).max() > 10 * step


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.stem, self.hidden = torch.nn.Conv2d(3, 8, 3), torch.nn.Linear(8, 16)
        self.last = torch.nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.hidden(self.stem(x).relu().mean((2, 3))).relu())


def test_check_model() -> None:
    inputs = [(real(1, 3, 10, 10),) for _ in range(4)]
    result = check_model(Net().eval(), inputs[0], flow="cadence", real_inputs=inputs[1:])
    assert result.ok, str(result)
    assert all(case.to_float is not None for case in result)
    rows = str(result).splitlines()[2:]
    columns = [row.split() for row in rows if " match " in row]
    assert len(columns) == len(result.cases) and all(float(row[-1]) < 70 for row in columns)


@pytest.mark.parametrize("flow", ["cadence", "cortex-m"])
@pytest.mark.parametrize("layer", ["stem", "hidden", "last"])
def test_explain_names_the_layer(layer: str, flow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of one layer are in the wrong order. The flows' passes drop the links from their
    fused operators to the module: results are those of the quantised graph's `quantize` nodes."""
    lower = flows._lower

    def lower_wrongly(exported: Any, *args: Any) -> Any:
        found = [
            node
            for node in exported.graph.nodes
            if str(node.target).startswith(("aten.conv", "aten.linear"))
        ]
        weight = found[["stem", "hidden", "last"].index(layer)].args[1].args[0]
        signature = exported.graph_signature
        names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        kept = exported.state_dict[names[weight.name]]
        exported.state_dict[names[weight.name]] = type(kept)(kept.roll(1, 0))
        try:
            return lower(exported, *args)
        finally:
            exported.state_dict[names[weight.name]] = kept

    monkeypatch.setattr(flows, "_lower", lower_wrongly)
    x = real(1, 3, 10, 10)
    if flow == "cortex-m":  # its quantizer leaves other convolutions in floats
        pytest.importorskip("tosa_serializer", reason="the flow imports the extra arm")
        x = x.to(memory_format=torch.channels_last)
    result = check_model(Net().eval(), (x,), flow=flow, n_random=1)
    assert not result.ok, str(result)
    first = result.explain().first
    assert first is not None and first.module == layer and "::quantized_" in first.name, str(first)
