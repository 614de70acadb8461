"""CoreAIBackend: the model assets of Apple's Core AI, on the engine of the package coreai-core.

`payload` reads what a program has, `engine` runs it in a child process (`child`, `messages`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from executorch_c import _extras
from executorch_c._core import BackendCall, InvalidArgumentError, InvalidProgramError
from executorch_c._core import NotFoundError, NotSupportedError
from executorch_c._types import DelegateInside, InnerNode, InnerValue

Option = bool | int | float | str

ENGINE = "coreai.authoring"
"""A module of coreai-core; any folder may be the namespace package `coreai`."""
DEFAULT_SECONDS = 600.0
"""Time limit of a load or a call of the engine."""


def backends() -> list[type]:
    """Return the backend; nothing without the package coreai-core (csrc/backend/known.def)."""
    if not _extras.is_installed(ENGINE):
        return []
    CoreAI.version = _version()
    return [CoreAI]


def _version() -> str:
    """Return the engine's name and version."""
    from importlib import metadata

    try:
        return f"Core AI's engine of coreai-core {metadata.version('coreai-core')}"
    except metadata.PackageNotFoundError:
        return "Core AI's engine"


class CoreAI:
    """A delegate of CoreAIBackend."""

    id = "CoreAIBackend"
    version = ""
    options = {"sidecar_folder": "", "timeout_seconds": DEFAULT_SECONDS}

    def init(
        self, payload: bytes, specs: Any, options: dict[str, Option], call: BackendCall
    ) -> None:
        """Read the payload and load the model."""
        from executorch_c._coreai import engine, payload as payloads

        self.manifest = payloads.manifest(payload)
        self.folder = str(options["sidecar_folder"])
        self.seconds = float(options["timeout_seconds"])
        if not 0 < self.seconds < 1e9:
            raise InvalidArgumentError(
                f"option 'timeout_seconds' is {self.seconds:g}, expected more than 0"
            )
        self.model = engine.Model()
        self.load(call)

    def load(self, call: BackendCall) -> None:
        """Load the model into the engine, of the program's named data."""
        from executorch_c._coreai import payload as payloads

        self.model.load(payloads.read(self.manifest, _lookup(call), self.folder), self.seconds)
        for function in self.model.functions:
            if function["states"]:
                raise NotSupportedError(
                    f"function '{function['name']}' keeps state inside the model "
                    f"({', '.join(function['states'])[:100]}): lower with "
                    "take_over_mutable_buffer=False"
                )

    def execute(self, inputs: list[Any], call: BackendCall) -> list[np.ndarray]:
        """Return the outputs of the function that takes these inputs."""
        for i, x in enumerate(inputs):
            if not isinstance(x, np.ndarray):
                raise InvalidProgramError(f"input {i} is a {type(x).__name__}, expected a tensor")
        if not self.model.is_loaded:
            self.load(call)
        function = chosen(self.model.functions, [x.shape for x in inputs])
        arrays = [
            narrowed(i, np.asarray(x), row[1])
            for i, (x, row) in enumerate(zip(inputs, function["inputs"], strict=True))
        ]
        nodes, values = self.model.run(function["name"], arrays, self.seconds, call.tracing)
        shown = iter(values)
        for node, has_value in nodes:
            call.trace(operator(node), next(shown) if has_value else None)
        return list(shown)

    def destroy(self) -> None:
        """Free the model."""
        if hasattr(self, "model"):
            self.model.unload(self.seconds)


