"""Places of a layer's weights in a program's file, and changes of them."""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import executorch_c

Change = Callable[[np.ndarray], np.ndarray]
"""Returns other bytes of a constant."""

RECORD = b"\xef\xbe\xad\xde"
"""Begins the description of a record, 64 bytes before its data: dtype, size, offset."""


def vulkan_constant(pte: bytes, shape: tuple[int, ...]) -> slice:
    """Return the place of a Vulkan payload's constant of a shape: its key is the digest of its
    bytes.

    Sums of weights (int32) are for the device: results here do not need them.
    """
    inside: Any = executorch_c.load(pte)._delegate("forward", 0)
    (value, *_) = (
        v
        for v in inside["values"]
        if v["constant"] and v["shape"] == shape and v["dtype"] != "int32"
    )
    key, size = value["note"].split()[2].rstrip(","), value["nbytes"]
    for at in range(0, len(pte) - size + 1, 16):
        if hashlib.sha256(pte[at : at + size]).hexdigest() == key:
            return slice(at, at + size)
    raise AssertionError(key)


def coreml_record(pte: bytes, size: int) -> slice:
    """Return the place of the only record of a size in Core ML's weight.bin."""
    items, at = [], pte.find(RECORD)
    while at >= 0:
        if int.from_bytes(pte[at + 8 : at + 16], "little") == size:
            items.append(at + 64)
        at = pte.find(RECORD, at + 1)
    (place,) = items
    return slice(place, place + size)


def _weight_node(graph: Any, layer: str) -> Any:
    for node in graph.graph.nodes:
        stack = node.meta.get("nn_module_stack") or {}
        names = [path.removeprefix("L['self'].") for path, _ in stack.values()]
        if names[-1:] == [layer] and str(node.target).startswith(("aten.conv", "aten.linear")):
            return node.args[1]
    raise AssertionError(layer)


def weight_of(graph: Any, layer: str) -> np.ndarray:
    """Return the weight of a layer: of a module, or the integers of a quantised graph."""
    if not hasattr(graph, "graph"):
        weight = dict(graph.named_modules())[layer].weight
        weight = getattr(weight, "qdata", weight)  # torchao's integers
        return weight.detach().numpy()  # type: ignore[no-any-return]
    weight = _weight_node(graph, layer)
    while weight.op != "get_attr":
        weight = weight.args[0]
    return getattr(graph, weight.target).detach().numpy()  # type: ignore[no-any-return]


def scales_of(graph: Any, layer: str) -> np.ndarray:
    """Return the scales of a layer's weight, by channel or by group."""
    if not hasattr(graph, "graph"):
        scales = dict(graph.named_modules())[layer].weight.scale
        return scales.detach().numpy()  # type: ignore[no-any-return]
    node = _dequantized(graph, layer)
    return getattr(graph, node.args[1].target).detach().numpy()  # type: ignore[no-any-return]


def _dequantized(graph: Any, layer: str) -> Any:
    node = _weight_node(graph, layer)
    while "dequantize" not in str(node.target):
        node = node.args[0]
    return node


def multipliers_of(graph: Any, layer: str) -> np.ndarray:
    """Return the factors of a layer's sums in TOSA's RESCALE, by channel: of 31 bits, or 15 for
    results of int16."""
    layer_node = next(iter(_dequantized(graph, layer).users))
    after = layer_node
    while not str(after.target).startswith("quantized_decomposed.quantize"):
        after = next(iter(after.users))
    scales = scales_of(graph, layer).astype(np.float64)
    factor, _ = np.frexp(layer_node.args[0].args[1] * scales / after.args[1])
    bits = 15 if after.args[4] > 255 else 31
    return np.round(factor * 2.0**bits).astype(f"<i{(bits + 1) // 8}")


def _layouts(weight: np.ndarray) -> Iterator[bytes]:
    """Yield the elements in each order of the dimensions, as they are and in fewer bits."""
    for order in itertools.permutations(range(weight.ndim)):
        turned = np.ascontiguousarray(weight.transpose(order))
        yield turned.tobytes()
        if turned.dtype == np.float32:
            yield turned.astype(np.float16).tobytes()
        elif turned.dtype == np.int8 and np.abs(turned).max() <= 8 and turned.size % 2 == 0:
            nibbles = turned.ravel().view(np.uint8) & 15
            yield (nibbles[::2] | nibbles[1::2] << 4).tobytes()
            yield (nibbles[1::2] | nibbles[::2] << 4).tobytes()
            yield ((nibbles[::2] | nibbles[1::2] << 4) ^ 0x88).tobytes()  # XNNPACK: 8 is zero


def place_of(pte: bytes, weight: np.ndarray) -> slice:
    """Return the place of a weight's elements, in whatever order of dimensions they are stored."""
    table = {}
    for data in _layouts(weight):
        if pte.count(data) == 1:
            table[pte.index(data)] = len(data)
    assert len(table) == 1, table
    ((at, size),) = table.items()
    return slice(at, at + size)


def plant(pte: bytes, place: slice, change: Change) -> bytes:
    """Return a program with a changed constant."""
    changed = bytearray(pte)
    changed[place] = change(np.frombuffer(pte[place], np.uint8)).tobytes()
    return bytes(changed)


def swap_nibbles(data: np.ndarray) -> np.ndarray:
    """Return bytes whose halves of four bits are the other way round."""
    return data << 4 | data >> 4


def enlarge_scales(pte: bytes, scales: np.ndarray) -> bytes:
    """Return a program with a weight's scales half as large again, in whatever type of float."""
    place = place_of(pte, scales)
    kind = f"<f{(place.stop - place.start) // scales.size}"
    return plant(pte, place, lambda data: (data.view(kind) * 1.5).astype(kind).view(np.uint8))


def sources(report: Any) -> list[str]:
    """Return the modules that a report says to be wrong."""
    return [line.module for line in report if line.verdict == "source"]
