"""kvcache::update_and_attend, a cache that the runner holds, against ExecuTorch's reference."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir import to_edge
from executorch.extension.llm.cache.reference_cache import (
    CacheConfig,
    ContiguousReferenceCache,
    LayerPolicy,
)
from executorch.extension.llm.cache.update_and_attend import REGISTRY, update_and_attend

import executorch_c
from executorch_c.devtools import explain
from executorch_c.llm import KVCache, TextRunner, check_llm
from executorch_c.testing import check_model
from tests.at_once import run_each
from tests.backends import mlx_nodes
from tests.llm import kv_cache_out  # noqa: F401  (the overload)

CAPACITY, HEADS, KV_HEADS, HEAD, VALUE, WINDOW, VOCABULARY = 16, 4, 2, 8, 4, 4, 40
HALF, BFLOAT16 = torch.float16, torch.bfloat16


class Layer(torch.nn.Module):
    """Attention of arguments: `layer_id`, and the dtype of its result."""

    def __init__(self, layer_id: int = 0, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.layer_id, self.dtype = layer_id, dtype

    def forward(self, q: Any, k: Any, v: Any, position: Any) -> Any:
        return update_and_attend(q, k, v, position, self.layer_id, 0.3, self.dtype)


class Decoder(torch.nn.Module):
    """Two layers between an embedding and all logits. `fault`: a weight is wrong."""

    def __init__(self, fault: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        width = HEADS * HEAD
        self.embed = torch.nn.Embedding(VOCABULARY, width)
        sizes = [HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * VALUE]
        self.projections = torch.nn.ModuleList(torch.nn.Linear(width, n) for n in 2 * sizes)
        self.out = torch.nn.ModuleList(torch.nn.Linear(HEADS * VALUE, width) for _ in range(2))
        if fault:
            self.out[1].weight.data[3] += 1

    def forward(self, tokens: Any, input_pos: Any) -> Any:
        n = tokens.shape[1]
        x, position = self.embed(tokens), (input_pos + torch.arange(n))[:, None]
        for layer in range(2):
            q, k, v = (
                self.projections[3 * layer + i](x).view(1, n, heads, -1).transpose(1, 2)
                for i, heads in enumerate((HEADS, KV_HEADS, KV_HEADS))
            )
            y = update_and_attend(q, k, v, position, layer, 0.3, torch.float32)
            x = x + self.out[layer](y.transpose(1, 2).reshape(1, n, -1))
        return x @ self.embed.weight.T


def export(model: torch.nn.Module, args: tuple[Any, ...], axes: Any, **constants: int) -> bytes:
    exported = torch.export.export(model.eval(), args, dynamic_shapes=axes, strict=True)
    return bytes(to_edge(exported, constant_methods=constants).to_executorch().buffer)


def arguments(n: int, start: int = 0, dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    torch.manual_seed(start)
    shapes = (HEADS, HEAD), (KV_HEADS, HEAD), (KV_HEADS, VALUE)
    position = torch.arange(start, start + n)[:, None]
    return (*(torch.randn(1, h, n, d).to(dtype) for h, d in shapes), position)


@cache
def layer(
    layer_id: int = 0, out: torch.dtype = torch.float32, inside: torch.dtype = torch.float32
) -> bytes:
    n = torch.export.Dim("n", min=1, max=CAPACITY)
    sizes = (*({2: n} for _ in range(3)), {0: n})
    return export(Layer(layer_id, out), arguments(3, dtype=inside), sizes)


@cache
def decoder(fault: bool = False) -> bytes:
    n = torch.export.Dim("n", min=1, max=CAPACITY - 1)
    example = torch.zeros(1, 3, dtype=torch.int64), torch.tensor([0])
    return export(Decoder(fault), example, ({1: n}, None), get_max_context_len=20)


class Cache(ContiguousReferenceCache):
    """A cache whose values have another size than the keys."""

    def reset(self) -> None:
        super().reset()
        self._v = [v.new_zeros(1, KV_HEADS, 0, VALUE) for v in self._v]


@pytest.fixture
def eager() -> Iterator[Any]:
    """Install an eager cache of some windows, which is active."""

    def install(dtype: torch.dtype, *windows: int) -> Any:
        layers = [LayerPolicy.ring(w) if w else LayerPolicy.flat() for w in windows]
        config = CacheConfig(len(layers), KV_HEADS, HEAD, CAPACITY, dtype=dtype, layers=layers)
        made = Cache(config)
        made.reset()
        REGISTRY.install("tests", made)
        scope.__enter__()
        return made

    REGISTRY.install("tests", None)
    scope = REGISTRY.active("tests")
    yield install
    scope.__exit__(None, None, None)
    REGISTRY.uninstall("tests")


def arrays(args: tuple[Any, ...]) -> list[Any]:
    return [a.view(torch.uint16).numpy() if a.dtype == BFLOAT16 else a.numpy() for a in args]


def as_float(result: Any) -> Any:
    array = np.asarray(result)
    bits = array.dtype == np.uint16  # of bfloat16, without ml_dtypes
    return (array.astype(np.uint32) << 16).view(np.float32) if bits else array.astype(np.float32)


@pytest.mark.parametrize("kernels", ["default", "reference"])
@pytest.mark.parametrize(
    ("window", "dtype", "out", "inside"),
    [
        (0, torch.float32, torch.float32, torch.float32),
        (WINDOW, torch.float32, HALF, torch.float32),
        (1, HALF, torch.float32, HALF),
        (WINDOW, BFLOAT16, BFLOAT16, torch.float32),
    ],
)
def test_steps_agree_with_eager(
    eager: Any, window: int, dtype: Any, out: Any, inside: Any, kernels: Any
) -> None:
    eager(dtype, 0, window)
    held = KVCache(CAPACITY, n_layers=2, dtype=dtype, window=[None, window or None])
    program = executorch_c.load(layer(1, out, inside))
    method = program.load_method("forward", kernels=kernels, kv_cache=held)
    start = 0
    for n in (3, 1, 1, 6, 5):
        args = arguments(n, start, inside)
        expected = Layer(1, out)(*args)
        limit = 1e-6 if torch.float32 == out else 1e-2
        actual = as_float(method(*arrays(args)))
        np.testing.assert_allclose(actual, expected.float(), rtol=limit, atol=limit)
        start += n
    assert held.length == CAPACITY and held.nbytes == held.copy().nbytes > 0


def test_state_is_reset_copied_shared_and_rewound() -> None:
    held, program = KVCache(CAPACITY), executorch_c.load(layer())
    method, other = (program.load_method("forward", kv_cache=held) for _ in range(2))
    steps = [arrays(arguments(n, start)) for n, start in ((4, 0), (1, 4), (2, 5))]
    results = [np.array(m(*step)) for m, step in zip((method, other, method), steps)]
    assert held.length == 7
    saved, fork = other.get_state(), held.copy()
    np.testing.assert_array_equal(method(*steps[1]), results[1])  # going back overwrites
    assert held.length == 5 and fork.length == 7
    method.set_state(saved)
    assert held.length == 7
    held.rewind(5)
    np.testing.assert_array_equal(other(*steps[2]), results[2])
    method.reset()
    assert held.length == 0 and method.get_state().size == 0
    np.testing.assert_array_equal(method(*steps[0]), results[0])
    single = program.load_method("forward", kv_cache=fork)
    np.testing.assert_array_equal(single(*steps[2]), results[2])


def test_calls_on_several_threads() -> None:
    """Calls that share a cache exclude each other; no call is lost."""
    held, program = KVCache(CAPACITY), executorch_c.load(layer())
    methods = [program.load_method("forward", kv_cache=held) for _ in range(3)]
    args = arrays(arguments(4))
    expected = np.array(methods[0](*args))
    run_each(3, lambda i: np.testing.assert_array_equal(methods[i](*args), expected))


def test_errors() -> None:
    program = executorch_c.load(layer(3))
    with pytest.raises(executorch_c.InvalidStateError, match=r"n_kv_heads 2.*KVCache\(capacity\)"):
        program.load_method("forward")(*arrays(arguments(2)))
    q, k, v, position = arguments(2)
    for options, args, text in (
        ({}, (q, k, v, position + 1), "starts at 1, expected 0 to 0"),
        ({}, (q, k, v, position - 1), "starts at -1, expected"),
        ({}, (q, k, v, position - 2**63), "starts at -9223372036854775808, expected"),
        ({}, arguments(CAPACITY), "exceed the capacity of 8"),
        (dict(n_layers=3), arguments(2), "layer_id 3, the KV cache has layers 0 to 2"),
        (dict(n_kv_heads=4), arguments(2), "n_kv_heads 4"),
        (dict(head_dim=4), arguments(2), "head_dim 4"),
    ):
        method = program.load_method("forward", kv_cache=KVCache(8, **options))
        with pytest.raises(executorch_c.InvalidArgumentError, match=text):
            method(*arrays(args))
        assert method.get_state().size == 0
    for capacity in (1 << 40, (1 << 62) - 1):
        method = program.load_method("forward", kv_cache=KVCache(capacity), max_bytes=1 << 20)
        with pytest.raises((executorch_c.Error, MemoryError), match="overflow|KV cache"):
            method(*arrays(arguments(1)))
    with pytest.raises(TypeError, match="must be a KVCache or None, not int"):
        program.load_method("forward", kv_cache=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("args", "options", "text"),
    [
        ((0,), {}, "`capacity` must be at least 1"),
        ((4,), dict(n_layers=-1), "`n_layers`"),
        ((4,), dict(n_layers=5000), "1 to 1024"),
        ((4,), dict(window=0), "`window`"),
        ((4,), dict(window=[1, 2], n_layers=3), "2 windows for 3 layers"),
        ((4,), dict(window=[]), "0 items"),
        ((4,), dict(dtype="float64"), "`dtype`"),
    ],
)
def test_wrong_settings(args: Any, options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        KVCache(*args, **options)


def test_damaged_states_are_refused() -> None:
    """Every word of a copy of the state is changed: an error or a state, nothing else."""
    held = KVCache(CAPACITY, window=3)
    method = executorch_c.load(layer()).load_method("forward", kv_cache=held)
    method(*arrays(arguments(2)))
    saved = method.get_state()
    refused = 0
    for word in range(7):
        for value in (-1, 0, 3, 1 << 31, 1 << 62, -(1 << 63)):
            changed = saved.copy()
            changed[8 * word : 8 * word + 8] = np.array([value], np.int64).view(np.uint8)
            try:
                method.set_state(changed)
            except executorch_c.InvalidArgumentError:
                refused += 1
                assert held.length == 2
            else:
                method.set_state(saved)
    assert refused > 30
    for size in (1, 55, 56, saved.size - 1):
        with pytest.raises(executorch_c.InvalidArgumentError):
            method.set_state(saved[:size])
    with pytest.raises(executorch_c.InvalidArgumentError):
        method.set_state(np.concatenate([saved, saved[:8]]))


def test_node_of_mlx(eager: Any) -> None:
    """MLX's node is a call of the operator, with the cache of the method that has the delegate."""
    eager(torch.float32, WINDOW)
    inputs = arrays(arguments(2))
    fields = dict(zip(("q", "k", "v", "position", "out"), range(5)), layer_id=0, scale=0.3)
    outputs = [np.zeros((1, HEADS, 2, VALUE), np.float32)]
    content = mlx_nodes.graph([[("UpdateAndAttend", {**fields, "out_dtype": 6})]], inputs, outputs)
    program = executorch_c.load(mlx_nodes.program(content, inputs, outputs))
    with pytest.raises(executorch_c.InvalidStateError, match=r"MLXBackend.*KVCache\(capacity\)"):
        program.load_method("forward")(*inputs)
    method = program.load_method("forward", kv_cache=KVCache(6, window=WINDOW))
    for start in (0, 2, 4):
        args = arguments(2, start)
        result = np.asarray(method(*arrays(args)))
        np.testing.assert_allclose(result, Layer()(*args), rtol=1e-6, atol=1e-6)
    with pytest.raises(executorch_c.InvalidArgumentError, match="exceed the capacity of 6"):
        method(*arrays(arguments(2, 6)))
    method.reset()
    method(*inputs)


