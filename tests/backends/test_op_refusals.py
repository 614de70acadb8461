"""Wrong arguments of the operators of libraries: one exception that names the argument, each time.
test_vulkan_ops.py has those of Vulkan's."""

from typing import Any

import pytest
import torch

import executorch_c
from tests.backends.op_calls import FACTOR, INT8, SCALES, UINT8, bias, method_of, one, real, whole
from tests.single_op import Out

X, W, V = whole(1, 4, 6, 6), whole(2, 4, 3, 3), whole(2, 3, 3, 4)
STEPS = [1, 1], [0, 0], [1, 1], 1, 0, 0
TAIL = *SCALES, *FACTOR
NAN, INF = float("nan"), float("inf")
SHIFTS, SCRATCH = torch.tensor([40, 0], dtype=torch.int32), torch.zeros(1, dtype=torch.int8)
FLOATS = ("avg_pool2d", "rope", "quantized_embedding_byte", "quantized_w8a32_gru")
"""Operators of Cadence whose results are float32."""


REFUSED: dict[str, list[tuple[list[Any], str]]] = {
    "cadence::quantize_per_tensor.out": [
        ([real(3), NAN, 0, -128, 127, INT8], "'scale' is nan, expected a"),
        ([real(3), 0.0, 0, -128, 127, INT8], "'scale' is 0, expected a"),
        ([real(3), 0.1, 2**40, -128, 127, INT8], "'zero_point' is 10995116"),
        ([real(3), 0.1, 0, -129, 127, INT8], "'quant_min' is -129 and 'qua"),
        ([real(3), 0.1, 0, 0, 127, UINT8], "'dtype' is 0 and the quantized"),
        ([whole(3), 0.1, 0, -128, 127, INT8], "'input' has int8 .* float32"),
    ],
    "cadence::quantize_per_tensor_asym8u.out": [
        ([real(3), 0.1, 0, 0, 127, UINT8], "'out' has int8 .ScalarType 1., expected uint8"),
    ],
    "cadence::quantized_add.per_tensor_out": [
        (
            [whole(3), 0.1, 0, whole(4), 0.1, 0, 0.1, 0],
            "3 and 4 elements in dimension -1, which do not broadcast",
        ),
        ([whole(3), 0.1, 0, whole(3), INF, 0, 0.1, 0], "'Y_scale' is inf"),
    ],
    "cadence::quantized_add.out": [
        (
            [whole(3), torch.ones(2), one(0), whole(3), one(0.1), one(0), 0.1, 0],
            "'X_scale' has 2 elements, expected 1",
        ),
    ],
    "cadence::quantized_relu.per_tensor_out": [
        ([whole(3), 0, 0, 0, 0], "'out_multiplier' is 0 and 'out"),
        ([whole(3), 0, 0, 1, 99], "'out_shift' 99, expected a number"),
    ],
    "cadence::quantized_linear.per_tensor_out": [
        (
            [whole(3, 4), whole(2, 5), bias(2), 0, 0, 1, 0, 0, None],
            "the input has 4 features, 'weight' takes 5",
        ),
        (
            [whole(1, 2, 4, 4), whole(4, 4), bias(3), 0, 0, 1, 0, 0, None],
            "'bias' has 3 elements, expected 4",
        ),
    ],
    "cadence::quantized_fully_connected.per_tensor_out": [
        ([whole(3, 4), whole(2, 4), bias(2), 0, 0, 1, 0, 0, None], "'src' has 3 rows, expected 1"),
    ],
    "cadence::quantized_matmul.out": [
        ([whole(3, 4), 0, whole(5, 2), 0, None, 1, 0, 0, False], "'X' has 4 columns, 'Y' 5 rows"),
        (
            [whole(3, 4), 0, whole(4, 2), 0, bias(2), 1, 0, 0, False],
            "'bias' is .*, expected 0 or None",
        ),
    ],
    "cadence::quantized_conv2d_nchw.per_tensor_out": [
        ([X, W, bias(2), [0, 1], *STEPS[1:], *TAIL], "'stride' has the item 0, expected 1 to"),
        ([X, W, bias(2), [1] * 3, *STEPS[1:], *TAIL], "'stride' has 3 items, expected 2"),
        (
            [X, W, bias(2), *STEPS[:3], 3, 0, 0, *TAIL],
            "'groups' is 3 for 4 channels of 'input' and 2 of 'weight'",
        ),
        ([X, W, bias(2), *STEPS[:3], -1, 0, 0, *TAIL], "'groups' is -1"),
        ([X, W[:, :3], bias(2), *STEPS, *TAIL], "'input' has 4 channels, 'weight' takes 3"),
        (
            [X, W, bias(2), *STEPS[:2], [9, 1], *STEPS[3:], *TAIL],
            "a kernel of 3 does not fit an input of 6",
        ),
        ([X, W, bias(2), *STEPS, NAN, *TAIL[1:]], "'bias_scale' is nan"),
        ([X[:, :, :0], W, bias(2), *STEPS, *TAIL], "'input' has 0 pixels in a dimension"),
        ([X, W[0], bias(2), *STEPS, *TAIL], "'weight' has 3 dimensions, expected 4"),
    ],
    "cadence::quantized_depthwise_conv1d_ncl.per_tensor_out": [
        (
            [whole(1, 4, 9), whole(2, 4, 3), bias(2), [1], [0], [1], 1, 0, 0, *TAIL],
            "expected a depthwise convolution",
        ),
    ],
    "cadence::quantized_conv2d_nhwc_asym8uxsym8u_asym8u.per_tensor_out": [
        ([X, W, bias(2), *STEPS, *TAIL], "'input' has int8 .*, expected uint8"),
    ],
    "cadence::im2row.per_tensor_out": [
        (
            [X, [2, 2], [1, 1], [0, 0], [1, 1], 128, False],
            "'in_zero_point' is 128, beyond the dtype of 'input'",
        ),
    ],
    "cadence::im2row.out": [
        (
            [X, [2, 2], [1, 1], [0, 0], [1, 1], bias(3), False],
            "'in_zero_point' has 3 elements, expected 1 or one for each of 1 images",
        ),
    ],
    "cadence::quantized_max_pool2d_nchw.out": [
        (
            [X, [2, 2], [1, 1], [2, 0], [1, 1], False],
            "a padding of 2 is more than half of the window's 2",
        ),
    ],
    "cadence::avg_pool2d.out": [
        (
            [X, [2, 2], [1, 1], [0, 0], False, True, None, None, False],
            "'input' has int8 .*, expected float32",
        ),
        ([X, [2, 2], [1, 1], [0, 0], False, True, 0, one(3), False], "'divisor_override' is 0"),
    ],
    "cadence::quantized_layer_norm.per_tensor_out": [
        (
            [X, 0.1, 0, [5], real(5), real(5), 1e-5, 0.1, 0],
            "'normalized_shape' is not that of the last 1 dimensions",
        ),
    ],
    "cadence::quantized_softmax.per_tensor_out": [
        ([X, X, 7, 0, X, 0.1, 0, 0.1, 0], "'dim' is 7 for 4 dimensions"),
        ([X, X, 1, 1, X, 0.1, 0, 0.1, 0], "'mask_type' is 1, ex"),
    ],
    "cadence::rope.out": [
        (
            [real(1, 6, 3, 10), real(9, 5), real(9, 5), torch.tensor([0, 0, 0, 9, 0, 0])],
            "'pos' has row 9 at 3, beyond 9 rows",
        ),
        ([real(1, 6, 3, 10), real(5, 5), real(9, 5), None], "'sin_tensor' is 5 x 5, ex"),
    ],
    "cadence::quantized_embedding_byte.out": [
        (
            [whole(4, 8), real(4), None, torch.tensor([-5]), False],
            "'indices' has row -1 at 0, beyond 4 rows",
        ),
        (
            [whole(4, 8), real(4, 3), None, torch.tensor([1]), False],
            "'weight_scales' has 12 scales for a table of 4 x 8",
        ),
    ],
    "cadence::sdpa_bitwise_mask_gen.out": [
        ([real(3, 9), 0.0], "'mask' has 9 elements in its last dimension"),
    ],
    "cadence::quantized_w8a32_gru.out": [
        (
            [
                *(real(1, 9), real(1, 6), whole(18, 9), 0.1, whole(18, 6), 0.1, whole(18), 0.1),
                whole(18),
            ],
            "'hidden' has 6 elements, expected",
        ),
    ],
    "cadence::roi_align_box_processor.out": [
        ([real(2, 5), 0, 3, 2, True], "the output size 0 and 'sa"),
    ],
    "cortex_m::minimum.out": [
        ([whole(3), whole(4)], "3 and 4 elements in dimension -1, which do not broadc"),
        ([whole(3), torch.zeros(3)], "'other' has float32 .*, expected int8"),
    ],
    "cortex_m::quantized_activation.out": [
        ([whole(3), whole(255)], "'lut' has 255 elements, expected 256"),
    ],
    "cortex_m::transpose.out": [
        ([whole(3, 4), [0, 0]], "'perm' has the item 0, expected each dimension once"),
    ],
    "cortex_m::pad.out": [
        ([whole(3, 4), [0, 0, -1, 0], [0] * 4, 0], "'pre_pad' has -1 for dimension 0"),
    ],
    "cortex_m::softmax.out": [
        ([whole(3, 4), 1, 0, 0, 1, 1, 0], "'output_zero_point' is 0, expected -128"),
    ],
    "cortex_m::quantized_mul.out": [
        ([X, 2**40, X, 0, 0, 1, 1], "'self_zero_point' is 1099511627776"),
        ([X, 0, X, 0, 0, 1, 99], "multiplier 1 and shift 99, expected an"),
    ],
    "cortex_m::quantized_linear.out": [
        (
            [whole(3, 4), whole(2, 5), None, None, 0, 0, 0, [1], [1], 1, 0],
            "'input' has 4 features, 'weights' have 5",
        ),
        (
            [whole(3, 4), whole(2, 4), None, None, 0, 0, 0, [], [1], 1, 0],
            "'requantize_multipliers' has 0 and 'requantize_shifts' 1 items",
        ),
    ],
    "cortex_m::quantized_conv2d.out": [
        (
            [X, V, None, [1, 1], [0, 0], [1, 1], 0, 0, SHIFTS, SHIFTS, 0, 1, SCRATCH],
            "'requantize_shifts' has 40 for channel 0",
        ),
        (
            [X, V, None, [0, 1], [0, 0], [1, 1], 0, 0, SHIFTS, SHIFTS, 0, 1, SCRATCH],
            "'stride' has the item 0, expected 1 to",
        ),
        (
            [
                *(X, V[..., :3], None, [1, 1], [0, 0], [1, 1], 0, 0, SHIFTS % 2),
                *(SHIFTS % 2, 0, 1, SCRATCH),
            ],
            "4 channels, 'weight' takes 3",
        ),
        (
            [X, V, None, [1, 1], [0, 0], [9, 1], 0, 0, SHIFTS % 2, SHIFTS % 2, 0, 1, SCRATCH],
            "a kernel of 3 x 3 does not fit an input of 6 x 6",
        ),
    ],
    "cortex_m::quantized_max_pool2d.out": [
        (
            [X, [2, 2], [1, 1], [0, 0], [1, 1], False, 1, 2, 0, 9],
            "the zero points 1 of the input and 2 of the output differ",
        ),
        (
            [X, [2, 2], [1, 1], [2, 0], [1, 1], False, 1, 1, 0, 9],
            "a padding of 2 is more than half of the window's 2",
        ),
    ],
}


@pytest.mark.parametrize(
    ("name", "args", "sentence"), [(name, *row) for name, rows in REFUSED.items() for row in rows]
)
def test_bad_arguments(name: str, args: list[Any], sentence: str) -> None:
    is_float = name.removeprefix("cadence::").removesuffix(".out") in FLOATS
    out = Out((1, 2, 4, 4), "float32" if is_float else "int8")
    method, inputs = method_of(name, args, out)
    for _ in range(2):  # the method stays usable
        with pytest.raises(executorch_c.Error, match=sentence):
            method(*inputs)
