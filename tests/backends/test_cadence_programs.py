"""Programs of the Cadence flow."""

from pathlib import Path

import numpy as np
import pytest
import torch

from executorch_c import Runtime
from executorch_c.testing import check_model
from tests.backends import cadence_flow, flow_matrix
from tests.backends.recorded import Recorded
from tests.models import flow_models

PROGRAMS = Recorded(Path(__file__).with_name("cadence_programs"))


def test_every_program_of_the_flow_is_fused() -> None:
    """The quantised programs call the flow's operators and no others of quantisation."""
    for name in PROGRAMS.names():
        operators = Runtime.get().load_program(PROGRAMS.folder / f"{name}.pte").requirements()
        assert any(operator.startswith("cadence::") for operator in operators["operators"])
        assert not any(
            operator.startswith("quantized_decomposed") for operator in operators["operators"]
        )


def test_a_program_of_the_flow() -> None:
    """It equals eager, up to a step of the output: eager rescales each operator. Other quantizers
    and models are in test_flow_matrix.py."""
    torch.manual_seed(2)
    model, inputs = cadence_flow.Residual().eval(), [torch.randn(1, 3, 12, 12) for _ in range(8)]
    eager, pte = cadence_flow.export(model, inputs, "CadenceWithSoftmaxQuantizer")
    step = flow_matrix._step(eager)
    method = Runtime.get().load_program(pte).load_method("forward")
    for x in inputs[:3]:
        actual, expected = np.asarray(method(x.numpy())), eager(x).numpy()
        assert np.abs(actual - expected).max() <= max(1.001 * step, 1e-6)
        assert np.abs(actual).max() > 10 * step


@pytest.mark.heavy
def test_check_model() -> None:
    model, inputs = flow_models.make("cnn")
    rest = [(x,) for x in inputs[1:4]]
    result = check_model(model, (inputs[0],), flow="cadence", real_inputs=rest)
    assert result.ok, str(result)
    assert all(case.to_float is not None for case in result)
    rows = str(result).splitlines()[2:]
    columns = [row.split() for row in rows if " match " in row]
    assert len(columns) == len(result.cases) and all(float(row[-1]) < 70 for row in columns)
