"""Programs that VulkanPartitioner lowers at test time, of each scheme, compared with eager;
delegation of recorded ones, which test_recorded.py compares."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import executorch_c
from executorch_c import Error, Runtime
from tests.backends.recorded import Recorded
from tests.models import vulkan_zoo as zoo
from tests.models.blocks import Accumulator


RECORDED = Recorded(Path(__file__).with_name("vulkan_programs"))


def close(row: zoo.Row, actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    if row.steps:
        # A sum at the boundary between two steps may be rounded to either: eager adds float32 in
        # another order. All other results are equal.
        values = np.unique(expected)
        step = np.diff(values).min() if values.size > 1 else 1.0
        off = np.abs(actual - expected)
        assert off.max(initial=0) <= 1.01 * step
        assert np.count_nonzero(off > step / 2) <= row.steps
        return
    scale = np.abs(expected).max(initial=1)
    np.testing.assert_allclose(actual, expected, rtol=row.rtol, atol=row.rtol * scale)


def with_int8_weights(row: zoo.Row, x: np.ndarray) -> np.ndarray:
    """Return the outputs of a row's module with weights rounded to int8 by channel.

    FoldQDQPass removes the quantisation of activations that the delegate keeps in float32, so that
    a program of the scheme 8da8w computes this, and not what the converted module computes.
    """
    torch.manual_seed(0)
    module: Any = row.make()
    with torch.no_grad():
        for layer in (module[0], module[2]):
            scale = layer.weight.abs().amax(1, True) / 127.5
            steps = (layer.weight * (1 / scale)).round().clamp(-128, 127)
            layer.weight.copy_(steps * scale)
        return module(torch.from_numpy(x)).numpy()  # type: ignore[no-any-return]


@pytest.mark.sweep(15)
@pytest.mark.parametrize("row", zoo.ROWS, ids=lambda row: row.id)
def test_row(row: zoo.Row) -> None:
    loaded = zoo.load(row)
    program = Runtime.get().load_program(loaded.pte)
    assert {d["id"] for d in program.info()["methods"][0]["delegates"]} == {"VulkanBackend"}
    for op in row.ops:
        assert op.encode() in loaded.pte, op
    method = program.load_method("forward")
    for inputs, outputs in loaded.calls:
        results = method.execute(inputs)
        assert len(results) == len(outputs)
        if row.scheme == "8da8w":
            outputs = [with_int8_weights(row, inputs[0])]
        for actual, expected in zip(results, outputs, strict=True):
            close(row, actual, expected)


def test_lost_state_is_one_sentence() -> None:
    pte = zoo.kept.data(
        f"vulkan-lost-{zoo.kept.digest(zoo.__file__, packages=('executorch',))}",
        lambda: zoo.lower(Accumulator(2, 3), (torch.ones(2, 3),), {}),
    )
    method = Runtime.get().load_program(pte).load_method("forward")
    with pytest.raises(Error, match=r"1 inputs and 2 outputs.*alias_buffer_mutations"):
        method.execute([np.ones((2, 3), np.float32)])


# ---- recorded programs ------------------------------------------------------------------------


def test_an_unread_result_does_not_hinder_delegates() -> None:
    """The payload has the indices of max pooling as int32, the operator as int64."""
    report = RECORDED.method("cnn", delegate_at_load="always").backend_report()
    inside = [
        row["nested_delegated_at_load"] for row in report if row["backend"] == "VulkanBackend"
    ]
    assert [sum(delegates.values()) for delegates in inside] == [5, 1]  # all calls


def test_results_do_not_depend_on_threads() -> None:
    inputs, _ = RECORDED.arrays("cnn_xq8")
    one, two = (RECORDED.method("cnn_xq8", num_threads=n).execute(inputs)[0] for n in (1, 2))
    assert np.array_equal(one, two)


def test_the_plug_in_lists_its_operators() -> None:
    names = {op["name"] for op in executorch_c.operators()}
    assert {"et_vk::q8ta_conv2d.out", "et_vk::linear_q4gsw.out"} <= names


def payload_of(pte: bytes) -> int:
    return pte.index(b"VH00") - 4


@pytest.mark.parametrize(
    ("at", "number", "match"),
    [
        (10, 5, "states a graph"),
        (14, 1 << 30, "states a graph"),
        (18, 33, "bytes of constants at offset"),
    ],
)
def test_wrong_numbers_of_the_header_are_named(at: int, number: int, match: str) -> None:
    pte = bytearray((RECORDED.folder / "mlp.pte").read_bytes())
    struct.pack_into("<I", pte, payload_of(pte) + at, number)
    with pytest.raises(Error, match=match):
        RECORDED.method(bytes(pte))


def test_missing_named_data() -> None:
    pte = bytearray((RECORDED.folder / "mlp.pte").read_bytes())
    start = payload_of(pte)
    at = next(
        i
        for i in range(start, len(pte))
        if bytes(pte[i : i + 64]).isalnum() and pte[i - 4 : i] == (64).to_bytes(4, "little")
    )
    pte[at] = ord("x")
    with pytest.raises(Error, match="is neither in the program nor in a data file"):
        RECORDED.method(bytes(pte))
