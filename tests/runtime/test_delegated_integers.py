"""Load-time delegation of quantised programs: pairs of quantise and dequantise operators become
nodes of integers."""

from functools import cache
from typing import Any

import executorch.kernels.quantized  # noqa: F401  (out forms of quantized_decomposed)
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from executorch_c import Runtime
from executorch_c.check.flows import FLOWS, _quantize
from executorch_c.devtools import compare_programs, explain
from executorch_c.testing import check_model
from tests.exports import export
from tests.plans import reference
from tests.runtime.quantized_layers import CONV, DEEP, GROUPED, LINEAR, OPS, ROW, UP, UP_BY_GROUPS
from tests.runtime.quantized_layers import Attention, Joined, Mobile, Model, Weights, back, fake
from tests.runtime.quantized_layers import figure, layer, load, program, quantized, random, step_of
from tests.runtime.quantized_layers import there


# ---- networks ----------------------------------------------------------------------------------


NETWORKS: dict[str, tuple[type[nn.Module], Tensor]] = {
    "mobile": (Mobile, random(2, 3, 20, 16)),
    "joined": (Joined, random(2, 4, 6, 7)),
    "attention": (Attention, random(2, 5, 16)),
}
SCHEMES = {"by channel": {"is_per_channel": True}, "by tensor": {"is_per_channel": False}}
STEPS = 3
"""Most steps of the last quantisation between results: ties of some layers add up."""


@cache
def network(name: str, scheme: str = "by channel") -> tuple[nn.Module, Tensor, bytes, bytes]:
    """Return a quantised graph, its example, and its programs without and with delegates."""
    make, x = NETWORKS[name]
    graph = quantized(make(), (x,), **SCHEMES[scheme])
    return graph, x, program(graph, x), program(graph, x, delegated=True)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_networks(name: str, scheme: str) -> None:
    """Whole networks are delegates of integers, as near to eager as the official delegate."""
    graph, x, pte, delegated = network(name, scheme)
    method = load(pte)
    left = {row["operator"] for row in method.undelegated()}
    assert left == ({"aten::native_layer_norm.out"} if name == "attention" else set())
    layers = sum(
        isinstance(part, (nn.Linear, nn.modules.conv._ConvNd))
        for part in NETWORKS[name][0]().modules()
    )
    assert figure(method, "integer_nodes") >= layers + (name == "mobile")
    step = step_of(graph)
    for seed in range(3):
        y = random(*x.shape, seed=seed)
        expected = graph(y).numpy()
        (output,), (kernels,) = method.execute([y.numpy()]), load(pte, False).execute([y.numpy()])
        official = reference(delegated, y.numpy()).outputs[0]
        for other in (expected, kernels, official):
            np.testing.assert_allclose(output, other, rtol=0, atol=STEPS * step)
            assert np.mean(np.abs(output - other) > step / 2) < 0.3
        (exact,) = load(pte, True, kernels="reference").execute([y.numpy()])
        np.testing.assert_allclose(exact, kernels, rtol=0, atol=1.01 * step)


def test_the_same_as_an_exported_delegate() -> None:
    graph, x, *programs = network("mobile")
    (method, delegated), step = map(load, programs), step_of(graph)
    inputs = [random(*x.shape, seed=seed).numpy() for seed in range(20)]
    differences = [
        np.abs(method.execute([y])[0] - delegated.execute([y])[0]) / step for y in inputs
    ]
    assert np.max(differences) < 1.01 and np.mean(differences) < 0.01


def test_weights_are_bytes() -> None:
    graph = quantized(
        nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 256)), (random(2, 256),)
    )
    pte = program(graph, random(2, 256))
    assert 2 * 128 * 256 <= figure(load(pte), "packed_bytes") < 3 * 128 * 256
    loaded = Runtime.get().load_program(pte)
    one, other = (loaded.load_method("forward", delegate_at_load="always") for _ in range(2))
    assert figure(one, "shared_packed_bytes") == 0 < figure(other, "shared_packed_bytes")


