"""Payloads of NativeBackend with one wrong field each, as in hostile_vulkan.py."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.backends.payloads import Format, Graph, schema

Change = Callable[[Graph], None]

ARGUMENTS = (
    "Tensor None Int Float Bool String ScalarType IntList FloatList BoolList TensorList "
    "OptionalTensorList Graph"
).split()
NATIVE = Format(
    Path(__file__).parent / "native_programs",
    schema("native", {"ArgumentValue": [f"{kind}Arg" for kind in ARGUMENTS]}),
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


WEIGHT = "p_first_weight"
NATIVE_ROWS: list[tuple[str, Change, str]] = [
    ("cnn", native_arg("convolution", "stride", values=[0, 1]), "argument 'stride': found (0,"),
    ("cnn", native_arg("convolution", "stride", values=[-1, 1]), "argument 'stride': found (-1,"),
    ("cnn", native_arg("convolution", "stride", values=[]), "argument 'stride': 0 numbers,"),
    ("cnn", native_arg("convolution", "stride", values=[1] * 5), "argument 'stride': 5 numbers,"),
    (
        "cnn",
        native_arg("convolution", "stride", values=[1, 1], refs=["x", "x"]),
        "argument 'stride' has an item that is not an int",
    ),
    (
        "cnn",
        native_arg("convolution", "stride", values=[1, 1], refs=["none", "x"]),
        "no value 'none' before its use",
    ),
    ("cnn", native_arg("convolution", "stride", "Float", value=1.0), "argument 'stride' has an"),
    ("cnn", native_arg("convolution", "stride", "Tensor", name="x"), "argument 'stride' is a"),
    ("cnn", native_arg("convolution", "padding", values=[-1, 1]), "argument 'padding': found"),
    (
        "cnn",
        native_arg("convolution", "padding", values=[1 << 62, 1 << 62]),
        "argument 'input': size 12 in dimension 2 gives no",
    ),
    ("cnn", native_arg("convolution", "dilation", values=[0, 1]), "argument 'dilation': found"),
    (
        "cnn",
        native_arg("convolution", "dilation", values=[1 << 62, 1]),
        "argument 'input': size 12 in dimension 2 gives no",
    ),
    ("cnn", native_arg("convolution", "groups", value=0), "argument 'groups': found 0, expected"),
    ("cnn", native_arg("convolution", "groups", value=-3), "argument 'groups': found -3,"),
    ("cnn", native_arg("convolution", "groups", value=2), "argument 'groups': 2, expected a"),
    ("cnn", native_arg("convolution", "groups", "None"), "argument 'groups' is None"),
    ("cnn", native_arg("convolution", "groups", "Graph", graph={}), "an argument is a graph"),
    ("cnn", native_arg("convolution", "transposed", value=1), "argument 'weight': 8 input"),
    ("cnn", native_arg("convolution", "input", name="none"), "no value 'none' before its use"),
    ("cnn", native_arg("convolution", "input", name="aten_convolution_default"), "before its use"),
    ("cnn", native_arg("convolution", "input", name="getitem"), "before its use"),
    ("cnn", native_arg("convolution", "input", "Int", value=3), "argument 'input' is not a tensor"),
    ("cnn", native_arg("convolution", "weight", name="x"), "argument 'bias': 8 elements,"),
    ("cnn", native_arg("batch_norm", "eps", "String", value="x"), "argument 'eps' is a string,"),
    ("cnn", native_arg("batch_norm", "weight", name=WEIGHT), "argument 'weight': shape (8, 3, 3,"),
    ("cnn", meta("x", 2, 3, 1 << 62, 12), "tensor 'x' is too large"),
    ("cnn", meta("x", 1 << 31, 1 << 31, 12, 12), "tensor 'x' is too large"),
    ("cnn", meta("x", *[1] * 17), "17 dimensions"),
    ("cnn", meta("x", 2, 3, 12), "method 'forward', input 0: shape (2, 3, 12, 12) has 4"),
    ("cnn", meta("x", 2, 3, -5, 12), "tensor 'x' has no upper bound in dimension 2"),
    ("cnn", meta("x", dtype=99), "tensor 'x' has ScalarType 99 and 4 dimensions, expected"),
    ("cnn", meta("x", dtype=4), "input 0 is float32 in the program and int64 in the"),
    ("cnn", meta("x", dtype=16), "input 0 is float32 in the program and uint16 in the"),
    ("cnn", meta("x", dtype=17), "input 0 is float32 in the program and uint32 in the"),
    ("cnn", meta("x", dtype=18), "input 0 is float32 in the program and uint64 in the"),
    ("cnn", meta(WEIGHT, 8, 3, 3, 300), "fewer bytes than its elements need"),
    ("cnn", meta(WEIGHT, 1 << 40, 1 << 40, 3, 3), "tensor 'p_first_weight' is too large"),
    ("cnn", meta(WEIGHT, 8, 27), "argument 'weight': shape (8, 27), expected 4 dimensions"),
    ("cnn", meta(WEIGHT, dtype=5), "argument 'weight': dtype float16, expected float32 as"),
    ("cnn", meta(WEIGHT, dtype=7), "fewer bytes than its elements need"),
    ("cnn", meta("aten_convolution_default", 1, 1, 1, 1), "argument 'out': shape (2, 8, 12, 12)"),
    ("cnn", meta("aten_convolution_default", dtype=11), "argument 'out': dtype bool, expected"),
    ("cnn", meta("getitem", 2, 8, 12), "argument 'out0': shape (2, 8, 12, 12) has another rank"),
    (
        "cnn",
        lambda g: method(g)["constants"][0].update(data_key="none"),
        "constant 'none' is neither in the program nor in a data",
    ),
    (
        "cnn",
        lambda g: method(g)["constants"][0].update(data_key=None),
        "constant '' is neither in the program nor in a data",
    ),
    ("cnn", lambda g: method(g)["constants"][0].update(meta=None), "no dtype and sizes"),
    ("cnn", lambda g: method(g)["constants"].clear(), "before its use"),
    ("cnn", of_method(mutable_buffers=[{"name": "x", "fqn": "b"}]), "input 0, 'x', has two values"),
    ("cnn", of_method(mutable_buffers=[{"name": "none", "fqn": "b"}]), "no sizes of tensor 'none'"),
    (
        "cnn",
        of_method(output_specs=[{"name": "getitem", "kind": 1, "target": "none"}]),
        "no buffer 'none', which an output mutates",
    ),
    (
        "cnn",
        of_method(output_specs=[{"name": "getitem", "kind": 2, "target": "x"}]),
        "output 0 mutates an input",
    ),
    ("cnn", of_method(output_specs=[{"name": "getitem", "kind": 77}]), "output 0 mutates an input"),
    ("cnn", of_graph(inputs=["x", "x"]), "input 1, 'x', has two values"),
    ("cnn", of_graph(inputs=[WEIGHT]), "input 0, 'p_first_weight', has two values"),
    ("cnn", of_graph(inputs=["none"]), "inputs: no sizes of tensor 'none'"),
    ("cnn", of_graph(inputs=[]), "before its use"),
    ("cnn", of_graph(outputs=["getitem", "getitem"]), "2 arguments, the payload has 1 inputs and"),
    ("cnn", of_graph(outputs=["none"]), "outputs: no value 'none' before its use"),
    ("cnn", of_graph(outputs=["x"]), "shape (2, 3, 12, 12), but the program fixes it to (2,"),
    ("cnn", of_graph(outputs=[]), "2 arguments, the payload has 1 inputs and 0 outputs"),
    ("cnn", of_graph(tensor_values=[]), "inputs: no sizes of tensor 'x'"),
    ("cnn", lambda g: method(g)["graph"]["nodes"].reverse(), "before its use"),
    ("cnn", of_node("convolution", outputs=[]), "no value 'aten_convolution_default' before"),
    (
        "cnn",
        of_node("convolution", outputs=[{"name": "x"}]),
        "no value 'aten_convolution_default' before its use",
    ),
    ("cnn", of_node("convolution", outputs=[{"name": WEIGHT}]), "no sizes of tensor"),
    (
        "cnn",
        of_node("convolution", outputs=[{"name": "getitem"}]),
        "no value 'aten_convolution_default' before its use",
    ),
    (
        "cnn",
        of_node("convolution", outputs=[{"name": "aten_convolution_default"}] * 3),
        "node 7 'aten_convolution_default'",
    ),
    (
        "cnn",
        of_node("convolution", outputs=[{"name": "aten_convolution_default"}] * 300),
        "too many results",
    ),
    (
        "cnn",
        of_node("convolution", outputs=[{"name": "aten_convolution_default", "kind": 2}]),
        "a result is a number",
    ),
    (
        "cnn",
        of_node("convolution", outputs=[{"name": "x", "kind": 1, "names": ["x"]}]),
        "no value 'aten_convolution_default' before its use",
    ),
    ("cnn", of_node("convolution", inputs=[]), "argument 'input' is None"),
    ("cnn", of_node("convolution", target="torch.ops.aten.add.Tensor"), "argument 'self' is None"),
    (
        "cnn",
        of_node("convolution", target="torch.ops.." + "a" * 900),
        "the target is not torch.ops.NAMESPACE.NAME.OVERLOAD",
    ),
    ("cnn", of_node("convolution", op_kind=9), "no value 'aten_convolution_default' before its"),
    ("cnn", of_node("convolution", target=None), "the operator is not known here"),
    ("cnn", lambda g: g["methods"].append(method(g)), "payload: 2 methods, expected"),
    ("cnn", lambda g: g["methods"].clear(), "payload: 0 methods, expected"),
    ("cnn", of_method(graph=None), "payload: no graph"),
    (
        "attention",
        native_arg("embedding", "indices", name="p_norm_bias"),
        "argument 'indices': indices of dtype float32, expected",
    ),
    ("attention", native_arg("layer_norm", "normalized_shape", values=[17]), "normalized_shape"),
    ("attention", native_arg("layer_norm", "normalized_shape", values=[-16]), "normalized_shape"),
    ("attention", native_arg("layer_norm", "normalized_shape", values=[]), "normalized_shape"),
    ("cond", native_arg("cond", 0, name="x"), "its predicate is not a bool"),
    ("cond", native_arg("cond", 0, "Int", value=1), "its predicate is neither a tensor nor a bool"),
    ("cond", native_arg("cond", 1, "None"), "a branch is not a graph"),
    ("cond", native_arg("cond", 1, graph=None), "a branch is not a graph"),
    ("cond", native_arg("cond", 3, names=["x"]), "other inputs"),
    ("cond", native_arg("cond", 3, names=[]), "other inputs"),
    ("cond", of_node("cond", inputs=[]), "expected a predicate"),
    ("cond", lambda g: native_node(g, "cond")["outputs"].__imul__(50), "no results, or too many"),
    ("cond", lambda g: branch(g).update(outputs=[]), "other inputs or outputs"),
    ("cond", lambda g: branch(g).update(outputs=["none"] * 3), "no value 'none' before its use"),
    ("cond", lambda g: branch(g).update(inputs=["addmm"] * 5), "no value 'p_left_weight' before"),
    ("cond", lambda g: branch(g).update(nodes=[]), "before its use"),
    ("cond", native_arg("permute", "dims", values=[0, 0]), "argument 'dims': dimension 0 appears"),
    ("cond", native_arg("permute", "dims", values=[1, 2]), "dim 2 is out of range, expected [-2,"),
    ("cond", native_arg("permute", "dims", values=[1]), "argument 'dims': 1 dimensions, expected"),
    ("cond", native_arg("sum", "dim", values=[5]), "dim 5 is out of range, expected [-2, 1]"),
]
