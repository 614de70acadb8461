"""Explained causes of differences: a table of rows, each with a proof that is run.

A row explains a difference if its proof holds for it: nothing is explained by a wide tolerance. A
difference that no row explains is one to look into.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from executorch_c import Runtime
from executorch_c.inspect import device, reference
from executorch_c.inspect.structure import View
from tests import judge
from tests.differential import graphs, modes, programs, rounding, ways
from tests.differential.modes import name_of
from tests.differential.programs import OFFICIAL, Difference, Trial
from tests.differential.rounding import Rooms


def flow_changed_it(trial: Trial, difference: Difference) -> bool:
    """Return True if eager, run on the exported graph, has the result: the flow has changed the
    function (a dtype, a formula), and the runtime computes what the program says."""
    with torch.no_grad(), ways.quiet():
        model = trial.edge.module(check_guards=False)

        def run() -> list[Any]:
            return last_outputs(model, trial.calls[: difference.call + 1])

        wanted = run()
        result = difference.found
        if difference.output >= len(wanted):
            return False
        exact = judge.difference(result, wanted[difference.output], judge.EXACT)
        if exact is None or np.shape(result) != np.shape(wanted[difference.output]):
            return exact is None
        if result.dtype != wanted[difference.output].dtype or trial.graph.is_stateful:
            return False
        return is_within(Rooms(run, wanted), difference, rounding.DRAWS)


def last_outputs(model: Any, calls: Sequence[ways.Eager]) -> list[Any]:
    """Return the outputs of the last of some calls in a row."""
    items: list[Any] = []
    for call in calls:
        items = ways.outputs(model, call.inputs, call.changed)
    return items


def is_within(rooms: Rooms, difference: Difference, draws: int = rounding.MORE_DRAWS) -> bool:
    """Return True if the errors of a number of draws explain a difference."""
    rooms.draw(draws)
    wrong, _ = rooms.wrong(difference.output, difference.found)
    return not wrong.any()


PRODUCTS = ("aten::bmm", "aten::mm")


class Planned(torch.fx.Interpreter):
    """Eager on the exported graph. `others`: operators whose results have another dtype or shape
    than the plan's; `after`: nodes of them, and all that read their results. `idle`: operators that
    compute nothing, of empty tensors that they reject otherwise. `sums`: products of no elements,
    and nodes that read them.
    `refused`: the operator that eager rejects, where the run ended."""

    def __init__(self, program: Any) -> None:
        super().__init__(program.graph_module)
        self.others: set[str] = set()
        self.after: set[torch.fx.Node] = set()
        self.idle: set[str] = set()
        self.sums: set[torch.fx.Node] = set()
        self.refused = ""

    def run_node(self, n: torch.fx.Node) -> Any:
        name = name_of(n.target)
        try:
            result = super().run_node(n)
        except Exception:
            self.refused = name or str(n.target)
            raise
        if n.op != "call_function":
            return result
        tensors = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
        planned = [t for t in pytree.tree_leaves(n.meta.get("val")) if isinstance(t, torch.Tensor)]
        if not all(map(is_planned, tensors, planned)) or len(tensors) != len(planned):
            self.others.add(name)
            self.after.add(n)
        read = [self.env.get(other) for other in n.all_input_nodes]
        if any(isinstance(t, torch.Tensor) and not t.numel() for t in (*tensors, *read)) and (
            self.rejects_elements(n)
        ):
            self.idle.add(name)
        if name in PRODUCTS and any(not t.numel() for t in read) and tensors[0].numel():
            self.sums.add(n)
        return result

    def rejects_elements(self, n: torch.fx.Node) -> bool:
        """Return True if eager rejects a call for tensors with elements: it has no kernel in their
        dtypes, or an index is out of bounds."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        try:
            n.target(*pytree.tree_map(filled, args), **kwargs)  # type: ignore[operator]
        except Exception as error:
            return "not implemented for" in str(error) or "out of bounds" in str(error)
        return False


