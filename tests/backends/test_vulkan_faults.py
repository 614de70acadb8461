"""Planted faults in payloads of VulkanBackend: `explain` finds the layer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import executorch_c

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")
import vulkan_zoo as zoo  # noqa: E402

FIRST = "delegate 0, node 0"
"""Where the first layer's result is."""


def find_constant(pte: bytes, shape: tuple[int, ...]) -> slice:
    """Return the place of the payload's constant of a shape: its key is the digest of its bytes."""
    inside: Any = executorch_c.load(pte)._delegate("forward", 0)
    (value, *_) = (v for v in inside["values"] if v["constant"] and v["shape"] == shape)
    key, size = value["note"].split()[2].rstrip(","), value["nbytes"]
    for at in range(0, len(pte) - size + 1, 16):
        if hashlib.sha256(pte[at : at + size]).hexdigest() == key:
            return slice(at, at + size)
    raise AssertionError(key)


def swap_nibbles(data: np.ndarray) -> np.ndarray:
    return data << 4 | data >> 4


def double(data: np.ndarray) -> np.ndarray:
    scales = data.view(np.float32).copy()
    scales[3] *= 2
    return scales.view(np.uint8)


def change(data: np.ndarray) -> np.ndarray:
    changed = data.copy()
    changed[5] ^= 64
    return changed


FAULTS: dict[str, tuple[str, tuple[int, ...], Callable[[np.ndarray], np.ndarray]]] = {
    "swapped nibbles": ("mlp-4w", (48, 32), swap_nibbles),
    "weight": ("mlp-4w", (48, 32), change),
    "scale": ("mlp-4w", (4, 48), double),
    "weight by channel": ("mlp-w8", (48, 64), change),
    "nibbles by channel": ("mlp-w4", (48, 32), swap_nibbles),
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", FAULTS)
def test_explain_names_the_layer(name: str) -> None:
    from executorch_c.devtools import explain

    row_id, shape, damage = FAULTS[name]
    row = next(row for row in zoo.ROWS if row.id == row_id)
    pte = bytearray(zoo.load(row).pte)
    torch.manual_seed(0)  # as at the export
    module: Any = row.make()
    inputs = tuple(row.draw(size) for size in row.shapes)
    model = zoo.SCHEMES[row.scheme](module.eval(), inputs)
    right = explain(bytes(pte), model, inputs)
    assert right, str(right)
    place = find_constant(bytes(pte), shape)
    pte[place] = damage(np.frombuffer(pte[place], np.uint8)).tobytes()
    report = explain(bytes(pte), model, inputs)
    assert report.verdict == "differ", str(report)
    if row.scheme in ("w8", "w4"):
        return  # the bias is a node of its own, so that no node has the layer's value
    assert report.first is not None and report.first.where == FIRST, str(report)
    assert sum(line.verdict == "source" for line in report) == 1, str(report)
