"""Values inside a model: the engine logs operations, whose debug information names the nodes of the
exported graph."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return debug information without the names of its types."""
    if not isinstance(value, dict):
        return value
    ((kind, boxed),) = value.items()
    inner = boxed["_0"]
    if kind == "dictionary":
        return {key: plain(one) for key, one in inner.items()}
    return [plain(one) for one in inner] if kind == "array" else inner


def sources(text: bytes) -> dict[int, tuple[int, str]]:
    """Return, for the engine's operations, the number and name of the node that each is part of."""
    result = {}
    for function in json.loads(text):
        for operation in function["operations"]:
            for row in operation["metadatas"]:
                nodes = plain(row["value"]) if row["key"] == "sources" else []
                nodes = [node for node in nodes if node["name"] == "torch"]
                if len(nodes) == 1 and len(nodes[0]["identifiers"]) == 1:
                    result[operation["odixId"]] = (nodes[0]["id"], nodes[0]["identifiers"][0])
    return result


SOURCE = re.compile(
    r'"sources": \[\{id = (\d+) : ui64, identifiers = \["([^"]+)"\], name = "torch"\}\]'
)
"""The node in the text of an operation's location."""


@dataclass
class Node:
    """A node of the exported graph that depends on an input."""

    id: int
    name: str
    reads: list[int]
    """Numbers of values: inputs, then nodes in order."""
    dtype: str = ""
    """The type of its result, in MLIR's words."""


TENSOR = re.compile(r"tensor<((?:(?:\d{1,18}|\?)x){,16})([a-z]+)(\d{1,3})(\w{,16})>")
FORMATS = {"f": "float", "bf": "bfloat", "si": "int", "i": "int", "ui": "uint"}


def type_of(text: str) -> tuple[str, list[int] | None]:
    """Return dtype and shape of a tensor's type in MLIR: ("float32", [4, 8]) of
    "tensor<4x8xf32>"."""
    match = TENSOR.fullmatch(text)
    if match is None:
        return text, None
    sizes, kind, bits, rest = match.groups()
    dtype = "bool" if (kind, bits) == ("i", "1") else FORMATS.get(kind, kind) + bits + rest.lower()
    dims = sizes.split("x")[:-1]
    return dtype, None if "?" in dims else [int(size) for size in dims]


def graph(program: Any, name: str) -> tuple[list[Node], list[int | None]]:
    """Return the nodes of a function, and the numbers of its outputs; None: a constant."""
    block = program._get_graph(name).bodyRegion.blocks[0]
    numbers: dict[Any, int] = {value: i for i, value in enumerate(block.arguments)}
    inputs = len(numbers)
    nodes: dict[int, Node] = {}
    for operation in block.operations:
        reads = [numbers[value] for value in operation.operands if value in numbers]
        if operation.name == "coreai.output":
            return list(nodes.values()), [numbers.get(value) for value in operation.operands]
        match = SOURCE.search(str(operation.location))
        if not reads:
            continue
        number = reads[0]  # of an operation of no node
        if match:
            node = nodes.setdefault(int(match[1]), Node(int(match[1]), match[2], []))
            number = inputs + list(nodes).index(node.id)
            node.reads += [one for one in reads if one != number and one not in node.reads]
            node.dtype = str(operation.results[0].type)
        numbers.update(dict.fromkeys(operation.results, number))
    return list(nodes.values()), []


class Values:
    """The callback of the engine's log."""

    def __init__(self, nodes: dict[int, tuple[int, str]]) -> None:
        self.nodes = nodes
        self.is_view: dict[int, bool] = {}
        """True for an operation that only lays its result into the engine's memory."""
        self.values: dict[int, np.ndarray] = {}

    def __call__(self, arrays: list[Any], kind: str, ids: Any) -> None:
        """Keep the last value of each node."""
        known = [array for array in arrays if array is not None]
        if kind == "input":
            memory = [array for array in known if array.dtype == "int8" and len(array.shape) == 1]
            self.is_view[ids.id] = len(memory) == len(known)
        elif kind == "output" and not self.is_view.get(ids.id, True) and len(known) == 1:
            from coreai.runtime import NDArray

            value = NDArray._wrap(known[0]).numpy()
            self.values[self.nodes[ids.id][0]] = np.array(value, order="C")
