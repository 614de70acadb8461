"""NaN and infinity in delegates made at load, in constants or between operators of finite inputs:
results are the kernels', also where a kernel of XNNPACK loses NaN."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.exports import export
from tests.plans import load


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


PICTURE, ROWS = (1, 4, 9, 8), (5, 8)


def pictures() -> dict[str, Callable[..., Any]]:
    """Return functions of PICTURE, each an operator that is delegated."""
    results: dict[str, Callable[..., Any]] = {
        "max pooling": lambda x: F.max_pool2d(x, 2),
        "max pooling 3": lambda x: F.max_pool2d(x, 3, 2, 1),
        "max pooling 1x9": lambda x: F.max_pool2d(x, (1, 8)),
        "average pooling": lambda x: F.avg_pool2d(x, 3, 2),
        "global pooling": lambda x: x.mean((2, 3)),
        "resized": lambda x: F.interpolate(x, size=(7, 9), mode="bilinear"),
        "batch norm": nn.BatchNorm2d(4).eval(),
        "transposed 1": nn.ConvTranspose2d(4, 2, 1),
        "transposed 3": nn.ConvTranspose2d(4, 5, 3, 2),
        "transposed groups": nn.ConvTranspose2d(4, 6, 2, groups=2),
        "grouped": nn.Conv2d(4, 6, 3, groups=2),
        "padded": nn.Conv2d(4, 3, 3, padding=1),
        "row": lambda x, f=nn.Conv1d(4, 3, 3): f(x[:, :, 0]),
        "row, depthwise": lambda x, f=nn.Conv1d(4, 4, 3, groups=4): f(x[:, :, 0]),
        "row, transposed": lambda x, f=nn.ConvTranspose1d(4, 3, 3): f(x[:, :, 0]),
        "relu": F.relu,
        "hardtanh": F.hardtanh,
        "hardswish": F.hardswish,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "joined": lambda x: torch.cat([x, x * 2], 1),
        "pad": lambda x: F.pad(x, (1, 1)),
        "split": lambda x: torch.relu(torch.split(x, [1, 3], 1)[1]) + 1,
        "select": lambda x: torch.relu(x.select(1, 2)) + 1,
    }
    for outputs in (1, 2, 3, 4, 5, 8, 16):
        results[f"pointwise {outputs}"] = nn.Conv2d(4, outputs, 1)
        results[f"convolution {outputs}"] = nn.Conv2d(4, outputs, (2, 3))
    for size in (
        *((1, 1), (1, 2), (1, 3), (2, 2), (3, 3), (1, 5), (5, 1), (1, 7), (4, 4), (5, 5)),
        (7, 7),
    ):
        results[f"depthwise {size[0]}x{size[1]}"] = nn.Conv2d(4, 4, size, groups=4)
    return results


def rows() -> dict[str, Callable[..., Any]]:
    """Return functions of ROWS, likewise."""
    w = random(8, 3)
    results: dict[str, Callable[..., Any]] = {
        "maximum": lambda x: torch.maximum(x, x * 2 + 1),
        "minimum": lambda x: torch.minimum(x, x * 2 + 1),
        "maximum of constant": lambda x: torch.maximum(x, torch.full((8,), 0.25)),
        "constant maximum": lambda x: torch.maximum(torch.full((8,), 0.25), x),
        "clamp": lambda x: x.clamp(-1, 1),
        "clamp from below": lambda x: x.clamp(min=-0.5),
        "clamp from above": lambda x: x.clamp(max=0.5),
        "elu": F.elu,
        "gelu": F.gelu,
        "leaky": lambda x: F.leaky_relu(x, 0.1),
        "abs": torch.abs,
        "negative": lambda x: -x,
        "floor": torch.floor,
        "ceil": torch.ceil,
        "rsqrt": torch.rsqrt,
        "softmax": lambda x: F.softmax(x, -1),
        "division": lambda x: 1 / x,
        "quotient": lambda x: x / (x + 1),
        "product": lambda x: x * x,
        "square": lambda x: x**2,
        "cube": lambda x: x**3,
        "sum": lambda x: x + x,
        "difference": lambda x: 1 - x,
        "matrix": lambda x: x @ x.T,
        "batch of matrices": lambda x: torch.bmm(x[None], x.T[None]),
        "mm": lambda x: x @ w,
        "transposed": lambda x: x.T + 0,
        "reshaped": lambda x: x.reshape(8, 5) * 1,
        "sliced": lambda x: x[1:3, 2:] * 1,
        "expanded": lambda x: x.expand(5, 8) * 1,
    }
    for outputs in (*range(1, 10), 12, 16, 17, 33):
        results[f"linear {outputs}"] = nn.Linear(8, outputs)
    return results


FUNCTIONS = {
    **{f"{n}, picture": (f, PICTURE) for n, f in pictures().items()},
    **{f"{n}, rows": (f, ROWS) for n, f in rows().items()},
}


UNUSUAL = np.array(
    [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, -1e30, 3e38, 90, -90, -150, 0.5, 2.5], np.float32
)


UNLIKE_EAGER = ("gelu, rows", "hardswish, picture")
"""Functions of which eager returns NaN for an infinity, or overflows."""


@pytest.mark.sweep(7)
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in UNLIKE_EAGER])
def test_unusual_inputs(name: str) -> None:
    """NaN and infinities are where eager has them, each of them alone in usual numbers."""
    function, shape = FUNCTIONS[name]
    method = load(export(function, random(*shape)), delegate_at_load="always")
    assert sum(row["calls_delegated_at_load"] for row in method.backend_report()) >= 1
    for value in UNUSUAL:
        x = random(*shape)
        x.reshape(-1)[19] = float(value)
        with torch.no_grad():
            expected = function(x).numpy()
        np.testing.assert_allclose(method(x.numpy()), expected, 2e-5, 2e-5, err_msg=str(value))


class Between(nn.Module):
    """A function of values among which one, from a large number, is NaN or infinite: x * 1e30
    overflows. A clamp follows, as XNNPACK fuses it."""

    def __init__(self, function: Callable[..., Any], nan: bool, then: Callable[..., Any]) -> None:
        super().__init__()
        self.function, self.nan, self.then = function, nan, then

    def forward(self, x: Tensor) -> Tensor:
        large = x * 1e30
        numbers = x + (large - large) if self.nan else large * 1e-30
        result: Tensor = self.then(self.function(numbers))
        return result


PLACES = (0, 3, -1)
"""Elements that are not finite, one at a time."""


@pytest.mark.sweep(15)
@pytest.mark.parametrize("then", ["alone", "clamped"])
@pytest.mark.parametrize("nan", [True, False], ids=["nan", "infinity"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_between_operators(name: str, nan: bool, then: str) -> None:
    function, shape = FUNCTIONS[name]
    after = F.relu6 if then == "clamped" else lambda x: x
    pte = export(Between(function, nan, after), random(*shape))
    method, plain = (load(pte, delegate_at_load=how) for how in ("always", False))
    assert sum(row["calls_delegated_at_load"] for row in method.backend_report()) >= 3
    for place in PLACES:
        for value in (1e20, -1e20):
            x = random(*shape).numpy()
            x.reshape(-1)[place] = value
            result, expected = method(x), plain(x)
            where = f"{value} at {place}"
            np.testing.assert_array_equal(np.isnan(result), np.isnan(expected), where)
            np.testing.assert_allclose(result, expected, 2e-5, 2e-5, err_msg=where)


def modules_of(function: Callable[..., Any]) -> list[nn.Module]:
    """Return the module that a function is, or the modules among its defaults."""
    others = getattr(function, "__defaults__", None) or ()
    results = [function] if isinstance(function, nn.Module) else others
    return [one for one in results if isinstance(one, nn.Module)]


CONSTANTS = {
    f"{name}, {key}": (name, value)
    for name, (function, _) in FUNCTIONS.items()
    for module in modules_of(function)
    for key, value in module.state_dict().items()
    if value.is_floating_point()
}


@contextmanager
def replaced(values: Tensor, value: float) -> Iterator[None]:
    """Replace the element in the middle for the duration of a block."""
    middle = values.view(-1)[values.numel() // 2]
    kept = middle.clone()
    middle.fill_(value)
    try:
        yield
    finally:
        middle.copy_(kept)


@pytest.mark.sweep(9)
@pytest.mark.parametrize("then", ["alone", "clamped"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str, value: float, then: str) -> None:
    of, values = CONSTANTS[name]
    function, shape = FUNCTIONS[of]
    after = F.relu6 if then == "clamped" else lambda x: x + 1
    with replaced(values, value):
        pte = export(lambda x: after(function(x)), random(*shape))
    method, plain = (load(pte, delegate_at_load=how) for how in ("always", False))
    assert sum(row["calls_delegated_at_load"] for row in method.backend_report()) >= 1
    x = random(*shape).numpy()
    result, expected = method(x), plain(x)
    if then == "alone" and "running_var" not in name:  # divides by its root: infinity gives zero
        assert not np.isfinite(expected).all()
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    np.testing.assert_allclose(result, expected, 2e-5, 2e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_every_place_of_a_large_input_is_looked_at(threads: int) -> None:
    """One of two maxima of XNNPACK loses NaN, so a place not looked at has another result."""
    x, low = random(3, 65537), torch.full((65537,), 0.25)
    pte = export(lambda x: (torch.maximum(x, low), torch.maximum(low, x)), x)
    method = load(pte, delegate_at_load="always", num_threads=threads)
    assert method.backend_report()[0]["calls_delegated_at_load"] == 2
    flat = x.numpy().reshape(-1)
    for place in (0, 63, 64, 1023, 1024, 16383, 16384, 98303, 98304, 196607, 196608, 196610):
        for value in (np.nan, -np.nan, np.inf, -np.inf):
            kept, flat[place] = flat[place], value
            for output in method.execute([x.numpy()]):
                np.testing.assert_array_equal(output, np.maximum(x.numpy(), np.float32(0.25)))
            flat[place] = kept
