"""One graph for each kind of node with dynamic shapes, as a function of its input shape.

`KINDS[name]`: a function from the input shape to its graph, and a sequence of shapes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.backends.xnnpack_graphs import ABSENT, Channel, Graph, Group, Shape, Tensor, Token


Maker = Callable[[Shape], Graph]
KINDS: dict[str, tuple[Maker, list[Shape]]] = {}
"""Graphs by name, with the sequence of their shapes."""

IMAGES: list[Shape] = [
    *((2, 5, 6, 8), (7, 5, 6, 8), (1, 9, 9, 8), (7, 3, 3, 8), (1, 3, 3, 8), (3, 9, 4, 8)),
    *((7, 9, 9, 8), (2, 5, 6, 8)),
]
"""More images of the same size, fewer images of a larger size, and back."""
CHANNELS: list[Shape] = [
    *((2, 5, 6, 8), (2, 5, 6, 19), (2, 5, 6, 1), (3, 4, 6, 19), (1, 1, 1, 3), (3, 9, 9, 24)),
    (2, 5, 6, 8),
]
ROWS: list[Shape] = [(3, 32), (17, 32), (1, 32), (2, 5, 32), (40, 32), (2, 1, 7, 32), (5, 32)]
POOLED: list[Shape] = [
    *((1, 1, 1, 1), (8, 32, 32, 64), (1, 2, 2, 64), (8, 1, 1, 64), (2, 32, 32, 1)),
    (8, 32, 32, 64),
]
"""Results grow while the temporary memory of a pooling shrinks, and the reverse."""
BYTES = {"qint8": Tensor(0.5, 3), "quint8": Tensor(0.25, 100)}


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def integers(*shape: int, low: int = -100, high: int = 100) -> np.ndarray:
    return np.random.default_rng(1).integers(low, high, shape)


def how(dtype: str) -> Any:
    return BYTES.get(dtype)


def add(name: str, shapes: list[Shape]) -> Callable[[Maker], Maker]:
    def register(make: Maker) -> Maker:
        assert name not in KINDS
        KINDS[name] = (make, shapes)
        return make

    return register


def unary(kind: str, dtype: str, **fields: Any) -> Maker:
    def make(shape: Shape) -> Graph:
        graph = Graph()
        x, y = graph.input(shape, dtype, how(dtype)), graph.output(shape, dtype, how(dtype))
        graph.unary(kind, x, y, **fields)
        return graph

    return make


# ---- element by element --------------------------------------------------------------------------

SIMPLE = tuple(
    (
        "Abs Ceiling Clamp Cos Exp Floor Gelu Hardswish Log Negate ReciprocalSquareRoot "
        "Sigmoid Sin Square SquareRoot Tanh Copy"
    ).split()
)
for kind in SIMPLE:
    for dtype in ("fp32", "fp16", "qint8"):
        add(f"{kind}-{dtype}", CHANNELS)(unary(kind, dtype))
for dtype in ("fp32", "fp16"):
    add(f"Softmax-{dtype}", CHANNELS)(unary("Softmax", dtype))
    add(f"LeakyReLU-{dtype}", CHANNELS)(unary("LeakyReLU", dtype, negative_slope=0.25))
    add(f"ELU-{dtype}", CHANNELS)(unary("ELU", dtype, alpha=0.5))


def chain(kinds: tuple[str, ...], other: Callable[[Shape], Shape]) -> Maker:
    """Chain results that may share memory with inputs of the same size: the second operand of
    binary nodes is a reduction of the input, of equal or different size."""

    def make(shape: Shape) -> Graph:
        graph = Graph()
        x, small = graph.input(shape), graph.input(other(shape))
        a, b = graph.value(shape), graph.value(other(shape))
        graph.unary("Abs", x, a)
        graph.unary("Negate", small, b)
        for kind in kinds:
            c = graph.value(shape)
            graph.binary(kind, b, a, c)
            a = graph.value(shape)
            graph.unary("Sigmoid", c, a)
            b2 = graph.value(other(shape))
            graph.unary("Abs", b, b2)
            b = b2
        y = graph.output(shape)
        graph.binary("Add", a, b, y)
        return graph

    return make


add("broadcast_rows", [(4, 6), (1, 6), (9, 6), (1, 6), (4, 1), (1, 1), (9, 6), (2, 50), (9, 6)])(
    chain(("Add", "Multiply", "Subtract"), lambda s: (1, s[1]))
)
add("broadcast_columns", [(4, 6), (4, 1), (9, 6), (50, 1), (1, 1), (9, 6), (50, 2), (9, 6)])(
    chain(("Maximum", "Minimum", "Add"), lambda s: (s[0], 1))
)


# ---- images --------------------------------------------------------------------------------------


def slid(size: int, window: int, stride: int, padding: int, dilation: int = 1) -> int:
    return (size + padding - (window - 1) * dilation - 1) // stride + 1


def pool(
    kind: str, dtype: str, window: Shape, stride: Shape, padding: Shape, dilation: Shape = (1, 1)
) -> Maker:
    def make(shape: Shape) -> Graph:
        top, right, bottom, left = padding
        height = slid(shape[1], window[0], stride[0], top + bottom, dilation[0])
        width = slid(shape[2], window[1], stride[1], left + right, dilation[1])
        graph = Graph()
        x = graph.input(shape, dtype, how(dtype))
        y = graph.output((shape[0], height, width, shape[3]), dtype, how(dtype))
        graph.pool(kind, x, y, window, stride, padding, dilation)
        return graph

    return make


for dtype in ("fp32", "fp16", "qint8", "quint8"):
    add(f"MaxPooling2d-{dtype}", CHANNELS)(
        pool("MaxPooling2d", dtype, (3, 2), (1, 2), (1, 1, 1, 1))
    )
    add(f"MaxPooling2d-dilated-{dtype}", CHANNELS)(
        pool("MaxPooling2d", dtype, (2, 2), (1, 1), (1, 2, 1, 2), (2, 3))
    )
    add(f"MaxPooling2d-large-{dtype}", CHANNELS)(
        pool("MaxPooling2d", dtype, (5, 5), (2, 3), (2, 2, 2, 2))
    )
for dtype in ("fp32", "fp16"):
    for name, window, stride, padding in (
        ("small", (2, 2), (1, 2), (1, 1, 1, 1)),
        ("large", (6, 5), (2, 1), (3, 2, 3, 2)),
        ("bare", (1, 2), (1, 1), (0, 1, 0, 1)),
    ):
        add(f"AvgPooling2d-{name}-{dtype}", CHANNELS)(
            pool("AvgPooling2d", dtype, window, stride, padding)
        )


def argmax(window: int, read_indices: bool) -> Maker:
    def make(shape: Shape) -> Graph:
        out = (shape[0], shape[1] // window, shape[2] // window, shape[3])
        graph = Graph()
        x, y = graph.input(shape), graph.output(out)
        indices = graph.output(out, "int32") if read_indices else graph.value(out, "int32")
        graph.node(
            "ArgMaxPooling2d",
            input_id=x,
            output_value_id=y,
            output_index_id=indices,
            pooling_height=window,
            pooling_width=window,
        )
        return graph

    return make


BLOCKS: list[Shape] = [(2, 4, 8, 5), (64, 4, 8, 5), (1, 12, 12, 7), (9, 8, 4, 5), (9, 12, 12, 7)]
for window in (2, 4):
    for read in (True, False):
        name = f"ArgMaxPooling2d-{window}-{'read' if read else 'unread'}"
        add(name, BLOCKS)(argmax(window, read))


def global_pool(dtype: str, keep: bool) -> Maker:
    def make(shape: Shape) -> Graph:
        out = (shape[0], 1, 1, shape[3]) if keep else (shape[0], shape[3])
        graph = Graph()
        x, y = graph.input(shape, dtype, how(dtype)), graph.output(out, dtype, how(dtype))
        graph.unary("GlobalAvgPooling2d", x, y, flags=64 if keep else 0)
        return graph

    return make


for dtype in ("fp32", "fp16", "qint8", "quint8"):
    for keep in (True, False):
        add(f"GlobalAvgPooling2d-{dtype}{'-keep' if keep else ''}", POOLED)(
            global_pool(dtype, keep)
        )


def resize(dtype: str, flags: int) -> Maker:
    def make(shape: Shape) -> Graph:
        graph = Graph()
        x = graph.input(shape, dtype, how(dtype))
        y = graph.output((shape[0], 7, 5, shape[3]), dtype, how(dtype))
        graph.node(
            "StaticResizeBilinear2D",
            new_height=7,
            new_width=5,
            input_id=x,
            output_id=y,
            flags=flags,
        )
        return graph

    return make


for dtype in ("fp32", "fp16", "qint8", "quint8"):
    for flags, name in ((0, "halves"), (8, "corners")):
        add(f"StaticResizeBilinear2D-{dtype}-{name}", CHANNELS)(resize(dtype, flags))


# ---- layers with weights -------------------------------------------------------------------------


def weights(graph: Graph, scheme: str, shape: Shape, channel: int, count: int) -> tuple[int, int]:
    """Return a filter and a bias of `count` elements under a scheme."""
    scales = [0.01 + 0.001 * i for i in range(count)]
    if scheme in ("fp32", "fp16"):
        return graph.constant(numbers(*shape)), graph.constant(numbers(count, seed=2))
    if scheme == "qdint8":
        weight = graph.constant(integers(*shape), "qcint8", Channel(scales, channel))
        return weight, graph.constant(numbers(count, seed=2))
    bias = integers(count)
    if scheme == "qint8":
        weight = graph.constant(integers(*shape), "qcint8", Channel(scales, channel))
        return weight, graph.constant(bias, "qcint32", Channel([0.5 * s for s in scales]))
    weight = graph.constant(integers(*shape, low=0, high=200), "quint8", Tensor(0.02, 90))
    return weight, graph.constant(bias, "qint32", Tensor(0.25 * 0.02))


def fed(graph: Graph, shape: Shape, scheme: str, dims: int) -> int:
    """Return the input of a layer, dynamically quantised if the scheme requires it."""
    if scheme != "qdint8":
        return graph.input(shape, scheme, how(scheme))
    x = graph.input(shape)
    quantised = graph.value(shape, "qdint8", Token(dims))
    graph.unary("Convert", x, quantised)
    return quantised


def result(graph: Graph, shape: Shape, scheme: str) -> int:
    dtype = "fp32" if scheme == "qdint8" else scheme
    return graph.output(shape, dtype, how(dtype))


def conv(
    kind: str,
    scheme: str,
    window: Shape,
    stride: Shape,
    padding: Shape,
    groups: int = 1,
    channels: tuple[int, int] = (8, 6),
    dilation: Shape = (1, 1),
) -> Maker:
    def make(shape: Shape) -> Graph:
        top, right, bottom, left = padding
        count = groups * channels[1]
        graph = Graph()
        x = fed(graph, shape, scheme, 3)
        sizes = []
        for size, k, s, p, d in zip(
            shape[1:3], window, stride, (top + bottom, left + right), dilation, strict=True
        ):
            back = (size - 1) * s + (k - 1) * d + 1 - p
            sizes.append(back if kind == "ConvTranspose2d" else slid(size, k, s, p, d))
        filter_shape: Shape = (count, *window, channels[0])
        if kind == "DepthwiseConv2d":
            filter_shape = (1, *window, count)
        weight, bias = weights(
            graph, scheme, filter_shape, 3 if kind == "DepthwiseConv2d" else 0, count
        )
        y = result(graph, (shape[0], *sizes, count), scheme)
        graph.conv(
            kind,
            x,
            weight,
            bias,
            y,
            window=window,
            channels=channels,
            groups=groups,
            stride=stride,
            padding=padding,
            dilation=dilation,
        )
        return graph

    return make


for scheme in ("fp32", "fp16", "qint8", "quint8", "qdint8"):
    add(f"Conv2d-{scheme}", IMAGES)(conv("Conv2d", scheme, (3, 2), (1, 2), (1, 1, 1, 0)))
    add(f"Conv2d-bare-{scheme}", IMAGES)(conv("Conv2d", scheme, (1, 1), (1, 1), (0, 0, 0, 0)))
    add(f"Conv2d-grouped-{scheme}", IMAGES)(
        conv("Conv2d", scheme, (2, 3), (2, 1), (0, 1, 1, 1), 2, (4, 3), (2, 1))
    )
    if scheme != "qdint8":
        add(f"DepthwiseConv2d-{scheme}", IMAGES)(
            conv("DepthwiseConv2d", scheme, (3, 3), (1, 2), (1, 1, 1, 1), 8, (1, 1))
        )
        add(f"DepthwiseConv2d-large-{scheme}", IMAGES)(
            conv("DepthwiseConv2d", scheme, (7, 6), (2, 1), (3, 3, 3, 3), 8, (1, 1))
        )
        add(f"DepthwiseConv2d-49-{scheme}", IMAGES)(
            conv("DepthwiseConv2d", scheme, (7, 7), (2, 1), (3, 3, 3, 3), 8, (1, 1))
        )
    for name, window, stride, padding in (
        ("strided", (3, 4), (2, 3), (1, 0, 0, 1)),
        ("plain", (3, 3), (1, 1), (1, 1, 1, 1)),
        ("apart", (2, 2), (2, 2), (0, 0, 0, 0)),
        ("wide", (2, 2), (3, 3), (0, 0, 0, 0)),
    ):
        add(f"ConvTranspose2d-{name}-{scheme}", IMAGES)(
            conv("ConvTranspose2d", scheme, window, stride, padding)
        )


def linear(scheme: str, weight_bits: int = 8, transposed: bool = False) -> Maker:
    def make(shape: Shape) -> Graph:
        graph = Graph()
        x = fed(graph, shape, scheme, 1)
        y = result(graph, (*shape[:-1], 6), scheme)
        if weight_bits == 4:
            packed = np.random.default_rng(3).integers(0, 256, (6, 16))
            scales = [0.01 * (i + 1) for i in range(6)]
            weight = graph.constant(packed, "qcint4", Channel(scales), dims=(6, 32))
            bias = graph.constant(numbers(6, seed=2))
        elif weight_bits == 32:  # groups
            packed = np.random.default_rng(3).integers(0, 256, (6, 16))
            weight = graph.constant(packed, "qbint4", Group([0.0625] * 6, 32), dims=(6, 32))
            bias = graph.constant(numbers(6, seed=2))
        else:
            dims = (32, 6) if transposed else (6, 32)
            weight, bias = weights(graph, scheme, dims, 1 if transposed else 0, 6)
        graph.linear(x, weight, bias, y, flags=1 if transposed else 0)
        return graph

    return make


for scheme in ("fp32", "fp16", "qint8", "quint8", "qdint8"):
    add(f"FullyConnected-{scheme}", ROWS)(linear(scheme))
    add(f"FullyConnected-transposed-{scheme}", ROWS)(linear(scheme, transposed=True))
add("FullyConnected-qdint8-qcint4", ROWS)(linear("qdint8", 4))
add("FullyConnected-fp32-qcint4", ROWS)(linear("fp32", 4))
add("FullyConnected-qdint8-qbint4", ROWS)(linear("qdint8", 32))


@add("FullyConnected-computed", [(3, 5), (17, 5), (1, 9), (40, 2), (3, 30), (40, 30)])
def computed_linear(shape: Shape) -> Graph:
    """Build a fully connected node with a computed filter."""
    graph = Graph()
    x, weight = graph.input(shape), graph.input((6, shape[1]))
    graph.linear(x, weight, ABSENT, graph.output((shape[0], 6)))
    return graph


def matmul(dtype: str, transposed: bool) -> Maker:
    def make(shape: Shape) -> Graph:
        *batch, rows, inner = shape
        graph = Graph()
        right = (*batch, 7, inner) if transposed else (*batch, inner, 7)
        a, b = graph.input(shape, dtype), graph.input(right, dtype)
        graph.binary(
            "BatchMatrixMultiply",
            a,
            b,
            graph.output((*batch, rows, 7), dtype),
            flags=1 if transposed else 0,
        )
        return graph

    return make


MATRICES: list[Shape] = [(2, 3, 5), (9, 3, 5), (1, 30, 5), (2, 2, 40), (4, 1, 17), (9, 30, 40)]
for dtype in ("fp32", "fp16"):
    for transposed in (False, True):
        name = f"BatchMatrixMultiply-{dtype}{'-transposed' if transposed else ''}"
        add(name, MATRICES)(matmul(dtype, transposed))


def constant_matmul(scheme: str) -> Maker:
    def make(shape: Shape) -> Graph:
        graph = Graph()
        x = fed(graph, shape, scheme, 1)
        if scheme == "fp32":
            right = graph.constant(numbers(1, 5, 7))
        else:
            right = graph.constant(integers(1, 5, 7), "qcint8", Channel([0.01] * 7, 2))
        graph.binary("BatchMatrixMultiply", x, right, graph.output((*shape[:-1], 7)))
        return graph

    return make


SAME_INNER: list[Shape] = [(2, 3, 5), (9, 3, 5), (1, 30, 5), (4, 1, 5), (9, 30, 5), (2, 3, 5)]
for scheme in ("fp32", "qdint8"):
    add(f"BatchMatrixMultiply-constant-{scheme}", SAME_INNER)(constant_matmul(scheme))


@add("ScaledDotProductAttention", [(2, 3, 8), (2, 9, 8), (5, 3, 8), (1, 1, 8), (5, 9, 8)])
def attention(shape: Shape) -> Graph:
    batch, tokens, channels = shape
    graph = Graph()
    q, k, v = (graph.input(shape) for _ in range(3))
    scale, mask = graph.input((channels,)), graph.input((tokens, tokens))
    graph.node(
        "ScaledDotProductAttention",
        query_id=q,
        key_id=k,
        value_id=v,
        scale_id=scale,
        mask_id=mask,
        output_id=graph.output(shape),
    )
    return graph


# ---- moves ---------------------------------------------------------------------------------------

for dtype in ("fp32", "fp16", "qint8"):

    def transposed_graph(shape: Shape, dtype: str = dtype) -> Graph:
        graph = Graph()
        x = graph.input(shape, dtype, how(dtype))
        perm = (2, 0, 3, 1)
        y = graph.output([shape[i] for i in perm], dtype, how(dtype))
        graph.node("StaticTranspose", num_dims=4, perm=list(perm), input_id=x, output_id=y)
        return graph

    def padded_graph(shape: Shape, dtype: str = dtype) -> Graph:
        graph = Graph()
        x = graph.input(shape, dtype, how(dtype))
        before, after = (1, 0, 2, 0), (0, 3, 0, 1)
        out = [b + s + a for b, s, a in zip(before, shape, after, strict=True)]
        graph.node(
            "StaticConstantPad",
            pre_paddings=before,
            post_paddings=after,
            padding_value=1.5,
            input_id=x,
            output_id=graph.output(out, dtype, how(dtype)),
        )
        return graph

    def sliced_graph(shape: Shape, dtype: str = dtype) -> Graph:
        graph = Graph()
        x = graph.input(shape, dtype, how(dtype))
        y = graph.output((shape[0], 1, shape[2], shape[3]), dtype, how(dtype))
        graph.node(
            "StaticSlice",
            num_dims=4,
            offsets=[0, 0, 0, 0],
            sizes=[0, 1, 0, 0],
            input_id=x,
            output_id=y,
        )
        return graph

    def reshaped_graph(shape: Shape, dtype: str = dtype) -> Graph:
        graph = Graph()
        x = graph.input(shape, dtype, how(dtype))
        y = graph.output((int(np.prod(shape)), 1), dtype, how(dtype))
        graph.node("StaticReshape", num_dims=2, new_shape=[0, 1], input_id=x, output_id=y)
        return graph

    def joined_graph(shape: Shape, dtype: str = dtype) -> Graph:
        graph = Graph()
        x = graph.input(shape, dtype, how(dtype))
        y = graph.input((shape[0], 2, *shape[2:]), dtype, how(dtype))
        parts = [x, y, x, y]
        out = (shape[0], 2 * shape[1] + 4, *shape[2:])
        graph.concatenate(parts, graph.output(out, dtype, how(dtype)), 1)
        return graph

    add(f"StaticTranspose-{dtype}", CHANNELS)(transposed_graph)
    add(f"StaticConstantPad-{dtype}", CHANNELS)(padded_graph)
    add(f"StaticSlice-{dtype}", CHANNELS)(sliced_graph)
    add(f"StaticReshape-{dtype}", CHANNELS)(reshaped_graph)
    add(f"Concatenate4-{dtype}", CHANNELS)(joined_graph)


# ---- several -------------------------------------------------------------------------------------


@add("convs_and_pools-qdint8", IMAGES)
def several(shape: Shape) -> Graph:
    """Build intermediate results: dynamic quantisation twice, and a float16 pooling."""
    batch, height, width, _ = shape
    graph = Graph()
    x = fed(graph, shape, "qdint8", 3)
    weight, bias = weights(graph, "qdint8", (8, 3, 3, 8), 0, 8)
    first = graph.value(shape)
    square: dict[str, Any] = {"window": (3, 3), "channels": (8, 8), "padding": (1, 1, 1, 1)}
    graph.conv("Conv2d", x, weight, bias, first, **square)
    second = graph.value(shape, "qdint8", Token(3))
    graph.unary("Convert", first, second)
    third = graph.value((batch, 2 * height + 1, 2 * width + 1, 8))
    graph.conv(
        "ConvTranspose2d",
        second,
        weight,
        bias,
        third,
        window=(3, 3),
        channels=(8, 8),
        stride=(2, 2),
    )
    halves = graph.value((batch, 2 * height + 1, 2 * width + 1, 8), "fp16")
    graph.unary("Convert", third, halves)
    means = graph.value((batch, 8), "fp16")
    graph.unary("GlobalAvgPooling2d", halves, means)
    wide = graph.value((batch, 8))
    graph.unary("Convert", means, wide)
    rows = graph.value((batch, 8), "qdint8", Token(1))
    graph.unary("Convert", wide, rows)
    weight, bias = weights(graph, "qdint8", (6, 8), 0, 6)
    graph.linear(rows, weight, bias, graph.output((batch, 6)))
    return graph
