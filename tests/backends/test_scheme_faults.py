"""Cells that run are compared so that small faults of a payload show."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torchao.quantization import Int8Tensor

from executorch_c import Runtime
from executorch_c.check import flows
from tests.backends import schemes
from tests.backends.scheme_faults import FAULTS
from tests.llm import kv_cache_out  # noqa: F401  (the overload)

GROUP = 32
Weight = dict[str, torch.Tensor]


def weight_of(module: Any) -> Weight:
    """Return the numbers, scales and zero points of a linear layer's weight, to be changed."""
    if isinstance(module, torch.fx.GraphModule):
        names = {"_frozen_param0": "qdata", "_scale_0": "scale", "_zero_point_0": "zero_point"}
        return {names[key]: t for key, t in module.state_dict().items() if key in names}
    return {key: getattr(module.weight, key) for key in ("qdata", "scale", "zero_point")}


def scale(weight: Weight) -> None:
    """Change the scale of one group, or row, by a tenth."""
    weight["scale"].view(-1)[0] *= 1.1


def zero_point(weight: Weight) -> None:
    weight["zero_point"].view(-1)[0] += 1


def nibbles(weight: Weight) -> None:
    """Swap the pairs of numbers of one group."""
    group = weight["qdata"][0, :GROUP]
    group.copy_(group.view(-1, 2).flip(1).reshape(-1))


CELLS = [
    ("int4-group", "vulkan"),
    ("int8-dynamic-int4-group", "xnnpack"),
    *itertools.product(("int8-weight-only", "xnnpack-channel"), ("portable", "native", "coreml")),
]


@pytest.fixture(scope="module", params=CELLS)
def lowered(request: pytest.FixtureRequest) -> tuple[Any, list[Any], bytes, list[Any]]:
    """Return a quantised linear layer, inputs, its program and the results."""
    import executorch.kernels.quantized  # noqa: F401  out variants

    name, flow = request.param
    torch.manual_seed(0)
    make, draw = schemes.MODELS["linear"]
    model, inputs = make().eval().requires_grad_(False), [draw() for _ in range(2)]
    scheme = next(row for row in schemes.SCHEMES if row.name == name)
    quantized = scheme.quantize(model, inputs)
    exported = flows.export(quantized, ((inputs[0],), {}), None)
    pte = bytes(flows._lower(exported, flows.FLOWS[flow], "forward").buffer)
    method = Runtime.get().load_program(pte).load_method("forward")
    return quantized, inputs, pte, [method.execute([x])[0] for x in inputs]


def agrees(case: tuple[Any, list[Any], bytes, list[Any]], module: Any) -> bool:
    _, inputs, pte, actual = case
    return schemes._agrees(module, inputs, pte, actual, schemes._eager(module, inputs))


def test_right_program(lowered: Any) -> None:
    assert agrees(lowered, lowered[0])


@pytest.mark.parametrize("fault", [scale, zero_point, nibbles])
def test_fault_in_one_group(lowered: Any, fault: Callable[[Any], None]) -> None:
    module = copy.deepcopy(lowered[0])
    fault(weight_of(module))
    if fault is zero_point and isinstance(getattr(module, "weight", None), Int8Tensor):
        changed = [schemes._eager(m, lowered[1]) for m in (module, lowered[0])]
        np.testing.assert_array_equal(*changed)  # eager ignores it: the weight is symmetric
        return
    assert not agrees(lowered, module)


def test_a_fault_of_a_flow_changes_what_it_names() -> None:
    for fault in itertools.chain(*FAULTS.values()):
        module = torch.nn.Linear(2, 2)
        assert fault.change(module, b"") is module and fault.sentence


class Copied(torch.nn.Module):
    """A copy into a tensor that Vulkan's flow does not compute."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.bitwise_and(15).copy_(x + 1)


class Attending(torch.nn.Module):
    """An operator that the official runtime lacks."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, positions = x[None, None], torch.arange(2)[:, None]
        attend = torch.ops.kvcache.update_and_attend.default
        return attend(rows, rows, rows, positions, 0, 0.5, torch.float32)


X = torch.ones(2, 4)


@pytest.mark.parametrize(
    ("module", "flow", "actual", "expected"),
    [
        (Copied(), "vulkan", X.int(), "mislowered: the payload lacks an argument of its call"),
        (torch.nn.ReLU(), "vulkan", X, "fails: ValueError: no"),
        (torch.nn.ReLU(), "xnnpack", X[0], "mislowered: fails, in the official runtime, too"),
        (torch.nn.ReLU(), "xnnpack", X, "fails: ValueError: no (the official runtime runs it)"),
        (Attending(), "portable", X, "fails: ValueError: no (the official runtime lacks an op"),
    ],
)
def test_whose_failure_it_is(module: Any, flow: str, actual: Any, expected: str) -> None:
    exported = flows.export(module, ((X.to(actual.dtype),), {}), None)
    program = flows._lower(exported, flows.FLOWS[flow], "forward")
    result = schemes.failure(ValueError("no"), program, module, [actual], flow)
    assert result.startswith(expected)
