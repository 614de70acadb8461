"""The model zoo: small seeded models, exported by the official flow and cached on disk.

`names()` lists them, `export(name)` returns the bytes of the .pte, `load(name)` the bytes with the
calls and eager's outputs. Both use a cache keyed by these files and by the versions of torch and
executorch, so only the first run of the tests exports. The models are in zoo_models.py.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests import judge, kept, variation
from tests.models import blocks, zoo_models
from tests.models.zoo_models import MODELS, Zoo

FLOWS = ("edge", "lower")
"""edge: to_edge; lower: to_edge_transform_and_lower without a partitioner, keeping aten.linear."""


def names(large: bool = False) -> list[str]:
    """Return the registered names, those of realistic size only on request."""
    return [name for name, entry in MODELS.items() if large or not entry.large]


@dataclass(frozen=True)
class Call:
    """Inputs of one execution (arrays and Python values) and eager's flattened outputs."""

    inputs: list[Any]
    outputs: list[Any]


@dataclass(frozen=True)
class Exported:
    """A program as bytes, with the calls to make on each method, in order, on one instance."""

    name: str
    pte: bytes
    calls: dict[str, list[Call]]


@dataclass(frozen=True)
class Exact:
    """Eager's outputs of one execution in float64, and their variation (variation.py)."""

    outputs: list[Any]
    terms: list[Any]


def _key(*parts: object) -> str:
    sources = [Path(file) for file in (__file__, zoo_models.__file__, blocks.__file__)]
    return kept.digest(*sources, *parts, packages=("torch", "executorch", "transformers", "numpy"))


def export(name: str, flow: str = "edge") -> bytes:
    """The bytes of the .pte of a registered model, from the cache where possible."""
    return kept.data(f"{name}-{flow}-{_key()}.pte", lambda: _export_zoo(MODELS[name].build(), flow))


def load(name: str, flow: str = "edge") -> Exported:
    """The exported program with the inputs and eager outputs of its calls."""
    # Tensors: arrays lose their layout.
    methods: dict[str, list[Call]] = kept.pickled(
        f"{name}-calls-{_key()}", lambda: _run_eager(MODELS[name].build())
    )
    calls = {
        method: [Call([*map(_array, c.inputs)], [*map(_array, c.outputs)]) for c in calls]
        for method, calls in methods.items()
    }
    return Exported(name, export(name, flow), calls)


def exactly(name: str) -> dict[str, list[Exact]]:
    """The exact outputs of the calls of each method."""
    key = _key(Path(variation.__file__))
    result: dict[str, list[Exact]] = kept.pickled(f"{name}-exact-{key}", lambda: _run_exactly(name))
    return result


def assert_right(
    name: str,
    method: str,
    index: int,
    found: Sequence[Any],
    wanted: Sequence[Any],
    limit: judge.Limit = variation.LIMIT,
) -> None:
    """Compare the outputs of call `index` with eager's."""
    call = exactly(name)[method][index]
    assert len(found) == len(wanted) == len(call.outputs)
    for i, (f, w) in enumerate(zip(found, wanted, strict=True)):
        terms = call.terms[i]
        exact = None if terms is None else call.outputs[i]
        room = judge.EXACT if terms is None else limit
        judge.assert_right(f, w, f"{name}.{method}, call {index}, output {i}", room, exact, terms)


@torch.no_grad()
def _run_exactly(name: str) -> dict[str, list[Exact]]:
    def run() -> list[list[list[Any]]]:
        """Run all calls of all methods, each on a new model, because a closure may hold parts of a
        model."""
        model = MODELS[name].build()
        outputs = []
        for method, spec in model.methods.items():
            fresh = model if model.shares_state else MODELS[name].build()
            module = fresh.methods[method].module.double()
            outputs.append([variation.arrays(module(*_doubled(inputs))) for inputs in spec.calls])
        return outputs

    exact = variation.exactly(run)
    terms = iter(variation.terms(run, variation.arrays(exact)))
    return {
        method: [Exact(call, [next(terms) for _ in call]) for call in calls]
        for method, calls in zip(MODELS[name].build().methods, exact, strict=True)
    }


def _doubled(inputs: Any) -> Any:
    return torch.utils._pytree.tree_map(variation.doubled, inputs)


@torch.no_grad()
def _export_zoo(zoo: Zoo, flow: str) -> bytes:
    from executorch.exir import (
        EdgeCompileConfig,
        ExecutorchBackendConfig,
        to_edge,
        to_edge_transform_and_lower,
    )
    from executorch.exir.passes import MemoryPlanningPass

    programs = {}
    for name, spec in zoo.methods.items():
        programs[name] = torch.export.export(
            spec.module, spec.calls[0], dynamic_shapes=spec.dynamic_shapes, strict=spec.strict
        )
    kept = [torch.ops.aten.linear.default] if flow == "lower" else []
    lower = {"edge": to_edge, "lower": to_edge_transform_and_lower}[flow]
    edge = lower(
        programs,
        constant_methods=zoo.constants or None,
        compile_config=EdgeCompileConfig(_check_ir_validity=False, preserve_ops=kept),
    )
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(**zoo.planning))
    return edge.to_executorch(config).buffer


@torch.no_grad()
def _run_eager(zoo: Zoo) -> dict[str, list[Call]]:
    """Call every method in order; buffers keep their state between the calls of a method."""
    result = {}
    for name, spec in zoo.methods.items():
        module = spec.module if zoo.shares_state else copy.deepcopy(spec.module)
        calls = []
        for inputs in spec.calls:
            outputs = module(*copy.deepcopy(inputs))
            flat = torch.utils._pytree.tree_leaves(list(inputs))
            calls.append(Call(flat, torch.utils._pytree.tree_leaves(outputs)))
        result[name] = calls
    return result


def _array(value: Any) -> Any:
    """Return a tensor as an array, in its own layout; other values as they are."""
    return value.detach().numpy() if isinstance(value, Tensor) else value
