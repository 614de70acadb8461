"""Ways of computing a graph: eager, the official flow with this runtime and the official one."""

import logging
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from executorch_c.check import official
from executorch_c.check.official_child import unwired, wire
from tests.differential.graphs import Graph, redrawn
from tests.kernels import eager

WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "reference": {"kernels": "reference"},
    "as written": {"delegate_at_load": False},
    "delegated at load": {"delegate_at_load": True},
    "delegated at load always": {"delegate_at_load": "always"},
    "delegated at load each": {"delegate_at_load": "each"},
}
"""Options of `load_method`, by way."""
FLOWS = ("edge", "lower", "xnnpack")
FLOW_WEIGHTS = (12, 2, 1)
OFFICIAL_SECONDS = 20.0
MAX_CHILD_PROGRAMS = 400
Call = list[torch.Tensor]


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the exporter's warnings and logs away."""
    logging.disable(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def flow_of(graph: Graph) -> str:
    """Return the flow of a graph, by its seed."""
    return random.Random(-graph.seed - 1).choices(FLOWS, FLOW_WEIGHTS)[0]


def traced(graph: Graph) -> Any:
    """Return the ExportedProgram."""
    varies = None
    if graph.is_dynamic:
        rank, size = graph.inputs[0].dim(), graph.inputs[0].shape[:1]
        varies = tuple(
            {0: torch.export.Dim.AUTO(min=1, max=9)}  # type: ignore[no-untyped-call]
            if value.dim() == rank and value.shape[:1] == size
            else None
            for value in graph.inputs
        )
    copies = tuple(map(copied, graph.inputs))
    with quiet():
        return torch.export.export(
            graph.module(eager=False), copies, dynamic_shapes=varies, strict=False
        )


def takes(program: Any, inputs: Call) -> bool:
    """Return True if an ExportedProgram takes inputs of these sizes: the exporter may have fixed a
    dimension that may vary, or made two equal."""
    names = program.graph_signature.user_inputs
    planned = {
        node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"
    }
    seen: dict[str, int] = {}
    for name, value in zip(names, inputs, strict=True):
        for size, n in zip(planned[name].shape, value.shape, strict=True):
            if not isinstance(size, torch.SymInt):
                if size != n:
                    return False
            elif seen.setdefault(str(size), n) != n:
                return False
            limits = program.range_constraints.get(
                getattr(getattr(size, "node", None), "expr", None)
            )
            if limits is not None and not limits.lower <= n <= limits.upper:
                return False
    return True


def to_edge(program: Any, flow: str) -> Any:
    """Return the EdgeProgramManager of an ExportedProgram."""
    from executorch import exir

    config = exir.EdgeCompileConfig(_check_ir_validity=False)
    if flow == "edge":
        return exir.to_edge(program, compile_config=config)
    parts = []
    if flow == "xnnpack":
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        parts = [XnnpackPartitioner()]
    return exir.to_edge_transform_and_lower(program, partitioner=parts, compile_config=config)


def export(
    exported: Any, flow: str, calls: Sequence[Call]
) -> tuple[bytes, list[str], list[Call], list[int]]:
    """Return the program by the official flow, the names of its operators, the calls whose sizes it
    accepts (lowering may fix a dimension that may vary), and the inputs that it changes."""
    with quiet():
        manager = to_edge(exported, flow)
        changed = changed_inputs(manager.exported_program())
        calls = [call for call in calls if takes(manager.exported_program(), call)]
        program = manager.to_executorch()
    plan = program.executorch_program.execution_plan[0]
    names = {f"{op.name}.{op.overload}".rstrip(".") for op in plan.operators}
    sizes = [list(plan.values[i].val.sizes) for i in plan.inputs]
    calls = [call for call in calls if fits(call, sizes)]
    return bytes(program.buffer), sorted(names | {d.id for d in plan.delegates}), calls, changed


def fits(inputs: Call, sizes: list[list[int]]) -> bool:
    """Return True if inputs are no larger than the program's."""
    return all(
        n <= most
        for value, size in zip(inputs, sizes, strict=True)
        for n, most in zip(value.shape, size, strict=True)
    )


def copied(value: torch.Tensor) -> torch.Tensor:
    """Return a copy in the same layout."""
    return value.clone(memory_format=torch.preserve_format)


def arrayed(value: Any) -> Any:
    """Return a tensor as an array."""
    if not isinstance(value, torch.Tensor):
        return value
    plain = value.detach().resolve_conj().resolve_neg()
    if plain.dtype == torch.bfloat16:
        plain = plain.contiguous()
    return eager.to_numpy(plain)


def calls(graph: Graph) -> list[Call]:
    """Return the inputs of a few calls in a row: others, other sizes where they may vary, and the
    first again."""
    items = [graph.inputs, redrawn(graph, graph.seed + 1)]
    if graph.is_dynamic:
        rng = random.Random(graph.seed)
        items += [
            redrawn(graph, graph.seed + 2 + i, n)
            for i, n in enumerate(rng.sample([1, 2, 3, 4, 5, 6], 3))
        ]
    return [*items, graph.inputs]


@dataclass
class Eager:
    """Eager's results of a call, and the state before it."""

    inputs: Call
    state: torch.Tensor
    wanted: list[Any]
    changed: Sequence[int] = ()
    """Inputs that a call changes: they are its first outputs."""


def changed_inputs(exported: Any) -> list[int]:
    """Return the positions of the inputs that an ExportedProgram changes, as its outputs are."""
    signature = exported.graph_signature
    return [signature.user_inputs.index(name) for name in signature.user_inputs_to_mutate.values()]


def outputs(model: Any, inputs: Sequence[torch.Tensor], changed: Sequence[int]) -> list[Any]:
    """Return the outputs of a model, after the inputs that it changes."""
    items = list(map(copied, inputs))
    results = model(*items)
    return [kept(arrayed(value)) for value in [*(items[i] for i in changed), *results]]


def kept(value: Any) -> Any:
    """Return a copy of an array; other values as they are: None for a gradient that is not asked
    for."""
    return np.copy(value) if isinstance(value, np.ndarray) else value


def by_eager(
    graph: Graph, inputs_of_calls: Sequence[Call], changed: Sequence[int] = ()
) -> list[Eager]:
    """Return eager's results of the calls that it accepts."""
    model, result = graph.module(), []
    for inputs in inputs_of_calls:
        state = model.state.clone()  # type: ignore[operator]
        try:
            with torch.no_grad(), quiet():
                wanted = outputs(model, inputs, changed)
        except Exception:  # sizes that the graph does not accept
            model.state.copy_(state)  # type: ignore[operator]
            continue
        result.append(Eager(inputs, state, wanted, changed))
    return result


def again(graph: Graph, call: Eager) -> list[Any]:
    """Return eager's results of a call, anew."""
    model = graph.module()
    model.state.copy_(call.state)  # type: ignore[operator]
    with quiet():
        return outputs(model, call.inputs, call.changed)


class Failed(Exception):
    """A program that a runtime does not load, or does not run in some call (-1: not known)."""

    def __init__(self, text: str, call: int = -1) -> None:
        super().__init__(text)
        self.call = call


def here(pte: bytes, inputs: Sequence[Call], way: str) -> list[list[Any]]:
    """Return the results of calls in a row in this runtime. Raises Failed."""
    from executorch_c import Runtime

    try:
        method = Runtime.get().load_program(pte).load_method("forward", **WAYS[way])
    except Exception as error:
        raise Failed(f"load: {type(error).__name__}: {error}") from error
    items = []
    for i, call in enumerate(inputs):
        arrays = [np.array(arrayed(copied(value)), order="K") for value in call]
        before = [value.tobytes() for value in arrays]
        try:
            results = list(map(kept, method.execute(arrays)))
        except Exception as error:
            raise Failed(f"call {i}: {type(error).__name__}: {error}", i) from error
        if [value.tobytes() for value in arrays] != before:
            raise Failed(f"call {i}: an input was changed", i)
        items.append(results)
    return items


class Official:
    """The official runtime, in a process that may crash; anew after some hundred programs."""

    def __init__(self) -> None:
        self._process: official.Process | None = None
        self._programs = 0

    def run(self, pte: bytes, inputs: Sequence[Call]) -> list[list[Any]]:
        """Return the results of calls in a row. Raises Failed."""
        if self._process is None or not self._process.is_usable:
            self._process, self._programs = official.acquire(), 0
        process = self._process
        process.load(pte, None, 1)
        process.submit(
            "forward", [[wire(v) for v in call] for call in inputs], [], OFFICIAL_SECONDS
        )
        reply = process.reply(2 * OFFICIAL_SECONDS)
        self._programs += 1
        if reply.outcome != "ran" or self._programs > MAX_CHILD_PROGRAMS:
            self._process = process if process.is_usable else None
        if self._programs > MAX_CHILD_PROGRAMS:
            self.close()
        if reply.outcome != "ran":
            raise Failed(f"{reply.outcome}: {reply.about}")
        return [[arrayed(unwired(value)) for value in results] for results in reply.outputs]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None
