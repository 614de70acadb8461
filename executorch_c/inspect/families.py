"""Families of operators, and their colours in pictures."""

from __future__ import annotations

from executorch_c._core import operators

COLOURS = {
    "input": "#8fa3b8",
    "state": "#5b6b7c",
    "delegate": "#f2b134",
    "conv": "#4c8bd6",
    "linalg": "#2f5fa8",
    "pointwise": "#7cc48d",
    "pool": "#38a3a5",
    "norm": "#b38cd9",
    "reduce": "#d98cb3",
    "view": "#e3cf8a",
    "index": "#e39b6b",
    "copy": "#c9a227",
    "create": "#a8c686",
    "quantized": "#d9715f",
    "resize": "#6fb7d6",
    "sort": "#c27ba0",
    "special": "#9dd9c5",
    "decomp": "#a08a6e",
    "random": "#cbb4e3",
    "prim": "#b0b0b0",
    "fft": "#6a8fd9",
    "distance": "#8f6fd9",
    "other": "#d0d0d0",
}
"""Colour by family: the folder of csrc/kernels; "other" for nodes that are not operators."""

INNER = {
    "Conv2d": "conv",
    "DepthwiseConv2d": "conv",
    "ConvTranspose2d": "conv",
    "FullyConnected": "linalg",
    "BatchMatrixMultiply": "linalg",
    "Convert": "quantized",
    "StaticTranspose": "view",
    "StaticReshape": "view",
    "StaticSlice": "view",
    "Copy": "copy",
}
"""Families of some nodes of XnnpackBackend; the others have the colour of delegates."""

TINT = 0xAA
"""Opacity of boxes with text, of 255."""


OPERATORS = {row["name"]: row for row in operators()}
"""The operators when this module was imported, by name: making their rows takes milliseconds."""


def family(operator: str) -> str:
    """Return the family of an operator; "other" for an unknown operator. Moves are copies."""
    if operator == "move":
        return "copy"
    row = OPERATORS.get(operator)
    return row["family"] if row is not None and row["family"] in COLOURS else "other"


def family_of(operator: str) -> str:
    """Return the family of an operator by its base name, "add"; "other" for an unknown one."""
    return family(_FULL_NAMES.get(operator, ""))


def colour(name: str) -> str:
    """Return the colour of a family."""
    return COLOURS.get(name, COLOURS["other"])


def tint(name: str) -> str:
    """Return the colour of a family on white, light enough for black text."""
    full = colour(name)
    mixed = (255 - (255 - int(full[i : i + 2], 16)) * TINT // 255 for i in (1, 3, 5))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def short(operator: str) -> str:
    """Return the base name of an operator: "convolution" of "aten::convolution.out"."""
    return operator.rpartition("::")[2].split(".")[0]


_FULL_NAMES = {short(name): name for name in OPERATORS}


def unsuffixed(operator: str) -> str:
    """Return the name without the underscore of in-place variants: "relu" of "aten::relu_"."""
    name = short(operator)
    return name.rstrip("_") or name


def with_numbers(*kinds: str) -> frozenset[str]:
    """Return the names, without namespace and overload, of ATen's operators that treat numbers in
    one of these ways: `numbers` of `executorch_c.operators()`."""
    return frozenset(
        short(name)
        for name, row in OPERATORS.items()
        if row["numbers"] in kinds and name.startswith(("aten::", "dim_order_ops::"))
    )


MOVES = with_numbers("same", "moves") | {"et_view"}
"""Operators that move the numbers of their first argument and compute none."""
