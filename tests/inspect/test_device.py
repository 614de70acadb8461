"""Remarks on programs in channels-last are what the official runtime really does."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

pytest.importorskip("executorch.exir")
import torch.nn.functional as F
from executorch.exir import to_edge_transform_and_lower

from executorch_c import Runtime
from executorch_c.inspect import device
from tests.exports import Fn
from tests.plans import reference


def network() -> Any:
    """Return a convolution, normalised, and a depthwise one, with weights in channels-last."""
    layers = (
        torch.nn.Conv2d(4, 4, 3, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Conv2d(4, 4, 3, padding=1, groups=4),
    )
    return torch.nn.Sequential(*layers).to(memory_format=torch.channels_last)


MODELS: dict[str, Callable[[], Any]] = {
    "chain": lambda: Fn(lambda x: (x.abs().clamp(0, 1).exp() * x + x).relu().sigmoid()),
    "conv": network,
    "max_pool": lambda: Fn(lambda x: F.max_pool2d(x, 2)),
    "avg_pool": lambda: Fn(lambda x: F.avg_pool2d(x, 2)),
    "softmax": lambda: Fn(lambda x: x.softmax(1)),
    "log_softmax": lambda: Fn(lambda x: x.log_softmax(1)),
    "cat": lambda: Fn(lambda x: torch.cat([x, x], 1)),
    "amax": lambda: Fn(lambda x: x.amax(1)),
    "pad": lambda: Fn(lambda x: F.pad(x, (1, 1, 1, 1))),
    "mean": lambda: Fn(lambda x: x.mean((2, 3), keepdim=True)),
    "layer_norm": lambda: Fn(lambda x: F.layer_norm(x, (6,))),
    "nonzero": lambda: Fn(lambda x: x.relu().nonzero()),
}


@pytest.mark.parametrize("name", MODELS)
def test_remarks_are_true(name: str) -> None:
    torch.manual_seed(0)
    model, x = MODELS[name]().eval(), torch.randn(2, 4, 6, 6)
    x = x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        wanted = model(x)
        exported = torch.export.export(model, (x,))
    pte = bytes(to_edge_transform_and_lower(exported).to_executorch().buffer)
    remarks = device.remarks(Runtime.get().load_program(pte), "forward")
    outcome = reference(pte, x)
    if outcome.outputs is None:
        kind = "rejects"
    else:
        found = torch.from_numpy(outcome.outputs[0])
        kind = None if torch.allclose(found, wanted, atol=1e-5) else "differs"
    assert {one.kind for one in remarks} == ({kind} if kind else set())
