"""Planted faults in payloads of VulkanBackend: `explain` finds the layer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.backends.flow_faults import sources, vulkan_constant
from tests.models import vulkan_zoo as zoo


def swap_nibbles(data: np.ndarray) -> np.ndarray:
    return data << 4 | data >> 4


def double(data: np.ndarray) -> np.ndarray:
    scales = data.view(np.float32).copy()
    scales[3] *= 2
    return scales.view(np.uint8)


def change(data: np.ndarray) -> np.ndarray:
    changed = data.copy()
    changed[7] ^= 64  # of a float32, its exponent
    return changed


Damage = Callable[[np.ndarray], np.ndarray]

FAULTS: dict[str, tuple[str, tuple[int, ...], Damage, str]] = {
    "swapped nibbles": ("mlp-4w", (48, 32), swap_nibbles, "0"),
    "weight": ("mlp-4w", (48, 32), change, "0"),
    "scale": ("mlp-4w", (4, 48), double, "0"),
    "scale, last layer": ("mlp-4w", (3, 32), double, "2"),
    "dynamic, nibbles": ("mlp-8da4w", (48, 32), swap_nibbles, "0"),
    "weight by channel": ("mlp-w8", (48, 64), change, "0"),
    "weight by channel, last layer": ("mlp-w8", (32, 48), change, "2"),
    "scale by channel": ("mlp-w8", (48,), double, "0"),
    "nibbles by channel": ("mlp-w4", (48, 32), swap_nibbles, "0"),
    "nibbles by channel, last layer": ("mlp-w4", (32, 24), swap_nibbles, "2"),
    "static": ("mlp-static8", (48, 64), change, "0"),
    "static, last layer": ("mlp-static8", (32, 48), change, "2"),
    "static scale": ("mlp-static8", (48,), double, "0"),
    "static convolution": ("cnn-static8", (8, 28), change, "0"),
    "static convolution, last layer": ("cnn-static8", (12, 72), change, "3"),
    "float": ("mlp-float", (48, 64), change, "0"),
    "float convolution": ("cnn-float", (12, 8, 3, 3), change, "3"),
    "float16": ("mlp-float-fp16", (32, 48), change, "2"),
}
"""Rows, shapes of the constants, and the modules to name."""


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", FAULTS)
def test_explain_names_the_layer(name: str) -> None:
    from executorch_c.devtools import explain

    row_id, shape, damage, module_name = FAULTS[name]
    row = next(row for row in zoo.ROWS if row.id == row_id)
    pte = bytearray(zoo.load(row).pte)
    torch.manual_seed(0)  # as at the export
    module: Any = row.make()
    inputs = tuple(row.draw(size) for size in row.shapes)
    model = zoo.SCHEMES[row.scheme](module.eval(), inputs)
    right = explain(model, inputs, program=bytes(pte))
    assert not sources(right), str(right)
    place = vulkan_constant(bytes(pte), shape)
    pte[place] = damage(np.frombuffer(pte[place], np.uint8)).tobytes()
    report = explain(model, inputs, program=bytes(pte))
    assert report.verdict == "differ", str(report)
    assert report.first is not None and sources(report) == [module_name], str(report)
