"""Load-time delegation: runs of kernel calls handed to XNNPACK when a method is loaded."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from executorch_c import Error, Method, Runtime
from tests import process
from tests.exports import export
from tests.plans import Plan, build, load


def delegated(method: Method) -> list[int]:
    """Return the number of calls that each delegate made at load replaces."""
    calls = [one["calls_delegated_at_load"] for one in method.backend_report()]
    return [count for count in calls if count]


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


class Block(nn.Module):
    """A residual block with batch norms, as mobile networks have it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        torch.manual_seed(channels)
        self.wide = nn.Conv2d(channels, 2 * channels, 1, bias=False)
        self.norm = nn.BatchNorm2d(2 * channels)
        self.deep = nn.Conv2d(2 * channels, 2 * channels, 3, 1, 1, groups=2 * channels)
        self.out = nn.Conv2d(2 * channels, channels, 1)
        self.last = nn.BatchNorm2d(channels)
        for norm in (self.norm, self.last):
            nn.init.uniform_(norm.running_mean, -1, 1)
            nn.init.uniform_(norm.running_var, 0.5, 2)
            nn.init.uniform_(norm.weight, 0.5, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu6(self.norm(self.wide(x)))
        return x + self.last(self.out(F.relu(self.deep(y))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.blocks = nn.Sequential(Block(8), Block(8))
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.blocks(F.hardtanh(self.stem(x))), 3, 2, 1)
        return F.softmax(self.head(x.mean((2, 3))), -1)


class Rows(nn.Module):
    """Everything that a row with channels last can be read by."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = nn.Conv1d(4, 6, 3, 1, 1), nn.Conv1d(6, 6, 1)
        self.norm = nn.BatchNorm1d(6).eval()
        nn.init.uniform_(self.norm.running_mean, -1, 1)
        self.shift, self.scale = nn.Buffer(random(6, 1)), nn.Buffer(random(20))
        self.whole = nn.Buffer(random(1, 6, 20))
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = self.first(x)
        z = (z + self.shift) * self.scale + self.whole - z[:, :1] + y
        z = self.norm(F.gelu(self.second(z)) * 2)
        parts = [*z.split([1, 2, 3], 1), z.select(1, 2)[:, None], F.pad(z, (1, -1 + 1))[..., 1:]]
        joined = F.max_pool1d(torch.cat([parts[2], parts[0], parts[4]], 1), 3, 2, 1)
        picture = self.second(z)[:, None] * z[None, 0] + self.second(z[:1])
        return self.head(self.second(z).transpose(1, 2)), joined * 2, parts[3] + 1, picture


SAMPLES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "net": (Net(), (random(2, 3, 32, 32),)),
    "transposed": (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2), (random(1, 4, 5, 7),)),
    "grouped": (nn.Conv2d(8, 12, (3, 5), (2, 1), (1, 2), 2, groups=4), (random(2, 8, 11, 9),)),
    "row": (
        nn.Sequential(nn.Conv1d(4, 6, 5, 2, 3, 2, 2), nn.BatchNorm1d(6).eval(), nn.ReLU()),
        (random(2, 4, 20),),
    ),
    "row, depthwise": (
        nn.Sequential(nn.Conv1d(4, 4, 3, groups=4), nn.Conv1d(4, 3, 1)),
        (random(2, 4, 9),),
    ),
    "row, transposed": (nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, groups=2), (random(2, 4, 7),)),
    "row of one": (nn.Sequential(nn.Conv1d(4, 1, 3), nn.Conv1d(1, 4, 1)), (random(2, 4, 7),)),
    "rows": (Rows(), (random(2, 4, 20), random(20))),
    "multiplier": (nn.Conv2d(3, 9, 3, groups=3), (random(2, 3, 7, 6),)),
    "norm alone": (nn.BatchNorm2d(5), (random(2, 5, 4, 3),)),
    "sums": (lambda x, y: (x + y * 2 - 3) / 7 - y, (random(2, 3, 4, 5), random(3, 1, 5))),
    "bounds": (lambda x: torch.maximum(x.clamp(min=-0.5), x * -1).clamp(max=0.25), (random(9, 9),)),
    "moves": (
        lambda x: (
            F.pad(x.permute(0, 2, 3, 1)[:, 1:3], (1, 2, 0, 1), value=2.0)
            .transpose(1, 2)
            .reshape(2, -1)
            .sigmoid()
        ),
        (random(2, 3, 4, 5),),
    ),
    "joined": (
        lambda x, y: torch.cat([x, y, x.tanh(), y, x, y, x.exp()], 1),
        (random(2, 3, 4, 5), random(2, 2, 4, 5)),
    ),
    "products": (
        lambda x, y: torch.softmax(x @ y / 3, -1) @ y.transpose(1, 2),
        (random(4, 5, 6), random(4, 6, 7)),
    ),
    "pooled": (lambda x: F.avg_pool2d(F.adaptive_avg_pool2d(x, 1) * x, 2), (random(2, 3, 8, 6),)),
    "resized": (lambda x: F.interpolate(x, size=(7, 9), mode="bilinear"), (random(1, 3, 4, 5),)),
    "corners": (
        lambda x: F.interpolate(x, size=(7, 9), mode="bilinear", align_corners=True),
        (random(1, 3, 4, 5),),
    ),
    "hardswish": (lambda x: F.hardswish(x) + F.hardsigmoid(x), (random(2, 3, 4, 5),)),
    "clamps": (
        lambda x: x.clamp(min=0.5).clamp(-1, 1).clamp(max=0.75).clamp(min=-2),
        (random(2, 3, 4, 5),),
    ),
    "positive bounds": (
        nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Hardtanh(0.1, 2)),
        (random(2, 3, 5, 4),),
    ),
    "parts": (
        lambda x: (
            torch.cat(
                [*torch.split(x, [1, 2], 1), x.select(1, -1)[:, None], x.unbind(1)[0].unsqueeze(1)],
                1,
            )
            * 2
        ),
        (random(2, 3, 4, 5),),
    ),
    "parts of channels": (
        lambda x: torch.cat([y * 2 for y in F.avg_pool2d(x, 2).split(2, 1)], 2),
        (random(2, 6, 4, 8),),
    ),
    "expanded": (
        lambda x: x.expand(2, 3, 4) * 2 + x[None].expand(1, 2, 3, 4)[0],
        (random(2, 3, 4),),
    ),
    "roots": (
        lambda x: torch.sqrt(x * x) + torch.rsqrt(x * x + 1) - torch.floor(x) * torch.ceil(x),
        (random(50),),
    ),
    "powers": (lambda x: x**3 + x**2, (random(2, 3, 4, 5),)),
    "smooth": (lambda x: torch.tanh(F.gelu(F.elu(F.leaky_relu(x, 0.2)))), (random(50),)),
}


@cache
def exported(name: str) -> bytes:
    fn, inputs = SAMPLES[name]
    return export(fn, *inputs)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", SAMPLES)
def test_results(name: str) -> None:
    fn, inputs = SAMPLES[name]
    pte = exported(name)
    method, plain = load(pte, delegate_at_load="always"), load(pte, delegate_at_load=False)
    assert delegated(method) and not delegated(plain)
    if name.startswith("row"):
        assert "aten::convolution.out" not in {row["operator"] for row in method.undelegated()}
    arrays = [x.numpy() for x in inputs]
    results = fn(*inputs)
    for one in (method, method, plain):
        outputs = one.execute(arrays)
        for y, expected in zip(outputs, results if isinstance(results, tuple) else [results]):
            np.testing.assert_allclose(y, expected.detach().numpy(), rtol=2e-5, atol=2e-5)


def test_powers_that_are_delegated() -> None:
    for exponent, is_delegated in ((2, True), (3, True), (4, False), (0.5, False)):
        method = load(
            export(lambda x: (x + 1) ** exponent, random(9, 9)), delegate_at_load="always"
        )
        left = {row["operator"] for row in method.undelegated()}
        assert ("aten::pow.Tensor_Scalar_out" in left) != is_delegated, exponent


def test_by_request() -> None:
    """A whole network is one delegation; small programs are left to the kernels."""
    pte = exported("net")
    assert len(delegated(load(pte, delegate_at_load=True))) == 1
    assert delegated(load(pte, delegate_at_load=False)) == []
    assert delegated(load(pte, delegate_at_load=True, kernels="reference")) == []
    with pytest.raises(ValueError, match="`delegate_at_load` must be"):
        load(pte, delegate_at_load="sometimes")
    small = export(lambda x, y: x + y, random(2, 2), random(2, 2))
    assert delegated(load(small, delegate_at_load=True)) == []


def test_what_is_delegated_and_why_not_the_rest() -> None:
    pte = export(lambda x: torch.flip(F.relu(x) * 2 + x, [0]), random(4, 5))
    method = load(pte, delegate_at_load="always")
    [row] = method.backend_report()
    assert row["delegated_at_load"] == {"aten::add.out": 1, "aten::mul.out": 1, "aten::relu.out": 1}
    flipped = {"operator": "aten::flip.out", "reason": "an operator without a rule", "calls": 1}
    assert method.undelegated() == [flipped]
    reasons = {row["reason"] for row in load(pte, delegate_at_load=True).undelegated()}
    assert reasons == {"too little work for a delegate"}
    assert {row["reason"] for row in load(pte).undelegated()} == reasons
    plain = load(pte, delegate_at_load=False)
    assert plain.undelegated() == [] and not plain._delegate_at_load and load(pte)._delegate_at_load
    left = load(pte, delegate_at_load=True, kernels="reference").undelegated()
    assert {row["reason"] for row in left} == {"plain kernels are asked for"}
    operators = Runtime.get().load_program(pte).info()["methods"][0]["operators"]
    assert sum(row["calls"] for row in left) == sum(row["calls"] for row in operators)


WITHOUT_BACKENDS = """
import sys
import executorch_c
from executorch_c import _entry_points
_entry_points.texts = lambda: iter(())
method = executorch_c.load(sys.argv[1]).load_method("forward", delegate_at_load="always")
print(method.undelegated(), method.backend_report())
"""


def test_without_a_backend_every_operator_has_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "net.pte"
    path.write_bytes(export(lambda x: F.relu(x) + x, random(4, 5)))
    done = process.python("-c", WITHOUT_BACKENDS, path, cwd=tmp_path)
    assert done.stdout.count("no backend that takes calls at load is registered") == 2
    assert done.stdout.endswith("[]\n")


INSIDE = """
import sys
import executorch_c
method = executorch_c.load(sys.argv[1]).load_method("forward", delegate_at_load="always")
(row,) = method.backend_report()
print(row["backend"], *row["nested_delegated_at_load"])
"""


def test_payloads_do_not_depend_on_what_was_loaded_before() -> None:
    """A process that has registered no other backend yet."""
    path = Path(__file__).parents[1] / "backends/vulkan_programs/mlp.pte"
    done = process.python("-c", INSIDE, path, cwd=path.parent)
    assert done.stdout == "VulkanBackend XnnpackBackend\n"


BY_DEFAULT = """
import sys
import executorch_c
program = executorch_c.load(sys.argv[1])
program.load_method("forward", **eval(sys.argv[2]))
assert ("executorch_c._backends" in sys.modules) == (sys.argv[3] == "True")
method = program.load_method("forward")
print(sum(row["calls_delegated_at_load"] for row in method.backend_report()))
"""


@pytest.mark.parametrize(
    ("size", "options", "discovers", "calls"),
    [
        (8, {}, False, 0),
        (256, {}, True, 2),
        (256, {"kernels": "reference"}, False, 2),
        (256, {"delegate_at_load": False}, False, 2),
        (8, {"delegate_at_load": "always"}, True, 0),
    ],
)
def test_by_default(
    size: int, options: dict[str, Any], discovers: bool, calls: int, tmp_path: Path
) -> None:
    """Work that is worth a delegate is handed over; plug-ins are looked for only then."""
    path = tmp_path / "net.pte"
    path.write_bytes(export(nn.Sequential(nn.Linear(size, size), nn.ReLU()), random(4, size)))
    environment = {**os.environ}
    environment.pop("EXECUTORCH_C_DELEGATE_AT_LOAD", None)
    done = process.python(
        "-c", BY_DEFAULT, path, repr(options), discovers, cwd=tmp_path, env=environment
    )
    assert int(done.stdout) == calls


def test_each_operator_by_itself() -> None:
    """Traced calls run the delegates, under the operators' names."""
    pte, (_, inputs) = exported("net"), SAMPLES["net"]
    method, plain = load(pte, delegate_at_load="each"), load(pte, delegate_at_load=False)
    assert method._delegate_at_load == "each" and set(delegated(method)) == {1}
    arrays, values = [x.numpy() for x in inputs], []
    for one in (method, plain):
        with one.tracing(values=True) as trace:
            one.execute(arrays)
        values.append(
            [
                (event.name, value.data)
                for event in trace.events
                for value in event.outputs
                if event.kind == "kernel"
            ]
        )
    assert [name for name, _ in values[0]] == [name for name, _ in values[1]]
    for (name, mine), (_, kernels) in zip(*values):
        np.testing.assert_allclose(mine, kernels, 2e-5, 2e-5, err_msg=name)
    assert any(not np.array_equal(a, b) for (_, a), (_, b) in zip(*values))


def test_methods_share_packed_weights() -> None:
    """Results are bitwise equal for any number of threads."""
    program, (_, inputs) = Runtime.get().load_program(exported("net")), SAMPLES["net"]
    options = [{"num_threads": n, "delegate_at_load": True} for n in (1, 2, 3)]
    methods = [program.load_method("forward", **one) for one in options]
    first, *others = [method.execute([inputs[0].numpy()])[0] for method in methods]
    for other in others:
        np.testing.assert_array_equal(first, other)
    figures = [method.backend_report()[0]["figures"] for method in methods]
    assert figures[0]["shared_packed_bytes"] == 0 < figures[1]["shared_packed_bytes"]


class Flat(nn.Sequential):
    """A network with a view of a result, by an instruction: it does not keep memory that its base
    reuses."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        super().__init__(
            *(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Sigmoid()),
            *(nn.Conv2d(8, 6, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
            nn.Linear(6, 5),
        )


@pytest.mark.parametrize(("make", "calls"), [(Net, 20), (Flat, 6)])
def test_dynamic_shapes(make: type[nn.Module], calls: int) -> None:
    """Sizes change between calls; a batch of no images is left to the kernels."""
    net, x = make(), random(4, 3, 32, 32)
    shapes = ({0: torch.export.Dim("batch", max=4)},)
    method = load(export(net, x, dynamic_shapes=shapes), delegate_at_load="always")
    left = {row["operator"] for row in method.undelegated()}
    assert "aten::convolution.out" not in left and max(delegated(method)) >= calls
    for batch in (4, 1, 3, 4, 2):
        (output,) = method.execute([x[:batch].numpy()])
        np.testing.assert_allclose(output, net(x[:batch]).detach().numpy(), rtol=2e-5, atol=2e-5)


# ---- programs of single instructions: memory that tensors share --------------------------------

X = np.array([1, 2, 3, 4], np.float32)


def check(plan: Plan, expected: np.ndarray, calls: list[int], **options: Any) -> None:
    method = load(build(plan, **options), delegate_at_load="always")
    assert delegated(method) == calls
    for _ in range(2):
        np.testing.assert_array_equal(method.execute([X])[0], expected)
    np.testing.assert_array_equal(load(build(plan, **options)).execute([X])[0], expected)


class Start:
    """t = x + x at an address."""

    def __init__(self) -> None:
        self.plan = Plan()
        self.x, self.y = self.plan.input((4,)), self.plan.output((4,))
        self.t = self.plan.tensor((4,), at=64)
        self.plan.call("aten::add.out", self.x, self.x, 1, self.t)


def test_memory_that_is_written_again() -> None:
    one = Start()
    u, w = one.plan.tensor((4,)), one.plan.tensor((4,), at=64)
    one.plan.call("aten::mul.out", one.t, one.t, u)
    one.plan.call("aten::add.out", u, one.x, 1, w)
    one.plan.call("aten::sub.out", w, u, 1, one.y)
    check(one.plan, X, [4])


def test_a_view_without_an_instruction() -> None:
    one = Start()
    view, z = one.plan.tensor((2, 2), at=64), one.plan.tensor((2, 2))
    one.plan.call("aten::mul.out", view, view, z)
    one.plan.call("aten::view_copy.out", z, [4], one.y)
    check(one.plan, 4 * X * X, [3])


def test_a_part_of_a_result() -> None:
    """Another tensor has half of the memory of a result: the run ends before it is read."""
    one = Start()
    half, z = one.plan.tensor((2,), at=64), one.plan.tensor((2,))
    one.plan.call("aten::mul.out", half, half, z)
    one.plan.call("aten::cat.out", [z, half], 0, one.y)
    check(one.plan, np.array([4, 16, 2, 4], np.float32), [1, 2])


def test_a_result_that_is_read_under_another_name_later() -> None:
    """An operator that no backend takes reads a view of a result inside the run."""
    one = Start()
    view, z = one.plan.tensor((2, 2), at=64), one.plan.tensor((2, 2))
    one.plan.call("aten::mul.out", one.t, one.t, one.plan.tensor((4,)))
    one.plan.call("aten::flip.out", view, [0], z)
    one.plan.call("aten::view_copy.out", z, [4], one.y)
    check(one.plan, np.array([6, 8, 2, 4], np.float32), [2, 1])


def test_a_view_that_is_filled_later() -> None:
    """Its memory, which the run writes before, does not end the run."""
    one = Start()
    u, z, base = one.plan.tensor((4,)), one.plan.tensor((4,)), one.plan.tensor((8,), at=64)
    half, w = one.plan.tensor((4,), at=80), one.plan.tensor((4,))
    one.plan.call("aten::mul.out", one.t, one.t, u)
    one.plan.call("aten::flip.out", u, [0], z)
    one.plan.call("aten::repeat.out", z, [2], base)
    one.plan.call("aten::flip.out", half, [0], w)
    one.plan.call("aten::add.out", w, w, 1, one.y)
    check(one.plan, 8 * X * X, [2, 1])


@pytest.mark.parametrize("rank", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("op", ["pooling", "average", "relu", "sigmoid", "mul"])
def test_a_result_of_another_number_of_dimensions(op: str, rank: int) -> None:
    """No exporter writes it. A picture in XNNPACK's order has four."""
    plan = Plan()
    x, shape = plan.input((1, 2, 8, 8)), [1] * (rank - 1) + [32]
    u, y = plan.tensor((1, 2, 4, 4)), plan.tensor(shape)
    indices = plan.tensor((1, 2, 4, 4), "int64")
    two, one = [2, 2], [1, 1]
    arguments: dict[str, tuple[Any, ...]] = {
        "pooling": ("aten::max_pool2d_with_indices.out", x, two, two, [0, 0], one, False),
        "average": ("aten::avg_pool2d.out", x, two, two, [0, 0], False, True, None),
        "relu": ("aten::relu.out", u),
        "sigmoid": ("aten::sigmoid.out", u),
        "mul": ("aten::mul.Scalar_out", u, 3.0),
    }
    name, *args = arguments[op]
    if op in ("relu", "sigmoid", "mul"):
        plan.call(arguments["average"][0], *arguments["average"][1:], u)
    if op == "pooling":
        pair = plan.value([y, indices])
        plan.call(name, *args, y, indices, returns=[pair])
    else:
        plan.call(name, *args, y)
    plan.call("aten::flip.out", y, [0], plan.output(shape))
    picture = np.ones((1, 2, 8, 8), np.float32)
    with pytest.raises(Error):
        load(build(plan), delegate_at_load="always").execute([picture])
    with pytest.raises(Error):
        load(build(plan), kernels="reference").execute([picture])


# ---- values ------------------------------------------------------------------------------------


def test_a_declined_call_leaves_the_inputs() -> None:
    """The result overlaps an input in planned memory, and the second call is declined."""
    plan = Plan()
    x, y = plan.input((4,), at=64), plan.output((4,))
    u, w = plan.tensor((4,)), plan.tensor((4,), at=64)
    plan.call("aten::sigmoid.out", x, u)
    plan.call("aten::add.out", u, x, 1, w)
    plan.call("aten::flip.out", w, [0], y)
    method = load(build(plan), delegate_at_load="always")
    assert delegated(method) == [2]
    for value in (1, np.inf, np.nan, 1e30, 2):
        array = np.array([1, value, 3, 4], np.float32)
        expected = torch.tensor(array).sigmoid() + torch.tensor(array)
        np.testing.assert_allclose(method.execute([array])[0], expected.flip(0).numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "order", "reason"),
    [((2,) * 8, None, "number of dimensions"), ((2, 3, 4), (1, 0, 2), "dim_order")],
)
def test_quantised_values_are_checked(shape: Any, order: Any, reason: str) -> None:
    """Quantising calls are refused for what no value of a delegate has, as others are."""
    plan = Plan()
    x, y = plan.input(shape, order=order), plan.output(shape, order=order)
    codes, coding = plan.tensor(shape, "int8", order=order), (0.1, 0, -128, 127, 1)
    plan.call("quantized_decomposed::quantize_per_tensor.out", x, *coding, codes)
    plan.call("quantized_decomposed::dequantize_per_tensor.out", codes, *coding, None, y)
    for how in ("always", "each"):
        method = load(build(plan), delegate_at_load=how)
        assert {reason in row["reason"] for row in method.undelegated()} == {True}
        inputs = np.linspace(-1, 1, np.prod(shape), dtype=np.float32).reshape(shape)
        [result] = method.execute([inputs])
        np.testing.assert_allclose(result, inputs, atol=0.051)
