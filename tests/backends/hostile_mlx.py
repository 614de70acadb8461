"""Payloads of MLX with one wrong field each, as in hostile_vulkan.py."""

from collections.abc import Callable
from typing import Any

from tests.backends.mlx_nodes import MLX, integer, integers
from tests.backends.payloads import Change, Graph, filled, roomy


def node(graph: Graph, name: str, chain: int | None = None) -> Graph:
    """Return the fields of the first node of a type."""
    chains = graph["instruction_chains"] if chain is None else [graph["instruction_chains"][chain]]
    return next(
        item["op"][1] for c in chains for item in c["instructions"] if item["op"][0] == name
    )


def of_node(name: str, /, **changes: Any) -> Change:
    return lambda graph: node(graph, name).update(changes)


def of_graph(**changes: Any) -> Change:
    return lambda graph: graph.update(changes)


def of_meta(tensor: int, *sizes: int, **changes: Any) -> Change:
    shape = {"shape": [{"value": size} for size in sizes]} if sizes else {}
    return lambda graph: graph["tensor_meta"][tensor].update({**shape, **changes})


def of_output(**changes: Any) -> Change:
    return lambda graph: graph["tensor_meta"][graph["output_map"][0]["idx"]].update(changes)


def replaced(name: str, other: str, /, **fields: Any) -> Change:
    """Put a node of another type in the place of the first of a type."""

    def change(graph: Graph) -> None:
        for chain in graph["instruction_chains"]:
            for item in chain["instructions"]:
                if item["op"][0] == name:
                    item["op"] = [other, fields or item["op"][1]]
                    return

    return change


def swap(name: str, a: str, b: str) -> Change:
    def change(graph: Graph) -> None:
        fields = node(graph, name)
        fields[a], fields[b] = fields[b], fields[a]

    return change


