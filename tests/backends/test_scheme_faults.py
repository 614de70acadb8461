"""Cells that run are compared so that small faults of a payload show."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from executorch_c import Runtime
from executorch_c.check import flows
from tests.backends import schemes
from tests.backends.scheme_faults import FAULTS

GROUP = 32


def scale(weight: Any) -> None:
    """Change the scale of one group by a tenth."""
    weight.scale[0, 0] *= 1.1


def zero_point(weight: Any) -> None:
    weight.zero_point[0, 0] += 1


def nibbles(weight: Any) -> None:
    """Swap the pairs of numbers of one group."""
    group = weight.qdata[0, :GROUP]
    group.copy_(group.view(-1, 2).flip(1).reshape(-1))


@pytest.fixture(
    scope="module", params=[("int4-group", "vulkan"), ("int8-dynamic-int4-group", "xnnpack")]
)
def lowered(request: pytest.FixtureRequest) -> tuple[Any, list[Any], bytes, list[Any]]:
    """Return a quantised linear layer, inputs, its program and the results."""
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
def test_fault_in_one_of_256_groups(lowered: Any, fault: Callable[[Any], None]) -> None:
    module = copy.deepcopy(lowered[0])
    fault(module.weight)
    assert not agrees(lowered, module)


def test_a_fault_of_a_flow_changes_what_it_names() -> None:
    for fault in FAULTS.values():
        module = torch.nn.Linear(2, 2)
        assert fault.change(module) is module and fault.sentence
