"""TOSABackend and VgfBackend: descriptions of nodes, and messages about wrong payloads."""

from pathlib import Path
from typing import Any

import pytest

import executorch_c
from executorch_c import Error
from tests.backends.recorded import Recorded

RECORDED = Recorded(Path(__file__).parent / "tosa_programs")
PROGRAMS, method = RECORDED.folder, RECORDED.method


@pytest.mark.parametrize("name", ["cnn_fp", "vgf_cnn_fp"])
def test_floats_are_delegated(name: str) -> None:
    """All calls but REDUCE_SUM are operators of ATen that XNNPACK takes."""
    (row,) = method(name, delegate_at_load="always").backend_report()
    assert sum(row["nested_delegated_at_load"].values()) == 18


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


@pytest.mark.parametrize("name", ["tosa_exp_default", "p_a_bias"])
def test_a_name_that_nothing_has_is_named(name: str) -> None:
    data, old = (PROGRAMS / "mlp_fp.pte").read_bytes(), name.encode() + b"\0"
    assert old in data
    with pytest.raises(Error, match=f"'{name}' of the "):
        method(data.replace(old, old.replace(b"p_", b"x_"), 1))
