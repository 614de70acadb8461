"""XnnpackBackend at run time: dynamic shapes, caller's memory, threads, options, errors."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torch

import executorch_c
from executorch_c import Method, Runtime
from tests.backends import xnnpack_payload, xnnpack_programs
from tests.backends.xnnpack_series import needs_xnnpack
from tests.backends.xnnpack_judge import assert_close
from tests.backends.xnnpack_kinds import attention
from tests.backends.xnnpack_payload import BACKEND
from tests.backends.xnnpack_zoo import TABLE

pytestmark = needs_xnnpack
MODES = (0, 1, 2, 3)


def load(pte: bytes, name: str = "forward", **options: Any) -> Method:
    chosen = {"backend_options": {BACKEND: options}} if options else {}
    return Runtime.get().load_program(pte).load_method(name, **chosen)


def test_it_is_registered() -> None:
    registry = Runtime.get().backend_registry
    assert BACKEND in registry.registered_backend_names
    assert registry.is_available(BACKEND)


# ---- shapes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_batches_grow_shrink_and_stay(mode: int) -> None:
    """Twice through 8, 3, 3, 7, 1, 8 images: results do not depend on earlier shapes."""
    lowered = xnnpack_programs.classifier()
    assert len(xnnpack_payload.payloads(lowered.pte)) == 2
    method = load(lowered.pte, workspace_sharing_mode=mode)
    for call in lowered.calls * 2:
        assert_close(method.execute(call.inputs), call.outputs)


def test_an_empty_batch() -> None:
    lowered = xnnpack_programs.classifier()
    method = load(lowered.pte)
    call = lowered.calls[0]
    for _ in range(2):
        (empty,) = method.execute([np.zeros((0, 3, 6, 6), np.float32)])
        assert (empty.shape, empty.dtype) == ((0, 4), np.float32)
        assert_close(method.execute(call.inputs), call.outputs)


def test_more_than_the_bound_is_refused() -> None:
    lowered = xnnpack_programs.classifier()
    method = load(lowered.pte)
    with pytest.raises(executorch_c.Error):
        method.execute([np.zeros((9, 3, 6, 6), np.float32)])
    assert_close(method.execute(lowered.calls[0].inputs), lowered.calls[0].outputs)


# ---- memory -----------------------------------------------------------------------------------


def in_channels_last(x: np.ndarray) -> np.ndarray:
    return x.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2)


@pytest.mark.parametrize("name", ["conv-float32", "channels_last-float32"])
def test_arrays_in_either_order(name: str) -> None:
    """Any memory order of the program and of the arrays, for inputs and outputs."""
    lowered = TABLE.load(name)
    method = load(lowered.pte)
    call = lowered.calls[0]
    (x,) = call.inputs
    for array in (np.ascontiguousarray(x), in_channels_last(x), np.repeat(x, 2, axis=3)[..., ::2]):
        assert_close(method.execute([array]), call.outputs)
    for out in (np.empty_like(call.outputs[0]), in_channels_last(call.outputs[0] * 0)):
        (output,) = method.execute(call.inputs, out=[out])
        assert output is out
        assert_close([out], call.outputs)


def test_outputs_go_into_the_caller_s_arrays() -> None:
    lowered = TABLE.load("two_outputs-float32")
    call = lowered.calls[0]
    outs = [np.full_like(x, np.nan) for x in call.outputs]
    outputs = load(lowered.pte).execute(call.inputs, out=outs)
    assert all(a is b for a, b in zip(outputs, outs, strict=True))
    assert_close(outs, call.outputs)


def test_outputs_stay_when_the_method_is_called_again() -> None:
    lowered = xnnpack_programs.classifier()
    method = load(lowered.pte)
    first = method.execute(lowered.calls[0].inputs)
    before = [x.copy() for x in first]
    method.execute([-x for x in lowered.calls[0].inputs])
    np.testing.assert_array_equal(first[0], before[0])


def test_one_array_as_both_inputs_and_as_the_output() -> None:
    lowered = TABLE.load("add-float32")
    method = load(lowered.pte)
    x = lowered.calls[0].inputs[0].copy()
    np.testing.assert_array_equal(method.execute([x, x])[0], x + x)
    wanted = x + x
    (output,) = method.execute([x, x], out=[x])
    assert output is x
    np.testing.assert_array_equal(x, wanted)


def test_output_aliasing_an_input_that_is_read_late() -> None:
    """A product reads its whole input for each element: in place, it needs a copy."""
    lowered = TABLE.load("permute_6-float32")
    method, call = load(lowered.pte), lowered.calls[0]
    x = call.inputs[0].copy()
    out = x.reshape(call.outputs[0].shape)
    assert np.shares_memory(x, out)
    method.execute([x], out=[out])
    assert_close([out], call.outputs)


# ---- options and sharing ----------------------------------------------------------------------


def figures(method: Method) -> dict[str, int]:
    [report] = method.backend_report()
    assert report["backend"] == BACKEND
    return report["figures"]


@pytest.mark.parametrize(
    ("scheme", "bits", "rtol"), [("float32", 32, 1e-4), ("8da8w", 8, 0.02), ("8da4w_32", 4, 0.02)]
)
def test_methods_share_packed_weights(scheme: str, bits: int, rtol: float) -> None:
    pte, calls = xnnpack_programs.two_methods(scheme)
    program = Runtime.get().load_program(pte)
    methods = {name: program.load_method(name) for name in calls}
    for _ in range(2):
        for name, (x, wanted) in calls.items():
            [output] = methods[name].execute([x])
            # Relative to the largest: a step of the activations' quantisation is 1/255 of it.
            assert np.abs(output - wanted).max() <= rtol * np.abs(wanted).max()
    first, second = (figures(methods[name]) for name in ("prefill", "decode"))
    weights = xnnpack_programs.WEIGHTS * bits // 8
    assert weights <= first["packed_bytes"] <= weights * 1.1 + 2**16  # scales
    assert (first["cache_hits"], first["cache_misses"], first["shared_packed_bytes"]) == (0, 2, 0)
    assert (second["cache_hits"], second["cache_misses"]) == (2, 0)
    assert second["packed_bytes"] == second["shared_packed_bytes"] == first["packed_bytes"]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("scheme", ["float32", "8da8w", "8da4w_32"])
def test_tied_weights_with_different_biases(scheme: str) -> None:
    pte, x, wanted = xnnpack_programs.tied(scheme)
    outputs = load(pte).execute([x])
    for output, expected in zip(outputs, wanted, strict=True):
        assert np.abs(output - expected).max() <= 0.02 * np.abs(expected).max()
    assert np.abs(wanted[0] - wanted[1]).max() > 0.05 * np.abs(wanted[0]).max()


def test_the_second_method_outlives_the_first() -> None:
    pte, calls = xnnpack_programs.two_methods()
    program = Runtime.get().load_program(pte)
    first, second = program.load_method("prefill"), program.load_method("decode")
    first.execute([calls["prefill"][0]])
    del first, program
    gc.collect()
    x, wanted = calls["decode"]
    assert_close(second.execute([x]), [wanted])


def test_without_a_cache_each_method_packs() -> None:
    pte, calls = xnnpack_programs.two_methods()
    program = Runtime.get().load_program(pte)
    off = {BACKEND: {"weight_cache_enabled": False}}
    for name, (x, wanted) in calls.items():
        method = program.load_method(name, backend_options=off)
        assert_close(method.execute([x]), [wanted])
        counts = figures(method)
        assert counts.get("cache_hits", 0) == counts.get("cache_misses", 0) == 0
        assert counts.get("shared_packed_bytes", 0) == 0


def test_options_of_the_process() -> None:
    registry = Runtime.get().backend_registry
    assert set(registry.option_keys(BACKEND)) >= {"workspace_sharing_mode", "weight_cache_enabled"}
    before = registry.get_option(BACKEND, "workspace_sharing_mode")
    assert before == 3
    try:
        for mode in MODES:
            registry.set_option(BACKEND, "workspace_sharing_mode", mode)
            assert registry.get_option(BACKEND, "workspace_sharing_mode") == mode
            lowered = TABLE.load("linear-float32")
            call = lowered.calls[0]
            assert_close(load(lowered.pte).execute(call.inputs), call.outputs)
    finally:
        registry.set_option(BACKEND, "workspace_sharing_mode", before)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"workspace_sharing_mode": 4}, r"workspace_sharing_mode.*0.*1.*2.* or 3 \(each method\)"),
        ({"workspace_sharing_mode": True}, "workspace_sharing_mode"),
        ({"weight_cache_enabled": 1}, "weight_cache_enabled"),
        ({"no_such_option": 1}, "no_such_option"),
        ({"packed_cache_path": "weights.bin"}, "packed_cache_path"),
    ],
)
def test_wrong_options(options: dict[str, Any], match: str) -> None:
    with pytest.raises(executorch_c.Error, match=match):
        load(TABLE.load("linear-float32").pte, **options)


# ---- traces -----------------------------------------------------------------------------------


def test_values_and_ranges_inside_of_delegates() -> None:
    """Values inside delegates equal the results of eager's modules. Nodes have names, also those
    that XNNPACK fuses, and report the ranges of their inputs, weights included."""
    lowered = xnnpack_programs.classifier()
    call, net = lowered.calls[0], xnnpack_programs.eager_classifier()
    method = load(lowered.pte)
    with method.tracing(values=True, ranges=True) as trace:
        assert_close(method.execute(call.inputs), call.outputs)
    nodes = [event for event in trace.events if event.kind == "node"]
    assert {event.delegate for event in nodes} == {0, 1} and all(node.name for node in nodes)
    first, second = (event for event in nodes if "Convolution" in event.name)
    assert first.debug_handle != second.debug_handle
    image, layer = torch.from_numpy(call.inputs[0]), net.convs[0]
    with torch.no_grad():
        x = torch.relu(layer(image))
        y = net.convs[2](x)
    for event, expected in ((first, x), (second, y)):
        [value] = event.outputs
        assert_close([value.data], [expected.permute(0, 2, 3, 1).numpy()])
    assert_close([nodes[-1].outputs[0].data], call.outputs)
    for value in (value for node in nodes for value in node.outputs):
        assert value.range.finite
        assert (value.range.low, value.range.high) == (value.data.min(), value.data.max())
    ends = [(t.min().item(), t.max().item()) for t in (image, layer.weight, layer.bias)]
    assert [(value.range.low, value.range.high) for value in first.inputs] == ends


# ---- constants --------------------------------------------------------------------------------


def test_constants_in_a_data_file(tmp_path: Path) -> None:
    pte, data, x, wanted = xnnpack_programs.with_data_file()
    (tmp_path / "weights.ptd").write_bytes(data)
    runtime = Runtime.get()
    for source in (data, tmp_path / "weights.ptd"):
        method = runtime.load_program(pte, data_path=source).load_method("forward")
        assert_close(method.execute([x]), [wanted])
    with pytest.raises(executorch_c.Error, match="named data .* missing in the program"):
        load(pte)


@pytest.mark.parametrize("sizes", [(1, 1, 4, 3), (5, 7, 8, 2)])
def test_attention_that_no_exporter_writes(sizes: tuple[int, int, int, int]) -> None:
    tokens, keys, channels, values = sizes
    graph = attention((2, tokens, channels), keys, values)
    inputs = [torch.randn(graph.dims(index)) for index in graph.inputs]
    q, k, v, scale, mask = inputs
    expected = ((q * scale) @ k.transpose(1, 2) + mask).softmax(-1) @ v
    assert_close(graph.run(*(x.numpy() for x in inputs)), [expected.numpy()])