LAST = (1 << 31) - 1
MLX_ROWS: list[tuple[str, Change, str]] = [
    ("mlp", of_graph(version="2"), "version '2' of the schema, expected at most 1"),
    ("mlp", of_graph(version="new"), "version 'new' of the schema, expected at most 1"),
    ("mlp", of_graph(num_temp_tensors=LAST), "tensors and 0 values in"),
    ("mlp", of_graph(num_values=LAST), "values in"),
    ("mlp", of_graph(num_constant_tensors=40), "tensor_meta has"),
    ("mlp", of_graph(main_chain_idx=7), "chain 7, the graph has 1"),
    ("mlp", of_graph(init_chain_idx=3), "chain 3, the graph has 1"),
    ("mlp", of_graph(named_slots=[]), "constant 0 has no name"),
    ("mlp", of_graph(input_map=[]), "is read before a call computes it"),
    ("mlp", of_graph(input_map=[{"idx": 0}]), "input 0 is tensor 0, which is none of the graph's"),
    ("mlp", of_graph(input_map=[{"idx": 6, "slot_type": 2}]), "input 0 has slot type 2, expected"),
    ("mlp", of_graph(output_map=[{"idx": 99}]), "output 0 is number 99"),
    ("mlp", of_graph(instruction_chains=[{"instructions": []}]), "is written by no node"),
    ("mlp", of_meta(0, 20, 13), "960 bytes, expected 1040"),
    ("mlp", of_meta(0, 20, 11), "960 bytes, expected 880"),
    ("mlp", of_meta(0, 1 << 30, 1 << 30, 1 << 30), "is too large"),
    ("mlp", of_meta(0, *[1] * 17), "17 dimensions"),
    ("mlp", of_meta(0, -1, 12), "has sizes that are not fixed"),
    ("mlp", of_meta(0, scalar_type=7), "has ScalarType 7"),
    ("mlp", of_meta(0, scalar_type=99), "has ScalarType 99"),
    ("mlp", of_meta(0, dim_order=bytes([1, 0])), "has another dim_order than 0, 1, ..."),
    ("mlp", of_output(scalar_type=0), "output 0 is float32 in the program, the payload narrows"),
    ("mlp", of_output(scalar_type=5), "the payload narrows it to float16"),
    ("mlp", of_output(scalar_type=4), "the payload narrows it to int64"),
    ("mlp", of_node("Addmm", mat1=99), "node 1 (Addmm): tensor 99, the graph has"),
    ("mlp", swap("Addmm", "mat1", "out"), "is read before a node writes it"),
    ("mlp", of_node("Addmm", out=None), "node 1 (Addmm): no field 'out'"),
    ("mlp", of_node("Addmm", mat1=None), "node 1 (Addmm): no field 'mat1'"),
    ("mlp", of_node("Addmm", mat1=0), "the program fixes it to (3, 7)"),
    ("mlp", of_node("Transpose", perm=[0, 0]), "'perm' is no order of 2 dimensions"),
    ("mlp", of_node("Transpose", perm=[1]), "'perm' is no order of 2 dimensions"),
    ("mlp", of_node("LayerNorm", weight=0), "'weight' has 240 elements, expected 20"),
    ("mlp", replaced("Gelu", "New", x=1), "node 2: type 137 of the schema's union OpNode is not"),
    ("mlp", replaced("Gelu", "Newer", x=1), "node 2: type 138 of the schema's union OpNode is not"),
    (
        "mlp",
        replaced("Gelu", "MetalKernel", name="k", source="s"),
        "node 2 (MetalKernel): a kernel in Metal's language",
    ),
    (
        "mlp",
        replaced("Gelu", "UpdateAndAttend", q=6, k=6, v=6, position=6, out=7),
        "node 2 (UpdateAndAttend): no field 'layer_id'",
    ),
    ("mlp", replaced("Gelu", "Split", x=6, sizes=integers(1), axis=0), "no field 'outs'"),
    ("mlp", replaced("Gelu", "Mean", x=6, out=7, axes=[9]), "'axes' has 9 for a tensor of 2"),
    ("mlp", replaced("Gelu", "Softmax", x=6, out=7, axis=2), "dim 2 is out of range"),
    ("mlp", replaced("Gelu", "AsType", x=6, out=7, scalar_type=40), "ScalarType 40"),
    (
        "mlp",
        replaced("Gelu", "Reshape", x=6, out=7, shape=integers(-1, -1)),
        "'shape' has -1 twice",
    ),
    (
        "mlp",
        replaced("Gelu", "BroadcastTo", x=6, out=7, shape=integers(3)),
        "'shape' has 1 items for 2 dimensions",
    ),
    (
        "mlp",
        replaced("Gelu", "Full", out=7, shape=integers(LAST, LAST, LAST), v={}, scalar_type=6),
        "node 2 (Full)",
    ),
    ("mlp", replaced("Gelu", "AddInt", a=integer(1), b=integer(2), out=3), "value 3, the graph"),
    (
        "mlp",
        replaced("Gelu", "If", cond=integer(1), then_chain_idx=0, else_chain_idx=0),
        "more than 64 chains inside each other",
    ),
    (
        "mlp",
        replaced("Gelu", "Scan", originals=[6], sliced=[], outputs=[], carry=[]),
        "1 originals and 0 slices",
    ),
    ("packed_4w", of_node("QuantizedMatmul", mode="nf4"), "mode 'nf4', expected 'affine'"),
    ("packed_4w", of_node("QuantizedMatmul", bits=7), "7 bits of mode 'affine', expected 2"),
    ("packed_4w", of_node("QuantizedMatmul", bits=40), "40 bits in uint32, expected 2 to 8"),
    ("packed_4w", of_node("QuantizedMatmul", group_size=0), "groups of 0 in a row of"),
    ("packed_4w", of_node("QuantizedMatmul", group_size=64), "'scales' has 64 elements"),
    ("packed_4w", of_node("QuantizedMatmul", biases=None), "'biases' is None"),
    ("packed_4w", swap("QuantizedMatmul", "w", "scales"), "4 bits in float32, expected 2 to 8"),
    ("packed_4w", of_node("Take", axis=5), "'axis' is 5 of a tensor with 2 dimensions"),
    ("decoder", of_node("Rope", dims=3), "3 rotated dimensions of 4"),
    ("decoder", of_node("Rope", offset=None), "no field 'offset'"),
    ("decoder", of_node("SliceUpdate", step=0), "'step' is 0"),
    ("decoder", of_node("Sdpa", scale=None, k=0), "node "),
    ("greedy", of_node("If", cond=None), "no field 'cond'"),
    ("greedy", of_node("If", then_chain_idx=99), "chain 99, the graph has"),
    ("scan", of_node("Scan", scan_axis=7), "'scan_axis' is 7 of a tensor with"),
    ("scan", of_node("Scan", body_chain_idx=0), "more than 64 chains inside each other"),
    ("cnn", of_node("Conv2D", stride_h=0), "'stride_h' is 0"),
    ("cnn", of_node("Conv2D", groups=0), "0 groups"),
    ("cnn", of_node("Conv2D", padding_w=-1), "'padding_w' is -1"),
    ("cnn", of_node("Conv2D", w=1), "dimensions, expected 4"),
]


def with_payload(name: str, change: Callable[[bytes], bytes]) -> bytes:
    """Return a recorded program with other bytes for its payload."""
    pte, at, payload = roomy((MLX.folder / f"{name}.pte").read_bytes())
    return filled(pte, at, change(payload))


HEADERS: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda payload: payload[:4] + b"MLX9" + payload[8:], "without the header of an MLX graph"),
    (lambda payload: b"\1" + payload[1:], "without the header of an MLX graph"),
    (
        lambda payload: payload[:8] + (1 << 40).to_bytes(8, "little") + payload[16:],
        "beyond its end at",
    ),
    (
        lambda payload: payload[:16] + (8).to_bytes(8, "little") + payload[24:] + bytes(8),
        "bytes of constants inside, expected none",
    ),
    (lambda payload: payload[:24] + bytes(4) + payload[28:], "payload: "),
]
"""Damaged headers."""