# ---- operators ---------------------------------------------------------------------------------


IMAGE, MATRIX, ROWS = (2, 4, 6, 5), (3, 12), (2, 4, 9)

OPERATORS: dict[str, tuple[Model, tuple[tuple[int, ...], ...], int]] = {
    "linear": (lambda x: fake(LINEAR(fake(x))), (MATRIX,), 1),
    "linear of three dimensions": (lambda x: fake(LINEAR(fake(x))), ((2, 3, 12),), 1),
    "linear, relu": (lambda x: fake(F.relu(LINEAR(fake(x))), 0.02, -128), (MATRIX,), 1),
    "convolution": (lambda x: fake(CONV(fake(x))), (IMAGE,), 1),
    "convolution, bounds": (lambda x: fake(F.hardtanh(CONV(fake(x)))), (IMAGE,), 1),
    "bounds of one step": (lambda x: fake(CONV(fake(x)).clamp(0.01, 0.02)), (IMAGE,), 0),
    "positive bounds": (lambda x: fake(CONV(fake(x)).clamp(0.1, 2)), (IMAGE,), 1),
    "depthwise": (lambda x: fake(DEEP(fake(x))), (IMAGE,), 1),
    "grouped": (lambda x: fake(GROUPED(fake(x))), (IMAGE,), 1),
    "row": (lambda x: fake(ROW(fake(x))), (ROWS,), 1),
    "transposed": (lambda x: fake(UP(fake(x))), (IMAGE,), 1),
    "transposed, groups": (lambda x: fake(UP_BY_GROUPS(fake(x))), (IMAGE,), 1),
    "add": (lambda x, y: fake(fake(x) + fake(y, 0.02, -7), 0.06), (IMAGE, (4, 1, 5)), 1),
    "add, relu": (lambda x, y: fake(F.relu(fake(x) + fake(y)), 0.03, -128), (IMAGE, IMAGE), 1),
    "subtract": (lambda x, y: fake(fake(x) - fake(y, 0.02, 9), 0.07), (IMAGE, IMAGE), 1),
    "multiply": (lambda x, y: fake(fake(x) * fake(y, 0.03), 0.04), (IMAGE, IMAGE), 1),
    "square": (lambda x: fake(fake(x) * fake(x), 0.04), (IMAGE,), 1),
    "factors out of range": (lambda x, y: fake(fake(x, 100.0) + fake(y), 0.01), (IMAGE, IMAGE), 0),
    "relu": (lambda x: fake(F.relu(fake(x))), (IMAGE,), 1),
    "relu, another scale": (lambda x: fake(F.relu6(fake(x)), 0.02, -100), (IMAGE,), 1),
    "sigmoid": (lambda x: fake(torch.sigmoid(fake(x)), 1 / 256, -128), (IMAGE,), 1),
    "gelu": (lambda x: fake(F.gelu(fake(x)), 0.02), (IMAGE,), 1),
    "hardswish": (lambda x: fake(F.hardswish(fake(x)), 0.03), (IMAGE,), 1),
    "elu": (lambda x: fake(F.elu(fake(x)), 0.03), (IMAGE,), 1),
    "negative": (lambda x: fake(-fake(fake(x).abs()), 0.04), (IMAGE,), 2),
    "maximum of a window": (lambda x: fake(F.max_pool2d(fake(x), 2)), (IMAGE,), 1),
    "padded window": (lambda x: fake(F.max_pool2d(fake(x), 3, 2, 1), 0.04), (IMAGE,), 1),
    "average of a window": (lambda x: fake(F.avg_pool2d(fake(x), 2), 0.03), (IMAGE,), 0),
    "average": (lambda x: fake(F.adaptive_avg_pool2d(fake(x), 1), 0.01), (IMAGE,), 1),
    "mean": (lambda x: fake(fake(x).mean((2, 3)), 0.01), (IMAGE,), 1),
    "softmax": (lambda x: fake(torch.softmax(fake(x), -1), 1 / 256, -128), (IMAGE,), 0),
    "joined": (lambda x, y: fake(torch.cat([fake(x), fake(y)], 1)), (IMAGE, IMAGE), 0),
    "joined, other scales": (
        lambda x, y: fake(torch.cat([fake(x, 0.02), fake(y)] * 3, 1), 0.04),
        (IMAGE, IMAGE),
        0,
    ),
    "joined results": (
        lambda x, y: fake(torch.cat([CONV(fake(x)), CONV(fake(y))], 1)),
        (IMAGE, IMAGE),
        2,
    ),
    "moved": (
        lambda x: fake(CONV(fake(x).permute(0, 1, 3, 2)).transpose(1, 2).reshape(2, -1)),
        (IMAGE,),
        1,
    ),
    "moved, then quantised": (
        lambda x: fake((fake(x) * fake(x)).permute(0, 2, 3, 1)[:, 1:4], 0.07),
        (IMAGE,),
        1,
    ),
    "parts": (lambda x: fake(torch.cat(fake(x).split([1, 3], 1)[::-1], 1)), (IMAGE,), 0),
    "element": (lambda x: fake(fake(x)[:, 2] * fake(x)[:, 1], 0.08), (IMAGE,), 1),
    "padded": (lambda x: fake(CONV(F.pad(fake(x), (1, 0, 2, 1)))), (IMAGE,), 1),
    "padded with a number": (lambda x: fake(F.pad(fake(x), (1, 0), value=1.7)), (IMAGE,), 0),
    "another scale": (lambda x: fake(fake(x), 0.07, -20), (IMAGE,), 0),
    "of integers": (lambda q: fake(fake(F.relu(back(q))) * back(q), 0.3), (IMAGE,), 2),
    "to integers": (lambda x: (there(CONV(fake(x))), there(x)), (IMAGE,), 1),
    "read twice": (
        lambda x: (lambda y: (fake(y + fake(CONV(y)[:, :4]), 0.0937), y * 2))(fake(x)),
        (IMAGE,),
        2,
    ),
    "also floats": (lambda x: (CONV(fake(x)), fake(CONV(fake(x)))), (IMAGE,), 0),
    "float result": (lambda x: CONV(fake(x)), (IMAGE,), 0),
    "float input": (lambda x: fake(CONV(x)), (IMAGE,), 0),
    "one result, two scales": (lambda x: two_scales(CONV(fake(x))), (IMAGE,), 0),
}


