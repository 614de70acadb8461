"""Payloads of OpenvinoBackend: programs of tests/backends/programs, taken apart and changed."""

from __future__ import annotations

import functools
import itertools
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from executorch_c import Method, Runtime
from tests.plans import Plan, build, schema

PROGRAMS = Path(__file__).parent / "programs"
ID = "OpenvinoBackend"
START = b'<?xml version="1.0"?>'
NAMES = sorted(path.stem.removeprefix("openvino_") for path in PROGRAMS.glob("openvino_*.pte"))


def pte(name: str) -> bytes:
    return (PROGRAMS / f"openvino_{name}.pte").read_bytes()


def load(data: bytes, **options: Any) -> Method:
    """Load a program, with options of the backend."""
    chosen = {"backend_options": {ID: options}} if options else {}
    return Runtime.get().load_program(data).load_method("forward", **chosen)


def payload(name: str) -> bytes:
    return Runtime.get().load_program(pte(name))._payload("forward", 0)


def inside(data: bytes) -> Any:
    """Return the description of a program's delegate."""
    return Runtime.get().load_program(data)._delegate("forward", 0)


def cases(name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return inputs and eager outputs."""
    with np.load(PROGRAMS / f"openvino_{name}.npz") as arrays:
        return [
            [arrays[f"{kind}{i}"] for i in range(len(arrays.files)) if f"{kind}{i}" in arrays.files]
            for kind in ("in", "out")
        ]


@dataclass(frozen=True)
class Blob:
    """A payload in its parts; `model` is XML."""

    about: bytes
    constants: bytes
    model: bytes
    key: bytes

    def pack(self) -> bytes:
        words, at = [], 48
        for part in (self.about, self.constants, self.model):
            words += [at, len(part)]
            at += len(part)
        hidden = bytes(a ^ b for a, b in zip(self.model, itertools.cycle(self.key)))
        return struct.pack("<6Q", *words) + self.about + self.constants + hidden

    def edited(self, old: bytes, new: bytes) -> Blob:
        """Return the payload with a part of the model replaced."""
        assert old in self.model
        return replace(self, model=self.model.replace(old, new, 1))


def unpack(payload: bytes) -> Blob:
    words = struct.unpack_from("<6Q", payload)
    about, constants, model = (payload[at : at + size] for at, size in zip(words[::2], words[1::2]))
    key = bytes(a ^ b for a, b in zip(model, START))[:12]
    xml = bytes(a ^ b for a, b in zip(model, itertools.cycle(key)))
    assert xml.startswith(START)
    return Blob(about, constants, xml, key)


@dataclass(frozen=True)
class Constant:
    """A constant that a layer reads."""

    place: slice
    """In the program's file."""
    reader: str
    """The layer's type."""
    dtype: str
    """As the model calls it: "f32", "i8", "u4"."""


class Layers:
    """The layers of a model, with those of its regions: bodies of `Subgraph`, whose arguments are
    not layers."""

    def __init__(self, model: bytes) -> None:
        self.of: dict[tuple[int, int], ElementTree.Element] = {}
        self.edges: list[tuple[tuple[int, int], tuple[int, int]]] = []
        """Those that read a value, and what computes it: (scope, number)."""
        root = ElementTree.fromstring(model)
        self._add(root, 0)
        ends = {
            (e.get("to-layer"), e.get("to-port")): int(e.get("from-layer", ""))
            for e in root.iterfind("edges/edge")
        }
        table = {}
        for number, region in enumerate(root.iterfind("layers/layer[@type='Subgraph']"), 1):
            self._add(region.find("body"), number)
            for row in region.iterfind("port_map/input"):
                source = ends[region.get("id"), row.get("external_port_id")]
                table[number, int(row.get("internal_layer_id", ""))] = (0, source)
        self.edges = [(table.get(before, before), after) for before, after in self.edges]

    def _add(self, part: Any, scope: int) -> None:
        for layer in part.iterfind("layers/layer"):
            if layer.get("type") not in (("Parameter", "Result") if scope else ("Subgraph",)):
                self.of[scope, int(layer.get("id", ""))] = layer
        self.edges += [
            ((scope, int(e.get("from-layer", ""))), (scope, int(e.get("to-layer", ""))))
            for e in part.iterfind("edges/edge")
        ]


Place = tuple[int, int]
"""Scope and number of a layer."""


def _decompressions(
    edges: list[tuple[Place, Place]], kinds: dict[Place, str], own: set[Place]
) -> set[Place]:
    """Return the layers that compute from constants what some layers read. A source without a kind
    is a subgraph."""
    sources = {layer: [a for a, b in edges if b == layer] for layer in kinds}

    @functools.cache
    def is_constant(layer: Place) -> bool:
        before = sources.get(layer, [])
        return kinds.get(layer) == "Const" or bool(before) and all(map(is_constant, before))

    names, waiting = set[Place](), list(own)
    while waiting:
        for layer in sources[waiting.pop()]:
            if kinds.get(layer) != "Const" and layer not in names | own and is_constant(layer):
                names.add(layer)
                waiting.append(layer)
    return names


def constants_of(data: bytes, payload: bytes, node: str) -> list[Constant]:
    """Return the constants of a node of the exported graph: those that the layers of its name read,
    directly or decompressed (which layers are fused with it depends on the processor), and factors
    of their results."""
    blob = unpack(payload)
    layers = Layers(blob.model)
    edges = [(a, b) for a, b in layers.edges if b in layers.of]
    kinds = {i: layer.get("type", "") for i, layer in layers.of.items()}
    own = {i for i, layer in layers.of.items() if layer.get("name", "").startswith(f"{node}/")}
    own |= {b for a, b in edges if a in own and kinds[b] == "Multiply"}
    own |= _decompressions(edges, kinds, own)
    start, result = data.index(blob.constants), []
    for before, after in edges:
        if after not in own or kinds.get(before) != "Const":
            continue
        values = layers.of[before].find("data")
        if values is not None:
            at = start + int(values.get("offset", ""))
            place = slice(at, at + int(values.get("size", "")))
            result.append(Constant(place, kinds[after], values.get("element_type", "")))
    return result


def program(
    payload: bytes,
    shape: tuple[int, ...] = (4, 32),
    out: tuple[int, ...] = (4, 10),
    dtype: str = "float32",
    device: bytes = b"CPU",
) -> bytes:
    """Return a program that is one delegate, with one input and one output."""
    plan = Plan()
    delegate = plan.delegate(ID, 0, [schema.CompileSpec("device", device)])
    x, y = plan.input(shape, dtype), plan.output(out)
    plan.append(schema.DelegateCall(delegate, [x, y]))
    return build(plan, payloads=[payload])