def is_planned(found: torch.Tensor, planned: torch.Tensor) -> bool:
    """Return True if a result has the dtype, the number of dimensions and the fixed sizes of the
    plan."""
    return (found.dtype, found.dim()) == (planned.dtype, planned.dim()) and all(
        isinstance(size, torch.SymInt) or n == size
        for n, size in zip(found.shape, planned.shape, strict=True)
    )


def filled(value: Any) -> Any:
    """Return one element in each empty dimension of a tensor."""
    empty = isinstance(value, torch.Tensor) and not value.numel()
    return torch.ones([max(n, 1) for n in value.shape], dtype=value.dtype) if empty else value


@functools.lru_cache(maxsize=16)
def planned(trial: Trial, call: int) -> Planned:
    """Return what eager does on the exported graph."""
    with torch.no_grad(), ways.quiet():
        program = trial.edge
        run = Planned(program)
        named = {**program.state_dict, **program.constants}
        inputs = iter(map(ways.copied, trial.calls[max(call, 0)].inputs))
        data = torch.export.graph_signature.InputKind.USER_INPUT
        values = [
            next(inputs) if spec.kind == data else named[spec.target]
            for spec in program.graph_signature.input_specs
        ]
        try:
            run.run(*values)
        except Exception:
            if not run.refused:
                raise
    for node in program.graph.nodes:  # those after a refusal, too
        for result in (run.after, run.sums):
            if result.intersection(node.all_input_nodes):
                result.add(node)
    return run


def planned_otherwise(trial: Trial, difference: Difference) -> bool:
    """Return True if an operator's result has another dtype or shape in eager than in the plan,
    which the exporter writes from its own shape functions: one that the output depends on, or that
    is refused."""
    run = planned(trial, difference.call)
    if difference.output < 0:
        return is_named({name_of(node.target) for node in run.after}, difference)
    return output_of(trial, difference) in run.after


def output_of(trial: Trial, difference: Difference) -> torch.fx.Node:
    """Return the exported graph's node of an output."""
    (end,) = (node for node in trial.edge.graph.nodes if node.op == "output")
    wanted = trial.calls[max(difference.call, 0)].wanted
    outputs = end.args[0][-len(wanted) :]  # after buffers that change
    return outputs[difference.output]


def writes_nothing(trial: Trial, difference: Difference) -> bool:
    """Return True if the output depends on a product over no elements, which is 0."""
    return output_of(trial, difference) in planned(trial, difference.call).sums


def computes_nothing(trial: Trial, difference: Difference) -> bool:
    """Return True if the refused operator is one that eager accepts only for empty tensors."""
    return is_named(planned(trial, difference.call).idle, difference)


def eager_refuses(trial: Trial, difference: Difference) -> bool:
    """Return True if eager rejects the refused operator of the exported graph as well, or the sizes
    that the exporter assumed there."""
    refused = planned(trial, difference.call).refused
    return "_assert_scalar" in refused or is_named({refused}, difference)


def is_named(names: set[str], difference: Difference) -> bool:
    """Return True if a refusal names one of the operators."""
    return any(f"{name}." in difference.text for name in names if name)


def nearer_than_eager(trial: Trial, difference: Difference) -> bool:
    """Return True if the wrong elements are nearer to eager's results in float64 than eager's own
    are."""
    model, call = trial.graph.module(), trial.calls[difference.call]
    model.state.copy_(call.state)
    for name, value in model.named_buffers():
        setattr(model, name, modes.widened(value))
    try:
        with ways.quiet(), torch.no_grad(), modes.Exact():
            outputs = ways.outputs(model, [modes.widened(x) for x in call.inputs], call.changed)
        exact = outputs[difference.output]
    except Exception:  # float64 is no dtype of a call
        return False
    wanted = call.wanted[difference.output]
    if exact.shape == np.shape(result := difference.found) != wanted.shape:
        return True
    if exact.shape != wanted.shape or difference.wrong is None:
        return False
    if not judge.is_inexact(wanted.dtype.name):
        return bool(judge.same(exact, result)[difference.wrong].all())
    ours, eagers = (judge.distance(a, exact, wanted.dtype.name) for a in (result, wanted))
    at = difference.wrong
    return bool((ours[at] <= eagers[at]).all())