TIES = 0.15
"""Most elements that may be a step away: sums of round numbers are often ties."""


def two_scales(x: Tensor) -> tuple[Tensor, Tensor]:
    return fake(x), fake(x, 0.02, 1)


@cache
def arrays_of(name: str) -> tuple[list[np.ndarray], list[np.ndarray], bytes]:
    """Return inputs, eager's results and a program."""
    fn, shapes, _ = OPERATORS[name]
    inputs = tuple(random(*shape, seed=i) for i, shape in enumerate(shapes))
    if name == "of integers":
        inputs = tuple((x * 40).to(torch.int8) for x in inputs)
    with torch.no_grad():
        results = fn(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    return [x.numpy() for x in inputs], [y.numpy() for y in results], export(fn, *inputs)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    """Results are a step or less from eager's, most of them equal; also of each operator by
    itself."""
    inputs, expected, pte = arrays_of(name)
    method = load(pte)
    assert method.undelegated() == [] and figure(method, "integer_nodes") >= OPERATORS[name][2]
    assert OPERATORS[name][2] or figure(method, "integer_nodes") == (name == "also floats")
    for _ in range(2):
        for output, wanted in zip(method.execute(inputs), expected):
            assert output.shape == wanted.shape and output.dtype == wanted.dtype
            both = np.concatenate([output, wanted]).astype(np.float64)
            steps = np.diff(np.unique(both))
            step = steps[steps > 1e-6].min() if OPERATORS[name][2] else np.inf
            off = np.abs(output.astype(np.float64) - wanted)
            assert off.max() <= 1.01 * step and np.mean(off > 1e-5) < TIES
    each, plain = load(pte, "each"), load(pte, False)
    with each.tracing(values=True) as trace:
        outputs = each.execute(inputs)
    with plain.tracing(values=True) as kernels:
        plain.execute(inputs)
    assert [e.name for e in trace.events] == [e.name for e in kernels.events]
    for y, wanted in zip(outputs, expected):
        assert np.mean(np.abs(y.astype(np.float64) - wanted) > 1e-5) < TIES


# ---- what is not delegated, or not as integers ---------------------------------------------------


def codes(x: Tensor, dtype: torch.dtype, low: int, high: int, zero: int = 0) -> Tensor:
    q = OPS.quantize_per_tensor.default(x, 0.05, zero, low, high, dtype)
    return OPS.dequantize_per_tensor.default(q, 0.05, zero, low, high, dtype)


REFUSED: dict[str, tuple[Model, str]] = {
    "uint8": (
        lambda x: codes(F.relu(codes(x, torch.uint8, 0, 255, 100)), torch.uint8, 0, 255),
        "its dtype",
    ),
    "int16": (
        lambda x: codes(F.relu(codes(x, torch.int16, -32768, 32767)), torch.int16, -32768, 32767),
        "its dtype",
    ),
    "a narrow range": (
        lambda x: codes(F.relu(codes(x, torch.int8, -64, 63)), torch.int8, -64, 63),
        "its range",
    ),
    "another scale": (
        lambda x: fake(F.relu(back(there(x), 0.07))),
        "another scale or zero point than its integers have",
    ),
    "another zero point": (
        lambda x: fake(F.relu(back(there(x), 0.05, -3))),
        "another scale or zero point than its integers have",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """Kernels compute them, and the reason is reported."""
    fn, reason = REFUSED[name]
    x = random(*IMAGE)
    method = load(export(fn, x))
    rows = [row for row in method.undelegated() if row["reason"] == reason]
    assert rows and all("quantize" in row["operator"] for row in rows)
    np.testing.assert_array_equal(method.execute([x.numpy()])[0], fn(x).numpy())


def test_weights_out_of_the_usual_range() -> None:
    """-128, a zero point and a scale that XNNPACK has no factor for."""
    for fault in ("lowest", "zero", "scale", "none"):
        part = layer(lambda: nn.Conv2d(4, 6, 3))
        if fault == "lowest":
            part.codes[:] = -128
        if fault == "zero":
            part.zeros[3] = 1
        if fault == "scale":
            part.scales[:] *= 1e6
        scale = 0.5 if fault == "lowest" else 0.05

        def fn(x: Tensor, part: Weights = part, scale: float = scale) -> Tensor:
            return fake(part(fake(x)), scale)

        x = random(*IMAGE)
        method = load(export(fn, x))
        expected = fn(x).detach().numpy()
        assert (figure(method, "integer_nodes") > 0) == (fault in ("lowest", "none")), fault
        np.testing.assert_allclose(method.execute([x.numpy()])[0], expected, atol=1.01 * scale)


def test_scales_of_the_wrong_length() -> None:
    """The kernel refuses them, delegated or not."""
    from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

    x = random(*IMAGE)
    file = deserialize_pte_binary(export(lambda x: fake(CONV(fake(x))), x))
    plan = file.program.execution_plan[0]
    for value in plan.values:
        tensor = value.val
        if getattr(tensor, "sizes", None) == [6] and int(tensor.scalar_type) == 6:
            tensor.sizes = [5]
    pte = bytes(serialize_pte_binary(file))
    errors = []
    for how in ("always", False):
        with pytest.raises((RuntimeError, ValueError)) as error:
            load(pte, how).execute([x.numpy()])
        errors.append(str(error.value))
    assert errors[0] == errors[1]


UNUSUAL = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e30, 0.0]


@pytest.mark.parametrize("name", ["convolution", "linear, relu", "to integers", "average"])
def test_unusual_values(name: str) -> None:
    """Kernels compute with numbers that are not finite."""
    inputs, _, pte = arrays_of(name)
    method, plain = load(pte), load(pte, False)
    for value in UNUSUAL:
        array = inputs[0].copy()
        array.reshape(-1)[5] = value
        for output, wanted in zip(method.execute([array]), plain.execute([array])):
            np.testing.assert_allclose(
                output, wanted, atol=1.01 * (wanted.dtype == np.int8 or 0.05)
            )


def test_nan_inside() -> None:
    """A NaN before a quantisation is not lost: the kernels compute it."""
    fn = lambda x: fake(torch.softmax(x * 3e38 * 3e38 * 0, -1))  # noqa: E731
    x = random(*MATRIX)
    pte = export(fn, x)
    np.testing.assert_array_equal(
        load(pte).execute([x.numpy()])[0], load(pte, False).execute([x.numpy()])[0]
    )


def test_dynamic_shapes() -> None:
    make, x = NETWORKS["mobile"]
    batch = torch.randn(4, *x.shape[1:], generator=torch.Generator().manual_seed(1))
    shapes = ({0: torch.export.Dim("batch", max=4)},)
    exported = torch.export.export(make().eval(), (batch,), dynamic_shapes=shapes)
    graph = _quantize(FLOWS["xnnpack-int8"], exported, [((batch,), {})])
    pte = program(graph, batch, shapes=shapes)
    method, step = load(pte), step_of(graph)
    assert figure(method, "integer_nodes") > 8
    for size in (4, 1, 3, 4, 2):
        (output,) = method.execute([batch[:size].numpy()])
        np.testing.assert_allclose(output, graph(batch[:size]).numpy(), rtol=0, atol=STEPS * step)


# ---- dynamic quantisation ----------------------------------------------------------------------


def chosen(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Quantise as it comes: the dequantised tensor, the integers, their scale and zero point."""
    scale, zero = OPS.choose_qparams.tensor(x, -127, 127, 1e-7, torch.int8)
    q = OPS.quantize_per_tensor.tensor(x, scale, zero, -127, 127, torch.int8)
    return again(q, scale, zero), q, scale, zero


def again(q: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return OPS.dequantize_per_tensor.tensor(q, scale, zero, -127, 127, torch.int8)


def swapped(x: Tensor) -> Tensor:
    """Integers with the scale of others."""
    return LINEAR(again(chosen(x)[1], chosen(x * 2)[2], chosen(x)[3]))


def with_floats(x: Tensor) -> tuple[Tensor, Tensor]:
    y = chosen(x)[0]
    return LINEAR(y), F.relu(y)


DYNAMIC: dict[str, tuple[Model, int]] = {
    "layer": (lambda x: LINEAR(chosen(x)[0]), 1),
    "three dimensions": (lambda x: LINEAR(chosen(x.view(1, 3, 12))[0]), 1),
    "two readers": (lambda x: (lambda y: LINEAR(y) + F.relu(LINEAR(y)))(chosen(x)[0]), 2),
    "read as floats, too": (with_floats, 0),
    "scale returned": (lambda x: (LINEAR(chosen(x)[0]), chosen(x)[2]), 1),
    "weights of floats": (lambda x: F.linear(chosen(x)[0], LINEAR.layer.weight.detach()), 0),
    "one of two": (lambda x: LINEAR(chosen(F.relu(chosen(x)[0]))[0]), 1),
    "another scale": (swapped, 0),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic(name: str) -> None:
    """Near to the kernels: XNNPACK has 256 steps for each row, the operators 255 for all."""
    fn, layers = DYNAMIC[name]
    rows = random(3, 12)
    pte = export(fn, rows)
    method = load(pte)
    assert figure(method, "integer_nodes") == layers
    reasons = {row["reason"] for row in method.undelegated()}
    assert (layers > 0 and name != "one of two" and name != "scale returned") == (not reasons)
    results = fn(rows)
    for output, wanted in zip(
        method.execute([rows.numpy()]), results if isinstance(results, tuple) else [results]
    ):
        wanted = wanted.detach().numpy()
        np.testing.assert_allclose(output, wanted, rtol=0, atol=0.02 * np.abs(wanted).max())
    same = rows[:1].expand(3, 12).contiguous()
    for output, exact in zip(
        method.execute([same.numpy()]), load(pte, False).execute([same.numpy()])
    ):
        np.testing.assert_allclose(output, exact, rtol=0, atol=0.02 * np.abs(exact).max())


def test_dynamic_networks_are_those_of_the_exporter() -> None:
    make, x = NETWORKS["attention"]
    graph = quantized(make(), (x,), "xnnpack-dynamic")
    method, delegated = load(program(graph, x)), load(program(graph, x, delegated=True))
    assert figure(method, "integer_nodes") == 4
    for seed in range(3):
        y = random(*x.shape, seed=seed)
        (output,), (other,) = method.execute([y.numpy()]), delegated.execute([y.numpy()])
        scale = np.abs(other).max()
        np.testing.assert_allclose(output, other, rtol=0, atol=0.01 * scale)
        np.testing.assert_allclose(output, graph(y).detach().numpy(), rtol=0, atol=0.03 * scale)


def test_large_weights_stay_integers() -> None:
    """Those that are dequantised and transposed at load have room: 8 times the file's bytes."""
    model = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048))
    x = random(1, 2048)
    method = load(program(quantized(model, (x,), "xnnpack-dynamic"), x))
    assert figure(method, "integer_nodes") == 2 and method.undelegated() == []


def test_dynamic_is_left_to_the_kernels() -> None:
    """By default a method computes what its operators say: one scale for the tensor."""
    x = random(64, 256)
    pte = program(quantized(nn.Sequential(nn.Linear(256, 256)), (x,), "xnnpack-dynamic"), x)
    method, plain = load(pte, True), load(pte, False)
    assert any("for all rows" in row["reason"] for row in method.undelegated())
    np.testing.assert_allclose(*(m.execute([x.numpy()])[0] for m in (method, plain)), atol=1e-5)


def test_dynamic_of_unusual_values() -> None:
    pte = export(DYNAMIC["layer"][0], random(3, 12))
    method, plain = load(pte), load(pte, False)
    for value in UNUSUAL:
        x = random(3, 12).numpy()
        x[1, 4] = value
        result, wanted = method.execute([x])[0], plain.execute([x])[0]
        if np.isfinite(value):
            assert np.isfinite(result).all()
        else:
            np.testing.assert_array_equal(result, wanted)


# ---- verdicts ----------------------------------------------------------------------------------


def verdicts(graph: nn.Module, pte: bytes, x: Tensor) -> tuple[str, str]:
    method = load(pte)
    return check_model(graph, (x,), program=method).verdict, explain(
        graph, (x,), program=method
    ).verdict


def test_verdicts() -> None:
    """Integers are accepted where the exporter's are; faults of the program are found."""
    graph, x, pte, delegated = network("joined")
    assert verdicts(graph, pte, x) == ("match", "match")
    assert compare_programs(pte, delegated, [x.numpy()]).ok
    for at, change in ((1, {1: 1.3}), (5, {2: 9})):
        wrong = quantized(Joined(), (x,))
        every: Any = wrong.graph
        node = [n for n in every.nodes if "quantize_per_tensor" in str(n.target)][at]
        for i, by in change.items():
            node.update_arg(i, node.args[i] * by if i == 1 else node.args[i] + by)
        wrong.recompile()  # type: ignore[operator]
        assert "differ" in verdicts(graph, program(wrong, x), x), node
