"""Damaged payloads: errors or results, never a crash.

They run in a separate process (`xnnpack_mutate.py`), so that a crash is a failure and not the
end of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import kept
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")
from tests.backends import xnnpack_sanitized  # noqa: E402
from tests.backends.test_xnnpack_tables import BYTES, SCALES, joined  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")

CASES = int(os.environ.get("EXECUTORCH_C_FUZZ_CASES", "3000"))
SEED = int(os.environ.get("EXECUTORCH_C_FUZZ_SEED", "1"))
IMAGE = (2, 3, 7, 8)


class Fn(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


MODELS: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "convs": (
        nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1),
            nn.ReLU6(),
            nn.Conv2d(4, 4, 3, groups=4),
            nn.MaxPool2d(2),
            nn.ConvTranspose2d(4, 3, 3, 2),
        ),
        [IMAGE],
    ),
    "pools": (
        Fn(lambda x: F.adaptive_avg_pool2d(F.avg_pool2d(F.pad(x, (1, 0, 2, 1)), 2), 1)),
        [IMAGE],
    ),
    "resize": (nn.UpsamplingBilinear2d(scale_factor=2), [IMAGE]),
    "layers": (
        nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4), nn.Softmax(-1)),
        [(3, 8)],
    ),
    "chain": (Fn(lambda x, y: (x.exp() - y).tanh() / (y * y).sqrt().clamp(1, 2)), [(2, 3), (2, 3)]),
    "moves": (
        Fn(lambda x, y: torch.cat([x, y], 1).permute(1, 0)[1:4].reshape(6)),
        [(2, 3), (2, 4)],
    ),
    "products": (Fn(lambda x, y: torch.bmm(x, y).abs()), [(2, 3, 4), (2, 4, 5)]),
    "prelu": (nn.Sequential(nn.PReLU(3), nn.LeakyReLU(), nn.Hardswish()), [IMAGE]),
}


def lowered(module: nn.Module, shapes: list[tuple[int, ...]]) -> tuple[bytes, list[Any]]:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    torch.manual_seed(0)
    inputs = tuple(torch.randn(shape) for shape in shapes)
    program = torch.export.export(module.eval(), inputs)
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    return bytes(edge.to_executorch().buffer), [x.numpy() for x in inputs]


def write_programs(folder: Path) -> None:
    folder.mkdir()
    for name, (module, shapes) in MODELS.items():
        pte, inputs = lowered(module, shapes)
        assert b"XH00" in pte, name
        arrays = {f"x{i}": x for i, x in enumerate(inputs)}
        np.savez(folder / name, pte=np.frombuffer(pte, np.uint8), **arrays)
    for name in ("silu", "decomposed"):  # chains that become tables
        pte = joined(name, (4, 64), *SCALES[0]).program()
        x = BYTES["qint8"].reshape(4, 64)
        np.savez(folder / f"{name}_table", pte=np.frombuffer(pte, np.uint8), x0=x)


@pytest.fixture(scope="module")
def programs() -> Path:
    key = kept.digest(Path(__file__), packages=("torch", "executorch", "numpy"))
    return kept.file(f"damaged-{key}", write_programs)


def run(programs: Path, cases: int, *extension: str, env: dict[str, str] | None = None) -> None:
    worker = Path(__file__).with_name("xnnpack_mutate.py")
    command = [sys.executable, str(worker), str(programs), str(cases), str(SEED), *extension]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, check=False, env=env
    )
    assert done.returncode == 0, f"{done.stdout[-300:]}{done.stderr[-4000:]}"
    loaded, ran = map(int, done.stdout.split()[-2:])
    assert cases / 50 < ran <= loaded < cases / 2


@pytest.mark.heavy  # below, the same under sanitizers
def test_damaged(programs: Path) -> None:
    run(programs, CASES)


def test_damaged_under_sanitizers(programs: Path) -> None:
    run(programs, CASES, str(xnnpack_sanitized.build()), env=xnnpack_sanitized.environment())