def result_is_undefined(trial: Trial, difference: Difference) -> bool:
    """Return True if the wrong elements depend on what an operator does not define."""
    if difference.wrong is None:
        return False
    call = trial.calls[difference.call]
    wanted, same = call.wanted[difference.output], np.array(True)
    for change in modes.OTHERS:
        with torch.no_grad(), modes.Undefined(change):
            other = ways.again(trial.graph, call)[difference.output]
        if other.shape != wanted.shape:
            return False
        same = same & judge.same(other, wanted)
    return not same[difference.wrong].any()


def rewritten(trial: Trial, old: str, new: str) -> Trial | None:
    """Return the trial with other text in its lines, and eager's results of those; None if the text
    is not there."""
    lines = [line.replace(old, new) for line in trial.graph.lines]
    if lines == trial.graph.lines:
        return None
    other = dataclasses.replace(trial.graph, lines=lines)
    calls = [dataclasses.replace(call, wanted=ways.again(other, call)) for call in trial.calls]
    return dataclasses.replace(trial, graph=other, calls=calls)


def is_result_of(other: Trial | None, difference: Difference) -> bool:
    """Return True if a difference is what eager computes for another graph."""
    if other is None or difference.wrong is None:
        return False
    return is_within(other.rooms[difference.call], difference)


def gelu_is_exact(trial: Trial, difference: Difference) -> bool:
    """Return True if XNNPACK's program has the results of the graph with the other gelu: its
    partitioner takes `approximate='tanh'` and drops it."""
    other = rewritten(trial, "approximate='tanh'", "approximate='none'")
    return trial.flow == "xnnpack" and is_result_of(other, difference)


def zero_is_positive(trial: Trial, difference: Difference) -> bool:
    """Return True if the results are those of the graph with 0.0 for -0.0: FlatBuffers leave a
    field out that equals its default."""
    return is_result_of(rewritten(trial, "-0.0", "0.0"), difference)


def layout_is_lost(trial: Trial, difference: Difference) -> bool:
    """Return True if the graph has a tensor whose dimensions are not in their order in memory, and
    a program that is right if all are: the exporter makes views of such tensors, and XNNPACK's
    partitioner writes their sizes in another order."""
    nodes = [node.meta.get("val") for node in trial.edge.graph.nodes]
    if all(v.is_contiguous() for v in nodes if isinstance(v, torch.Tensor)):
        return False
    if trial.flow == "xnnpack" and is_right_without_xnnpack(trial, difference):
        return True
    graph = trial.graph
    lines = [
        line + "".join(f"; {name} = {name}.contiguous()" for name in graphs.assigned(line))
        for line in graph.lines
    ]
    inputs = [value.contiguous() for value in graph.inputs]
    other = programs.made(dataclasses.replace(graph, lines=lines, inputs=inputs), trial.flow)
    result = differences_of(other, difference.way, trial.process)
    return not any(d.output in (difference.output, -1) for d in result)


def differences_of(trial: Trial, way: str, process: ways.Official | None) -> list[Difference]:
    """Return the differences of one way. Raises ways.Failed without the official runtime, if that
    is the way, and for a program that it does not run."""
    if way != OFFICIAL:
        return programs.run_here(trial, [way])
    if process is None:
        raise ways.Failed("the official runtime was not asked for")
    return programs.compared(trial, OFFICIAL, process.run(trial.pte, trial.inputs))


def is_xnnpacks(trial: Trial, difference: Difference) -> bool:
    """Return True if the official runtime has the same elements, and the program without XNNPACK
    has eager's."""
    if trial.flow != "xnnpack" or difference.wrong is None or not trial.by_official:
        return False
    at = difference.call, difference.output
    is_official = difference.way == OFFICIAL
    other = trial.wrong_here.get(at) if is_official else trial.by_official[at[0]][at[1]]
    if other is None or not judge.same(other, difference.found)[difference.wrong].all():
        return False
    return is_right_without_xnnpack(trial, difference)


