"""Models for `xnnpack`: architectures of `networks/`, quantised and delegated by the official flow.

Add one: a row in MODELS, and its architecture in `networks/`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.common import CACHE
from benchmarks.exports import key, program as exported, write
from benchmarks.networks import Made, sequence, vision


@dataclass(frozen=True)
class Model:
    """A model under a scheme; `sequence` marks transformers and recurrent models."""

    name: str
    make: Callable[[], Made]
    scheme: str = "fp32"
    sequence: bool = False

    @property
    def title(self) -> str:
        return f"{self.name}, {self.scheme}"


MODELS = (
    Model("mobilenet_v2", vision.mobilenet_v2),
    Model("mobilenet_v2", vision.mobilenet_v2, "int8"),
    Model("mobilenet_v3", vision.mobilenet_v3),
    Model("efficientnet_b0", vision.efficientnet),
    Model("resnet18", vision.resnet18),
    Model("resnet18", vision.resnet18, "int8"),
    Model("densenet121", vision.densenet),
    Model("deit_tiny", vision.deit_tiny, sequence=True),
    Model("deit_tiny", vision.deit_tiny, "8da8w", sequence=True),
    Model("bert_mini", sequence.bert, sequence=True),
    Model("bert_mini", sequence.bert, "8da8w", sequence=True),
    Model("llama_15m, 64 tokens", lambda: sequence.llama(64), sequence=True),
    Model("llama_15m, 64 tokens", lambda: sequence.llama(64), "8da4w", sequence=True),
    Model("llama_15m, 1 token", lambda: sequence.llama(1), "8da4w", sequence=True),
    Model("lstm", lambda: sequence.recurrent(nn.LSTM), sequence=True),
    Model("gru", lambda: sequence.recurrent(nn.GRU), sequence=True),
)


def export(model: Model, path: Path) -> None:
    """Write the program and its inputs."""
    torch.manual_seed(0)
    module, inputs = model.make()
    data = exported(module.eval(), inputs, model.scheme)
    np.savez(path.with_suffix(".npz"), *(x.numpy() for x in inputs))
    write(path, data)


def program(model: Model) -> tuple[Path, list[Any]]:
    """Return a model's file and inputs; export it if its sources or the packages have changed."""
    here = Path(__file__).parent
    sources = [here / "networks" / name for name in ("vision.py", "sequence.py")]
    title = model.title.replace(", ", "-").replace(" ", "_")
    CACHE.mkdir(exist_ok=True)
    path = CACHE / f"xnnpack-{title}-{key([here / 'exports.py', *sources])}.pte"
    if not path.exists():
        export(model, path)
    with np.load(path.with_suffix(".npz")) as file:
        return path, [file[name] for name in file.files]
