"""The PyTorch side of `explain`: a graph to run node by node, and where its nodes come from.

The graph is the edge dialect's, whose operators are the program's instructions and whose debug
handles are those of ETRecord and of nodes inside delegates. A module is exported the way the
official flow does it, so that handles are numbered alike.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from executorch_c._stages import stage
from executorch_c.debug._graphs.names import operator_of
from executorch_c.debug._graphs.unroll import has_control_flow, unrolled_graph
from executorch_c.inspect.families import MOVES

if TYPE_CHECKING:
    from torch.fx import Node

    HandleMap = Mapping[int, frozenset[int]]

FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
WRAPPER = "torch.export"
"""Prefix of the types of modules that torch.export wraps around a model."""


@dataclass(frozen=True)
class ReferenceGraph:
    """An exported program in the edge dialect, and the debug handles of its instructions."""

    program: Any
    """torch.export.ExportedProgram"""
    handles: HandleMap | None = None
    """Debug handles by number of the instruction; None without a debug map."""
    notes: tuple[str, ...] = ()
    flat: Any = None
    """A torch.fx.GraphModule without control flow that replaces the program's."""
    source: Any = None
    """What torch.export returned, before operators are decomposed; None if that is not known."""

    @property
    def module(self) -> Any:
        """The torch.fx.GraphModule to run."""
        return self.program.graph_module if self.flat is None else self.flat

    @property
    def nodes(self) -> list[Node]:
        """In order of execution."""
        return list(self.module.graph.nodes)

    def arguments(self, inputs: Sequence[Any]) -> dict[Node, Any]:
        """Return values of placeholders: weights, buffers, constants, and the inputs of the user.

        Floating-point inputs are cast to the graph's dtype: the program may have another.
        Raises ValueError for a wrong number of inputs.
        """
        import torch
        from torch.export.graph_signature import InputKind

        program, values = self.program, {}
        places = [n for n in self.nodes if n.op == "placeholder"]
        specs = program.graph_signature.input_specs
        wanted = sum(spec.kind == InputKind.USER_INPUT for spec in specs)
        if wanted != len(inputs):
            raise ValueError(
                f"{len(inputs)} inputs (nested ones counted), the reference takes {wanted}"
            )
        rest = iter(inputs)
        for node, spec in zip(places, specs, strict=True):
            if spec.kind == InputKind.USER_INPUT:
                value = next(rest)
                meta = node.meta.get("val")
                if isinstance(value, torch.Tensor) and isinstance(meta, torch.Tensor):
                    if value.dtype.is_floating_point and meta.dtype.is_floating_point:
                        value = value.to(meta.dtype)
            elif spec.target in program.state_dict:
                value = program.state_dict[spec.target]
            else:
                value = program.constants[spec.target]
            values[node] = value
        return values

    @cached_property
    def parameters(self) -> dict[Node, str]:
        """Names of the placeholders of parameters."""
        from torch.export.graph_signature import InputKind

        places = [node for node in self.nodes if node.op == "placeholder"]
        specs = self.program.graph_signature.input_specs
        return {n: str(s.target) for n, s in zip(places, specs) if s.kind == InputKind.PARAMETER}

    def parameters_of(self, path: Sequence[Node]) -> tuple[str, ...]:
        """Return the names of parameters that nodes read, as they are or moved."""
        names: dict[str, None] = {}
        queue = [before for node in path for before in node.all_input_nodes]
        while queue:
            node = queue.pop(0)
            if node in self.parameters:
                names[self.parameters[node]] = None
            elif node not in path and operator_of(node) in MOVES and len(node.all_input_nodes) == 1:
                queue += node.all_input_nodes
        return tuple(sorted(names))

    @property
    def inputs(self) -> list[Node]:
        """Placeholders of user inputs, in order."""
        from torch.export.graph_signature import InputKind

        places = [node for node in self.nodes if node.op == "placeholder"]
        specs = self.program.graph_signature.input_specs
        return [n for n, s in zip(places, specs) if s.kind == InputKind.USER_INPUT]

    @property
    def state(self) -> list[Node]:
        """Placeholders of buffers that the program changes, in order."""
        signature = self.program.graph_signature
        places = [node for node in self.nodes if node.op == "placeholder"]
        changed = set(signature.buffers_to_mutate.values())
        return [n for n, s in zip(places, signature.input_specs) if s.target in changed]

    @property
    def outputs(self) -> list[Any]:
        """The program's outputs, in order: nodes, or constants. New values of inputs that the
        model changes in place are the first."""
        from torch.export.graph_signature import OutputKind

        results: Any = next(node for node in self.nodes if node.op == "output").args[0]
        specs = self.program.graph_signature.output_specs
        kinds = OutputKind.USER_INPUT_MUTATION, OutputKind.USER_OUTPUT
        return [n for n, s in zip(results, specs) if s.kind in kinds]

    def unrolled(self, inputs: Sequence[Any]) -> ReferenceGraph:
        """Return the reference without control flow, as it runs on these inputs."""
        if not has_control_flow(self.module):
            return self
        return replace(self, flat=unrolled_graph(self.module, self.arguments(inputs)))


def handles_of(node: Node) -> frozenset[int]:
    """Return the debug handles of a node; a fused one may have several."""
    handle = node.meta.get("debug_handle")
    if handle is None:
        return frozenset()
    return frozenset(handle) if isinstance(handle, (list, tuple)) else frozenset((int(handle),))


