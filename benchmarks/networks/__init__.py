"""Architectures at usual sizes, with random weights, and batch norms with trained-like statistics.

Add one: a function of the size that returns a module and its inputs, in the file of its kind, and a
row in NETWORKS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.networks import dense, sequence, vision

Made = tuple[nn.Module, tuple[Tensor, ...]]


@dataclass(frozen=True)
class Network:
    """An architecture: `make` takes a size (side of an image, length of a sequence)."""

    name: str
    make: Callable[[int], Made]
    small: int
    usual: int

    def build(self, size: int | None = None, batch: int = 1) -> Made:
        """Return the seeded module in eval mode and its inputs, repeated `batch` times."""
        torch.manual_seed(0)
        module, inputs = self.make(size or self.usual)
        for part in module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                nn.init.uniform_(part.running_mean, -0.1, 0.1)
                nn.init.uniform_(part.running_var, 0.5, 1.5)
                nn.init.uniform_(part.weight, 0.8, 1.2)
                nn.init.uniform_(part.bias, -0.1, 0.1)
        return module.eval(), tuple(x.repeat(batch, *[1] * (x.dim() - 1)) for x in inputs)


NETWORKS = {
    network.name: network
    for network in (
        Network("lenet", vision.lenet, 28, 56),
        Network("small_cnn", vision.small_cnn, 32, 96),
        Network("squeezenet", vision.squeezenet, 96, 224),
        Network("mobilenet_v2", vision.mobilenet_v2, 96, 224),
        Network("mobilenet_v3", vision.mobilenet_v3, 96, 224),
        Network("efficientnet_b0", vision.efficientnet, 96, 224),
        Network("lcnet", vision.lcnet, 96, 224),
        Network("shufflenet_v2", vision.shufflenet, 96, 224),
        Network("resnet18", vision.resnet18, 96, 224),
        Network("resnet50", vision.resnet50, 96, 224),
        Network("regnet", vision.regnet, 96, 224),
        Network("densenet121", vision.densenet, 96, 224),
        Network("convnext_tiny", vision.convnext, 96, 224),
        Network("fastvit", vision.fastvit, 128, 256),
        Network("edgenext", vision.edgenext, 128, 256),
        Network("mobilevit", vision.mobilevit, 128, 256),
        Network("deit_tiny", vision.deit_tiny, 96, 224),
        Network("swin_tiny", vision.swin, 128, 224),
        Network("mlp_mixer", vision.mlp_mixer, 96, 224),
        Network("unet", dense.unet, 64, 256),
        Network("deeplab", dense.deeplab, 96, 224),
        Network("ssd", dense.ssd, 128, 320),
        Network("super_resolution", dense.super_resolution, 32, 128),
        Network("autoencoder", dense.autoencoder, 32, 128),
        Network("vae", dense.vae, 32, 64),
        Network("pointnet", dense.pointnet, 256, 2048),
        Network("mlp", sequence.mlp, 256, 1024),
        Network("bert_mini", sequence.bert, 32, 128),
        Network("gpt2_mini", sequence.gpt2, 16, 128),
        Network("llama_15m", sequence.llama, 1, 64),
        Network("t5_encoder", sequence.t5_encoder, 32, 128),
        Network("whisper_encoder", sequence.whisper_encoder, 200, 1000),
        Network("wav2vec2", sequence.wav2vec2, 4000, 16000),
        Network("conformer", sequence.conformer, 50, 200),
        Network("lstm", sequence.lstm, 16, 64),
        Network("gru", sequence.gru, 16, 64),
        Network("tcn", sequence.tcn, 100, 1000),
    )
}
