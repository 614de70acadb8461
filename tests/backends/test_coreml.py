"""CoreMLBackend: recorded programs equal eager; a planted fault is seen; damage is an exception."""

import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import Error, Runtime
from tests import process
from tests.backends.recorded import Recorded

RECORDED = Recorded(Path(__file__).parent / "coreml_programs")
PROGRAMS, NAMES = RECORDED.folder, RECORDED.names()
method, recorded, error = RECORDED.method, RECORDED.arrays, RECORDED.error
LIMITS = {
    "fp32": 1e-5,
    "dyn": 1e-5,
    "fp16": 3e-3,
    "int8": 1e-7,
    "lut4": 1e-5,
    "int4": 1e-5,
    "sparse": 1e-5,
    "bits": 1e-5,
}
"""int8: every integer is equal, for one step of the last quantisation, 0.004, moves the result by
more than 1e-4; the softmax after it is float32."""


def payload(data: bytes) -> tuple[int, int]:
    """Return where the payload begins and ends: at metadata.json, and at the reversed index."""
    begin = data.index(b'{"inputNames"')
    end = data.rindex(b'"sedon"{') + len(b'"sedon"{')
    return begin, end


def test_all_recorded_programs_are_there() -> None:
    assert (
        NAMES
        == (
            "cache_fp32 cnn_fp16 cnn_fp32 mlp_bits mlp_dyn mlp_fp16 mlp_fp32 mlp_int4 "
            "mlp_int8 mlp_lut4 mlp_sparse"
        ).split()
    )


@pytest.mark.parametrize("name", NAMES)
def test_recorded_programs_equal_eager(name: str) -> None:
    assert error(name, name) <= LIMITS[name.split("_")[1]]


def test_reset_restores_state() -> None:
    inputs, expected = recorded("cache_fp32")
    m = method("cache_fp32")
    others = [inputs[0] * 3, (inputs[1] + 1) % 3]
    np.testing.assert_array_equal(m.execute(inputs), expected)
    m.execute(others)
    assert not np.array_equal(m.execute(inputs), expected)
    m.reset()
    np.testing.assert_array_equal(m.execute(inputs), expected)


def test_a_dynamic_shape_has_other_sizes() -> None:
    (x,), (expected,) = recorded("mlp_dyn")
    m = method("mlp_dyn")
    np.testing.assert_allclose(m.execute([x[:2]])[0], expected[:2], atol=1e-5)
    with pytest.raises(Error):
        m.execute([np.zeros((17, 32), np.float32)])


def test_a_trace_has_the_names_and_handles_of_the_payload() -> None:
    inputs, _ = recorded("mlp_fp32")
    m = method("mlp_fp32")
    with m.tracing(values=True) as trace:
        result = m.execute(inputs)[0]
    nodes = [event for event in trace.events if event.kind == "node"]
    assert [event.name for event in nodes] == ["linear", "relu", "linear", "softmax"]
    assert [event.debug_handle for event in nodes] == [1, 2, 3, 4]
    np.testing.assert_array_equal(nodes[-1].outputs[0].data, result)


@pytest.mark.parametrize("name", NAMES)
def test_the_described_nodes_are_those_of_a_trace(name: str) -> None:
    """Reports depend on it: they match both by their order."""
    inputs, _ = recorded(name)
    program = executorch_c.load(PROGRAMS / f"{name}.pte")
    inside: Any = program._delegate("forward", 0)
    m = program.load_method("forward")
    with m.tracing() as trace:
        m.execute(inputs)
    nodes = [(e.name, e.debug_handle) for e in trace.events if e.kind == "node"]
    assert [(n["name"], n["debug_handle"]) for n in inside["nodes"]] == nodes
    known = {v["id"] for v in inside["values"]}
    assert all(known.issuperset(n["inputs"] + n["outputs"]) for n in inside["nodes"])
    positions = sorted(v["argument"] for v in inside["values"] if v["argument"] is not None)
    assert positions == list(range(len(inputs) + 1))


