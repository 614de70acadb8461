"""Explained causes of differences: a table of rows, each with a proof that is run.

A row explains a difference if its proof holds for it: nothing is explained by a wide tolerance. A
difference that no row explains is one to look into.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import judge
import numpy as np
import rounding
import torch
import variation
import ways
from executorch_c import inspect
from programs import OFFICIAL, Difference, Trial
from rounding import Rooms
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

WIDE = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
        torch.complex64: torch.complex128}  # fmt: skip


def flow_changed_it(trial: Trial, difference: Difference) -> bool:
    """Return True if eager, run on the exported graph, has the result: the flow has changed the
    function (a dtype, a formula), and the runtime computes what the program says."""
    with torch.no_grad(), ways.quiet():
        model = trial.edge.module()

        def run() -> list[object]:
            found: list[object] = []
            for call in trial.calls[: difference.call + 1]:
                found = ways.outputs(model, call.inputs, call.changed)
            return found

        wanted = run()
        found = difference.found
        if difference.output >= len(wanted):
            return False
        exact = judge.difference(found, wanted[difference.output], judge.EXACT)
        if exact is None or np.shape(found) != np.shape(wanted[difference.output]):
            return exact is None
        if found.dtype != wanted[difference.output].dtype or trial.graph.is_stateful:
            return False
        rooms = Rooms(run, wanted)
        rooms.draw(rounding.DRAWS)
        wrong, _ = rooms.wrong(difference.output, found)
        return not wrong.any()


class Planned(torch.fx.Interpreter):
    """Eager on the exported graph. `others`: operators whose results have another dtype or number
    of dimensions than the plan's; `after`: nodes of them, and all that read their results. `idle`:
    operators that compute nothing, of empty tensors in a dtype that they reject otherwise.
    `refused`: the operator that eager rejects, where the run ended."""

    def __init__(self, program: Any) -> None:
        super().__init__(program.graph_module)
        self.others: set[str] = set()
        self.after: set[torch.fx.Node] = set()
        self.idle: set[str] = set()
        self.refused = ""

    def run_node(self, n: torch.fx.Node) -> Any:
        name = getattr(getattr(n.target, "_schema", None), "name", "")
        try:
            result = super().run_node(n)
        except Exception:
            self.refused = name or str(n.target)
            raise
        if self.after.intersection(n.all_input_nodes):
            self.after.add(n)
        if n.op != "call_function":
            return result
        tensors = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
        planned = [t for t in pytree.tree_leaves(n.meta.get("val")) if isinstance(t, torch.Tensor)]
        if [(t.dtype, t.dim()) for t in tensors] != [(t.dtype, t.dim()) for t in planned]:
            self.others.add(name)
            self.after.add(n)
        if any(not t.numel() for t in tensors) and self.rejects_elements(n):
            self.idle.add(name)
        return result

    def rejects_elements(self, n: torch.fx.Node) -> bool:
        """Return True if eager has no kernel in the dtypes of a call for tensors with elements."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        try:
            n.target(*pytree.tree_map(filled, args), **kwargs)  # type: ignore[operator]
        except Exception as error:
            return "not implemented for" in str(error)
        return False


def filled(value: Any) -> Any:
    """Return one element in each dimension for an empty tensor."""
    empty = isinstance(value, torch.Tensor) and not value.numel()
    return torch.ones([1] * value.dim(), dtype=value.dtype) if empty else value


@functools.lru_cache(maxsize=16)
def planned(trial: Trial, call: int) -> Planned:
    """Return what eager does on the exported graph."""
    with torch.no_grad(), ways.quiet():
        program = trial.edge
        run = Planned(program)
        named = {**program.state_dict, **program.constants}
        inputs = iter(map(ways.copied, trial.calls[max(call, 0)].inputs))
        given = torch.export.graph_signature.InputKind.USER_INPUT
        values = [next(inputs) if spec.kind == given else named[spec.target]
                  for spec in program.graph_signature.input_specs]  # fmt: skip
        try:
            run.run(*values)
        except Exception:
            if not run.refused:
                raise
    return run


def planned_otherwise(trial: Trial, difference: Difference) -> bool:
    """Return True if an operator's result has another dtype in eager than in the plan, which the
    exporter writes from its own shape functions: one that the output depends on, or that is
    refused."""
    run = planned(trial, difference.call)
    if difference.output < 0:
        return is_named(run.others, difference)
    (end,) = (node for node in trial.edge.graph.nodes if node.op == "output")
    wanted = trial.calls[max(difference.call, 0)].wanted
    outputs = end.args[0][-len(wanted) :]  # after buffers that change
    return outputs[difference.output] in run.after


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


class Exact(variation.Noise):
    """Eager in float64, also where it computes integers in float32."""

    def __init__(self) -> None:
        super().__init__(0.0, wide=True)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        narrow = isinstance(result, torch.Tensor) and result.dtype in variation.NARROW
        if not narrow or func._schema.is_mutable or any(r.alias_info for r in func._schema.returns):
            return result
        kwargs = {k: torch.float64 if v in variation.NARROW else v
                  for k, v in (kwargs or {}).items()}  # fmt: skip
        near = func(*pytree.tree_map(as_float64, args), **kwargs)
        return near if near.dtype == torch.float64 and near.shape == result.shape else result


def as_float64(value: Any) -> Any:
    """Return a real tensor in float64."""
    real = isinstance(value, torch.Tensor) and not value.is_complex()
    return value.double() if real else value


