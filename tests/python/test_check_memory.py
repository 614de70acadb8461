"""Memory of a check of a large model: a few times the model's size."""

import copy
import gc
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from executorch_c.check import lowering
from executorch_c.testing import check_model
from tests.exports import export
from tests.process import python

WIDTH, LAYERS = 1024, 16
"""Linear layers of 4 MB each: the gradients of two or three at a time, as autograd orders them, are
a small part of the model."""
SIZE = 4 * WIDTH * WIDTH * LAYERS
LIMIT = 3 * SIZE + (40 << 20)
"""Peak memory: the model, its file, one more for what a case computes, and code and caches."""
LIMIT_BY_FLOW = int(3.25 * 4 * SIZE) + (40 << 20)
"""The same of layers of twice the width, which are as large as a check by flow takes care of."""

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
    how = {"flow": "xnnpack"} if path == "flow" else {"program": path}
    return check_model(model(width, layers), (torch.randn(1, width),), **how)

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
    report = checked(tmp_path, large, small, WIDTH, LAYERS)
    assert report["verdict"] == "match"
    assert report["growth"] < LIMIT


@pytest.mark.heavy  # a process that imports torch
def test_a_check_by_flow(tmp_path: Path) -> None:
    """The model, the program's packed weights, and what power computes: no copies of the export's,
    which took three times the model's size more."""
    report = checked(tmp_path, "flow", "flow", 2 * WIDTH, LAYERS)
    assert report["verdict"] == "match"
    assert report["growth"] < LIMIT_BY_FLOW


def checked(folder: Path, *arguments: object) -> dict[str, Any]:
    output = python("-c", CHECK, *arguments, cwd=folder).stdout
    report: dict[str, Any] = json.loads(output.splitlines()[-1])
    return report


def test_copies_share_the_weights_of_a_large_model() -> None:
    exported = torch.export.export(layers(8, 2), (torch.randn(1, 8),))
    [weight, *_] = exported.state_dict.values()
    with lowering.sharing_weights(exported):
        again = copy.deepcopy(exported)
    assert again.state_dict["0.weight"] is weight
    assert copy.deepcopy(exported).state_dict["0.weight"] is not weight


def test_a_pass_that_writes_to_shared_weights_is_an_error() -> None:
    exported = torch.export.export(layers(8, 2), (torch.randn(1, 8),))
    with pytest.raises(RuntimeError, match="write to the weights"):
        with lowering.sharing_weights(exported), torch.no_grad():
            copy.deepcopy(exported).state_dict["1.weight"].mul_(2)


def test_the_program_of_a_large_model_is_a_file_while_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lowering, "LARGE_BYTES", 1)
    model, x = layers(8, 2), torch.randn(1, 8)
    result = check_model(model, (x,), flow="portable")
    origin = result._origins["program"]
    path = Path(str(origin.source))
    assert result.verdict == "match" and path.exists() and origin.name is None
    assert origin.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    result.save_program(tmp_path / "saved.pte")
    assert (tmp_path / "saved.pte").read_bytes() == path.read_bytes()
    assert result.explain(result.cases[0]).verdict == "match"
    del result, origin
    gc.collect()
    assert not path.exists()