def is_right_without_xnnpack(trial: Trial, difference: Difference) -> bool:
    """Return True if the program that has no delegate has eager's results in these elements, or
    others for another cause."""
    at = difference.call, difference.output
    plain = programs.made(trial.graph, "edge")
    return not any(
        d.output < 0
        or (
            (d.call, d.output) == at
            and (d.wrong is None or d.wrong[difference.wrong].any())
            and not _cause(plain, d)
        )
        for d in programs.run_here(plain, ["as written"])
    )


def xnnpack_refuses(trial: Trial, difference: Difference) -> bool:
    """Return True if XNNPACK refuses the program in both runtimes, and the program without it is
    right."""
    is_refused = trial.process is not None and not trial.by_official
    is_xnnpacks = "XnnpackBackend" in difference.text
    return is_refused and is_xnnpacks and is_right_without_xnnpack(trial, difference)


def carried_by_state(trial: Trial, difference: Difference) -> bool:
    """Return True if eager, under rounding from the first call on, has results as far away: the
    state carries the errors of earlier calls."""
    calls = trial.calls[: difference.call + 1]
    if not trial.graph.is_stateful or difference.wrong is None:
        return False

    def run() -> list[Any]:
        model = trial.graph.module()
        model.state.copy_(calls[0].state)  # type: ignore[operator]
        with ways.quiet():
            return last_outputs(model, calls)

    return is_within(Rooms(run, calls[-1].wanted), difference)


SUBNORMAL = 128 * np.finfo(np.float32).tiny
"""Largest error of a subnormal float that is 0, times the exponent that made it."""


def is_subnormal(trial: Trial, difference: Difference) -> bool:
    """Return True if XNNPACK's wrong elements are off by subnormal numbers, which are 0 there, and
    the program without it is right."""
    at, wanted = difference.wrong, trial.calls[difference.call].wanted[difference.output]
    if at is None or wanted.dtype != np.float32 or difference.way == OFFICIAL:
        return False
    near = np.abs(difference.found[at] - wanted[at]) <= SUBNORMAL
    return bool(near.all()) and is_right_without_xnnpack(trial, difference)


def depends_on_place(trial: Trial, difference: Difference) -> bool:
    """Return True if the wrong elements are eager's where it computes whole vectors."""
    if difference.wrong is None:
        return False
    with torch.no_grad(), modes.Padded():
        other = ways.again(trial.graph, trial.calls[difference.call])[difference.output]
    result = difference.found
    return other.shape == result.shape and bool(judge.same(other, result)[difference.wrong].all())


def is_result_of_mode(mode: type, trial: Trial, difference: Difference) -> bool:
    """Return True if a difference is what eager computes in a mode."""
    call = trial.calls[difference.call]

    def run() -> list[Any]:
        with mode():
            return ways.again(trial.graph, call)

    if difference.wrong is None:
        return False
    with torch.no_grad():
        rooms = Rooms(run, run())
    return is_within(rooms, difference)


DIFFERS = ("differs", "rounds", "crashes", "moved", "move viewed", "unwritten", "skipped")
"""Kinds of remarks on other results of the official runtime: a certain crash may be a result from
wrong memory, too."""


@functools.lru_cache(maxsize=16)
def said_of_official(pte: bytes) -> frozenset[str]:
    """Return the kinds of the remarks of `executorch-c info` on the official runtime and a
    program, and "rounds"."""
    view = View(Runtime.get().load_program(pte), "forward")
    calls = [reference.call_of(view, step) for step in view.steps if step.row["kind"] == "kernel"]
    remarks = device.of_view(view)
    table = {remark.kind for remark in remarks if remark.is_certain or remark.kind != "crashes"}
    if any(
        row.does == "rounds" and call.dtype in row.dtypes
        for call in calls
        for row in reference.table().get(call.operator, ())
    ):
        table.add("rounds")
    return frozenset(table)


