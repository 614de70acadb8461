"""Weights of products are packed once: equal results in every call, bounded memory, and nothing
that changes is kept."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from torch import nn

from executorch_c.testing import compare
from tests.plans import load


def exported(model: nn.Module, x: torch.Tensor, dynamic: bool = False) -> bytes:
    batch = torch.export.Dim("batch", min=1, max=400)
    program = torch.export.export(
        model.eval(), (x,), dynamic_shapes=({0: batch},) if dynamic else None
    )
    config = EdgeCompileConfig(
        _check_ir_validity=False, _core_aten_ops_exception_list=[torch.ops.aten.linear.default]
    )
    return bytes(to_edge(program, compile_config=config).to_executorch().buffer)


def check(
    model: nn.Module, x: torch.Tensor, *more: torch.Tensor, dynamic: bool = False
) -> tuple[int, int]:
    """Compare results with eager's: of x twice, which are equal, and of more inputs. Return the
    bytes of packed weights after the first call, and after the last one."""
    method = load(exported(model, x, dynamic), delegate_at_load=False)
    assert method.memory()["packed"] == 0
    (first,) = method.execute([x])
    held = method.memory()["packed"]
    np.testing.assert_array_equal(method.execute([x])[0], first)
    for inputs, outputs in ((x, first), *((y, method.execute([y])[0]) for y in more)):
        assert compare(outputs, model(inputs).detach()).verdict == "match"
    return held, method.memory()["packed"]


def conv(*args: int, **options: int) -> Callable[[], nn.Module]:
    return lambda: nn.Conv2d(*args, **options)  # type: ignore[arg-type]


class Product(nn.Module):
    """x @ weight, or weight @ x, or a product of batches."""

    def __init__(self, *shape: int, left: bool = False) -> None:
        super().__init__()
        self.weight, self.left = nn.Parameter(torch.randn(shape)), left

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() == 3:
            return torch.bmm(x, self.weight)
        return self.weight @ x if self.left else x @ self.weight


# Models with the shape of their input, of sizes that fill several panels and blocks.
KEPT: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(70, 90), (33, 70)),
    "linear, batches": (lambda: nn.Linear(70, 90), (3, 11, 70)),
    "linear, long": (lambda: nn.Linear(2100, 30), (40, 2100)),
    "linear, wide": (lambda: nn.Linear(40, 2100), (40, 40)),
    "mm": (lambda: Product(70, 90), (133, 70)),
    "mm, weight on the left": (lambda: Product(133, 70, left=True), (70, 90)),
    "bmm": (lambda: Product(3, 70, 90), (3, 133, 70)),
    "conv": (conv(20, 30, 3), (1, 20, 9, 8)),
    "conv of several images": (conv(20, 30, 3, padding=1), (3, 20, 5, 5)),
    "conv, 1x1": (conv(20, 30, 1), (2, 20, 9, 8)),
    "conv, groups": (conv(20, 30, 3, groups=5, stride=2), (2, 20, 9, 8)),
    "conv, dilated": (conv(5, 400, 3, dilation=2), (1, 5, 9, 8)),
    "conv, one dimension": (lambda: nn.Conv1d(20, 30, 5), (2, 20, 40)),
}


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str, dtype: torch.dtype) -> None:
    make, shape = KEPT[name]
    torch.manual_seed(0)
    model, x = make().to(dtype), torch.randn(shape).to(dtype)
    first, last = check(model, x, torch.randn(shape).to(dtype))
    weights = sum(p.numel() for p in model.parameters() if p.dim() > 1)
    assert first == last >= weights * max(dtype.itemsize, 4)


def test_a_channels_last_input() -> None:
    """The weight is packed in another order."""
    torch.manual_seed(0)
    model = nn.Conv2d(20, 30, 3).to(memory_format=torch.channels_last)
    assert check(model, torch.randn(2, 20, 9, 8).to(memory_format=torch.channels_last))[1] > 0


def test_dynamic_batches() -> None:
    """Few rows are computed as the transposed product, or without packing."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(70, 90), nn.ReLU(), nn.Linear(90, 3))
    batches = (torch.randn(batch, 70) for batch in (400, 1, 2, 3, 17, 400, 64, 1, 5))
    check(model, torch.randn(5, 70), *batches, dynamic=True)


class Unlike(nn.Module):
    """Products of which no side is constant."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(40, 40))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state.add_(1)
        return (x @ x.relu()) @ self.state


def test_what_changes_is_not_kept() -> None:
    model, x = Unlike(), torch.randn(40, 40)
    method = load(exported(model, x), delegate_at_load=False)
    for _ in range(3):
        assert compare(method.execute([x])[0], model(x)).verdict == "match"
    assert method.memory()["packed"] == 0


def test_a_transposed_convolution_is_not_kept() -> None:
    """Its phases read different elements of the weight."""
    torch.manual_seed(0)
    assert check(nn.ConvTranspose2d(6, 8, 3, stride=2), torch.randn(1, 6, 5, 5)) == (0, 0)


def test_without_room() -> None:
    """A call with too little memory for packed weights packs them block by block."""
    torch.manual_seed(0)
    model, x = nn.Linear(700, 900), torch.randn(40, 700)
    pte = exported(model, x)
    free, limited = (load(pte, delegate_at_load=False, max_bytes=n) for n in (None, 4_000_000))
    for _ in range(2):
        np.testing.assert_array_equal(limited.execute([x])[0], free.execute([x])[0])
    assert limited.memory()["packed"] == 0 < free.memory()["packed"]


def test_reference_kernels_keep_nothing() -> None:
    model, x = nn.Linear(70, 90), torch.randn(40, 70)
    method = load(exported(model, x), kernels="reference", delegate_at_load=False)
    method.execute([x])
    assert method.memory()["packed"] == 0


def test_many_groups() -> None:
    """At most 64 packed sides for an instruction; further groups are packed in each call."""
    torch.manual_seed(0)
    model = nn.Conv2d(160, 160, 3, groups=80)
    first, last = check(model, torch.randn(1, 160, 5, 5))
    weight = 4 * model.weight.numel()
    assert first == last and 0.7 * weight < last


def test_threads_and_traces() -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(700, 900), torch.randn(130, 700)
    pte = exported(model, x)
    (one,) = load(pte, num_threads=1, delegate_at_load=False).execute([x])
    method = load(pte, num_threads=3, delegate_at_load=False)
    for _ in range(2):
        with method.tracing(values=True) as trace:
            (output,) = method.execute([x])
        np.testing.assert_array_equal(output, one)
        assert {"aten::linear.out", "aten::addmm.out"} & {event.name for event in trace.events}
