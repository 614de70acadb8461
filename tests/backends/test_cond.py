"""torch.cond in programs of several backends: checked, and a fault in a branch is named."""

import copy
from typing import Any

import pytest
import torch

from executorch_c.check import flows
from executorch_c.devtools import explain
from executorch_c.testing import check_model

pytestmark = pytest.mark.heavy  # an export needs some seconds


@pytest.fixture(autouse=True)
def flow_is_installed(request: pytest.FixtureRequest) -> None:
    """Skip the rows of TOSA's flows where the extra `arm` is absent."""
    if "tosa" in request.node.name:
        pytest.importorskip("tosa_serializer", reason="the flow needs tosa-tools (extra `arm`)")


class Chosen(torch.nn.Module):
    """Branches with weights of their own, by the sum of the input or by a flag."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Parameter(torch.rand(8) + 0.5)
        self.down = torch.nn.Parameter(torch.rand(8) - 2)
        self.head = torch.nn.Linear(8, 4)

    def branches(self, condition: Any, x: Any) -> Any:
        def yes(x: Any) -> Any:
            return (x * self.up).sigmoid() - x

        def no(x: Any) -> Any:
            return (x + self.down).tanh() * x

        return self.head(torch.cond(condition, yes, no, (x,)))

    def forward(self, x: Any) -> Any:
        return self.branches(x.sum() > 0, x)


class Flagged(Chosen):
    def forward(self, x: Any, flag: Any) -> Any:
        return self.branches(flag, x)


class Scalars(torch.nn.Module):
    """Results of rank 0, which TOSA's graph has as (1,)."""

    def forward(self, x: Any, k: Any) -> Any:
        return x.reshape(-1)[0] * 2, k * 3, x.sum()


def example(yes: bool) -> Any:
    x = torch.rand(2, 8)
    return x if yes else -x


@pytest.mark.parametrize("flow", ["portable", "vulkan", "tosa", "tosa-int8"])
@pytest.mark.parametrize("yes", [True, False])
def test_a_right_module_matches(flow: str, yes: bool) -> None:
    torch.manual_seed(0)
    x = example(yes)
    result = check_model(Chosen().eval(), (x,), flow=flow, n_random=1, real_inputs=[(-x,)])
    assert result, str(result)


def test_scalar_results_match_tosa() -> None:
    result = check_model(Scalars(), (torch.rand(2, 3), torch.tensor(2.0)), flow="tosa", n_random=1)
    assert result, str(result)


class Larger(Chosen):
    """A branch whose result is much larger than its operand."""

    def forward(self, x: Any, flag: Any) -> Any:
        return torch.cond(flag, lambda x: x * 150, lambda x: x.abs(), (self.head(x),))


def test_what_the_quantiser_costs_tosa_is_said() -> None:
    """TOSAQuantizer gives the operand and the result of torch.cond one scale."""
    torch.manual_seed(0)
    model, x = Larger().eval(), torch.randn(2, 8)
    result = check_model(model, (x, torch.tensor(True)), flow="tosa-int8", n_random=0)
    assert result.verdict == "differ", str(result)
    assert "quantising costs it: the quantised graph itself has" in " ".join(str(result).split())
    kinds = torch.ops.quantized_decomposed
    graph: Any = result.reference
    nodes = list(graph.graph.nodes)
    (chosen,) = (node for node in nodes if node.target is torch.ops.higher_order.cond)
    (operand,) = chosen.args[3]
    (item,) = chosen.users
    (after,) = item.users
    assert after.target is kinds.quantize_per_tensor.default
    assert operand.target is kinds.dequantize_per_tensor.default
    assert operand.args[1] == after.args[1]


def faulty(model: Chosen, name: str) -> Chosen:
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        getattr(wrong, name)[3] += 0.5
    return wrong


def check_report(report: Any, is_taken: bool, name: str) -> None:
    """Check that a fault in a branch is the only source, of this name, if the branch is taken."""
    if not is_taken:
        assert report and report.first is None, str(report)
        return
    assert report.verdict == "differ" and report.first is not None, str(report)
    assert name in report.first.name.lower(), str(report)
    assert sum(line.verdict == "source" for line in report) == 1, str(report)


@pytest.mark.parametrize("flow", ["portable", "vulkan", "tosa"])
@pytest.mark.parametrize("yes", [True, False])
def test_a_fault_in_a_branch_is_named(flow: str, yes: bool) -> None:
    torch.manual_seed(0)
    model, inputs = Flagged().eval(), (example(yes), torch.tensor(yes))
    for parameter, name in (("up", "mul"), ("down", "add")):
        wrong = torch.export.export(faulty(model, parameter), inputs)
        program = flows._lower(wrong, flows.FLOWS[flow], "forward")
        report = explain(model, inputs, program=bytes(program.buffer))
        check_report(report, (parameter == "up") == yes, name)


@pytest.mark.parametrize("yes", [True, False])
def test_a_fault_in_a_branch_of_a_tosa_int8_program_is_named(yes: bool) -> None:
    """The planted fault is a wrong operand in a branch; both programs have one calibration."""
    torch.manual_seed(0)
    x, row = example(True), flows.FLOWS["tosa-int8"]
    model, inputs = Flagged().eval(), (x if yes else -x, torch.tensor(yes))
    samples = [((sign * x, torch.tensor(flag)), {}) for sign in (1, -1) for flag in (True, False)]
    right = flows._quantize(row, flows.export(model, (inputs, {}), None), samples)

    def explained(graph: Any) -> Any:
        program = flows._lower(flows.export(graph, (inputs, {}), None), row, "forward")
        return explain(right, inputs, program=bytes(program.buffer))

    assert (report := explained(right)) and report.first is None, str(report)
    for branch, name in (("true_graph_0", "mul"), ("false_graph_0", "add")):
        wrong = copy.deepcopy(right)
        graph = getattr(wrong, branch)
        (node,) = (node for node in graph.graph.nodes if node.name == name)
        node.args = (node.args[0], node.args[0])  # not the parameter
        graph.recompile()
        check_report(explained(wrong), (name == "mul") == yes, name)
