"""Wrong arguments of operators of libraries: one exception that names the argument, each time."""

from typing import Any

import pytest
import torch

import executorch_c
from tests.backends.op_calls import FACTOR, INT8, SCALES, UINT8, bias, method_of, one, out_name
from tests.backends.op_calls import real, whole
from tests.single_op import Out

X, W, V = whole(1, 4, 6, 6), whole(2, 4, 3, 3), whole(2, 3, 3, 4)
STEPS = [1, 1], [0, 0], [1, 1], 1, 0, 0
TAIL = *SCALES, *FACTOR
LINE, PRODUCT = ([1], [0], [1], 1, 0, 0), (0, 0, 1, 0, 0, None)
GRU = whole(18, 9), 0.1, whole(18, 6), 0.1, whole(18), 0.1, whole(18)
NAN, INF = float("nan"), float("inf")
SHIFTS, SCRATCH = torch.tensor([40, 0], dtype=torch.int32), torch.zeros(1, dtype=torch.int8)
FLOATS = (
    *("avg_pool2d", "rope", "quantized_embedding_byte", "quantized_w8a32_gru", "rms_norm"),
    *("_weight_int8pack_mm", "linear_q4gsw"),
)
"""Operators whose results are float32."""
OUTS = {
    "linalg_svd": [Out((2, 2)), Out((2,)), Out((2, 2))],
    "choose_qparams_affine": [Out((2,)), Out((2,), "int32")],
    "embedding_q4gsw": [Out((1, 4))],
}
"""Results of other shapes."""

CADENCE: dict[str, list[Any]] = {
    "quantize_per_tensor": [real(3), 0.1, 0, -128, 127, INT8],
    "quantize_per_tensor_asym8u": [real(3), 0.1, 0, 0, 127, UINT8],
    "quantized_add.per_tensor": [whole(3), 0.1, 0, whole(3), 0.1, 0, 0.1, 0],
    "quantized_add": [whole(3), one(0.1), one(0), whole(3), one(0.1), one(0), 0.1, 0],
    "quantized_relu.per_tensor": [whole(3), 0, 0, 1, 0],
    "quantized_linear.per_tensor": [whole(1, 2, 4, 4), whole(4, 4), bias(4), *PRODUCT],
    "quantized_fully_connected.per_tensor": [whole(3, 4), whole(2, 4), bias(2), *PRODUCT],
    "quantized_matmul": [whole(3, 4), 0, whole(4, 2), 0, None, 1, 0, 0, False],
    "quantized_conv2d_nchw.per_tensor": [X, W, bias(2), *STEPS, *TAIL],
    "quantized_depthwise_conv1d_ncl.per_tensor": [X[..., 0], whole(2, 4, 3), bias(2), *LINE, *TAIL],
    "quantized_conv2d_nhwc_asym8uxsym8u_asym8u.per_tensor": [X, W, bias(2), *STEPS, *TAIL],
    "im2row.per_tensor": [X, [2, 2], [1, 1], [0, 0], [1, 1], 128, False],
    "im2row": [X, [2, 2], [1, 1], [0, 0], [1, 1], bias(3), False],
    "quantized_max_pool2d_nchw": [X, [2, 2], [1, 1], [2, 0], [1, 1], False],
    "avg_pool2d": [X, [2, 2], [1, 1], [0, 0], False, True, None, None, False],
    "quantized_layer_norm.per_tensor": [X, 0.1, 0, [5], real(5), real(5), *(1e-5, 0.1, 0)],
    "quantized_softmax.per_tensor": [X, X, 1, 0, X, 0.1, 0, 0.1, 0],
    "rope": [real(1, 6, 3, 10), real(9, 5), real(9, 5), None],
    "quantized_embedding_byte": [whole(4, 8), real(4), None, torch.tensor([1]), False],
    "sdpa_bitwise_mask_gen": [real(3, 9), 0.0],
    "quantized_w8a32_gru": [real(1, 9), real(1, 6), *GRU],
    "roi_align_box_processor": [real(2, 5), 0, 3, 2, True],
    "linalg_svd": [torch.ones(2, 2), False, True, None],
}
CORTEX_M: dict[str, list[Any]] = {
    "minimum": [whole(3), whole(3)],
    "quantized_activation": [whole(3), whole(255)],
    "transpose": [whole(3, 4), [0, 0]],
    "pad": [whole(3, 4), [0, 0, -1, 0], [0] * 4, 0],
    "softmax": [whole(3, 4), 1, 0, 0, 1, 1, 0],
    "quantized_mul": [X, 0, X, 0, 0, 1, 1],
    "quantized_linear": [whole(3, 4), whole(2, 4), *(None, None, 0, 0, 0, [1], [1], 1, 0)],
    "quantized_conv2d": [X, V, None, *STEPS[:3], 0, 0, SHIFTS % 2, SHIFTS % 2, 0, 1, SCRATCH],
    "quantized_max_pool2d": [X, [2, 2], [1, 1], [0, 0], [1, 1], False, 1, 1, 0, 9],
}
BYTES, NORMAL = torch.zeros(5, 2, dtype=UINT8), real(2, 4)
ET_VK: dict[str, list[Any]] = {
    "rms_norm": [NORMAL, real(4), 1e-5],
    "linear_q4gsw": [NORMAL, BYTES, real(1, 5), 2, None],
    "embedding_q4gsw": [BYTES[:4], real(4, 1), 4, torch.tensor([4]), False],
    "q8ta_pixel_shuffle": [whole(1, 3, 2, 2), 1.0, 0, 1.0, 0, 2],
    "q8ta_conv2d": [
        *(whole(1, 2, 4, 4), 1.0, 0, whole(3, 2), bias(3), real(3), 1.0, 0, None),
        *([1, 1], [0, 1], [0, 0], [1, 1], 1, "none"),
    ],
    "quantize_affine": [real(2, 5), [1, 2], real(5), None, -8, 7],
    "choose_qparams_affine": [NORMAL, "X", [1, 4], -8, 7, 0.1],
}
ATEN = {"_weight_int8pack_mm": [NORMAL, whole(5, 4), real(5)]}
LIBRARIES = {"cadence": CADENCE, "cortex_m": CORTEX_M, "et_vk": ET_VK, "aten": ATEN}
"""Arguments of operators, by their names, which are right but for some that always fail."""