def described(payload: bytes, lookup: Callable[[str], bytes | None]) -> DelegateInside | None:
    """Return the values and nodes of a payload's first function; None without the engine."""
    from executorch_c._coreai import engine, inside, payload as payloads

    if not _extras.is_installed(ENGINE):
        return None
    model, seconds = engine.Model(), DEFAULT_SECONDS
    model.load(payloads.read(payloads.manifest(payload), lookup, ""), seconds)
    try:
        if not model.functions:
            raise InvalidProgramError("the model has no function")
        function = model.functions[0]
        graph = model.graph(function["name"], seconds)
    finally:
        model.unload(seconds)
    inputs = len(function["inputs"])
    places = {number: inputs + i for i, number in enumerate(graph["outputs"])}
    types = [tuple(row[1:]) for row in function["inputs"]]
    types += [inside.type_of(kind) for _, _, kind in graph["nodes"]]
    if any(number >= len(types) for _, reads, _ in graph["nodes"] for number in reads):
        raise InvalidProgramError(f"a node reads a value beyond the {len(types)} of the graph")
    values = [
        InnerValue(
            id=i,
            argument=i if i < inputs else places.get(i),
            constant=False,
            dtype=kind,
            note=None,
            shape=None if shape is None or min(shape, default=0) < 0 else tuple(shape),
            nbytes=0,
        )
        for i, (kind, shape) in enumerate(types)
    ]
    nodes = [
        InnerNode(debug_handle=None, name=operator(name), note=None, inputs=reads, outputs=[number])
        for number, (name, reads, _) in enumerate(graph["nodes"], inputs)
    ]
    return DelegateInside(values=values, nodes=nodes)


OVERLOADS = "default|tensor|scalar|tensor_(?:scalar|tensor)|self|int|dim|dim_intlist|correction"


def operator(node: str) -> str:
    """Return the operator of a node of an edge graph: "aten::addmm" of aten_addmm_default_1."""
    match = re.fullmatch(rf"(aten|coreai)_(.+?)(_({OVERLOADS}))?(_\d+)?", node, re.IGNORECASE)
    return f"{match[1]}::{match[2]}" if match else node


def _lookup(call: BackendCall) -> Callable[[str], bytes | None]:
    def lookup(key: str) -> bytes | None:
        try:
            return call.named_data(key)
        except NotFoundError:
            return None

    return lookup


def _takes(sizes: Sequence[int], shape: Sequence[int]) -> bool:
    """Return True if declared sizes (negative: any) allow a shape."""
    return len(sizes) == len(shape) and all(a < 0 or a == b for a, b in zip(sizes, shape))


def chosen(functions: list[dict[str, Any]], shapes: list[tuple[int, ...]]) -> dict[str, Any]:
    """Return the function that takes inputs of these shapes. Raises InvalidArgumentError."""
    if not functions:
        raise InvalidProgramError("the model has no function")
    for function in functions:
        rows = function["inputs"]
        if len(rows) != len(shapes):
            raise InvalidProgramError(
                f"function '{function['name']}' has {len(rows)} inputs, the program passes "
                f"{len(shapes)}"
            )
        if all(_takes(row[2], shape) for row, shape in zip(rows, shapes)):
            return function
    if len(functions) > 1:
        names = ", ".join(function["name"] for function in functions)[:200]
        raise InvalidArgumentError(
            f"no function of the model takes inputs of shapes {shapes}: the flow enumerated its "
            f"shapes ({names})"
        )
    rows = functions[0]["inputs"]
    i = next(i for i, (row, shape) in enumerate(zip(rows, shapes)) if not _takes(row[2], shape))
    name, _, sizes = rows[i]
    raise InvalidArgumentError(
        f"input {i} ('{name}') has shape {list(shapes[i])}, function '{functions[0]['name']}' "
        f"takes {[n if n >= 0 else '?' for n in sizes]}: the flow fixed this size when it lowered "
        "the model, though the program accepts others (a fault of the Core AI flow)"
    )


def narrowed(index: int, x: np.ndarray, name: str) -> np.ndarray:
    """Return an input with the dtype that the function takes. Raises InvalidArgumentError for
    numbers of 64 bits that do not fit, and for another dtype."""
    if x.dtype.name == name:
        return x
    if (x.dtype.name, name) in (("int64", "int32"), ("float64", "float32")):
        result = x.astype(name)
        if x.dtype.kind == "f" or np.array_equal(result, x):
            return result
        raise InvalidArgumentError(
            f"input {index} has numbers beyond int32, to which the flow narrowed it"
        )
    raise InvalidProgramError(f"input {index} is {x.dtype.name}, the function takes {name}")
