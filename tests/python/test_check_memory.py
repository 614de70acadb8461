"""Memory of a check of a large model: a few times the model's size."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.exports import export
from tests.process import python

WIDTH, LAYERS = 1024, 16
"""Linear layers of 4 MB each: the gradients of two or three at a time, as autograd orders them, are
a small part of the model."""
SIZE = 4 * WIDTH * WIDTH * LAYERS
LIMIT = 3 * SIZE + (40 << 20)
"""Peak memory: the model, its file, one more for what a case computes, and code and caches."""

CHECK = """
import json, sys
import torch
from executorch_c.testing import check_model

def figure(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024

def model(width, layers):
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers))).eval()

def check(width, layers, path):
    return check_model(model(width, layers), (torch.randn(1, width),), program=path)

path, small, width, layers = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
check(64, 2, small)  # imports
before = figure("VmRSS")
report = check(width, layers, path)
print(json.dumps({"verdict": report.verdict, "growth": figure("VmHWM") - before}))
"""


def layers(width: int, count: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(count))).eval()


@pytest.mark.heavy  # a process that imports torch
def test_a_check_of_a_file(tmp_path: Path) -> None:
    large, small = tmp_path / "large.pte", tmp_path / "small.pte"
    large.write_bytes(export(layers(WIDTH, LAYERS), torch.randn(1, WIDTH)))
    small.write_bytes(export(layers(64, 2), torch.randn(1, 64)))
    output = python("-c", CHECK, large, small, WIDTH, LAYERS, cwd=tmp_path).stdout
    report = json.loads(output.splitlines()[-1])
    assert report["verdict"] == "match"
    assert report["growth"] < LIMIT
