"""Models lowered to Core ML at test time equal eager; `explain` finds a wrong weight."""

from __future__ import annotations

import numpy as np
import pytest

import executorch_c

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")
pytest.importorskip("coremltools")

pytestmark = pytest.mark.heavy  # each export needs ten seconds


class Block(torch.nn.Module):
    """A transformer's layer: layer_norm, split, transposes, matmul, softmax, gelu."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.qkv = torch.nn.Linear(32, 96)
        self.out = torch.nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, width = x.shape
        heads = (part.reshape(n, length, 4, 8).transpose(1, 2)
                 for part in self.qkv(self.norm(x)).split(32, -1))  # fmt: skip
        q, k, v = heads
        weights = torch.softmax(q @ k.transpose(-1, -2) * 0.35, -1)
        mixed = (weights @ v).transpose(1, 2).reshape(n, length, width)
        return x + torch.nn.functional.gelu(self.out(mixed))


def lower(model: torch.nn.Module, x: torch.Tensor) -> bytes:
    from executorch_c.check import flows

    exported = torch.export.export(model, (x,))
    return bytes(flows._lower(exported, flows.FLOWS["coreml"], "forward").buffer)


def test_a_transformer_equals_eager() -> None:
    torch.manual_seed(0)
    model, x = Block().eval(), torch.randn(2, 6, 32)
    with torch.no_grad():
        (found,) = executorch_c.load(lower(model, x)).load_method("forward").execute([x.numpy()])
        np.testing.assert_allclose(found, model(x).numpy(), atol=1e-5)


def test_explain_finds_a_wrong_weight() -> None:
    from executorch_c.devtools import explain

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 48),
                                torch.nn.Tanh(), torch.nn.Linear(48, 12)).eval()  # fmt: skip
    x = torch.randn(4, 32)
    pte = bytearray(lower(model, x))
    right = explain(bytes(pte), model, (x,))
    assert right.first is None
    weight = model[2].weight.detach().numpy().tobytes()
    at = pte.index(weight)
    pte[at + 20 : at + 24] = np.float32(0.5).tobytes()
    report = explain(bytes(pte), model, (x,))
    assert report.verdict == "differ" and report.first is not None, str(report)
    assert report.first.where == "delegate 0, node 2", str(report)
    assert [line.verdict for line in report] == ["ok", "ok", "source", "propagated", "propagated"]
