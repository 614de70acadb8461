"""MLXBackend: each node equals NumPy, models of the flow equal eager; registers, state, choices and
loops. MLX itself, where it is installed, gives the same results."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flatbuffers")

from executorch_c import Error, Runtime
from tests.backends import mlx_edges, mlx_nodes, mlx_rows
from tests.backends.mlx_nodes import computed, integer
from tests.backends.mlx_rows import Row

ROWS = [*mlx_rows.ROWS, *mlx_edges.ROWS]
LATER = {"MetalKernel"}
OTHERS = {"Noop", "ItemInt", "SymSize", "Split", "If", "Scan", "RandomBits", "UpdateAndAttend"} | {
    f"{name}Int" for name in ("Add", "Subtract", "Multiply", "FloorDivide", "Mod")
}
"""Nodes of the tests below, and of tests/llm/test_kv_cache.py."""
COUNTS: Counter[str] = Counter()
IDS = [f"{row.node}-{row.id or COUNTS.update([row.node]) or COUNTS[row.node]}" for row in ROWS]


def run(content: Any, inputs: list[np.ndarray], outputs: list[np.ndarray], calls: int = 1) -> Any:
    pte = mlx_nodes.program(content, inputs, outputs)
    method = Runtime.get().load_program(pte).load_method("forward")
    for _ in range(calls):
        results = method.execute(inputs)
    return results


def assert_close(result: Any, expected: np.ndarray, limit: float) -> None:
    assert result.shape == expected.shape and result.dtype == expected.dtype
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(result, expected)
        return
    wide = expected.astype(np.float64)
    largest = float(np.abs(wide).max()) if wide.size else 0.0
    np.testing.assert_allclose(result.astype(np.float64), wide, rtol=0, atol=limit * largest)


def content_of(row: Row) -> Any:
    chain = row.chain()
    is_value = "is_vid" in str(row.fields)
    start = [("AddInt", {"a": integer(2), "b": integer(3), "out": 0})] if is_value else []
    return mlx_nodes.graph([[*start, *chain]], row.inputs, row.outputs(), values=int(is_value))


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_node(row: Row) -> None:
    (result,) = run(content_of(row), row.inputs, row.outputs())
    assert_close(result, row.outputs()[0], row.limit)


def test_every_node_has_a_row() -> None:
    assert {row.node for row in ROWS} | LATER | OTHERS == set(mlx_nodes.UNION)


# ---- registers, numbers, control ----------------------------------------------------------------

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def test_ints() -> None:
    """Sizes, elements and arithmetic, which a shape then has; a value is written twice."""
    number = np.array([-7], np.int64)
    expected = np.full((4, 5), 3, np.int32)
    chain = [
        ("Noop", {}),
        ("SymSize", {"a": 0, "dim": -1, "out": 0}),  # 4
        ("ItemInt", {"x": 1, "out": 1}),  # -7
        ("ModInt", {"a": computed(1), "b": integer(4), "out": 2}),  # 1
        ("FloorDivideInt", {"a": computed(1), "b": integer(4), "out": 1}),  # -2
        ("MultiplyInt", {"a": computed(1), "b": integer(-3), "out": 1}),  # 6
        ("SubtractInt", {"a": computed(1), "b": computed(2), "out": 1}),  # 5
        ("AddInt", {"a": computed(0), "b": integer(-1), "out": 2}),  # 3
        (
            "Full",
            {
                "shape": [computed(0), computed(1)],
                "v": {"vid": 2, "is_vid": 1},
                "scalar_type": 3,
                "out": 2,
            },
        ),
    ]
    content = mlx_nodes.graph([chain], [X, number], [expected], values=3)
    np.testing.assert_array_equal(run(content, [X, number], [expected])[0], expected)


@pytest.mark.parametrize(("sizes", "cuts"), [((1, 3), [1]), ((3,), [3])])
def test_split(sizes: tuple[int, ...], cuts: list[int]) -> None:
    """By sizes, or by the size of each chunk but the last."""
    parts = [part.copy() for part in np.split(X, cuts, 1)]
    chain = [("Split", {"x": 0, "outs": [1, 2], "sizes": mlx_nodes.integers(*sizes), "axis": 1})]
    for got, want in zip(run(mlx_nodes.graph([chain], [X], parts), [X], parts), parts, strict=True):
        np.testing.assert_array_equal(got, want)


def choice(flag: int) -> tuple[Any, list[np.ndarray], list[np.ndarray]]:
    """Return a graph that doubles or negates an input; tensor 3 is written before, and in a branch;
    tensor 4 in one branch alone."""
    inputs = [X, np.array(flag, np.int64)]
    expected = [X * 2 + 1 if flag else 1 - X]
    main = [
        ("FullLike", {"x": 0, "v": mlx_nodes.real(1), "out": 3}),
        ("ItemInt", {"x": 1, "out": 0}),
        ("If", {"cond": computed(0), "then_chain_idx": 1, "else_chain_idx": 2}),
        ("Add", {"a": 2, "b": 3, "out": 2}),
    ]
    then = [("Add", {"a": 0, "b": 0, "out": 4}), ("IdCopy", {"x": 4, "out": 2})]
    other = [("Abs", {"x": 3, "out": 3}), ("Neg", {"x": 0, "out": 2})]
    return mlx_nodes.graph([main, then, other], inputs, expected, 2, 1), inputs, expected


@pytest.mark.parametrize("flag", [0, 1, -3])
def test_a_choice(flag: int) -> None:
    content, inputs, expected = choice(flag)
    np.testing.assert_array_equal(run(content, inputs, expected)[0], expected[0])


def test_a_tensor_of_one_branch_is_not_there_behind_the_choice() -> None:
    content, inputs, expected = choice(1)
    content["instruction_chains"][0]["instructions"][3]["op"][1]["b"] = 4
    with pytest.raises(Error, match=r"node 3 \(Add\)|tensor 4 is read before a node writes it"):
        run(content, inputs, expected)


def test_a_loop() -> None:
    """A running sum of slices, and each slice times the sum so far."""
    sums = X.cumsum(1, dtype=np.float32)
    expected = [sums * X, sums[:, -1].copy()]
    main = [
        ("FullLike", {"x": 4, "v": mlx_nodes.real(0), "out": 2}),
        (
            "Scan",
            {
                "originals": [0],
                "sliced": [3],
                "outputs": [1],
                "carry": [2],
                "body_chain_idx": 1,
                "scan_axis": 1,
            },
        ),
    ]
    main.insert(0, ("Take", {"x": 0, "index": integer(0), "axis": 1, "out": 4}))
    body = [("Add", {"a": 2, "b": 3, "out": 2}), ("Multiply", {"a": 2, "b": 3, "out": 1})]
    content = mlx_nodes.graph([main, body], [X], expected, 2)
    for got, want in zip(run(content, [X], expected, calls=2), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_state_and_the_chain_at_load() -> None:
    """A buffer begins as zeros and keeps its value; a tensor that the first chain writes is there
    at each call; reset() begins anew."""
    start = [("Full", {"shape": [], "v": mlx_nodes.real(2), "scalar_type": 6, "out": 3})]
    main = [
        ("Add", {"a": 2, "b": 0, "out": 2}),
        ("Multiply", {"a": 2, "b": 3, "out": 1}),
    ]
    content = mlx_nodes.graph([main, start], [X], [X], 1, buffers=[X])
    content["init_chain_idx"] = 1
    loaded = Runtime.get().load_program(mlx_nodes.program(content, [X], [X]))
    notes = [value["note"] for value in loaded._delegate("forward", 0)["values"]]
    assert "state, zeros at load: MLX payloads have no initial values" in notes
    method = loaded.load_method("forward")
    for count in (1, 2, 3):
        np.testing.assert_allclose(method.execute([X])[0], X * 2 * count, rtol=1e-6)
    method.reset()
    np.testing.assert_allclose(method.execute([X])[0], X * 2, rtol=1e-6)


def test_memory_of_a_small_file() -> None:
    """A file of 1 KB cannot take gigabytes, unless max_bytes= allows it."""
    chain = [
        ("Full", {"shape": [integer(1 << 29)], "v": {}, "scalar_type": 6, "out": 2}),
        ("Max", {"x": 2, "out": 1}),
    ]
    scalar = np.zeros((), np.float32)
    program = mlx_nodes.program(mlx_nodes.graph([chain], [X], [scalar], 1), [X], [scalar])
    loaded = Runtime.get().load_program(program)
    with pytest.raises(Error, match=r"planned memory inside a delegate .* allowed.*max_bytes="):
        loaded.load_method("forward")
    loaded.load_method("forward", max_bytes=4 << 30)


def test_random_bits_fail_when_they_run() -> None:
    chain = [("RandomBits", {"shape": mlx_nodes.integers(3), "width": 2, "out": 1})]
    bits = np.zeros(3, np.uint16)
    with pytest.raises(Error, match=r"node 0 \(RandomBits\).*not reproducible"):
        run(mlx_nodes.graph([chain], [X], [bits]), [X], [bits])


# ---- models of the flow -------------------------------------------------------------------------


def check_flow(name: str, *calls: tuple[Any, ...], limit: float = 1e-5, **options: Any) -> None:
    """Compare calls of a program with those of its model, which keep their state."""
    import copy

    import torch

    from tests.backends import mlx_flow

    model, inputs = mlx_flow.models()[name]
    pte = mlx_flow.export(copy.deepcopy(model), inputs, **options)
    program = Runtime.get().load_program(pte)
    assert list(program.requirements()["backends"]) == ["MLXBackend"]
    method = program.load_method("forward")
    for call in (inputs, *calls):
        with torch.no_grad():
            expected = model.eval()(*call)
        (result,) = method.execute([x.numpy() for x in call])
        assert_close(np.asarray(result), expected.numpy(), limit)


@pytest.mark.parametrize("name", ["mlp", "cnn", "attention", "greedy", "packed_4w"])
def test_models(name: str) -> None:
    check_flow(name)


def test_halves() -> None:
    check_flow("mlp_fp16", limit=3e-3)


def test_a_decoder_with_a_cache() -> None:
    """Prompts and steps of other lengths; the cache is state."""
    import torch

    dim = torch.export.Dim("t", min=1, max=8)
    steps = [(torch.tensor([[4]]), torch.tensor([3])), (torch.tensor([[2, 7]]), torch.tensor([4]))]
    check_flow("decoder", *steps, dynamic_shapes=({1: dim}, None))


def test_a_scan_carries_state() -> None:
    from tests.backends import mlx_flow

    inputs = mlx_flow.models()["scan"][1]
    check_flow("scan", inputs, tuple(x * 0.5 for x in inputs))


# ---- MLX ----------------------------------------------------------------------------------------

SAME = (
    "abs add arccos arccosh arcsin arcsinh arctan arctanh argmax argmin argsort ceil clip cos cosh "
    "cumsum divide equal erf exp expm1 floor greater greater_equal less less_equal log log10 log1p "
    "log2 logaddexp logical_and logical_not logical_or logsumexp max maximum mean median min "
    "minimum multiply not_equal power prod reciprocal remainder round rsqrt sigmoid sign "
    "sin sinh softmax sort sqrt square std subtract sum take_along_axis tan tanh tril triu var "
    "where all any dequantize quantized_matmul gather_qmm gather_mm argpartition"
)
"""Functions of mlx.core with the arguments of the node of their name."""
OTHER_NAMES = {
    "Neg": "negative",
    "Atan2": "arctan2",
    "LogAddExp": "logaddexp",
    "LogSumExp": "logsumexp",
    "BitwiseAnd": "bitwise_and",
    "ArgPartition": "argpartition",
    "GatherQmm": "gather_qmm",
}


def function_name(row: Row) -> str:
    """Return the name of the node's function in mlx.core; empty: none has its arguments, or it adds
    halves as halves."""
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in row.node).lstrip("_")
    name = OTHER_NAMES.get(row.node, snake)
    is_rough = name in ("quantized_matmul", "gather_qmm") and row.dtype is not np.float32
    return name if name in SAME.split() and not is_rough else ""


OPINIONS = [(row, name) for row, name in zip(ROWS, IDS, strict=True) if function_name(row)]


def opinion(row: Row) -> np.ndarray:
    """Return the result of mlx.core's function."""
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    keywords: dict[str, Any] = {}
    arrays = []
    for name, array in zip(row.names.split(), row.inputs, strict=True):
        if name.endswith("_indices"):
            keywords[name] = mx.array(array)
        else:
            arrays.append(mx.array(array))
    for name, value in row.fields.items():
        if name == "axes" and not value:
            continue  # all; an empty `axis` of mlx.core is none
        value = value["literal"] if isinstance(value, dict) else value
        is_flag = name in (
            "keepdims",
            "transpose",
            "reverse",
            "inclusive",
            "sorted_indices",
            "precise",
        )
        keywords[{"axes": "axis"}.get(name, name)] = bool(value) if is_flag else value
    if row.node == "Dequantize":
        keywords["dtype"] = {6: mx.float32, 5: mx.float16}[keywords["dtype"]]
    if row.node == "Clip" and len(arrays) == 2:
        arrays.insert(1, None)
    result = getattr(mx, function_name(row))(*arrays, **keywords)
    return np.asarray(result.astype(mx.float32))


@pytest.mark.parametrize("row", [row for row, _ in OPINIONS], ids=[name for _, name in OPINIONS])
def test_mlx_gives_the_same(row: Row) -> None:
    pytest.importorskip("mlx.core", reason="needs the packages mlx and mlx-cpu")
    mine = run(content_of(row), row.inputs, row.outputs())[0].astype(np.float64)
    theirs = opinion(row).astype(np.float64)
    assert mine.shape == theirs.shape
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=max(row.limit, 4e-6) * np.abs(mine).max())
