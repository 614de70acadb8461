"""Train the digit classifier of executorch_c and write digits.pte and digits.npz.

A small convolutional network on scikit-learn's 8x8 digits, seeded, exported by the official
portable flow. digits.npz holds test images (`inputs`), the outputs of eager PyTorch (`expected`)
and the true classes (`labels`). Needs the test extras: torch, executorch, scikit-learn.

    python train_digits.py [DIRECTORY]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from executorch.exir import to_edge
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional as F

SEED = 7
EPOCHS = 30
LARGEST_BATCH = 64


class DigitNet(nn.Module):
    """Three convolutions with batch norm, one pooling step, a linear head; returns logits."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AvgPool2d(2),
        )
        self.head = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images: Tensor) -> Tensor:
        return F.log_softmax(self.head(self.features(images).flatten(1)), -1)


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return images in [0, 1] as (n, 1, 8, 8) and their classes: training set, then test set."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    parts = train_test_split(images, labels, test_size=0.2, random_state=SEED, stratify=labels)
    return parts[0], parts[2], parts[1], parts[3]


def train(images: Tensor, labels: Tensor) -> DigitNet:
    """Return the trained network in eval mode; equal seeds give equal weights."""
    torch.manual_seed(SEED)
    net = DigitNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            F.nll_loss(net(images[batch]), labels[batch]).backward()
            optimizer.step()
        schedule.step()
    return net.eval()


def export(net: DigitNet) -> bytes:
    """Return the program, for at most LARGEST_BATCH images."""
    batch = torch.export.Dim("batch", min=1, max=LARGEST_BATCH)
    example = (torch.zeros(2, 1, 8, 8),)
    program = torch.export.export(net, example, dynamic_shapes={"images": {0: batch}})
    return to_edge(program).to_executorch().buffer


def main() -> None:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    torch.set_num_threads(1)
    images, labels, test_images, test_labels = digits()
    net = train(images, labels)
    with torch.no_grad():
        accuracy = (net(test_images).argmax(-1) == test_labels).float().mean().item()
        # From the second image: the first looks like a 3 to the network.
        shown = test_images[:LARGEST_BATCH].roll(-1, 0)
        expected = net(shown)
        pte = export(net)
    (directory / "digits.pte").write_bytes(pte)
    np.savez_compressed(
        directory / "digits.npz",
        inputs=shown.numpy(),
        expected=expected.numpy(),
        labels=test_labels[:LARGEST_BATCH].roll(-1, 0).numpy(),
    )
    print(f"accuracy on held-out images {accuracy:.3f}, digits.pte {len(pte)} bytes")


if __name__ == "__main__":
    main()