def test_a_description_has_shapes_names_and_parameters() -> None:
    inside: Any = executorch_c.load(PROGRAMS / "mlp_fp32.pte")._delegate("forward", 0)
    weights = [v["shape"] for v in inside["values"] if v["constant"] and len(v["shape"]) == 2]
    assert len(weights) == 2
    assert inside["values"][0]["note"] == "x" and inside["values"][0]["dtype"] == "fp32"
    assert inside["nodes"][-1]["note"] == "axis=-1"


@pytest.mark.parametrize("name", ["mlp_fp32", "mlp_int8"])
def test_a_wrong_weight_changes_the_result(name: str) -> None:
    data = bytearray((PROGRAMS / f"{name}.pte").read_bytes())
    record = data.index(struct.pack("<I", 0xDEADBEEF))
    at = record + 64
    size = struct.unpack_from("<Q", data, record + 8)[0]
    data[at : at + size] = bytes(size)
    assert error(bytes(data), name) > 1e-4


def test_a_wrong_scale_changes_the_result() -> None:
    data = (PROGRAMS / "mlp_int8.pte").read_bytes()
    scale = struct.pack("<f", np.float32(0.00689816382))
    assert data.count(scale) >= 2
    wrong = data.replace(scale, struct.pack("<f", 0.0089), 1)
    assert error(wrong, "mlp_int8") > 1e-5


def test_info_says_where_it_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "executorch_c", "info", str(PROGRAMS / "mlp_fp32.pte")]
    info = process.run(*command, cwd=tmp_path).stdout
    assert "CoreMLBackend" in info and "interpreted on the CPU" in info


def test_unknown_options_are_refused() -> None:
    program = Runtime.get().load_program(PROGRAMS / "mlp_fp32.pte")
    with pytest.raises(Error, match="unknown option 'fast'"):
        program.load_method("forward", backend_options={"CoreMLBackend": {"fast": True}})


def replaced(old: bytes, new: bytes) -> bytes:
    data = (PROGRAMS / "mlp_fp32.pte").read_bytes()
    assert old in data and len(old) == len(new)
    return data.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        (b'"sedon"{', b'"sedoN"{', "index has no list 'nodes'"),
        (b'"sedon"{', b'"sedon"[', "is not ',' or a closing bracket"),
        (b'"ledomlm.ledom"', b'"ledomlm.lebom"', "no model.mlmodel"),
        (b'"nosj.atadatem"', b'"nosj.atadatex"', "no metadata.json"),
        (b'"ezis"', b'"eziz"', "region with offset and size"),
        (b'"inputNames"', b'"inputNamez"', "no list 'inputNames'"),
        (b'["x"]', b'["y"]', "'y' of inputNames is not a value"),
        (b"\xef\xbe\xad\xde", b"\xef\xbe\xad\xdf", "magic 0xdfadbeef"),
        (b"\x0a\x04relu", b"\x0a\x04rely", "aten_relu_default .rely.: the operator is not supp"),
    ],
)
def test_a_wrong_payload_is_named(old: bytes, new: bytes, match: str) -> None:
    with pytest.raises(Error, match=match):
        method(replaced(old, new))


@pytest.mark.parametrize("name", NAMES)
def test_damaged_payloads_are_results_or_exceptions(name: str) -> None:
    RECORDED.check_damaged(name, *payload((PROGRAMS / f"{name}.pte").read_bytes()))


def test_the_index_may_not_point_outside() -> None:
    data = (PROGRAMS / "mlp_fp32.pte").read_bytes()
    begin, end = payload(data)
    index, _ = json.JSONDecoder().raw_decode(data[begin:end][::-1].decode("latin1"))
    size = next(n["dataRegion"]["size"] for n in index["nodes"] if n["name"] == "weight.bin")
    text = f'"size":{size}'[::-1].encode()
    assert text in data
    with pytest.raises(Error, match="the index states a file of 99999 bytes"):
        method(data.replace(text, f'"size":{"9" * len(str(size))}'[::-1].encode()))
