"""One graph for each kind of node with dynamic shapes, as a function of its input shape.

`KINDS[name]`: a function from the input shape to its graph, and a sequence of shapes.
"""

from collections.abc import Callable

import numpy as np

from tests.backends.xnnpack_graphs import ABSENT, NUMPY, Channel, Graph, Group, Shape, Tensor, Token
from tests.backends.xnnpack_payload import datatypes

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
BLOCKS: list[Shape] = [(2, 4, 8, 5), (64, 4, 8, 5), (1, 12, 12, 7), (9, 8, 4, 5), (9, 12, 12, 7)]
MATRICES: list[Shape] = [(2, 3, 5), (9, 3, 5), (1, 30, 5), (2, 2, 40), (4, 1, 17), (9, 30, 40)]
SAME_INNER: list[Shape] = [(2, 3, 5), (9, 3, 5), (1, 30, 5), (4, 1, 5), (9, 30, 5), (2, 3, 5)]
FLOATS, BYTES = ("fp32", "fp16"), ("qint8", "quint8")


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def integers(*shape: int, low: int = -100, high: int = 100) -> np.ndarray:
    return np.random.default_rng(1).integers(low, high, shape)


def add(name: str, shapes: list[Shape], make: Maker) -> None:
    assert name not in KINDS
    KINDS[name] = (make, shapes)


def same(shape: Shape) -> Shape:
    return shape


def arguments(graph: Graph) -> list[np.ndarray]:
    """Return inputs of a graph."""
    rng = np.random.default_rng(0)
    arrays = []
    for index in graph.inputs:
        tensor = graph.tensor(index)
        dtype = NUMPY[datatypes()[tensor["datatype"]]]
        x = 3 * rng.normal(size=tensor["dims"])
        arrays.append((10 * abs(x) if dtype in ("int8", "uint8") else x).astype(dtype))
    return arrays


def unary(kind: str, dtype: str, out: Callable[[Shape], Shape] = same, **fields: object) -> Maker:
    """Return a graph of one node, with the shape of its output."""

    def make(shape: Shape) -> Graph:
        graph = Graph()
        graph.unary(kind, graph.input(shape, dtype), graph.output(out(shape), dtype), **fields)
        return graph

    return make


# ---- element by element --------------------------------------------------------------------------

SIMPLE = (
    "Abs Ceiling Clamp Cos Exp Floor Gelu Hardswish Log Negate ReciprocalSquareRoot "
    "Sigmoid Sin Square SquareRoot Tanh Copy"
)
for kind in SIMPLE.split():
    for dtype in ("fp32", "fp16", "qint8"):
        add(f"{kind}-{dtype}", CHANNELS, unary(kind, dtype))
for dtype in FLOATS:
    add(f"Softmax-{dtype}", CHANNELS, unary("Softmax", dtype))
    add(f"LeakyReLU-{dtype}", CHANNELS, unary("LeakyReLU", dtype, negative_slope=0.25))
    add(f"ELU-{dtype}", CHANNELS, unary("ELU", dtype, alpha=0.5))


def chain(kinds: tuple[str, ...], other: Callable[[Shape], Shape]) -> Maker:
    """Chain results that may share memory with inputs of the same size: the second operand of
    binary nodes is a reduction of the input, of equal or different size."""

    def make(shape: Shape) -> Graph:
        graph = Graph()
        a = graph.input(shape)
        b = graph.input(other(shape))
        a, b = graph.step("Abs", a), graph.step("Negate", b)
        for kind in kinds:
            a = graph.step("Sigmoid", graph.step(kind, b, a, dims=shape))
            b = graph.step("Abs", b)
        graph.binary("Add", a, b, graph.output(shape))
        return graph

    return make


