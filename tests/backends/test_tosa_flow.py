"""Models lowered to TOSA at test time: `explain` names the layer of a planted fault."""

import re
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("tosa_serializer")
from executorch_c.check import flows
from executorch_c.devtools import explain
from executorch_c.testing import check_model
from tests.models import flow_models as models

pytestmark = pytest.mark.heavy  # an export needs five seconds


def lower(model: Any, x: Any, flow: str) -> tuple[bytearray, Any]:
    """Return the program, and the graph that was lowered."""
    row, graph = flows.FLOWS[flow], model
    exported = torch.export.export(model, (x,))
    if row.quantizer is not None:
        graph = flows._quantize(row, exported, [((x,), {})])
        exported = torch.export.export(graph, (x,))
    return bytearray(flows._lower(exported, row, "forward").buffer), graph


def graph_of(pte: bytes) -> int:
    """Return where the payload begins."""
    found = re.search(rb"\0\0\0TOSA(?!-|Backend)", pte)
    assert found is not None
    return found.start() - 1


def test_a_program_that_the_flow_lowers_wrongly_is_refused() -> None:
    """The quantised U-Net loses the value of its skip connection, also in Arm's reference model
    (test_flow_matrix.py)."""
    model, (x, *_) = models.make("unet")
    pte, graph = lower(model, x, "tosa-int8")
    report = explain(graph, (x,), program=bytes(pte))
    assert report.verdict == "differ" and report.first is not None, str(report)
    assert report.first.name.startswith("RESCALE (convolution"), str(report)
    assert report.first.module == "down", str(report)
    assert sum(line.verdict == "source" for line in report) == 1, str(report)


@pytest.mark.parametrize("precision", ["", "-a8w4", "-a16w8"])
@pytest.mark.parametrize("flow", ["ethos-u55", "ethos-u85"])
@pytest.mark.parametrize("name", models.MODELS)
def test_check_model_for_ethos_u(name: str, flow: str, precision: str) -> None:
    """The TOSA graph that Vela compiles equals the quantised module; the flow mis-lowers the
    U-Net in int8, and its quantizer refuses it with weights of 4 bits (test_flow_matrix.py)."""
    model, inputs = models.make(name)
    rest = [(x,) for x in inputs[1:4]]

    def check() -> Any:
        return check_model(
            model, (inputs[0],), flow=flow + precision, n_random=1, real_inputs=rest, min_sqnr_db=0
        )  # the LSTM's weights of 4 bits cost 9.5 dB

    if (name, precision) == ("unet", "-a8w4"):
        with pytest.raises(RuntimeError, match="size of tensor a"):
            check()
        return
    result = check()
    wrong = (name, precision) == ("unet", "")
    if (name, flow + precision) == ("transformer", "ethos-u55-a16w8"):
        wrong = True  # a quantize node is left out of its partition (test_flow_matrix.py)
    assert result.verdict == ("differ" if wrong else "match"), str(result)
    assert len(list(result)) == 5


# ---- planted faults --------------------------------------------------------------------------


def find_constant(pte: bytes, name: str) -> slice:
    """Return the place of a constant's elements."""
    from tosa.TosaGraph import TosaGraph

    begin = graph_of(pte)
    block = TosaGraph.GetRootAs(bytes(pte[begin:]), 0).Regions(0).Blocks(0)
    for i in range(block.TensorsLength()):
        tensor = block.Tensors(i)
        if tensor.Name().decode() == name:
            at = begin + tensor._tab.Vector(tensor._tab.Offset(10))
            return slice(at, at + tensor.DataLength())
    raise AssertionError(name)


def plant(pte: bytearray, name: str, change: Any, dtype: str) -> bytes:
    place = find_constant(pte, name)
    numbers = np.frombuffer(pte[place], dtype).copy()
    change(numbers)
    pte[place] = numbers.tobytes()
    return bytes(pte)


def flip(numbers: np.ndarray) -> None:
    numbers[:64] ^= 64  # the weights of one feature


def halve(numbers: np.ndarray) -> None:
    numbers[3] //= 2


def increase(numbers: np.ndarray) -> None:
    numbers[3] -= 1


FAULTS = {
    "weight": ("aten_convolution_default_1_weight_ohwi", flip, "int8"),
    "multiplier": ("tosa_rescale_default_1_multipliers", halve, "int32"),
    "shift": ("tosa_rescale_default_1_shifts", increase, "int8"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_explain_names_the_layer_of_an_integer_model(fault: str) -> None:
    model, (x, *_) = models.make("mlp")
    pte, graph = lower(model, x, "tosa-int8")
    right = explain(graph, (x,), program=bytes(pte))
    assert right, str(right)
    report = explain(graph, (x,), program=plant(pte, *FAULTS[fault]))
    assert report.verdict == "differ" and report.first is not None, str(report)
    assert report.first.module == "2", str(report)
    assert report.first.name.startswith("RESCALE (addmm"), str(report)
    assert sum(line.verdict == "source" for line in report) == 1, str(report)


def test_explain_names_the_layer_in_floats() -> None:
    model, (x, *_) = models.make("mlp")
    pte, graph = lower(model, x, "tosa")
    assert explain(graph, (x,), program=bytes(pte))
    name = "aten_convolution_default_1_weight_ohwi"
    report = explain(
        graph, (x,), program=plant(pte, name, lambda w: w.__setitem__(5, 0.5), "float32")
    )
    assert report.first is not None and report.first.module == "2", str(report)
    assert sum(line.verdict == "source" for line in report) == 1, str(report)
