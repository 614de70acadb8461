"""Every node and scheme of the XNNPACK delegate through the official flow, compared with eager
(quantised eager for quantised models) and the official runtime."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("executorch")
pytest.importorskip("torchao")

from tests.backends import xnnpack_flow
from tests.backends import xnnpack_payload
from tests.backends import xnnpack_quantized_zoo
from tests.backends import xnnpack_zoo
from tests.openers import Opener
from tests.backends.xnnpack_flow import Row
from tests.backends.xnnpack_judge import assert_close

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")
ROWS = [*xnnpack_zoo.TABLE.rows, *xnnpack_quantized_zoo.TABLE.rows]
IDS = [*xnnpack_zoo.TABLE.ids(), *(f"q_{i}" for i in xnnpack_quantized_zoo.TABLE.ids())]


def each_row(test: Callable[..., None]) -> Any:
    """The same rows of each test: an export is dear, a run is not."""
    return pytest.mark.sweep(5)(pytest.mark.parametrize("row", ROWS, ids=IDS)(test))


NOT_EXPORTED = {"XNNScaledDotProductAttention"}
"""No exporter writes it, and the official runtime rejects it: test_xnnpack_runtime.py has a
payload."""
OTHER_DATATYPES = {"invalid", "quint8", "qpint8", "int32", "pfp32"}
"""Names in the schema that no exporter writes."""


@each_row
def test_matches_eager(row: Row, ours: Opener) -> None:
    lowered = xnnpack_flow.load(row)
    run = ours(lowered.pte)
    for call in lowered.calls:
        assert_close(run("forward", call.inputs), call.outputs, call.rooms)


@each_row
def test_official_matches_eager(row: Row, official: Opener) -> None:
    """The row contains the intended program, and the judge accepts another build of XNNPACK."""
    lowered = xnnpack_flow.load(row)
    run = official(lowered.pte)
    for call in lowered.calls:
        assert_close(run("forward", call.inputs), call.outputs, call.rooms)


def test_every_kind_and_datatype_has_a_row() -> None:
    found = {kind for row in ROWS for kind in row.kinds}
    assert set(xnnpack_payload.node_kinds()) - found == NOT_EXPORTED
    types = {"fp32", *(kind for row in ROWS for kind in row.datatypes)}
    types |= {"fp16"} if any(row.scheme == "float16" for row in ROWS) else set()
    assert set(xnnpack_payload.datatypes()) - types == OTHER_DATATYPES


CONSTANTS = {
    "behind_the_graph": xnnpack_payload.with_constants_inside,
    "in_the_graph": xnnpack_payload.with_constants_in_the_graph,
}


@pytest.mark.parametrize("place", CONSTANTS)
@pytest.mark.parametrize(
    "name",
    [
        "conv-float32",
        "linear-float16",
        "conv-static_channel",
        "linear-dynamic_4bit",
        "linear-8da4w_32",
    ],
)
def test_constants_inside_the_payload(
    name: str, place: str, ours: Opener, official: Opener
) -> None:
    """Constants inside the payload, as from older exporters: the program has no named data."""
    (row,) = [row for row in ROWS if row.id == name][:1]
    lowered = xnnpack_flow.load(row)
    pte = xnnpack_payload.edited(lowered.pte, CONSTANTS[place], drop_named=True)
    assert not xnnpack_payload.parse_program(pte).named_data
    call = lowered.calls[0]
    found = ours(pte)("forward", call.inputs)
    assert_close(found, call.outputs, call.rooms)
    assert_close(official(pte)("forward", call.inputs), call.outputs, call.rooms)
    np.testing.assert_array_equal(found[0], ours(lowered.pte)("forward", call.inputs)[0])
