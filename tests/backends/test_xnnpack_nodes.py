"""Every node and scheme of the XNNPACK delegate, and whole models, through the official flow:
compared with eager (quantised eager for quantised models) and the official runtime, with any number
of threads and by other builds of XNNPACK."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from torch import nn

import executorch_c as et
from tests import process
from tests.backends import xnnpack_flow, xnnpack_models, xnnpack_payload, xnnpack_sanitized
from tests.backends import xnnpack_zoo
from tests.backends.xnnpack_flow import Row
from tests.backends.xnnpack_judge import assert_close
from tests.backends.xnnpack_series import needs_speed, needs_xnnpack
from tests.exports import export
from tests.openers import Opener

pytestmark = needs_xnnpack
ROWS = xnnpack_zoo.TABLE.rows
ALL = [*ROWS, *xnnpack_models.TABLE.rows]
IDS = [*xnnpack_zoo.TABLE.ids(), *xnnpack_models.TABLE.ids()]


def each_row(test: Callable[..., None]) -> Any:
    """The same rows of each test: an export is dear, a run is not."""
    return pytest.mark.sweep(9)(pytest.mark.parametrize("row", ALL, ids=IDS)(test))


NOT_EXPORTED = {"XNNScaledDotProductAttention"}
"""No exporter writes it, and the official runtime rejects it: test_xnnpack_runtime.py has a
payload."""
OTHER_DATATYPES = {"invalid", "quint8", "qpint8", "int32", "pfp32"}
"""Names in the schema that no exporter writes."""


@each_row
def test_matches_eager(row: Row, ours: Opener) -> None:
    lowered = xnnpack_flow.load(row)
    xnnpack_flow.check(ours(lowered.pte), lowered.calls * 2)


@each_row
def test_official_matches_eager(row: Row, official: Opener) -> None:
    """The row contains the intended program, and the judge accepts another build of XNNPACK."""
    lowered = xnnpack_flow.load(row)
    xnnpack_flow.check(official(lowered.pte), lowered.calls)


def test_every_kind_and_datatype_has_a_row() -> None:
    kinds = {kind for row in ROWS for kind in row.kinds}
    assert set(xnnpack_payload.node_kinds()) - kinds == NOT_EXPORTED
    types = {"fp32", *(kind for row in ROWS for kind in row.datatypes)}
    assert set(xnnpack_payload.datatypes()) - types == OTHER_DATATYPES


# ---- numbers of threads -------------------------------------------------------------------------


def outputs(pte: bytes, inputs: Sequence[Any], **options: Any) -> list[Any]:
    """Return the outputs of calls with one thread, whose bits more threads give, too."""
    first: list[Any] = []
    for threads in (1, 2, 3, 6):
        method = et.load(pte).load_method("forward", num_threads=threads, backend_options=options)
        results = [method.execute(arrays) for arrays in inputs]
        first = first or results
        for ours, expected in zip(results, first, strict=True):
            assert all(np.array_equal(x, y) for x, y in zip(ours, expected, strict=True)), threads
    return first


PARTS = [row for row in ROWS if row.name.startswith("linear_parts")]


@pytest.mark.sweep(5)
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("row", PARTS, ids=lambda row: row.id)
def test_weights_packed_in_parts(row: Row, cached: bool) -> None:
    """All threads pack weights of linear layers in parts (kernels/speed/parts.c)."""
    lowered = xnnpack_flow.load(row)
    options = {"weight_cache_enabled": cached}
    results = outputs(lowered.pte, [c.inputs for c in lowered.calls], XnnpackBackend=options)
    for call, ours in zip(lowered.calls, results, strict=True):
        assert_close(ours, call.outputs, call.rooms)


ALONE = 1 << 13
"""Floats of the largest step that the caller computes alone (kernels/speed/alone.c)."""
SHAPES = {
    "row": ((ALONE,), (ALONE,)),
    "longer-row": ((ALONE + 1,), (ALONE + 1,)),
    "1d": ((256, 32), (32,)),
    "1d-longer": ((257, 32), (32,)),
    "2d": ((16, 16, 32), (16, 1, 32)),
    "3d": ((4, 8, 8, 33), (1, 8, 1, 33)),
    "4d": ((2, 4, 8, 8, 17), (2, 1, 8, 1, 17)),
    "5d": ((2, 3, 4, 5, 6, 17), (1, 3, 1, 5, 1, 17)),
}


def steps(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    halves = torch.chunk(x, 2, -1)
    turned = torch.cat([-halves[1], halves[0]], -1) if x.shape[-1] % 2 == 0 else x
    return x * y - turned, torch.sigmoid(x + y)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", SHAPES)
def test_small_steps(name: str) -> None:
    inputs = xnnpack_flow.normal(*SHAPES[name])
    pte = export(steps, *inputs, partitioner=XnnpackPartitioner())
    (results,) = outputs(pte, [[x.numpy() for x in inputs]])
    for y, expected in zip(results, steps(*inputs), strict=True):
        np.testing.assert_allclose(y, expected.numpy(), rtol=1e-5, atol=1e-6)


# ---- clamps that XNNPACK joins with the node before ----------------------------------------------

CLAMPED: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "convolution": (lambda: nn.Conv2d(3, 8, 3, padding=1), (1, 3, 8, 8)),
    "depthwise": (lambda: nn.Conv2d(8, 8, 3, groups=8), (1, 8, 8, 8)),
    "transposed": (lambda: nn.ConvTranspose2d(3, 8, 2, 2), (1, 3, 8, 8)),
    "linear": (lambda: nn.Linear(8, 8), (4, 8)),
    "max pooling": (lambda: nn.MaxPool2d(2), (1, 3, 8, 8)),
    "average pooling": (lambda: nn.AvgPool2d(2), (1, 3, 8, 8)),
    "clamp": (lambda: nn.Hardtanh(-2, 0.5), (4, 8)),
}
BOUNDS = ((0.1, 1.0), (-1.0, -0.1), (-0.5, 0.5), (0.25, float("inf")))
"""On either side of zero."""


class Branches(nn.Module):
    """A node for each bounds, clamped."""

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.nodes = nn.ModuleList(nn.Sequential(make(), nn.Hardtanh(*ends)) for ends in BOUNDS)

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return [node(x) for node, x in zip(self.nodes, inputs, strict=True)]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("partitioner", [XnnpackPartitioner(), None], ids=["exported", "at load"])
@pytest.mark.parametrize("name", CLAMPED)
def test_a_clamp_after_a_node(name: str, partitioner: object) -> None:
    make, shape = CLAMPED[name]
    model, inputs = Branches(make).eval(), xnnpack_flow.normal(*[shape] * len(BOUNDS))
    pte = export(model, *inputs, partitioner=partitioner)
    method = et.load(pte).load_method("forward", delegate_at_load="always")
    assert method.backend_report()[0]["backend"] == "XnnpackBackend"
    results = method.execute([x.numpy() for x in inputs])
    for y, expected in zip(results, model(*inputs), strict=True):
        np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-5, atol=1e-6)


# ---- XNNPACK with corrections alone (EXECUTORCH_C_XNNPACK=corrections) ---------------------------

DIFFERENT = {
    f"{name}-float32"
    for name in (
        *("linear", "linear_3d", "linear_vector", "linear_no_bias", "linear_relu", "linear_relu6"),
        *("mm", "addmm", "conv_transpose", "conv_transpose_groups"),
    )
}
"""Rows whose bits differ with AVX-512: third_party/README.md says why."""


def outputs_of(folder: Path, name: str, *extension: object) -> Any:
    """Return the outputs of the cases in a folder, by the installed build or another."""
    worker, target = Path(__file__).with_name("xnnpack_outputs.py"), folder / f"{name}.pickle"
    process.python(worker, folder / "cases.pickle", target, *extension, timeout=600)
    return pickle.loads(target.read_bytes())


def same_bits(a: Any, b: Any) -> bool:
    return all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in zip(a, b))


@needs_speed
@pytest.mark.heavy  # builds XNNPACK; a step of .ci/run
def test_results_do_not_depend_on_the_series_for_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outputs of nodes have the bits of the whole series, except for the rows of DIFFERENT."""
    day = int(os.environ.get("EXECUTORCH_C_TEST_ROTATION", "0"))
    rows = ROWS[day % 9 :: 9]  # those of the day in test_matches_eager: exported once
    lowered = [xnnpack_flow.load(row) for row in rows]
    cases = [(one.pte, [call.inputs for call in one.calls]) for one in lowered]
    (tmp_path / "cases.pickle").write_bytes(pickle.dumps(cases))
    whole = outputs_of(tmp_path, "whole")
    monkeypatch.setenv("EXECUTORCH_C_XNNPACK", "corrections")
    corrected = outputs_of(tmp_path, "corrected", xnnpack_sanitized.build(sanitize=()))
    wrong = []
    for row, one, first, second in zip(rows, lowered, whole, corrected):
        for call, a, b in zip(one.calls, first, second):
            if row.id in DIFFERENT:
                assert_close(b, call.outputs, call.rooms)
            elif not same_bits(a, b):
                wrong.append(row.id)
    assert not wrong