def widened(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float64."""
    return value.to(WIDE.get(value.dtype, value.dtype))


def nearer_than_eager(trial: Trial, difference: Difference) -> bool:
    """Return True if the wrong elements are nearer to eager's results in float64 than eager's own
    are."""
    if difference.wrong is None:
        return False
    model, call = trial.graph.module(), trial.calls[difference.call]
    model.state.copy_(call.state)
    for name, value in model.named_buffers():
        setattr(model, name, widened(value))
    try:
        with ways.quiet(), torch.no_grad(), Exact():
            outputs = ways.outputs(model, [widened(x) for x in call.inputs], call.changed)
        exact = outputs[difference.output]
    except Exception:  # float64 is no dtype of a call
        return False
    wanted, found = call.wanted[difference.output], difference.found
    if exact.shape != wanted.shape or not judge.is_inexact(wanted.dtype.name):
        return False
    ours, eagers = (judge.distance(a, exact, wanted.dtype.name) for a in (found, wanted))
    at = difference.wrong
    return bool((ours[at] <= eagers[at]).all())


DECOMPOSITIONS = frozenset("""
    cholesky cholesky_inverse geqrf linalg_cholesky_ex linalg_eig linalg_inv_ex
    linalg_ldl_factor_ex linalg_lu linalg_lu_factor_ex linalg_matrix_exp linalg_qr _linalg_det
    _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd
""".split())  # fmt: skip


class Undefined(TorchDispatchMode):
    """Eager with other values where a decomposition defines none: of a matrix with NaN or infinity,
    and of one for which `info` says that it failed."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        name = getattr(func, "_schema", None) and func._schema.name.split("::")[1]
        if name not in DECOMPOSITIONS:
            return results
        several = results if isinstance(results, tuple) else (results,)
        failed = ~args[0].isfinite().all(-1).all(-1)
        for result, returned in zip(several, func._schema.returns, strict=True):
            failed |= result > 0 if returned.name == "info" else False
        others = [changed_where(failed, result) for result in several]
        return type(results)(others) if isinstance(results, tuple) else others[0]


def changed_where(failed: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """Return a result with NaN, or other integers, for some matrices of the batch."""
    here = failed.reshape(failed.shape + (1,) * (result.dim() - failed.dim()))
    is_inexact = result.is_floating_point() or result.is_complex()
    other = torch.full_like(result, torch.nan) if is_inexact else -result - 1
    return torch.where(here, other, result)


def decomposition_is_undefined(trial: Trial, difference: Difference) -> bool:
    """Return True if the wrong elements depend on what a decomposition does not define."""
    if difference.wrong is None:
        return False
    call = trial.calls[difference.call]
    with torch.no_grad(), Undefined():
        other = ways.again(trial.graph, call)[difference.output]
    wanted = call.wanted[difference.output]
    return other.shape == wanted.shape and not judge.same(other, wanted)[difference.wrong].any()


def gelu_is_exact(trial: Trial, difference: Difference) -> bool:
    """Return True if XNNPACK's program has the results of the graph with the other gelu: its
    partitioner takes `approximate='tanh'` and drops it."""
    lines = [line.replace("approximate='tanh'", "approximate='none'") for line in trial.graph.lines]
    if trial.flow != "xnnpack" or lines == trial.graph.lines or difference.wrong is None:
        return False
    other = dataclasses.replace(trial.graph, lines=lines)
    call = trial.calls[difference.call]
    rooms = Rooms(lambda: ways.again(other, call), ways.again(other, call))
    rooms.draw(rounding.DRAWS)
    wrong, _ = rooms.wrong(difference.output, difference.found)
    return not wrong.any()


@functools.cache
def reference_rows() -> dict[str, set[str]]:
    """Return what executorch_c/inspect/reference.tsv says of the official runtime, by operator."""
    path = Path(inspect.__file__).with_name("reference.tsv")
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    rows: dict[str, set[str]] = {}
    for row in csv.DictReader(lines, delimiter="\t"):
        rows.setdefault(row["operator"], set()).add(row["does"])
    return rows


def table_says_so(trial: Trial, difference: Difference) -> bool:
    """Return True if the program has an operator that the official runtime computes otherwise than
    eager, by the table, and this runtime has eager's result."""
    if (difference.call, difference.output) in trial.wrong_here:
        return False
    return any("differs" in reference_rows().get(name, ()) for name in trial.operators)


@dataclass(frozen=True)
class Cause:
    """An explained cause of differences."""

    name: str
    proof: Callable[[Trial, Difference], bool]
    of: str = "results"
    """"results", "refusals", "both", or the results of the "official" runtime only."""


CAUSES = [
    Cause("the plan has another dtype than eager's result", planned_otherwise, "both"),
    Cause("eager accepts the dtype for empty tensors only", computes_nothing, "refusals"),
    Cause("the exported graph is rejected, also by eager", eager_refuses, "refusals"),
    Cause("the XNNPACK partitioner lowers the tanh gelu as the exact one", gelu_is_exact),
    Cause("the exported graph computes something else, also in eager", flow_changed_it),
    Cause("the decomposition failed, or its matrix is not finite", decomposition_is_undefined),
    Cause("eager is farther from its own results in float64", nearer_than_eager),
    Cause("the official runtime differs, by reference.tsv", table_says_so, "official"),
]


def applies(row: Cause, difference: Difference) -> bool:
    """Return True if the row is about such differences."""
    if difference.output < 0:
        return row.of in ("refusals", "both")
    return row.of in ("results", "both") or (row.of == "official" and difference.way == OFFICIAL)


def cause(trial: Trial, difference: Difference) -> str:
    """Return the name of the first row whose proof holds; empty if there is none."""
    for row in filter(lambda row: applies(row, difference), CAUSES):
        try:
            if row.proof(trial, difference):
                return row.name
        except Exception as error:  # the proof cannot be made
            print(f"no proof of {row.name!r} for seed {trial.graph.seed}: {error}", file=sys.stderr)
    return ""
