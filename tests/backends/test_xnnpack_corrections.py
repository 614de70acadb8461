"""XNNPACK with corrections alone (EXECUTORCH_C_XNNPACK=corrections): the outputs of nodes have the
bits of the whole series, except for the rows of `DIFFERENT`."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("executorch")
pytest.importorskip("torchao")

from tests.backends import xnnpack_flow
from tests.backends import xnnpack_quantized_zoo
from tests.backends import xnnpack_sanitized
from tests.backends import xnnpack_zoo
from tests.backends.xnnpack_judge import assert_close
from tests.backends.xnnpack_series import needs_speed

pytestmark = needs_speed
ROWS = [*xnnpack_zoo.TABLE.rows, *xnnpack_quantized_zoo.TABLE.rows]
DIFFERENT = {
    f"{name}-float32"
    for name in (
        *("linear", "linear_3d", "linear_vector", "linear_no_bias", "linear_relu", "linear_relu6"),
        *("mm", "addmm", "conv_transpose", "conv_transpose_groups"),
    )
}
"""Rows whose bits differ with AVX-512: third_party/README.md says why."""


def outputs(folder: Path, name: str, *extension: str) -> Any:
    """Return the outputs of the cases in a folder, by the installed build or another."""
    worker = Path(__file__).with_name("xnnpack_outputs.py")
    target = folder / f"{name}.pickle"
    command = [sys.executable, str(worker), str(folder / "cases.pickle"), str(target), *extension]
    subprocess.run(command, check=True, timeout=600)
    return pickle.loads(target.read_bytes())


def same_bits(a: Any, b: Any) -> bool:
    return all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in zip(a, b))


@pytest.mark.heavy  # builds XNNPACK; a step of .ci/run
def test_results_do_not_depend_on_the_series_for_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = int(os.environ.get("EXECUTORCH_C_TEST_ROTATION", "0"))
    rows = ROWS[day % 5 :: 5]  # those of the day in test_xnnpack_nodes.py: exported once
    lowered = [xnnpack_flow.load(row) for row in rows]
    cases = [(one.pte, [call.inputs for call in one.calls]) for one in lowered]
    (tmp_path / "cases.pickle").write_bytes(pickle.dumps(cases))
    whole = outputs(tmp_path, "whole")
    monkeypatch.setenv("EXECUTORCH_C_XNNPACK", "corrections")
    corrected = outputs(tmp_path, "corrected", str(xnnpack_sanitized.build(sanitize=())))
    wrong = []
    for row, one, first, second in zip(rows, lowered, whole, corrected):
        for call, a, b in zip(one.calls, first, second):
            if row.id in DIFFERENT:
                assert_close(b, call.outputs, call.rooms)
            elif not same_bits(a, b):
                wrong.append(row.id)
    assert not wrong
