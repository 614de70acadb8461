"""Whole models with XNNPACK delegates, in float, half precision and quantised, compared with eager
and the official runtime."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("executorch")
pytest.importorskip("torchao")
pytest.importorskip("transformers")

from tests.backends import xnnpack_models
from tests.backends import xnnpack_payload
from tests.openers import Opener
from tests.backends.xnnpack_flow import Row
from tests.backends.xnnpack_judge import assert_close

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")
ROWS, IDS = xnnpack_models.TABLE.rows, xnnpack_models.TABLE.ids()


def each_model(test: Callable[..., None]) -> Any:
    """The same rows of each test: an export is dear, a run is not."""
    return pytest.mark.sweep(5)(pytest.mark.parametrize("row", ROWS, ids=IDS)(test))


@each_model
def test_is_delegated(row: Row) -> None:
    payloads = [d.payload for d in xnnpack_payload.delegates(xnnpack_models.load(row).pte)]
    assert set(row.kinds) <= {kind for payload in payloads for kind in payload.kinds}
    assert set(row.datatypes) <= {kind for payload in payloads for kind in payload.datatypes}


@each_model
def test_matches_eager(row: Row, ours: Opener) -> None:
    lowered = xnnpack_models.load(row)
    run = ours(lowered.pte)
    for call in lowered.calls * 2:
        assert_close(run("forward", call.inputs), call.outputs, call.rooms)


@each_model
def test_official_matches_eager(row: Row, official: Opener) -> None:
    lowered = xnnpack_models.load(row)
    run = official(lowered.pte)
    for call in lowered.calls:
        assert_close(run("forward", call.inputs), call.outputs, call.rooms)
