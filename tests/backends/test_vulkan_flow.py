"""Programs that VulkanPartitioner lowers at test time, of each scheme, compared with eager."""

from typing import Any

import numpy as np
import pytest
import torch

from executorch_c import Error, Runtime
from tests.models import vulkan_zoo as zoo


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


@pytest.mark.sweep(8)
@pytest.mark.parametrize("row", zoo.ROWS, ids=lambda row: row.id)
def test_row(row: zoo.Row) -> None:
    loaded = zoo.load(row)
    program = Runtime.get().load_program(loaded.pte)
    assert {d["id"] for d in program.info()["methods"][0]["delegates"]} == {"VulkanBackend"}
    for op in row.ops:
        assert op.encode() in loaded.pte, op
    method = program.load_method("forward")
    for inputs, outputs in loaded.calls:
        found = method.execute(inputs)
        assert len(found) == len(outputs)
        if row.scheme == "8da8w":
            outputs = [with_int8_weights(row, inputs[0])]
        for actual, expected in zip(found, outputs, strict=True):
            close(row, actual, expected)


def test_lost_state_is_one_sentence() -> None:
    pte = zoo.kept.data(
        f"vulkan-lost-{zoo.kept.digest(zoo.__file__, packages=('executorch',))}",
        lambda: zoo.lower(zoo.Counter(), (torch.ones(2, 3),), {}),
    )
    method = Runtime.get().load_program(pte).load_method("forward")
    with pytest.raises(Error, match=r"1 inputs and 2 outputs.*alias_buffer_mutations"):
        method.execute([np.ones((2, 3), np.float32)])


def test_reset_restores_state() -> None:
    row = next(row for row in zoo.ROWS if row.name == "state")
    loaded = zoo.load(row)
    method = Runtime.get().load_program(loaded.pte).load_method("forward")
    (x,), _ = loaded.calls[0]
    first = method.execute([x])[0]
    second = method.execute([x])[0]
    np.testing.assert_allclose(second - first, 2 * x, rtol=1e-5, atol=1e-5)
    method.reset()
    np.testing.assert_array_equal(method.execute([x])[0], first)
    fresh = Runtime.get().load_program(loaded.pte).load_method("forward")
    np.testing.assert_array_equal(fresh.execute([x])[0], first)


def test_check_model() -> None:
    from executorch_c.testing import check_model

    torch.manual_seed(0)
    result = check_model(zoo._linear().eval(), (torch.randn(4, 64),), flow="vulkan")
    assert result.verdict == "match", str(result)
    assert any("interpreted on the CPU" in note for note in result.notes)


def test_check_model_finds_a_fault() -> None:
    from executorch_c.testing import check_model

    row = next(row for row in zoo.FLOAT_ROWS if row.name == "mlp")
    loaded = zoo.load(row)
    torch.manual_seed(0)
    model: Any = row.make().eval()
    assert check_model(model, (torch.randn(4, 64),), program=loaded.pte).verdict == "match"
    with torch.no_grad():
        model[2].weight[3, 5] += 0.5
    result = check_model(model, (torch.randn(4, 64),), program=loaded.pte)
    assert result.verdict == "differ"
