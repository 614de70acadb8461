"""VulkanBackend: programs of each scheme equal eager; state, shapes, traces, descriptions."""

import sys
from pathlib import Path

import numpy as np
import pytest

import executorch_c
from executorch_c import Error
from tests import process
from tests.backends.recorded import Recorded

RECORDED = Recorded(Path(__file__).parent / "vulkan_programs")
PROGRAMS, NAMES = RECORDED.folder, RECORDED.names()
method, recorded = RECORDED.method, RECORDED.arrays


@pytest.mark.parametrize("name", NAMES)
def test_recorded_programs_equal_eager(name: str) -> None:
    inputs, outputs = recorded(name)
    found = method(name).execute(inputs)
    assert len(found) == len(outputs)
    # FoldQDQPass removes the quantisation of activations that the delegate keeps in float32: the
    # lowered mlp_8da8w is more accurate than the converted module.
    limit = {"mlp_8da8w": 1e-3}.get(name, 3e-3 if "fp16" in name else 1e-5)
    for actual, expected in zip(found, outputs, strict=True):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=limit, atol=limit)


def test_all_recorded_programs_are_there() -> None:
    assert len(NAMES) == 12


def test_an_unread_result_does_not_hinder_delegates() -> None:
    """The payload has the indices of max pooling as int32, the operator as int64."""
    report = method("cnn", delegate_at_load="always").backend_report()
    inside = [
        row["nested_delegated_at_load"] for row in report if row["backend"] == "VulkanBackend"
    ]
    assert [sum(delegates.values()) for delegates in inside] == [5, 1]  # all calls


def test_results_do_not_depend_on_threads() -> None:
    inputs, _ = recorded("cnn_xq8")
    one, two = (method("cnn_xq8", num_threads=n).execute(inputs)[0] for n in (1, 2))
    assert np.array_equal(one, two)


def test_a_trace_has_the_names_of_the_payload() -> None:
    inputs, _ = recorded("mlp")
    m = method("mlp")
    with m.tracing(values=True) as trace:
        m.execute(inputs)
    nodes = [event for event in trace.events if event.kind == "node"]
    assert [event.name for event in nodes] == [
        "aten.linear.default",
        "aten.relu.default",
        "aten.linear.default",
        "aten._softmax.default",
    ]
    assert len({event.debug_handle for event in nodes}) == 4
    last = nodes[-1].outputs[0].data
    np.testing.assert_array_equal(last, m.execute(inputs)[0])


def test_description_and_info(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "executorch_c"]
    info = process.run(*command, "info", PROGRAMS / "mlp.pte", cwd=tmp_path).stdout
    assert "VulkanBackend" in info and "interpreted on the CPU" in info
    dump = process.run(*command, "dump", PROGRAMS / "mlp.pte", cwd=tmp_path).stdout
    assert "aten._softmax.default" in dump and "named data" in dump


def test_unknown_options_are_refused() -> None:
    with pytest.raises(Error, match="unknown option 'fast'"):
        method("mlp", backend_options={"VulkanBackend": {"fast": True}})


def test_the_plug_in_lists_its_operators() -> None:
    names = {op["name"] for op in executorch_c.operators()}
    assert {"et_vk::q8ta_conv2d.out", "et_vk::linear_q4gsw.out"} <= names