def of_runner(fault: bool = False) -> TextRunner:
    return TextRunner(decoder(fault), kv_cache=KVCache(CAPACITY, window=[None, WINDOW]))


def test_text_runner() -> None:
    runner = of_runner()
    assert runner.context == CAPACITY
    tokens = [(7 * i) % VOCABULARY for i in range(CAPACITY)]
    whole = runner.all_logits(tokens)
    with pytest.raises(ValueError, match="exceed the context of 16"):
        runner.step(1)
    runner.rewind(5)
    fork = runner.fork()
    other = [fork.step(3), fork.step(4)]
    np.testing.assert_allclose(runner.all_logits(tokens[5:]), whole[5:], atol=1e-5)
    snapshot = runner.snapshot()
    runner.reset()
    np.testing.assert_allclose(runner.prefill(tokens[:5]), whole[4], atol=1e-5)
    np.testing.assert_allclose([runner.step(3), runner.step(4)], other, atol=1e-5)
    runner.restore(snapshot)
    assert runner.position == CAPACITY and fork.position == 7
    assert len(of_runner().generate([1, 2], max_new_tokens=5, ignore_eos=True).ids) == 5


@pytest.mark.parametrize("fault", [False, True])
def test_check_llm(eager: Any, fault: bool) -> None:
    eager(torch.float32, 0, WINDOW)
    held = KVCache(CAPACITY, window=[None, WINDOW])
    report = check_llm(
        Decoder().eval(), [[1, 5, 9]], program=decoder(fault), kv_cache=held, engines="here"
    )
    assert bool(report) != fault, report
    assert ("the file is at fault" in report.fault) == fault


