"""Planted faults: in outputs, the weights of a `.pte`, exported graphs, modules."""

import copy
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from executorch_c import Runtime
from executorch_c._arrays import as_array
from executorch_c._coreai.payload import PROGRAM
from executorch_c.debug._graphs.reference import module_of

Arrays = list[Any]


# ---- outputs ----------------------------------------------------------------------------------


def _channel_axis(array: np.ndarray) -> int:
    return array.ndim - 1 if array.ndim < 3 else 1


def _channel(array: np.ndarray, index: int) -> tuple[Any, ...]:
    return (slice(None),) * _channel_axis(array) + (index,)


def is_float(array: np.ndarray) -> bool:
    """Return True for floating-point arrays, bfloat16 included."""
    return array.dtype.kind in "fV"


def everywhere(array: np.ndarray, rng: Any = None) -> Any:
    return ...


def channel(array: np.ndarray, rng: np.random.Generator) -> Any:
    return _channel(array, int(rng.integers(array.shape[_channel_axis(array)])))


def two_channels(array: np.ndarray, rng: np.random.Generator) -> Any:
    pair = rng.choice(array.shape[_channel_axis(array)], 2, replace=False)
    return (slice(None),) * _channel_axis(array) + (pair,)


def element(array: np.ndarray, rng: np.random.Generator) -> Any:
    return tuple(int(rng.integers(size)) for size in array.shape)


