"""Payloads of NativeBackend with one wrong field each, as in hostile_vulkan.py."""

from functools import partial
from pathlib import Path
from typing import Any

from tests.backends.payloads import Change, Format, Graph, Row, rows_of, schema

ARGUMENTS = (
    "Tensor None Int Float Bool String ScalarType IntList FloatList BoolList TensorList "
    "OptionalTensorList Graph"
).split()
NATIVE = Format(
    Path(__file__).parent / "native_programs",
    schema(
        "native",
        {
            "ArgumentValue": [f"{kind}Arg" for kind in ARGUMENTS],
            "QuantScheme": ["AffineGroup", "PackedQuant"],
        },
    ),
    "Program",
    b"NPTG",
)


def method(graph: Graph) -> Graph:
    result: Graph = graph["methods"][0]
    return result


def native_node(graph: Graph, name: str) -> Graph:
    return next(n for n in method(graph)["graph"]["nodes"] if name in n.get("target", ""))


def native_arg(target: str, arg: str | int, kind: str = "", /, **changes: Any) -> Change:
    """Change fields of a node's argument, or replace it by one of another kind."""

    def change(graph: Graph) -> None:
        inputs = native_node(graph, target)["inputs"]
        result = (
            inputs[arg] if isinstance(arg, int) else next(i for i in inputs if i["name"] == arg)
        )
        old = result["arg"]["value"]
        old[:] = [f"{kind}Arg", changes] if kind else [old[0], {**old[1], **changes}]

    return change


def of_node(name: str, /, **changes: Any) -> Change:
    return lambda graph: native_node(graph, name).update(changes)


def of_method(**changes: Any) -> Change:
    return lambda graph: method(graph).update(changes)


def of_graph(**changes: Any) -> Change:
    return lambda graph: method(graph)["graph"].update(changes)


def of_constant(**changes: Any) -> Change:
    return lambda graph: method(graph)["constants"][0].update(changes)


def results(*items: Any, **fields: Any) -> Change:
    """Replace the results of the convolution by values of these names, with fields."""
    entries = [{"name": name, **fields} for name in items]
    return of_node("convolution", outputs=entries)


def of_output(**fields: Any) -> Change:
    return of_method(output_specs=[{"name": "getitem", **fields}])


def meta(tensor_name: str, /, *sizes: int, **changes: Any) -> Change:
    """Change sizes or dtype of a tensor or constant."""

    def change(graph: Graph) -> None:
        every = method(graph)["graph"]["tensor_values"] + method(graph)["constants"]
        result = next(t for t in every if t["name"] == tensor_name)["meta"]
        result.update({"sizes": [{"min": n, "max": n} for n in sizes]} if sizes else {})
        result.update(changes)

    return change


def branch(graph: Graph, at: int = 1) -> Graph:
    result: Graph = native_node(graph, "cond")["inputs"][at]["arg"]["value"][1]["graph"]
    return result


