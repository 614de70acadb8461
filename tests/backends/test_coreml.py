"""CoreMLBackend: state, shapes and weights of recorded programs; messages about wrong payloads."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import Error
from tests.backends import protobuf
from tests.backends.recorded import Recorded
from tests.backends.test_recorded import coreml_payload

RECORDED = Recorded(Path(__file__).parent / "coreml_programs")
PROGRAMS, method, recorded = RECORDED.folder, RECORDED.method, RECORDED.arrays


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
    assert RECORDED.error(bytes(data), name) > 1e-4


def test_a_wrong_scale_changes_the_result() -> None:
    data = (PROGRAMS / "mlp_int8.pte").read_bytes()
    scale = struct.pack("<f", np.float32(0.00689816382))
    assert data.count(scale) >= 2
    wrong = data.replace(scale, struct.pack("<f", 0.0089), 1)
    assert RECORDED.error(wrong, "mlp_int8") > 1e-5


def test_the_index_may_not_point_outside() -> None:
    data = (PROGRAMS / "mlp_fp32.pte").read_bytes()
    begin, end = coreml_payload(data)
    index, _ = json.JSONDecoder().raw_decode(data[begin:end][::-1].decode("latin1"))
    size = next(n["dataRegion"]["size"] for n in index["nodes"] if n["name"] == "weight.bin")
    text = f'"size":{size}'[::-1].encode()
    assert text in data
    with pytest.raises(Error, match="the index states a file of 99999 bytes"):
        method(data.replace(text, f'"size":{"9" * len(str(size))}'[::-1].encode()))


@pytest.mark.parametrize("message", ["Model", "Function", "Operation", "TensorType"])
def test_a_field_that_no_row_has_is_refused(message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(protobuf.TABLES[message], "later", "8")
    monkeypatch.setitem(protobuf.NUMBERS, (message, "later"), 4000)

    def program(value: int) -> bytes:
        def change(model: dict[str, Any]) -> None:
            protobuf.first(message, model)["later"] = value

        return protobuf.edited((PROGRAMS / "mlp_bits.pte").read_bytes(), change)

    method(program(0))
    with pytest.raises(Error, match=f"field 4000 of {message} is not supported"):
        method(program(1))