def median(array: np.ndarray, rng: np.random.Generator) -> Any:
    return np.unravel_index(np.argsort(np.abs(array), axis=None)[array.size // 2], array.shape)


def largest(weight: np.ndarray, rng: Any = None) -> Any:
    return tuple(int(i) for i in np.unravel_index(np.argmax(np.abs(weight)), weight.shape))


def filter_of_largest(weight: np.ndarray, rng: Any = None) -> Any:
    return largest(weight)[0]


def two_filters(weight: np.ndarray, rng: Any = None) -> Any:
    first = largest(weight)[0]
    return [first, (first + 1) % weight.shape[0]]


def changed(place: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., None]:
    """Return a fault that replaces the elements at a place of an array, which a generator may
    choose."""

    def plant(array: np.ndarray, rng: Any = None) -> None:
        at = place(array, rng)
        array[at] = change(array[at])

    return plant


def times(factor: float) -> Callable[[Any], Any]:
    return lambda values: values * np.asarray(factor, values.dtype)


def biased(values: np.ndarray) -> np.ndarray:
    """Add 1 % of the RMS."""
    return values + np.float32(0.01 * np.sqrt(np.mean(np.square(values, dtype=np.float64))))


def swapped_columns(values: np.ndarray) -> np.ndarray:
    return values[:, ::-1]


def transposed(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.swapaxes(-1, -2)).reshape(array.shape)


def one_step(values: np.ndarray) -> np.ndarray:
    """Add a step, of integers that stay in their range."""
    return values + np.where(values == 127, -1, 1).astype(values.dtype)


def transposed_or_reversed(weight: np.ndarray) -> np.ndarray:
    is_square = weight.ndim == 2 and weight.shape[0] == weight.shape[1]
    return weight.T.copy() if is_square else weight[..., ::-1].copy()


def rolled(axis: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: np.roll(values, 1, min(axis, values.ndim - 1))


ELEMENTWISE: dict[str, Callable[..., None]] = {
    "zeroed": changed(everywhere, np.zeros_like),
    "channel zeroed": changed(channel, np.zeros_like),
    "channels swapped": changed(two_channels, swapped_columns),
    "channel scaled 1 %": changed(channel, times(1.01)),
    "channel biased 1 %": changed(channel, biased),
    "scaled 0.1 %": changed(everywhere, times(1.001)),
    "NaN in one element": changed(element, times(np.nan)),
    "infinity in one element": changed(element, lambda _: np.inf),
    "sign of one element": changed(median, np.negative),
    "one element off 1 %": changed(median, times(1.01)),
    "transposed": changed(everywhere, transposed),
    "rows rolled": changed(everywhere, rolled(0)),
}


def in_outputs(
    right: Sequence[Any], stale: Sequence[Any], rng: np.random.Generator
) -> Iterator[tuple[str, Arrays]]:
    """Yield wrong outputs with the name of the fault, without faults that change nothing.

    Args:
        right: The outputs, of which float arrays are damaged one by one.
        stale: Outputs of a call with other inputs.
    """
    for index, output in enumerate(right):
        if not is_float(output) or output.size < 2:
            continue
        for name, plant in ELEMENTWISE.items():
            if output.shape[_channel_axis(output)] < 2 or output.ndim < 2:
                continue
            is_half = output.dtype.itemsize == 2
            wrong = output.astype(np.float32) if is_half else output.copy()
            plant(wrong, rng)
            wrong = wrong.astype(output.dtype)
            if not np.array_equal(
                wrong.astype(np.float64), output.astype(np.float64), equal_nan=True
            ):
                yield name, [*right[:index], wrong, *right[index + 1 :]]
    yield "stale outputs", list(stale)
    yield "an output missing", list(right[:-1])
    yield "an output too many", [*right, right[0]]
    other = np.float32 if right[0].dtype.itemsize == 2 else np.float16
    yield "dtype changed", [right[0].astype(other), *right[1:]]
    if len(right) > 1:
        yield "outputs swapped", [right[1], right[0], *right[2:]]


# ---- weights in a file --------------------------------------------------------------------------


@dataclass(frozen=True)
class Placed:
    """A weight in the bytes of a program."""

    layer: str
    offset: int
    value: np.ndarray
    """The weight in the layout of the file."""
    axes: tuple[int, ...]
    """Axes of the file's array in the order of the weight's."""

    def changed(self, data: bytes, change: Callable[[np.ndarray], None]) -> bytes:
        """Return the program with the weight changed in place."""
        array = self.value.copy()
        change(array.transpose(self.axes))
        end = self.offset + array.nbytes
        return sealed(data[: self.offset] + array.tobytes() + data[end:])


def sealed(data: bytes) -> bytes:
    """Return a changed program with new hashes of its models: delegates of Core AI compare them."""
    for old in set(re.findall(rb"coreai/([0-9a-f]{64})/", data)):
        model = Runtime.get().load_program(data)._named_data(f"coreai/{old.decode()}/{PROGRAM}")
        new = hashlib.sha256(model or b"").hexdigest()
        data = data.replace(old, new.encode())
        data = data.replace(bytes.fromhex(old.decode()), bytes.fromhex(new))
    return data


LAYOUTS = {
    1: [(0,)],
    2: [(0, 1), (1, 0)],
    3: [(0, 1, 2), (0, 2, 1)],
    4: [(0, 1, 2, 3), (0, 2, 3, 1), (1, 2, 3, 0)],
}
"""Orders of the axes of scales and weights in files: of the kernels', and of XNNPACK's."""


def _folded(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights of convolutions folded with the following batch norm, by layer."""
    results = {}
    for path, module in model.named_modules():
        children = list(module.named_children())
        for (name, conv), (_, norm) in zip(children, children[1:]):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                fused = torch.nn.utils.fuse_conv_bn_eval(copy.deepcopy(conv), norm)
                results[f"{path}.{name}" if path else name] = fused.weight.detach()
    return results


def placed(data: bytes, layer: str, weight: np.ndarray) -> Placed | None:
    """Return the place of a weight in a file; None if it occurs not at all or more than once."""
    for order in LAYOUTS[weight.ndim]:
        value = np.ascontiguousarray(weight.transpose(order))
        at = data.find(value.tobytes())
        if at >= 0 and data.find(value.tobytes(), at + 1) < 0:
            return Placed(layer, at, value, tuple(int(i) for i in np.argsort(order)))
    return None


def weights_in(data: bytes, model: nn.Module, rng: np.random.Generator, count: int) -> list[Placed]:
    """Return some weights of linear layers and convolutions that occur exactly once in a file."""
    folded = _folded(model)
    layers = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, (nn.Linear, nn.Conv2d))
    ]
    outputs: list[Placed] = []
    for at in rng.permutation(len(layers)):
        name, module = layers[at]
        for weight in filter(lambda w: w is not None, (module.weight.detach(), folded.get(name))):
            if (place := placed(data, name, as_array(weight))) is not None:
                outputs.append(place)
                break
        if len(outputs) == count:
            break
    return outputs


IN_WEIGHTS: dict[str, Callable[[np.ndarray], None]] = {
    "sign of one weight": changed(largest, np.negative),
    "filter zeroed": changed(filter_of_largest, np.zeros_like),
    "filters swapped": changed(two_filters, lambda rows: rows[::-1]),
    "filter scaled 1 %": changed(filter_of_largest, times(1.01)),
    "weight transposed": changed(everywhere, transposed_or_reversed),
}
IN_INTEGERS: dict[str, Callable[[np.ndarray], None]] = {
    **{name: fault for name, fault in IN_WEIGHTS.items() if "scaled" not in name},
    "filter one step off": changed(filter_of_largest, one_step),
    "filter negated": changed(filter_of_largest, np.negative),
    "filters rolled": changed(everywhere, rolled(0)),
    "channels rolled": changed(everywhere, rolled(1)),
    "weights negated": changed(everywhere, np.negative),
    "weights zeroed": changed(everywhere, np.zeros_like),
    "weights halved": changed(everywhere, lambda weight: weight // 2),
}
IN_SCALES = {"scale of a filter off 1 %": IN_WEIGHTS["filter scaled 1 %"]}
"""Weights of int8, with a scale for each filter."""


# ---- graphs -----------------------------------------------------------------------------------


def operator(node: Any) -> str:
    """Return the base name of an operator: "add" of aten.add.Tensor."""
    return (*str(node.target).split("."), "")[1]


Finder = Callable[[Any], bool]
Editor = Callable[[Any, np.random.Generator], None]


def _calls(*names: str) -> Finder:
    """Return a predicate of nodes: the node calls one of the operators."""
    return lambda node: operator(node) in names


def _is_residual(node: Any) -> bool:
    """Return True if a sum adds two tensors of one shape, neither of them constant."""
    tensors = [arg for arg in node.args[:2] if hasattr(arg, "meta")]
    if operator(node) not in ("add", "add_") or len(tensors) < 2:
        return False
    shapes = {tuple(one.meta["val"].shape) for one in (*tensors, node)}
    return len(shapes) == 1 and all(one.op == "call_function" for one in tensors)


def _drop(node: Any, rng: np.random.Generator) -> None:
    node.meta["readers"] = [module_of(user) for user in node.users]
    node.replace_all_uses_with(node.args[int(rng.integers(2))])


EPS_AT = {"batch_norm": 7, "layer_norm": 4, "group_norm": 4}


def _change_eps(node: Any, rng: np.random.Generator) -> None:
    at = EPS_AT[operator(node)]
    args = list(node.args) + [1e-5] * max(at + 1 - len(node.args), 0)
    node.args = (*args[:at], 1e-2, *args[at + 1 :])


ACTIVATIONS = {
    "relu": torch.ops.aten.sigmoid.default,
    "relu_": torch.ops.aten.sigmoid.default,
    "gelu": torch.ops.aten.relu.default,
    "silu": torch.ops.aten.relu.default,
    "silu_": torch.ops.aten.relu.default,
    "hardtanh": torch.ops.aten.relu.default,
    "hardtanh_": torch.ops.aten.relu.default,
    "tanh": torch.ops.aten.sigmoid.default,
    "sigmoid": torch.ops.aten.tanh.default,
}


def _change_activation(node: Any, rng: np.random.Generator) -> None:
    node.target = ACTIVATIONS[operator(node)]
    node.args, node.kwargs = node.args[:1], {}


def _average(node: Any, rng: np.random.Generator) -> None:
    node.target = torch.ops.aten.avg_pool2d.default
    node.args = node.args[:4]


def _is_softmax(node: Any) -> bool:
    return operator(node) == "softmax" and node.args[0].meta["val"].ndim >= 2


def _change_axis(node: Any, rng: np.random.Generator) -> None:
    last = node.args[1] in (-1, node.args[0].meta["val"].ndim - 1)
    node.args = (node.args[0], -2 if last else -1, *node.args[2:])


def _change_scale(node: Any, rng: np.random.Generator) -> None:
    width = node.args[0].meta["val"].shape[-1]
    node.kwargs = {**node.kwargs, "scale": 1.1 / width**0.5}


def _is_padded(node: Any) -> bool:
    """Return True for a convolution of kernel size 3 with stride and padding 1."""
    return (
        operator(node) in ("conv2d", "conv1d")
        and len(node.args) > 4
        and set(node.args[3]) == set(node.args[4]) == {1}
        and set(node.args[1].meta["val"].shape[2:]) == {3}
    )


def _dilate(node: Any, rng: np.random.Generator) -> None:
    """Change dilation and padding so that the shape is unchanged."""
    twos = [2] * len(node.args[4])
    node.args = (*node.args[:4], twos, twos, *node.args[6:])


IN_GRAPHS: dict[str, tuple[Finder, Editor]] = {
    "residual dropped": (_is_residual, _drop),
    "wrong eps": (_calls(*EPS_AT), _change_eps),
    "wrong activation": (_calls(*ACTIVATIONS), _change_activation),
    "wrong pooling": (_calls("max_pool2d"), _average),
    "wrong softmax axis": (_is_softmax, _change_axis),
    "wrong attention scale": (_calls("scaled_dot_product_attention"), _change_scale),
    "wrong padding and dilation": (_is_padded, _dilate),
}
"""Nodes that may have a fault, and the function that plants it."""


def in_graph(exported: Any, name: str, rng: np.random.Generator) -> list[str] | None:
    """Plant a fault in an exported program in place; return the affected layers, or None without
    such an operator."""
    find, edit = IN_GRAPHS[name]
    results = [node for node in exported.graph.nodes if node.op == "call_function" and find(node)]
    if not results:
        return None
    node = results[int(rng.integers(len(results)))]
    edit(node, rng)
    exported.graph_module.graph.eliminate_dead_code()
    # A missing sum shows where its result is read.
    return [layer for layer in (module_of(node), *node.meta.get("readers", ())) if layer]


# ---- modules ----------------------------------------------------------------------------------


def _shapes(model: nn.Module, inputs: tuple[Any, ...]) -> list[torch.Size] | None:
    """Return the shapes of a model's outputs; None if it cannot run."""
    try:
        with torch.no_grad():
            return [leaf.shape for leaf in tree_leaves(model(*inputs))]
    except RuntimeError:
        return None


def with_stride(
    model: nn.Module, inputs: tuple[Any, ...], rng: np.random.Generator
) -> tuple[nn.Module, str] | None:
    """Return a copy of a model with another stride of one window, and the window's layer; None if
    every change affects the shapes of the outputs."""
    names = [
        name
        for name, one in model.named_modules()
        if isinstance(one, (nn.Conv1d, nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d))
    ]
    right = _shapes(copy.deepcopy(model), inputs)  # a call may change its state
    for name in rng.permutation(names):
        wrong = copy.deepcopy(model)
        window = wrong.get_submodule(str(name))
        strides = window.stride if isinstance(window.stride, tuple) else (window.stride,) * 2
        window.stride = tuple(2 if stride == 1 else 1 for stride in strides)
        if _shapes(wrong, inputs) == right:
            return wrong, str(name)
    return None
