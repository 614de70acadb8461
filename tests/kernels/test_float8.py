"""The float8 dtypes: operators move and convert them as eager does, and others refuse them."""

import numpy as np
import pytest
import torch

from executorch_c import InvalidArgumentError, NotSupportedError, Runtime
from tests.dtypes import FLOAT8, np_dtype
from tests.kernels.eager import ALL, COMPLEX, array, to_numpy, to_torch
from tests.op_harness import Out, run
from tests.single_op import Out as Result
from tests.single_op import SingleOps

CODES = np.arange(256, dtype=np.uint8)


def same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Check equal bits, of NaN only that they are."""
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    kind = "c16" if expected.dtype.kind == "c" else "f8"
    with np.errstate(invalid="ignore"):
        nan = np.isnan(expected.astype(kind))
        assert np.array_equal(np.isnan(actual.astype(kind)), nan)
    assert actual[~nan].tobytes() == expected[~nan].tobytes()


@pytest.mark.parametrize("dtype", FLOAT8)
def test_every_code(dtype: str) -> None:
    codes = CODES.view(np_dtype(dtype))
    finite = codes[np.isfinite(codes.astype(np.float32))]
    for target in [*ALL, *FLOAT8]:
        a = codes if "float" in target or target in COMPLEX else finite
        a = np.abs(a.astype(np.float32)).astype(a.dtype) if target[0] == "u" else a
        if "8" in target and "int" in target:
            a = a[np.abs(a.astype(np.float32)) < 127]
        expected = to_numpy(to_torch(a).to(getattr(torch, target)))
        same(run("aten::_to_copy.out", [a, False, None, Out(a.shape, target)])[0], expected)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_rounding(dtype: str) -> None:
    """Each code's neighbours in float32, the middles between codes, and numbers out of range."""
    values = np.unique(CODES.view(np_dtype(dtype)).astype(np.float32))
    values = values[np.isfinite(values)]
    middles = (values[1:] + values[:-1]) / 2
    edges = np.float32([448, 464, 465, 480, 57344, 61440, 65536, 3e38, np.inf, np.nan, 1e-45, 0])
    points = np.concatenate([values, middles, edges, -edges])
    points = np.concatenate(
        [points, np.nextafter(points, 0), np.nextafter(points, np.float32(9e9))]
    )
    expected = to_numpy(torch.from_numpy(points).to(getattr(torch, dtype)))
    for source in ("float32", "float64", "complex64"):
        args = [points.astype(source), False, None, Out(points.shape, dtype)]
        same(run("aten::_to_copy.out", args)[0], expected)


MOVES = {
    "permute_copy.out": [[1, 0]],
    "t_copy.out": [],
    "transpose_copy.int_out": [0, 1],
    "slice_copy.Tensor_out": [1, 1, None, 2],
    "select_copy.int_out": [0, 1],
    "expand_copy.out": [[2, 3, 5], False],
    "unsqueeze_copy.out": [1],
    "squeeze_copy.dims_out": [[0]],
    "view_copy.out": [[5, 3]],
    "index_select.out": [1, np.array([3, 0])],
    "embedding.out": [np.array([[2, 0], [1, 1]]), -1, False, False],
    "narrow_copy.out": [0, 1, 2],
    "clone.out": [None],
    "alias_copy.out": [],
    "detach_copy.out": [],
}


@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str, rng: np.random.Generator) -> None:
    packet, overload = name.rsplit(".", 1)
    default = overload.replace("_out", "").replace("out", "") or "default"
    operator = getattr(getattr(torch.ops.aten, packet), default)
    for order in ((0, 1), (1, 0)):
        a = array(rng, (3, 5), "float8_e4m3fn", order)
        rest = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in MOVES[name]]
        keywords = {"memory_format": None} if packet == "clone" else {}
        positional = [] if packet == "clone" else rest[:1] if packet == "expand_copy" else rest
        expected = to_numpy(operator(to_torch(a), *positional, **keywords).contiguous())
        out = Out(expected.shape, "float8_e4m3fn")
        same(run(f"aten::{name}", [a, *MOVES[name], out])[0], expected)


@pytest.mark.parametrize("name", ["cat", "stack"])
def test_joins(name: str, rng: np.random.Generator) -> None:
    a, b = (array(rng, (3, 5), "float8_e5m2") for _ in "ab")
    expected = to_numpy(getattr(torch, name)([to_torch(a), to_torch(b)]))
    same(run(f"aten::{name}.out", [[a, b], 0, Out(expected.shape, "float8_e5m2")])[0], expected)


def test_scale_of_a_float8_result(rng: np.random.Generator) -> None:
    a, b = array(rng, (16, 32), "float8_e4m3fn"), array(rng, (32, 16), "float8_e4m3fn", (1, 0))
    scales = [np.float32([0.5]), np.float32([2])]
    e4m3 = torch.float8_e4m3fn
    options = {"scale_result": torch.tensor([4.0]), "out_dtype": e4m3}
    expected = torch._scaled_mm(to_torch(a), to_torch(b), *map(torch.from_numpy, scales), **options)
    args = [a, b, *scales, None, np.float32([4]), 24, False, Out((16, 16), "float8_e4m3fn")]
    actual = run("aten::_scaled_mm.out", args)[0]
    same(actual, to_numpy(expected))


def test_refused() -> None:
    a = np.ones((2, 3), np_dtype("float8_e4m3fn"))
    ops = SingleOps()
    ops.add("aten::add.out", a, a, 1, Result((2, 3), "float8_e4m3fn"))
    with pytest.raises(NotSupportedError, match=r"'self' has dtype float8_e4m3fn, which this op"):
        Runtime.get().load_program(ops.build()).load_method("op_0")


def test_inputs_and_outputs() -> None:
    """Arrays of ml_dtypes, torch tensors, bytes and numbers, and nothing of another dtype."""
    a = np.array([[1, -2, 0.5], [448, 0, 3]], np_dtype("float8_e4m3fn"))
    ops = SingleOps()
    ops.add("aten::permute_copy.out", a, [1, 0], Result((3, 2), "float8_e4m3fn"))
    method = Runtime.get().load_program(ops.build()).load_method("op_0")
    for value in (a, to_torch(a), a.tobytes(), a.astype(np.float32).tolist()):
        output = method(value)
        output = output[0] if isinstance(output, list | tuple) else output
        same(output, np.ascontiguousarray(a.T))
    for other in (a.view(np.uint8), a.astype(np_dtype("float8_e5m2")), a.astype(np.float32)):
        with pytest.raises(InvalidArgumentError, match="float8_e4m3fn"):
            method(other)