REFUSED: dict[str, list[tuple[dict[int, Any], str]]] = {
    "quantize_per_tensor": [
        ({1: NAN}, "'scale' is nan, expected a"),
        ({1: 0.0}, "'scale' is 0, expected a"),
        ({2: 2**40}, "'zero_point' is 10995116"),
        ({3: -129}, "'quant_min' is -129 and 'qua"),
        ({3: 0, 5: UINT8}, "'dtype' is 0 and the quantized"),
        ({0: whole(3)}, "'input' has int8 .* float32"),
    ],
    "quantize_per_tensor_asym8u": [({}, "'out' has int8 .ScalarType 1., expected uint8")],
    "quantized_add.per_tensor": [
        ({3: whole(4)}, "3 and 4 elements in dimension -1, which do not broadcast"),
        ({4: INF}, "'Y_scale' is inf"),
    ],
    "quantized_add": [({1: torch.ones(2)}, "'X_scale' has 2 elements, expected 1")],
    "quantized_relu.per_tensor": [
        ({3: 0}, "'out_multiplier' is 0 and 'out"),
        ({4: 99}, "'out_shift' 99, expected a number"),
    ],
    "quantized_linear.per_tensor": [
        ({1: whole(4, 5)}, "the input has 4 features, 'weight' takes 5"),
        ({2: bias(3)}, "'bias' has 3 elements, expected 4"),
    ],
    "quantized_fully_connected.per_tensor": [({}, "'src' has 3 rows, expected 1")],
    "quantized_matmul": [
        ({2: whole(5, 2)}, "'X' has 4 columns, 'Y' 5 rows"),
        ({4: bias(2)}, "'bias' is .*, expected 0 or None"),
    ],
    "quantized_conv2d_nchw.per_tensor": [
        ({3: [0, 1]}, "'stride' has the item 0, expected 1 to"),
        ({3: [1] * 3}, "'stride' has 3 items, expected 2"),
        ({6: 3}, "'groups' is 3 for 4 channels of 'input' and 2 of 'weight'"),
        ({6: -1}, "'groups' is -1"),
        ({1: W[:, :3]}, "'input' has 4 channels, 'weight' takes 3"),
        ({5: [9, 1]}, "a kernel of 3 does not fit an input of 6"),
        ({9: NAN}, "'bias_scale' is nan"),
        ({0: X[:, :, :0]}, "'input' has 0 pixels in a dimension"),
        ({1: W[0]}, "'weight' has 3 dimensions, expected 4"),
    ],
    "quantized_depthwise_conv1d_ncl.per_tensor": [({}, "expected a depthwise convolution")],
    "quantized_conv2d_nhwc_asym8uxsym8u_asym8u.per_tensor": [
        ({}, "'input' has int8 .*, expected uint8")
    ],
    "im2row.per_tensor": [({}, "'in_zero_point' is 128, beyond the dtype of 'input'")],
    "im2row": [({}, "'in_zero_point' has 3 elements, expected 1 or one for each of 1 images")],
    "quantized_max_pool2d_nchw": [({}, "a padding of 2 is more than half of the window's 2")],
    "avg_pool2d": [
        ({}, "'input' has int8 .*, expected float32"),
        ({6: 0, 7: one(3)}, "'divisor_override' is 0"),
    ],
    "quantized_layer_norm.per_tensor": [
        ({}, "'normalized_shape' is not that of the last 1 dimensions")
    ],
    "quantized_softmax.per_tensor": [
        ({2: 7}, "'dim' is 7 for 4 dimensions"),
        ({3: 1}, "'mask_type' is 1, ex"),
    ],
    "rope": [
        ({3: torch.tensor([0, 0, 0, 9, 0, 0])}, "'pos' has row 9 at 3, beyond 9 rows"),
        ({1: real(5, 5)}, "'sin_tensor' is 5 x 5, ex"),
    ],
    "quantized_embedding_byte": [
        ({3: torch.tensor([-5])}, "'indices' has row -1 at 0, beyond 4 rows"),
        ({1: real(4, 3)}, "'weight_scales' has 12 scales for a table of 4 x 8"),
    ],
    "sdpa_bitwise_mask_gen": [({}, "'mask' has 9 elements in its last dimension")],
    "quantized_w8a32_gru": [({}, "'hidden' has 6 elements, expected")],
    "roi_align_box_processor": [({}, "the output size 0 and 'sa")],
    "linalg_svd": [
        ({0: torch.tensor([[1, NAN]] * 2)}, "elements that are not finite"),
        ({2: False}, "'compute_uv' is False"),
        ({3: "gesvd"}, "'driver' is given"),
        ({0: torch.ones(2)}, "'A' has 1 dimensions"),
        ({0: torch.ones(2, 2, dtype=torch.int32)}, "expected float32"),
    ],
    "minimum": [
        ({1: whole(4)}, "3 and 4 elements in dimension -1, which do not broadc"),
        ({1: torch.zeros(3)}, "'other' has float32 .*, expected int8"),
    ],
    "quantized_activation": [({}, "'lut' has 255 elements, expected 256")],
    "transpose": [({}, "'perm' has the item 0, expected each dimension once")],
    "pad": [({}, "'pre_pad' has -1 for dimension 0")],
    "softmax": [({}, "'output_zero_point' is 0, expected -128")],
    "quantized_mul": [
        ({1: 2**40}, "'self_zero_point' is 1099511627776"),
        ({6: 99}, "multiplier 1 and shift 99, expected an"),
    ],
    "quantized_linear": [
        ({1: whole(2, 5)}, "'input' has 4 features, 'weights' have 5"),
        ({7: []}, "'requantize_multipliers' has 0 and 'requantize_shifts' 1 items"),
    ],
    "quantized_conv2d": [
        ({8: SHIFTS, 9: SHIFTS}, "'requantize_shifts' has 40 for channel 0"),
        ({3: [0, 1]}, "'stride' has the item 0, expected 1 to"),
        ({1: V[..., :3]}, "4 channels, 'weight' takes 3"),
        ({5: [9, 1]}, "a kernel of 3 x 3 does not fit an input of 6 x 6"),
    ],
    "quantized_max_pool2d": [
        ({7: 2}, "the zero points 1 of the input and 2 of the output differ"),
        ({3: [2, 0]}, "a padding of 2 is more than half of the window's 2"),
    ],
    "rms_norm": [
        ({0: whole(2, 4)}, "argument 0 has dtype 1, expected 6"),
        ({1: real(3)}, "'weight' has 3 elements, expected at least 4"),
    ],
    "_weight_int8pack_mm": [
        ({2: real(4)}, "'weight_scales' has 4 elements, expected at least 5"),
        ({1: whole(5, 3)}, "rows of 4 elements, the weight has rows of 3"),
    ],
    "linear_q4gsw": [
        ({3: 0}, "group_size 0, expected a divisor of the 4 elements of a row"),
        ({}, "scales for groups of 2 do not fit 5 channels of 4 weights"),
    ],
    "embedding_q4gsw": [({}, "index 4 of 4 rows")],
    "q8ta_pixel_shuffle": [({}, "3 channels do not divide by the square of the factor 2")],
    "q8ta_conv2d": [({}, "'stride' has the item 0, expected 1 to 2147483647")],
    "quantize_affine": [({}, "a size of 5 does not divide into blocks of 2")],
    "choose_qparams_affine": [({}, "mapping_type 'X', expected ASYMMETRIC or SYMMETRIC")],
}
"""Other arguments of the calls, by their positions, and a sentence of the exception."""


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [(name, *row) for name, rows in REFUSED.items() for row in rows],
)
def test_bad_arguments(name: str, changes: dict[int, Any], sentence: str) -> None:
    (library,) = (library for library, calls in LIBRARIES.items() if name in calls)
    args = [changes.get(i, value) for i, value in enumerate(LIBRARIES[library][name])]
    outs = OUTS.get(name, [Out((1, 2, 4, 4), "float32" if name in FLOATS else "int8")])
    method, inputs = method_of(f"{library}::{out_name(name)}", args, *outs)
    for _ in range(2):  # the method stays usable
        with pytest.raises(executorch_c.Error, match=sentence):
            method(*inputs)