def test_many_rows_equal_single_ones() -> None:
    """The loops over blocks and over few rows agree, with a window and wider keys."""
    load = executorch_c.load(layer()).load_method
    whole, each = (load("forward", kv_cache=KVCache(CAPACITY, window=WINDOW)) for _ in range(2))
    *tensors, position = arrays(arguments(CAPACITY))
    expected = whole(*tensors, position)
    for i in range(CAPACITY):
        row = each(*(t[:, :, i : i + 1] for t in tensors), position[i : i + 1])
        np.testing.assert_allclose(row, expected[:, :, i : i + 1], rtol=1e-5, atol=1e-6)


def test_checks_use_a_cache_like_the_active_one(eager: Any) -> None:
    """Programs get a cache of the configuration of eager's, which begins each run as it is."""
    held = eager(torch.float32, 0, WINDOW)
    example = torch.tensor([[1, 2, 3]]), torch.tensor([0])
    for fault in (False, True):
        report = explain(Decoder().eval(), example, program=decoder(fault), progress=False)
        assert report.ok != fault, report
        if fault:
            assert report.first is not None and report.first.module == "out.1", report
    options: Any = dict(n_random=0, engines="here", progress=False)
    assert check_model(Decoder().eval(), example, program=decoder(), **options).ok
    assert check_model(Layer().eval(), arguments(3), flow="mlx", **options).ok
    assert held.used(0) == held.used(1) == 0


def test_checks_start_from_empty_caches(eager: Any) -> None:
    """Eager's cache may hold positions of earlier calls; it has them again after a check."""
    held, model = eager(torch.float32, 0, WINDOW), Decoder().eval()
    example = torch.tensor([[1, 2, 3]]), torch.tensor([0])
    model(*example)
    options: Any = dict(program=decoder(), progress=False)
    assert check_model(model, example, n_random=0, engines="here", **options).ok
    assert explain(model, example, **options).ok
    assert check_llm(model, [[1, 5, 9]], engines="here", **options)
    assert [held.used(layer) for layer in range(2)] == [3, 3]