add(
    "broadcast_rows",
    [(4, 6), (1, 6), (9, 6), (1, 6), (4, 1), (1, 1), (9, 6), (2, 50), (9, 6)],
    chain(("Add", "Multiply", "Subtract"), lambda s: (1, s[1])),
)
add(
    "broadcast_columns",
    [(4, 6), (4, 1), (9, 6), (50, 1), (1, 1), (9, 6), (50, 2), (9, 6)],
    chain(("Maximum", "Minimum", "Add"), lambda s: (s[0], 1)),
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
        x = graph.input(shape, dtype)
        y = graph.output((shape[0], height, width, shape[3]), dtype)
        graph.pool(kind, x, y, window, stride, padding, dilation)
        return graph

    return make


for name, geometry in {
    "MaxPooling2d": ((3, 2), (1, 2), (1, 1, 1, 1)),
    "MaxPooling2d-dilated": ((2, 2), (1, 1), (1, 2, 1, 2), (2, 3)),
    "MaxPooling2d-large": ((5, 5), (2, 3), (2, 2, 2, 2)),
    "AvgPooling2d-small": ((2, 2), (1, 2), (1, 1, 1, 1)),
    "AvgPooling2d-large": ((6, 5), (2, 1), (3, 2, 3, 2)),
    "AvgPooling2d-bare": ((1, 2), (1, 1), (0, 1, 0, 1)),
}.items():
    kind = name.partition("-")[0]
    for dtype in FLOATS + BYTES if kind == "MaxPooling2d" else FLOATS:
        add(f"{name}-{dtype}", CHANNELS, pool(kind, dtype, *geometry))


def argmax(window: int, read_indices: bool) -> Maker:
    def make(shape: Shape) -> Graph:
        out = (shape[0], shape[1] // window, shape[2] // window, shape[3])
        graph = Graph()
        x, y = graph.input(shape), graph.output(out)
        indices = graph.output(out, "int32") if read_indices else graph.value(out, "int32")
        ends = {"input_id": x, "output_value_id": y, "output_index_id": indices}
        graph.node("ArgMaxPooling2d", **ends, pooling_height=window, pooling_width=window)
        return graph

    return make


for window in (2, 4):
    for read in (True, False):
        name = f"ArgMaxPooling2d-{window}-{'read' if read else 'unread'}"
        add(name, BLOCKS, argmax(window, read))
for dtype in FLOATS + BYTES:
    kind = "GlobalAvgPooling2d"
    add(f"{kind}-{dtype}-keep", POOLED, unary(kind, dtype, lambda s: (s[0], 1, 1, s[3]), flags=64))
    add(f"{kind}-{dtype}", POOLED, unary(kind, dtype, lambda s: (s[0], s[3]), flags=0))
    for flags, name in ((0, "halves"), (8, "corners")):
        kind, size = "StaticResizeBilinear2D", {"new_height": 7, "new_width": 5, "flags": flags}
        make = unary(kind, dtype, lambda s: (s[0], 7, 5, s[3]), **size)
        add(f"{kind}-{dtype}-{name}", CHANNELS, make)


# ---- layers with weights -------------------------------------------------------------------------


def weights(graph: Graph, scheme: str, shape: Shape, channel: int, count: int) -> tuple[int, int]:
    """Return a filter and a bias of `count` elements under a scheme."""
    scales = [0.01 + 0.001 * i for i in range(count)]
    if scheme in FLOATS:
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


def source(graph: Graph, shape: Shape, scheme: str, dims: int) -> int:
    """Return the input of a layer, dynamically quantised if the scheme requires it."""
    if scheme != "qdint8":
        return graph.input(shape, scheme)
    return graph.step("Convert", graph.input(shape), dtype="qdint8", how=Token(dims))


def result(graph: Graph, shape: Shape, scheme: str) -> int:
    return graph.output(shape, "fp32" if scheme == "qdint8" else scheme)


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
        x = source(graph, shape, scheme, 3)
        sizes = []
        for size, k, s, p, d in zip(
            shape[1:3], window, stride, (top + bottom, left + right), dilation, strict=True
        ):
            back = (size - 1) * s + (k - 1) * d + 1 - p
            sizes.append(back if kind == "ConvTranspose2d" else slid(size, k, s, p, d))
        is_depthwise = kind == "DepthwiseConv2d"
        dims = (1, *window, count) if is_depthwise else (count, *window, channels[0])
        ends = weights(graph, scheme, dims, 3 if is_depthwise else 0, count)
        y = result(graph, (shape[0], *sizes, count), scheme)
        sides = {"stride": stride, "padding": padding, "dilation": dilation}
        graph.conv(kind, x, *ends, y, groups=groups, **sides)
        return graph

    return make


GEOMETRIES: dict[str, tuple] = {
    "Conv2d": ((3, 2), (1, 2), (1, 1, 1, 0)),
    "Conv2d-bare": ((1, 1), (1, 1), (0, 0, 0, 0)),
    "Conv2d-grouped": ((2, 3), (2, 1), (0, 1, 1, 1), 2, (4, 3), (2, 1)),
    "DepthwiseConv2d": ((3, 3), (1, 2), (1, 1, 1, 1), 8, (1, 1)),
    "DepthwiseConv2d-large": ((7, 6), (2, 1), (3, 3, 3, 3), 8, (1, 1)),
    "DepthwiseConv2d-49": ((7, 7), (2, 1), (3, 3, 3, 3), 8, (1, 1)),
    "ConvTranspose2d-strided": ((3, 4), (2, 3), (1, 0, 0, 1)),
    "ConvTranspose2d-plain": ((3, 3), (1, 1), (1, 1, 1, 1)),
    "ConvTranspose2d-apart": ((2, 2), (2, 2), (0, 0, 0, 0)),
    "ConvTranspose2d-wide": ((2, 2), (3, 3), (0, 0, 0, 0)),
}
"""Window, stride, padding, groups, channels of a group in and out, dilation."""
for scheme in (*FLOATS, *BYTES, "qdint8"):
    for name, geometry in GEOMETRIES.items():
        kind = name.partition("-")[0]
        if (kind, scheme) != ("DepthwiseConv2d", "qdint8"):
            add(f"{name}-{scheme}", IMAGES, conv(kind, scheme, *geometry))


def linear(scheme: str, filter_dtype: str = "", transposed: bool = False) -> Maker:
    """Return a layer whose filter has the scheme's dtype, or one of 4 bits."""

    def make(shape: Shape) -> Graph:
        graph = Graph()
        x = source(graph, shape, scheme, 1)
        y = result(graph, (*shape[:-1], 6), scheme)
        if filter_dtype:
            packed = np.random.default_rng(3).integers(0, 256, (6, 16))
            how = Channel([0.01 * (i + 1) for i in range(6)])
            if filter_dtype == "qbint4":
                how = Group([0.0625] * 6, 32)
            weight = graph.constant(packed, filter_dtype, how, dims=(6, 32))
            bias = graph.constant(numbers(6, seed=2))
        else:
            dims = (32, 6) if transposed else (6, 32)
            weight, bias = weights(graph, scheme, dims, int(transposed), 6)
        graph.linear(x, weight, bias, y, flags=int(transposed))
        return graph

    return make


for scheme in (*FLOATS, *BYTES, "qdint8"):
    add(f"FullyConnected-{scheme}", ROWS, linear(scheme))
    add(f"FullyConnected-transposed-{scheme}", ROWS, linear(scheme, transposed=True))
for scheme, dtype in (("qdint8", "qcint4"), ("fp32", "qcint4"), ("qdint8", "qbint4")):
    add(f"FullyConnected-{scheme}-{dtype}", ROWS, linear(scheme, dtype))


def matmul(dtype: str, transposed: bool = False) -> Maker:
    """Return a product of two inputs."""

    def make(shape: Shape) -> Graph:
        *batch, rows, inner = shape
        graph = Graph()
        right = (*batch, 7, inner) if transposed else (*batch, inner, 7)
        a, b = graph.input(shape, dtype), graph.input(right, dtype)
        y = graph.output((*batch, rows, 7), dtype)
        if batch:
            graph.binary("BatchMatrixMultiply", a, b, y, flags=int(transposed))
        else:
            graph.linear(a, b, ABSENT, y)
        return graph

    return make


def constant_matmul(scheme: str) -> Maker:
    def make(shape: Shape) -> Graph:
        graph = Graph()
        x = source(graph, shape, scheme, 1)
        right = graph.constant(numbers(1, 5, 7))
        if scheme == "qdint8":
            right = graph.constant(integers(1, 5, 7), "qcint8", Channel([0.01] * 7, 2))
        graph.binary("BatchMatrixMultiply", x, right, graph.output((*shape[:-1], 7)))
        return graph

    return make


def attention(shape: Shape, keys: int | None = None, values: int | None = None) -> Graph:
    """Build an attention; by default, of a sequence to itself."""
    batch, tokens, channels = shape
    keys, values = keys or tokens, values or channels
    graph = Graph()
    ends = {
        "query_id": graph.input(shape),
        "key_id": graph.input((batch, keys, channels)),
        "value_id": graph.input((batch, keys, values)),
        "scale_id": graph.input((channels,)),
        "mask_id": graph.input((tokens, keys)),
    }
    output = graph.output((batch, tokens, values))
    graph.node("ScaledDotProductAttention", **ends, output_id=output)
    return graph


COMPUTED: list[Shape] = [(3, 5), (17, 5), (1, 9), (40, 2), (3, 30), (40, 30)]
add("FullyConnected-computed", COMPUTED, matmul("fp32", transposed=True))
for dtype in FLOATS:
    for transposed in (False, True):
        name = f"BatchMatrixMultiply-{dtype}{'-transposed' if transposed else ''}"
        add(name, MATRICES, matmul(dtype, transposed))
for scheme in ("fp32", "qdint8"):
    add(f"BatchMatrixMultiply-constant-{scheme}", SAME_INNER, constant_matmul(scheme))
add("ScaledDotProductAttention", [(2, 3, 8), (2, 9, 8), (5, 3, 8), (1, 1, 8), (5, 9, 8)], attention)

# ---- moves ---------------------------------------------------------------------------------------


def joined(dtype: str) -> Maker:
    def make(shape: Shape) -> Graph:
        graph = Graph()
        x, y = graph.input(shape, dtype), graph.input((shape[0], 2, *shape[2:]), dtype)
        out = (shape[0], 2 * shape[1] + 4, *shape[2:])
        graph.concatenate([x, y, x, y], graph.output(out, dtype), 1)
        return graph

    return make


AROUND = {"pre_paddings": (1, 0, 2, 0), "post_paddings": (0, 3, 0, 1), "padding_value": 1.5}
PART = {"num_dims": 4, "offsets": [0, 0, 0, 0], "sizes": [0, 1, 0, 0]}
for kind, out, fields in (
    ("StaticTranspose", lambda s: (s[2], s[0], s[3], s[1]), {"num_dims": 4, "perm": [2, 0, 3, 1]}),
    ("StaticConstantPad", lambda s: (s[0] + 1, s[1] + 3, s[2] + 2, s[3] + 1), AROUND),
    ("StaticSlice", lambda s: (s[0], 1, *s[2:]), PART),
    ("StaticReshape", lambda s: (int(np.prod(s)), 1), {"num_dims": 2, "new_shape": [0, 1]}),
):
    for dtype in ("fp32", "fp16", "qint8"):
        add(f"{kind}-{dtype}", CHANNELS, unary(kind, dtype, out, **fields))
for dtype in ("fp32", "fp16", "qint8"):
    add(f"Concatenate4-{dtype}", CHANNELS, joined(dtype))


# ---- several -------------------------------------------------------------------------------------


def several(shape: Shape) -> Graph:
    """Build intermediate results: dynamic quantisation twice, and a float16 pooling."""
    batch, height, width, _ = shape
    size = (batch, 2 * height + 1, 2 * width + 1, 8)
    graph = Graph()
    x = source(graph, shape, "qdint8", 3)
    ends = weights(graph, "qdint8", (8, 3, 3, 8), 0, 8)
    first, third = graph.value(shape), graph.value(size)
    graph.conv("Conv2d", x, *ends, first, padding=(1, 1, 1, 1))
    second = graph.step("Convert", first, dtype="qdint8", how=Token(3))
    graph.conv("ConvTranspose2d", second, *ends, third, stride=(2, 2))
    halves = graph.step("Convert", third, dtype="fp16")
    means = graph.step("GlobalAvgPooling2d", halves, dims=(batch, 8), dtype="fp16")
    rows = graph.step("Convert", graph.step("Convert", means), dtype="qdint8", how=Token(1))
    ends = weights(graph, "qdint8", (6, 8), 0, 6)
    graph.linear(rows, *ends, graph.output((batch, 6)))
    return graph


add("convs_and_pools-qdint8", IMAGES, several)
