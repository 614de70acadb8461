"""Models lowered to OpenVINO at test time: a wrong weight is found; the flow names its extra."""

from __future__ import annotations

import importlib.util
import re
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")
if not all(importlib.util.find_spec(name) for name in ("openvino", "nncf")):
    pytest.skip("needs the extra openvino-flow", allow_module_level=True)
import flow_matrix as matrix  # noqa: E402
import flow_models as models  # noqa: E402
import openvino_blob  # noqa: E402
import openvino_ties  # noqa: E402
from executorch_c import Runtime  # noqa: E402
from executorch_c.check import flows  # noqa: E402
from executorch_c.testing import check_model  # noqa: E402

pytestmark = pytest.mark.heavy  # an export needs some seconds


def test_a_wrong_weight_is_found() -> None:
    model, (x, *_) = models.make("cnn")
    row = flows.FLOWS["openvino"]
    pte = bytearray(flows._lower(torch.export.export(model, (x,)), row, "forward").buffer)
    assert check_model(model, (x,), program=bytes(pte), n_random=1)
    weight = np.ascontiguousarray(model[8].weight.detach().numpy())  # kept as it is
    at = [found.start() for found in re.finditer(re.escape(weight.tobytes()), bytes(pte))]
    assert len(at) == 1
    pte[at[0] + 8 : at[0] + 12] = np.float32(weight.flat[2] + 0.1).tobytes()
    assert not check_model(model, (x,), program=bytes(pte), n_random=1)


def test_the_flow_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nncf", None)
    with pytest.raises(ImportError, match=r"'executorch_c\[openvino-flow\]'"):
        check_model(torch.nn.ReLU(), (torch.ones(2),), flow="openvino")


def test_integers_of_weights_are_the_modules() -> None:
    """Except for the largest weight of a channel: a tie. The planted fault is another one."""
    made, (x, *_) = matrix.export(matrix.scheme_of("openvino-int8-sym"), "cnn")
    assert openvino_ties.with_codes(made.graph, x, made.pte)
    payload = Runtime.get().load_program(made.pte)._payload("forward", 0)
    found = openvino_blob.constants_of(made.pte, payload, "aten_convolution_default_1")
    (weight,) = (one.place for one in found if one.dtype == "i8")
    codes = np.frombuffer(made.pte[weight], "i1")
    wrong = bytearray(made.pte)
    wrong[weight.start + int(np.flatnonzero(np.abs(codes) < 100)[0])] ^= 1
    with pytest.raises(AssertionError, match=r"no constant of \(16, 8, 3, 3\)"):
        openvino_ties.with_codes(made.graph, x, bytes(wrong))