def module_of(node: Node) -> str | None:
    """Return the path of a node's innermost layer; None for the model itself."""
    stack = node.meta.get("nn_module_stack") or {}
    for path, kind in reversed(list(stack.values())):
        if path and not str(kind).startswith(WRAPPER):
            # Some exporters write L['self'].layers[0] and the like.
            path = re.sub(r"\['?([^'\]]+)'?\]", r".\1", str(path))
            return path.removeprefix("L.self").strip(".") or None
    return None


def source_of(node: Node) -> str | None:
    """Return "file:line" of a node's source: the innermost frame outside of torch."""
    import torch

    torch_directory = os.path.dirname(torch.__file__) + os.sep
    frames = FRAME.findall(node.meta.get("stack_trace") or "")
    own = [
        f"{file}:{line}"
        for file, line in frames
        if not file.startswith(torch_directory) and not file.startswith("<")
    ]
    return own[-1] if own else None


def to_edge(exported: Any) -> Any:
    """Return what torch.export returned, decomposed, in the edge dialect."""
    from executorch import exir

    config = exir.EdgeCompileConfig(_check_ir_validity=False)
    return exir.to_edge(exported, compile_config=config).exported_program()


def _is_edge(program: Any) -> bool:
    return any("EdgeOpOverload" in type(node.target).__name__ for node in program.graph.nodes)


def _numbers(table: object, method: str) -> HandleMap | None:
    """Return the handles of {"forward": {"0": 1, "1": [2, 3]}}; keys may be numbers, the method
    may be left out."""
    if not isinstance(table, Mapping) or not table:
        return None
    inner = table.get(method, table)
    if not isinstance(inner, Mapping):
        return None
    return {
        int(number): frozenset(handles if isinstance(handles, (list, tuple)) else (handles,))
        for number, handles in inner.items()
    }


def handle_map(manager: object, method: str) -> HandleMap | None:
    """Return the handles of instructions of an ExecutorchProgramManager or ETRecord."""
    for name in ("debug_handle_map", "_debug_handle_map"):
        if (table := getattr(manager, name, None)) is not None:
            return _numbers(table, method)
    return None


def _of_etrecord(etrecord: Any, method: str) -> ReferenceGraph:
    program = etrecord.edge_dialect_program
    if isinstance(program, Mapping):
        program = program.get(method)
    if program is None:
        raise ValueError(f"the ETRecord has no edge program of method '{method}'")
    return ReferenceGraph(program, handle_map(etrecord, method))


def _exported(program: Any, method: str) -> Any:
    """Return a program in the edge dialect. Raises ValueError for a lowered one."""
    lowered = [n.name for n in program.graph.nodes if "lowered_module" in str(n.target)]
    if lowered:
        raise ValueError(
            f"method '{method}' of the reference has parts that were handed to a backend "
            f"({lowered[0]}): pass the model, what torch.export.export returned, or an ETRecord"
        )
    return program if _is_edge(program) else to_edge(program)


def _cast(model: Any, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return inputs, cast to the floating-point dtype of a model's parameters if they have one."""
    import torch
    from torch.utils._pytree import tree_map

    dtypes = {p.dtype for p in model.parameters() if p.dtype.is_floating_point}

    def cast(leaf: Any) -> Any:
        if len(dtypes) == 1 and isinstance(leaf, torch.Tensor) and leaf.dtype.is_floating_point:
            return leaf.to(*dtypes)
        return leaf

    mapped: Sequence[Any] = tree_map(cast, tuple(inputs))
    return tuple(mapped)


def _of_module(model: Any, inputs: Sequence[Any]) -> ReferenceGraph:
    """Return a module as a graph, exported with inputs."""
    import torch

    notes: tuple[str, ...] = ()
    if model.training and not isinstance(model, torch.fx.GraphModule):
        notes = ("the reference is in training mode: call .eval() if the program is not",)
    with torch.no_grad(), stage("export", model):
        exported = torch.export.export(model, _cast(model, inputs))
    return ReferenceGraph(to_edge(exported), notes=notes, source=exported)


def _etrecord(manager: Any) -> Any:
    """Return the ETRecord of an ExecutorchProgramManager. Raises ValueError without one."""
    try:
        return manager.get_etrecord()
    except RuntimeError as error:
        raise ValueError(
            "this ExecutorchProgramManager has no ETRecord (to_edge(..., generate_etrecord="
            "True) makes one): pass the model or what torch.export.export returned"
        ) from error


def reference_of(model: Any, inputs: Sequence[Any], method: str) -> ReferenceGraph:
    """Return the graph of a reference of `explain`. Raises TypeError for another object.

    Args:
        model: nn.Module, ExportedProgram, EdgeProgramManager (before a backend took parts of it),
            ExecutorchProgramManager with an ETRecord, ETRecord or the path of one.
        inputs: Arguments of the model, to export a module with.
    """
    import torch

    if isinstance(model, (str, os.PathLike)):
        from executorch.devtools.etrecord import parse_etrecord

        return _of_etrecord(parse_etrecord(os.fspath(model)), method)
    if isinstance(model, torch.export.ExportedProgram):
        edge = _exported(model, method)
        return ReferenceGraph(edge, source=None if edge is model else model)
    if isinstance(model, torch.nn.Module):
        return _of_module(model, inputs)
    if hasattr(model, "edge_dialect_program"):
        return _of_etrecord(model, method)
    if hasattr(model, "to_executorch"):  # EdgeProgramManager
        return ReferenceGraph(_exported(model.exported_program(method), method))
    if hasattr(model, "get_etrecord"):  # ExecutorchProgramManager
        return _of_etrecord(_etrecord(model), method)
    raise TypeError(
        "expected an nn.Module, ExportedProgram, EdgeProgramManager, ExecutorchProgramManager, "
        f"ETRecord or the path of one, found {type(model).__name__}"
    )
