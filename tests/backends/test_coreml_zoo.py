"""Programs that coremltools emits, exported at test time: they equal eager, and the weights that it
compresses equal its own decompression. Planted faults are in test_flow_faults.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import executorch_c

ct = pytest.importorskip("coremltools")
from tests.models import coreml_zoo as zoo
from tests.models.blocks import Fn

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("row", zoo.ROWS, ids=lambda row: row.id)
def test_a_model_equals_eager(row: zoo.Row) -> None:
    torch.manual_seed(0)
    model, inputs = row.make().eval(), row.inputs()
    program = executorch_c.load(zoo.lower(torch.export.export(model, inputs), row.ios, row.half))
    method = program.load_method("forward", delegate_at_load=False)
    limit = 3e-3 if row.half else 1e-5
    for _ in range(2):  # state changes
        with method.tracing() as trace:
            outputs = method.execute([x.numpy() for x in inputs])
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(model(*inputs))
        for a, b in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(
                a, b.numpy(), rtol=limit, atol=limit * max(1, abs(b.float()).max())
            )
    inside: Any = program._delegate("forward", 0)
    nodes = [(e.name, e.debug_handle) for e in trace.events if e.kind == "node"]
    assert [(n["name"], n["debug_handle"]) for n in inside["nodes"]] == nodes


def test_methods_share_a_model() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    inputs = {"one": torch.randn(1, 32), "many": torch.randn(6, 32)}
    programs = {name: torch.export.export(model.eval(), (x,)) for name, x in inputs.items()}
    program = executorch_c.load(zoo.lower(programs, 18, shared=True))
    assert bytes(program._payload("one", 0)).startswith(b"CMJR")
    for name, x in inputs.items():
        (outputs,) = program.load_method(name).execute([x.numpy()])
        np.testing.assert_allclose(outputs, model(x).detach().numpy(), atol=1e-5)
        inside: Any = program._delegate(name, 0)
        assert [node["name"] for node in inside["nodes"]] == ["linear", "relu", "linear"]


def test_enumerated_shapes() -> None:
    from executorch.backends.apple.coreml.compiler import CoreMLBackend

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(10, 5), torch.nn.ReLU()).eval()
    shapes = ((1, 5, 10), (4, 6, 10))
    auto = torch.export.Dim.AUTO
    exported = torch.export.export(
        model,
        (torch.randn(4, 6, 10),),
        dynamic_shapes=({0: auto(min=1, max=4), 1: auto(min=5, max=6)},),
    )
    spec = CoreMLBackend.generate_enumerated_shapes_compile_spec(
        exported, {"input": [list(shape) for shape in shapes]}
    )
    method = executorch_c.load(zoo.lower(exported, 18, more=[spec])).load_method("forward")
    for shape in shapes:
        x = torch.randn(*shape)
        (outputs,) = method.execute([x.numpy()])
        np.testing.assert_allclose(outputs, model(x).detach().numpy(), atol=1e-5)


def whole_loop(x: torch.Tensor) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    def body(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return i + 1, y * 2

    return while_loop(lambda i, y: i < 3, body, (torch.tensor(0), x))[1]


FLOW: dict[str, Callable[[torch.Tensor], Any]] = {
    "cond": lambda x: torch.cond(x.sum() > 0, lambda z: z.sin(), lambda z: z.cos(), (x,)),
    "while_loop": whole_loop,
}


@pytest.mark.parametrize("name", FLOW)
def test_control_flow_is_not_lowered(name: str) -> None:
    """CoreMLPartitioner asks coremltools, which has no such operator of torch.export."""

    exported = torch.export.export(Fn(FLOW[name]), (torch.ones(3),))
    (node,) = (n for n in exported.graph.nodes if str(n.target) == name)
    assert not ct.converters.mil.frontend.torch.is_torch_fx_node_supported(node)


@pytest.mark.parametrize("make", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_are_unrolled(make: Any) -> None:
    """The exporter decomposes them before the partitioner sees them."""
    torch.manual_seed(0)
    layer, x = make(4, 5, batch_first=True).eval(), torch.randn(1, 3, 4)
    program = executorch_c.load(zoo.lower(torch.export.export(layer, (x,)), 18))
    inside: Any = program._delegate("forward", 0)
    assert {"lstm", "gru", "rnn", "while_loop"}.isdisjoint(n["name"] for n in inside["nodes"])
    outputs = program.load_method("forward").execute([x.numpy()])[0]
    np.testing.assert_allclose(outputs, layer(x)[0].detach().numpy(), atol=1e-5)


# ---- compressed weights ----------------------------------------------------------------------


def quantize(joint: bool = False, **options: Any) -> zoo.Step:
    tools = ct.optimize.coreml
    config = tools.OpLinearQuantizerConfig(weight_threshold=0, **options)
    return lambda model: tools.linear_quantize_weights(
        model, tools.OptimizationConfig(global_config=config), joint_compression=joint
    )


def prune(model: Any) -> Any:
    tools = ct.optimize.coreml
    config = tools.OpMagnitudePrunerConfig(weight_threshold=0, target_sparsity=0.5)
    return tools.prune_weights(model, tools.OptimizationConfig(global_config=config))


INT4 = {"mode": "linear_symmetric", "dtype": "int4", "granularity": "per_block", "block_size": 8}
UINT4 = {**INT4, "mode": "linear", "dtype": "uint4"}
EVEN = {"mode": "uniform"}
GROUPS = {**EVEN, "granularity": "per_grouped_channel", "group_size": 4}
WHOLE = {"mode": "linear_symmetric", "dtype": "int8", "granularity": "per_tensor"}

SCHEMES: dict[str, tuple[int, str, list[zoo.Step]]] = {
    "1 bit": (17, "lut_to_dense", [zoo.palettize(**EVEN, nbits=1)]),
    "4 bits": (17, "lut_to_dense", [zoo.palettize(**EVEN, nbits=4)]),
    "2 bits": (18, "lut_to_dense", [zoo.palettize(**EVEN, nbits=2)]),
    "3 bits": (18, "lut_to_dense", [zoo.palettize(**EVEN, nbits=3)]),
    "6 bits": (18, "lut_to_dense", [zoo.palettize(**EVEN, nbits=6)]),
    "4 bits by group": (18, "lut_to_dense", [zoo.palettize(**GROUPS, nbits=4)]),
    "vectors": (18, "lut_to_dense", [zoo.palettize(mode="kmeans", nbits=4, cluster_dim=2)]),
    "int8": (17, "affine_dequantize", [quantize(mode="linear", dtype="int8")]),
    "uint8": (17, "affine_dequantize", [quantize(mode="linear", dtype="uint8")]),
    "int8 scales": (18, "blockwise_shift_scale", [quantize(mode="linear", dtype="int8")]),
    "int4 blocks": (18, "blockwise_shift_scale", [quantize(**INT4)]),
    "uint4 blocks": (18, "blockwise_shift_scale", [quantize(**UINT4)]),
    "sparse bits": (17, "sparse_to_dense", [prune]),
    "sparse": (18, "sparse_to_dense", [prune]),
    "sparse lut": (18, "lut_to_sparse", [prune, zoo.palettize(True, **EVEN, nbits=4)]),
    "sparse int8": (18, "sparse_blockwise_shift_scale", [prune, quantize(True, **WHOLE)]),
    "lut of int8": (18, "lut_to_dense", [zoo.palettize(**EVEN, nbits=4), quantize(True, **WHOLE)]),
}


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "fp16"])
@pytest.mark.parametrize("name", SCHEMES)
def test_compressed_weights_equal_coremltools_own_decompression(name: str, half: bool) -> None:
    ios, operator, steps = SCHEMES[name]
    x = torch.linspace(-2, 2, 64).reshape(2, 32)
    items = []
    for more in ([], [zoo.decompress]):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 16)
        )
        with zoo.converting([*steps, *more]):
            pte = zoo.lower(torch.export.export(model.eval(), (x,)), ios, half)
        assert (f"constexpr_{operator}".encode() in pte) == (not more)
        items.append(executorch_c.load(pte).load_method("forward").execute([x.numpy()])[0])
    np.testing.assert_array_equal(items[0], items[1])