def table_says_so(trial: Trial, difference: Difference) -> bool:
    """Return True if this runtime has eager's result, and `executorch-c info` says, of the program
    alone, that the official runtime computes another."""
    ours = trial.wrong_here.get((difference.call, difference.output))
    if ours is not None and judge.difference(ours, difference.found, judge.EXACT) is None:
        return False
    return not said_of_official(trial.pte).isdisjoint(DIFFERS)


@dataclass(frozen=True)
class Cause:
    """An explained cause of differences."""

    name: str
    proof: Callable[[Trial, Difference], bool]
    of: str = "results"
    """"results", "refusals", "both", or the results of the "official" runtime only."""


CAUSES = [
    Cause("the plan has another dtype or shape than eager's result", planned_otherwise, "both"),
    Cause("eager accepts the operands for empty tensors only", computes_nothing, "refusals"),
    Cause("the exported graph is rejected, also by eager", eager_refuses, "refusals"),
    Cause("the file has 0.0 for -0.0", zero_is_positive),
    Cause("the XNNPACK partitioner lowers the tanh gelu as the exact one", gelu_is_exact),
    Cause("the exported graph computes something else, also in eager", flow_changed_it),
    Cause("the operator defines no result for its operands", result_is_undefined),
    Cause("eager is farther from its own results in float64", nearer_than_eager),
    Cause("eager's vectors and the rest of a tensor differ", depends_on_place),
    Cause("the state carries the rounding of earlier calls", carried_by_state),
    Cause("XNNPACK differs, in both runtimes", is_xnnpacks),
    Cause("XNNPACK refuses it, in both runtimes", xnnpack_refuses, "refusals"),
    Cause("subnormal numbers are 0 in XNNPACK", is_subnormal),
    Cause("a layout is lost by the exporter, or by the official runtime", layout_is_lost, "both"),
    Cause("the official runtime leaves empty products unwritten", writes_nothing, "official"),
    Cause(
        "the official runtime has the variance of layer norm from squares",
        functools.partial(is_result_of_mode, modes.Squares),
        "official",
    ),
    Cause(
        "the official runtime rounds quotients by 0 down to an infinity",
        functools.partial(is_result_of_mode, modes.DivisorsOfZero),
        "official",
    ),
    Cause("the official runtime differs, as `info` says", table_says_so, "official"),
]


def applies(row: Cause, difference: Difference) -> bool:
    """Return True if the row is about such differences."""
    if difference.output < 0:
        return row.of in ("refusals", "both")
    return row.of in ("results", "both") or (row.of == "official" and difference.way == OFFICIAL)


def cause(trial: Trial, difference: Difference) -> str:
    """Return the name of the first row whose proof holds, for the program or for one of the calls
    that the output needs; empty if there is none."""
    result = _cause(trial, difference)
    if result:
        return result
    try:
        return _cause_alone(trial, difference)
    except Exception as error:  # the exporter may reject the smaller graph
        print(f"no smaller graph for seed {trial.graph.seed}: {error}", file=sys.stderr)
        return ""


def _cause_alone(trial: Trial, difference: Difference) -> str:
    """Return the cause in a program of the calls that the output needs, if it differs as well: a
    proof in float64 needs operators that have this dtype."""
    at = difference.call, difference.output
    if at[1] < 0 or trial.calls[at[0]].changed:
        return ""
    graph = graphs.for_output(trial.graph, at[1])
    if graph.is_stateful:
        return ""
    alone = programs.made(graph, trial.flow)
    alone.wrong_here = {(at[0], 0): trial.wrong_here[at]} if at in trial.wrong_here else {}
    same = [
        d
        for d in differences_of(alone, difference.way, trial.process)
        if (d.call, d.output) == (at[0], 0)
    ]
    return _cause(alone, same[0]) if same else ""


def _cause(trial: Trial, difference: Difference) -> str:
    """Return the name of the first row whose proof holds; empty if there is none."""
    for row in filter(lambda row: applies(row, difference), CAUSES):
        try:
            if row.proof(trial, difference):
                return row.name
        except Exception as error:  # the proof cannot be made
            print(f"no proof of {row.name!r} for seed {trial.graph.seed}: {error}", file=sys.stderr)
    return ""