WEIGHT, OUT = "p_first_weight", "aten_convolution_default"
conv, cond = partial(native_arg, "convolution"), partial(native_arg, "cond")
norm = partial(native_arg, "layer_norm", "normalized_shape")
conv_node = partial(of_node, "convolution")
UNKNOWN = f"no value '{OUT}' before its use"
CNN: list[Row] = [
    (conv("stride", values=[0, 1]), "argument 'stride': found (0,"),
    (
        conv("stride", values=[1, 1], refs=["x", "x"]),
        "argument 'stride' has an item that is not an int",
    ),
    (conv("stride", values=[1, 1], refs=["none", "x"]), "no value 'none' before its use"),
    (conv("stride", "Float", value=1.0), "argument 'stride' has an"),
    (conv("stride", "Tensor", name="x"), "argument 'stride' is a"),
    (conv("padding", values=[1 << 62] * 2), "argument 'input': size 12 in dimension 2 gives no"),
    (conv("dilation", values=[1 << 62, 1]), "argument 'input': size 12 in dimension 2 gives no"),
    (conv("groups", value=0), "argument 'groups': found 0, expected"),
    (conv("groups", "None"), "argument 'groups' is None"),
    (conv("groups", "Graph", graph={}), "an argument is a graph"),
    (conv("transposed", value=1), "argument 'weight': 8 input"),
    (conv("input", name="none"), "no value 'none' before its use"),
    (conv("input", name=OUT), "before its use"),
    (conv("input", name="getitem"), "before its use"),
    (conv("input", "Int", value=3), "argument 'input' is not a tensor"),
    (conv("weight", name="x"), "argument 'bias': 8 elements,"),
    (native_arg("batch_norm", "eps", "String", value="x"), "argument 'eps' is a string,"),
    (native_arg("batch_norm", "weight", name=WEIGHT), "argument 'weight': shape (8, 3, 3,"),
    (meta("x", 2, 3, 1 << 62, 12), "tensor 'x' is too large"),
    (meta("x", 1 << 31, 1 << 31, 12, 12), "tensor 'x' is too large"),
    (meta("x", *[1] * 17), "17 dimensions"),
    (meta("x", 2, 3, 12), "method 'forward', input 0: shape (2, 3, 12, 12) has 4"),
    (meta("x", 2, 3, -5, 12), "tensor 'x' has no upper bound in dimension 2"),
    (meta("x", dtype=99), "tensor 'x' has ScalarType 99 and 4 dimensions, expected"),
    (meta("x", dtype=4), "input 0 is float32 in the program and int64 in the"),
    (meta("x", dtype=16), "input 0 is float32 in the program and uint16 in the"),
    (meta("x", dtype=17), "input 0 is float32 in the program and uint32 in the"),
    (meta("x", dtype=18), "input 0 is float32 in the program and uint64 in the"),
    (meta(WEIGHT, 8, 3, 3, 300), "fewer bytes than its elements need"),
    (meta(WEIGHT, 1 << 40, 1 << 40, 3, 3), "tensor 'p_first_weight' is too large"),
    (meta(WEIGHT, 8, 27), "argument 'weight': shape (8, 27), expected 4 dimensions"),
    (meta(WEIGHT, dtype=5), "argument 'weight': dtype float16, expected float32 as"),
    (meta(WEIGHT, dtype=7), "fewer bytes than its elements need"),
    (
        meta(WEIGHT, quant={"scheme": ["AffineGroup", {"scale_data_key": "s", "group_size": 32}]}),
        r"'p_first_weight' has packed quantised weights (AffineGroup)",
    ),
    (
        meta(WEIGHT, quant={"scheme": ["PackedQuant", {"codec": "q4_0"}]}),
        r"packed quantised weights (PackedQuant, codec q4_0)",
    ),
    (meta(WEIGHT, quant={}), "packed quantised weights (an unknown scheme)"),
    (meta(OUT, 1, 1, 1, 1), "argument 'out': shape (2, 8, 12, 12)"),
    (meta(OUT, dtype=11), "argument 'out': dtype bool, expected"),
    (meta("getitem", 2, 8, 12), "argument 'out0': shape (2, 8, 12, 12) has another rank"),
    (of_constant(data_key="none"), "constant 'none' is neither in the program nor in a data"),
    (of_constant(data_key=None), "constant '' is neither in the program nor in a data"),
    (of_constant(meta=None), "no dtype and sizes"),
    (lambda g: method(g)["constants"].clear(), "before its use"),
    (of_method(mutable_buffers=[{"name": "x", "fqn": "b"}]), "input 0, 'x', has two values"),
    (of_method(mutable_buffers=[{"name": "none", "fqn": "b"}]), "no sizes of tensor 'none'"),
    (of_output(kind=1, target="none"), "no buffer 'none', which an output mutates"),
    (of_output(kind=2, target="x"), "output 0 mutates an input"),
    (of_output(kind=77), "output 0 mutates an input"),
    (of_graph(inputs=["x", "x"]), "input 1, 'x', has two values"),
    (of_graph(inputs=[WEIGHT]), "input 0, 'p_first_weight', has two values"),
    (of_graph(inputs=["none"]), "inputs: no sizes of tensor 'none'"),
    (of_graph(inputs=[]), "before its use"),
    (of_graph(outputs=["getitem", "getitem"]), "2 arguments, the payload has 1 inputs and"),
    (of_graph(outputs=["none"]), "outputs: no value 'none' before its use"),
    (of_graph(outputs=["x"]), "shape (2, 3, 12, 12), but the program fixes it to (2,"),
    (of_graph(outputs=[]), "2 arguments, the payload has 1 inputs and 0 outputs"),
    (of_graph(tensor_values=[]), "inputs: no sizes of tensor 'x'"),
    (lambda g: method(g)["graph"]["nodes"].reverse(), "before its use"),
    (results(), UNKNOWN),
    (results("x"), UNKNOWN),
    (results(WEIGHT), "no sizes of tensor"),
    (results("getitem"), UNKNOWN),
    (results(*[OUT] * 3), "node 7 'aten_convolution_default'"),
    (results(*[OUT] * 300), "too many results"),
    (results(OUT, kind=2), "a result is a number"),
    (results("x", kind=1, names=["x"]), UNKNOWN),
    (conv_node(inputs=[]), "argument 'input' is None"),
    (conv_node(target="torch.ops.aten.add.Tensor"), "argument 'self' is None"),
    (
        conv_node(target="torch.ops.." + "a" * 900),
        "the target is not torch.ops.NAMESPACE.NAME.OVERLOAD",
    ),
    (conv_node(op_kind=9), UNKNOWN),
    (conv_node(target=None), "the operator is not known here"),
    (lambda g: g["methods"].append(method(g)), "payload: 2 methods, expected"),
    (lambda g: g["methods"].clear(), "payload: 0 methods, expected"),
    (of_method(graph=None), "payload: no graph"),
]
ATTENTION: list[Row] = [
    (
        native_arg("embedding", "indices", name="p_norm_bias"),
        "argument 'indices': indices of dtype float32, expected",
    ),
    (norm(values=[17]), "normalized_shape"),
]
COND: list[Row] = [
    (cond(0, name="x"), "its predicate is not a bool"),
    (cond(0, "Int", value=1), "its predicate is neither a tensor nor a bool"),
    (cond(1, "None"), "a branch is not a graph"),
    (cond(1, graph=None), "a branch is not a graph"),
    (cond(3, names=["x"]), "other inputs"),
    (cond(3, names=[]), "other inputs"),
    (of_node("cond", inputs=[]), "expected a predicate"),
    (lambda g: native_node(g, "cond")["outputs"].__imul__(50), "no results, or too many"),
    (lambda g: branch(g).update(outputs=[]), "other inputs or outputs"),
    (lambda g: branch(g).update(outputs=["none"] * 3), "no value 'none' before its use"),
    (lambda g: branch(g).update(inputs=["addmm"] * 5), "no value 'p_left_weight' before"),
    (lambda g: branch(g).update(nodes=[]), "before its use"),
    (native_arg("permute", "dims", values=[0, 0]), "argument 'dims': dimension 0 appears"),
    (native_arg("permute", "dims", values=[1, 2]), "dim 2 is out of range, expected [-2,"),
]
NATIVE_ROWS = rows_of(cnn=CNN, attention=ATTENTION, cond=COND)
