"""TOSABackend and VgfBackend: recorded programs equal eager; damage is an exception or a result."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import Error, Runtime
from tests.backends.recorded import Recorded

RECORDED = Recorded(Path(__file__).parent / "tosa_programs")
PROGRAMS, NAMES = RECORDED.folder, RECORDED.names()
method, recorded, error = RECORDED.method, RECORDED.arrays, RECORDED.error
LIMITS = {"fp": 1e-5, "int8": 0}


def payload(data: bytes) -> tuple[int, int]:
    """Return where the graph begins and, at least, how far it reaches."""
    found = re.search(rb"\0\0\0TOSA(?!-|Backend|\.0)|VGF1", data)
    assert found is not None
    return found.start() - 1, len(data) - 512


def test_all_recorded_programs_are_there() -> None:
    assert (
        NAMES
        == (
            "cnn_fp cnn_int8 mlp_fp mlp_int8 vgf_cnn_fp vgf_cnn_int8 vgf_lstm_int8 "
            "vgf_mlp_fp vgf_mlp_int8"
        ).split()
    )


@pytest.mark.parametrize("name", NAMES)
def test_recorded_programs_equal_eager(name: str) -> None:
    assert error(name, name) <= LIMITS[name.split("_")[-1]]


@pytest.mark.parametrize("name", ["cnn_fp", "vgf_cnn_fp"])
def test_floats_are_delegated(name: str) -> None:
    """All calls but REDUCE_SUM are operators of ATen that XNNPACK takes."""
    (row,) = method(name, delegate_at_load="always").backend_report()
    assert sum(row["nested_delegated_at_load"].values()) == 18


def test_a_trace_has_the_operators_of_the_payload() -> None:
    inputs, _ = recorded("mlp_fp")
    m = method("mlp_fp")
    with m.tracing(values=True) as trace:
        result = m.execute(inputs)[0]
    nodes = [event for event in trace.events if event.kind == "node"]
    assert [event.name for event in nodes] == (
        "RESHAPE CONV2D CLAMP CONV2D RESHAPE REDUCE_MAX SUB EXP REDUCE_SUM RECIPROCAL MUL"
    ).split()
    np.testing.assert_array_equal(nodes[-1].outputs[0].data, result)


def test_nodes_are_described() -> None:
    inside: Any = executorch_c.load(PROGRAMS / "cnn_int8.pte")._delegate("forward", 0)
    nodes = [node for node in inside["nodes"] if node["name"] in ("CONV2D", "RESCALE")]
    assert nodes[1]["name"] == "CONV2D"
    assert nodes[1]["note"].startswith("pad=[1, 1, 1, 1], stride=[1, 1], dilation=[1, 1]")
    assert "rounding_mode=1" in nodes[0]["note"]
    values = {value["id"]: value for value in inside["values"]}
    (result,) = (values[i] for i in nodes[1]["outputs"])
    assert (result["note"], result["dtype"]) == ("tosa_conv2d_default", "int32")


def test_a_vgf_graph_has_the_same_nodes() -> None:
    tosa: Any = executorch_c.load(PROGRAMS / "cnn_fp.pte")._delegate("forward", 0)
    vgf: Any = executorch_c.load(PROGRAMS / "vgf_cnn_fp.pte")._delegate("forward", 0)
    assert [node["name"] for node in vgf["nodes"]] == [node["name"] for node in tosa["nodes"]]
    assert "pad=[1, 0, 1, 0], stride=[2, 2]" in vgf["nodes"][4]["note"]


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        (b"VGF1", b"VGF2", "expected 'VGF1'"),
        (b"CONST00", b"CONST01", "is not in the section of constants"),
        (b"\x03\x02\x23\x07", b"\x03\x02\x23\x08", "not a SPIR-V module"),
        # OpExtInst: its number plus one is 0
        (
            bytes.fromhex("0c0007003d0000003f0000004000000038000000"),
            bytes.fromhex("0c0007003d0000003f00000040000000ffffffff"),
            "that TOSA does not have",
        ),
    ],
)
def test_a_wrong_container_is_named(old: bytes, new: bytes, match: str) -> None:
    data = (PROGRAMS / "vgf_mlp_fp.pte").read_bytes()
    assert old in data
    with pytest.raises(Error, match=match):
        method(data.replace(old, new))


def test_unknown_options_are_refused() -> None:
    program = Runtime.get().load_program(PROGRAMS / "mlp_fp.pte")
    with pytest.raises(Error, match="unknown option 'fast'"):
        program.load_method("forward", backend_options={"TOSABackend": {"fast": True}})


def replaced(old: bytes, new: bytes, count: int = -1) -> bytes:
    data = (PROGRAMS / "mlp_fp.pte").read_bytes()
    assert old in data and len(old) == len(new)
    return data.replace(old, new, count)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        (b"tosa_exp_default\0", b"tosa_exq_default\0", "'tosa_exp_default' of the "),
        (b"p_a_bias\0", b"p_x_bias\0", "'p_a_bias' of the "),
    ],
)
def test_a_name_that_nothing_has_is_named(old: bytes, new: bytes, match: str) -> None:
    data = replaced(old, new, 1)
    with pytest.raises(Error, match=match):
        method(data)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_payloads_are_results_or_exceptions(name: str) -> None:
    RECORDED.check_damaged(name, *payload((PROGRAMS / f"{name}.pte").read_bytes()))
