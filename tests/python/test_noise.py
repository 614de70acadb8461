"""Modelled rounding noise against the true rounding error, operator by operator, dtype by dtype.

The true error is eager's distance from float64, or that of a float32 sum of one term after the
other, which other implementations compute, if that is larger. The noise that random rounding makes
must be neither much smaller (right programs would be rejected) nor much larger (wrong programs
would be accepted), with few terms and with many.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from executorch_c.inspect.families import unsuffixed
from executorch_c.noise import rounding, sums
from executorch_c.noise.rounding import RandomRounding
from tests.models.blocks import Fn

BAND = 0.5, 8.0
"""Limits of the RMS noise, in units of the RMS of the true error."""
SEEDS = 8
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
RANDOM = torch.Generator().manual_seed(0)

Function = Callable[..., Any]
Make = Callable[[int], "tuple[Function, tuple[Any, ...]]"]


def R(*shape: int) -> Any:  # noqa: N802
    """Return normal random numbers."""
    return torch.randn(*shape, generator=RANDOM)


def uniform(*shape: int) -> Any:
    return torch.rand(*shape, generator=RANDOM)


def added(terms: Any) -> Any:
    """Return the sums along the last axis in float32, one term after the other."""
    return torch.from_numpy(np.add.accumulate(terms.numpy(), axis=-1, dtype=np.float32)[..., -1])


def products(a: Any, b: Any) -> Any:
    """Return the matrix product, with sums of one term after the other."""
    return added(a[..., :, None, :] * b.transpose(-1, -2)[..., None, :, :].contiguous())


def plus_products(c: Any, a: Any, b: Any) -> Any:
    return c + products(a, b)


def by_row(function: Function) -> Function:
    return lambda *tensors: torch.stack([function(*row) for row in zip(*tensors)])


def normalized(x: Any, eps: float = 1e-5) -> Any:
    """Return the layer norm of the last axis, likewise."""
    mean = added(x)[..., None] / x.shape[-1]
    variance = added((x - mean).square())[..., None] / x.shape[-1]
    return (x - mean) * (variance + eps).rsqrt()


def square_mean(x: Any, eps: float = 1.2e-7) -> Any:
    return x * (added(x.square())[..., None] / x.shape[-1] + eps).rsqrt()


def exponentials(x: Any) -> Any:
    return (x - x.amax(-1, keepdim=True)).exp()


def deviations(x: Any) -> Any:
    mean = added(x)[..., None] / x.shape[-1]
    return added((x - mean).square()) / (x.shape[-1] - 1)


def channels(x: Any, groups: int) -> Any:
    return normalized(x.reshape(x.shape[0], groups, -1)).reshape(x.shape)


def trained(x: Any) -> Any:
    flat = x.transpose(0, 1).reshape(x.shape[1], -1)
    return normalized(flat).view(x.shape[1], x.shape[0], *x.shape[2:]).transpose(0, 1)


def reduction(function: Function) -> Make:
    return lambda n: (function, (R(64, n),))


def images(function: Function, channels: int = 8, dims: int = 2) -> Make:
    return lambda n: (function, (R(2, channels, *[n] * dims),))


def written(function: Function) -> Make:
    """Return a case that writes 8 * n rows to 8 places at random."""

    def make(n: int) -> tuple[Function, tuple[Any, ...]]:
        index = torch.randint(0, 8, (8 * n,), generator=RANDOM)
        return lambda x, source: function(x, index, source), (R(8, 4), R(8 * n, 4))

    return make


def bags(mode: str) -> Make:
    def make(n: int) -> tuple[Function, tuple[Any, ...]]:
        index = torch.randint(0, 50, (16, n), generator=RANDOM)
        return lambda weight: F.embedding_bag(index, weight, mode=mode), (R(50, 16),)

    return make


def recurrent(kind: str) -> Make:
    def make(n: int) -> tuple[Function, tuple[Any, ...]]:
        weights = [parameter.detach() for parameter in getattr(torch.nn, kind)(n, n).parameters()]
        state = torch.zeros(1, 2, n)

        def run(x: Any, *weights: Any) -> Any:
            start = state.to(x.dtype)
            hidden: Any = (start, start) if kind == "LSTM" else start
            options = (list(weights), True, 1, 0.0, False, False, False)
            return getattr(torch, kind.lower())(x, hidden, *options)[0]

        return run, (R(6, 2, n), *weights)

    return make


def resized(mode: str, dims: int, **options: Any) -> Make:
    def make(n: int) -> tuple[Function, tuple[Any, ...]]:
        return lambda x: F.interpolate(x, size=n, mode=mode, **options), (R(2, 4, *[17] * dims),)

    return make


def sampled(mode: str, dims: int) -> Make:
    def make(n: int) -> tuple[Function, tuple[Any, ...]]:
        grid = uniform(2, *[7] * dims, dims) * 1.8 - 0.9
        return lambda x, g: F.grid_sample(x, g, mode, align_corners=False), (
            R(2, 4, *[n] * dims),
            grid,
        )

    return make


def convolved(function: Function, dims: int, groups: int = 1, transposed: bool = False) -> Make:
    def make(n: int) -> tuple[Function, tuple[Any, ...]]:
        sizes = (groups * n, 8 // groups) if transposed else (8, n)
        weight = R(*sizes, *[3] * dims) / (n * 3**dims) ** 0.5
        return function, (R(1, groups * n, *[7] * dims), weight)

    return make


def matrices(*shapes: tuple[Any, ...]) -> Callable[[Function], Make]:
    """Return a maker of cases with tensors of some shapes, in which "n" is the number of terms."""

    def of(function: Function) -> Make:
        return lambda n: (
            function,
            tuple(R(*(n if size == "n" else size for size in shape)) for shape in shapes),
        )

    return of


AB = matrices((8, "n"), ("n", 16))


class Case(NamedTuple):
    """Small and large numbers of terms; a function and its tensors for a number; the same with
    float32 sums of one term after the other, if eager adds in another order."""

    sizes: tuple[int, int]
    make: Make
    in_order: Function | None = None


LONG = 16, 4096
CASES: dict[str, Case] = {
    "mm": Case(LONG, AB(torch.mm), products),
    "bmm": Case(LONG, matrices((2, 8, "n"), (2, "n", 16))(torch.bmm), products),
    "linear": Case(
        LONG, matrices((8, "n"), (16, "n"), (16,))(F.linear), lambda x, w, b: products(x, w.T) + b
    ),
    "addmm": Case(LONG, matrices((8, 16), (8, "n"), ("n", 16))(torch.addmm), plus_products),
    "mv": Case(LONG, matrices((32, "n"), ("n",))(torch.mv), lambda a, b: added(a * b)),
    "addmv": Case(
        LONG, matrices((32,), (32, "n"), ("n",))(torch.addmv), lambda c, a, b: c + added(a * b)
    ),
    "dot": Case(LONG, matrices((64, "n"), (64, "n"))(by_row(torch.dot)), lambda a, b: added(a * b)),
    "baddbmm": Case(
        LONG, matrices((2, 8, 16), (2, 8, "n"), (2, "n", 16))(torch.baddbmm), plus_products
    ),
    "addbmm": Case(
        (16, 1024),
        matrices((8, 16), (4, 8, "n"), (4, "n", 16))(torch.addbmm),
        lambda c, a, b: c + products(torch.cat([*a], 1), torch.cat([*b], 0)),
    ),
    "einsum": Case(
        LONG, matrices((2, 8, "n"), (2, 8, "n"))(lambda a, b: torch.einsum("bik,bjk->bij", a, b))
    ),
    "bilinear": Case(
        (8, 64),
        lambda n: (F.bilinear, (R(4, n), R(4, n), R(8, n, n))),
        lambda x, y, w: added((x[:, None, :, None] * w * y[:, None, None]).flatten(2)),
    ),
    "conv1d": Case((4, 512), convolved(F.conv1d, 1)),
    "conv2d": Case((4, 128), convolved(lambda x, w: F.conv2d(x, w, padding=1), 2)),
    "conv3d": Case((4, 32), convolved(F.conv3d, 3)),
    "conv2d, groups": Case((4, 64), convolved(lambda x, w: F.conv2d(x, w, groups=2), 2, 2)),
    "conv2d, depthwise": Case(
        (3, 9),
        lambda n: (lambda x, w: F.conv2d(x, w, groups=16), (R(1, 16, 16, 16), R(16, 1, n, n))),
    ),
    "conv_transpose1d": Case((4, 512), convolved(F.conv_transpose1d, 1, transposed=True)),
    "conv_transpose2d": Case((4, 64), convolved(F.conv_transpose2d, 2, transposed=True)),
    "conv_transpose2d, stride": Case(
        (4, 128), convolved(lambda x, w: F.conv_transpose2d(x, w, stride=2), 2, transposed=True)
    ),
    "conv_transpose2d, groups": Case(
        (4, 64), convolved(lambda x, w: F.conv_transpose2d(x, w, groups=2), 2, 2, transposed=True)
    ),
    "attention, keys": Case(
        (16, 512),
        matrices((1, 2, "n", 16), (1, 2, "n", 16), (1, 2, "n", 16))(F.scaled_dot_product_attention),
    ),
    "attention, width": Case(
        (16, 512),
        matrices((1, 2, 16, "n"), (1, 2, 16, "n"), (1, 2, 16, "n"))(F.scaled_dot_product_attention),
    ),
    "softmax": Case(
        LONG,
        reduction(lambda x: x.softmax(-1)),
        lambda x: exponentials(x) / added(exponentials(x))[:, None],
    ),
    "log_softmax": Case(
        LONG,
        reduction(lambda x: x.log_softmax(-1)),
        lambda x: x - x.amax(-1, keepdim=True) - added(exponentials(x)).log()[:, None],
    ),
    "logsumexp": Case(
        LONG,
        reduction(lambda x: x.logsumexp(-1)),
        lambda x: x.amax(-1) + added(exponentials(x)).log(),
    ),
    "logcumsumexp": Case(LONG, reduction(lambda x: x.logcumsumexp(-1))),
    "layer_norm": Case(LONG, reduction(lambda x: F.layer_norm(x, x.shape[-1:])), normalized),
    "layer_norm, offset": Case(
        LONG, lambda n: (lambda x: F.layer_norm(x, x.shape[-1:]), (R(16, n) + 10,)), normalized
    ),
    "layer_norm, long": Case(
        (16, 1024), lambda n: (lambda x: F.layer_norm(x, (16,)), (R(1, n, 16),)), normalized
    ),
    "group_norm": Case((4, 32), images(lambda x: F.group_norm(x, 4)), lambda x: channels(x, 4)),
    "group_norm, offset": Case(
        (4, 32),
        lambda n: (lambda x: F.group_norm(x, 4), (R(2, 8, n, n) + 10,)),
        lambda x: channels(x, 4),
    ),
    "batch_norm": Case((4, 32), lambda n: (F.batch_norm, (R(2, 8, n, n), R(8), uniform(8) + 0.5))),
    "batch_norm, training": Case(
        (4, 32), images(lambda x: F.batch_norm(x, None, None, training=True)), trained
    ),
    "instance_norm": Case((4, 32), images(F.instance_norm), lambda x: channels(x, 8)),
    "rms_norm": Case(LONG, reduction(lambda x: F.rms_norm(x, x.shape[-1:])), square_mean),
    "sum": Case(LONG, reduction(lambda x: x.sum(-1)), added),
    "sum, positive": Case(LONG, lambda n: (lambda x: x.sum(-1), (uniform(64, n),)), added),
    "nansum": Case(LONG, reduction(lambda x: x.nansum(-1)), added),
    "mean": Case(LONG, reduction(lambda x: x.mean(-1)), lambda x: added(x) / x.shape[-1]),
    "mean, positive": Case(
        LONG, lambda n: (lambda x: x.mean(-1), (uniform(64, n),)), lambda x: added(x) / x.shape[-1]
    ),
    "var": Case(LONG, reduction(lambda x: x.var(-1)), deviations),
    "std": Case(LONG, reduction(lambda x: x.std(-1)), lambda x: deviations(x).sqrt()),
    "var_mean": Case(LONG, reduction(lambda x: torch.var_mean(x, -1)[0]), deviations),
    "vector_norm": Case(
        LONG,
        reduction(lambda x: torch.linalg.vector_norm(x, dim=-1)),
        lambda x: added(x.square()).sqrt(),
    ),
    "vector_norm, 1": Case(
        LONG, reduction(lambda x: torch.linalg.vector_norm(x, 1, dim=-1)), lambda x: added(x.abs())
    ),
    "prod": Case((4, 256), lambda n: (lambda x: x.prod(-1), (1 + R(64, n) / (2 * n**0.5),))),
    "cumsum": Case(
        LONG,
        reduction(lambda x: x.cumsum(-1)),
        lambda x: torch.from_numpy(np.add.accumulate(x.numpy(), -1)),
    ),
    "cumprod": Case(
        (4, 256),
        lambda n: (lambda x: x.cumprod(-1), (1 + R(64, n) / (2 * n**0.5),)),
        lambda x: torch.from_numpy(np.multiply.accumulate(x.numpy(), -1)),
    ),
    "trace": Case(
        (4, 64),
        lambda n: (by_row(torch.trace), (R(64, n, n),)),
        lambda x: added(x.diagonal(dim1=1, dim2=2).contiguous()),
    ),
    "mse_loss": Case(
        LONG,
        matrices((64, "n"), (64, "n"))(by_row(F.mse_loss)),
        lambda a, b: added((a - b).square()) / a.shape[-1],
    ),
    "avg_pool1d": Case((4, 128), lambda n: (lambda x: F.avg_pool1d(x, n), (R(2, 8, 256),))),
    "avg_pool2d": Case((2, 32), lambda n: (lambda x: F.avg_pool2d(x, n), (R(2, 8, 64, 64),))),
    "avg_pool2d, overlapping": Case(
        (3, 20), lambda n: (lambda x: F.avg_pool2d(x, n, 1), (R(2, 2, 40, 40),))
    ),
    "avg_pool3d": Case((2, 8), lambda n: (lambda x: F.avg_pool3d(x, n), (R(2, 4, 16, 16, 16),))),
    "adaptive_avg_pool1d": Case((16, 256), images(lambda x: F.adaptive_avg_pool1d(x, 4), dims=1)),
    "adaptive_avg_pool2d": Case((8, 64), images(lambda x: F.adaptive_avg_pool2d(x, 3))),
    "adaptive_avg_pool3d": Case((8, 16), images(lambda x: F.adaptive_avg_pool3d(x, 3), 2, 3)),
    "upsample_linear1d": Case((33, 250), resized("linear", 1)),
    "upsample_bilinear2d": Case((33, 100), resized("bilinear", 2)),
    "upsample_bilinear2d, corners": Case((33, 100), resized("bilinear", 2, align_corners=True)),
    "upsample_bilinear2d, twice": Case((34, 68), resized("bilinear", 2)),
    "upsample_bicubic2d": Case((33, 100), resized("bicubic", 2)),
    "upsample_trilinear3d": Case((15, 30), resized("trilinear", 3)),
    "upsample_bilinear2d_aa": Case((3, 8), resized("bilinear", 2, antialias=True)),
    "upsample_bicubic2d_aa": Case((3, 8), resized("bicubic", 2, antialias=True)),
    "grid_sample": Case((8, 64), sampled("bilinear", 2)),
    "grid_sample, bicubic": Case((8, 64), sampled("bicubic", 2)),
    "grid_sample, 3d": Case((8, 16), sampled("bilinear", 3)),
    "embedding_bag, sum": Case((4, 512), bags("sum")),
    "embedding_bag, mean": Case((4, 512), bags("mean")),
    "cdist": Case((4, 1024), matrices((8, "n"), (9, "n"))(torch.cdist)),
    "cdist, 1": Case((4, 1024), matrices((8, "n"), (9, "n"))(lambda a, b: torch.cdist(a, b, 1.0))),
    "cdist of products": Case(
        (4, 1024),
        matrices((8, "n"), (9, "n"))(
            lambda a, b: torch.cdist(a, b, compute_mode="use_mm_for_euclid_dist")
        ),
    ),
    "pdist": Case(
        (4, 256),
        matrices((8, "n"))(F.pdist),
        lambda x: added((x[:, None] - x[None]).square()).sqrt()[tuple(torch.triu_indices(8, 8, 1))],
    ),
    "rfft": Case(LONG, matrices((4, "n"))(lambda x: torch.view_as_real(torch.fft.rfft(x)))),
    "fft2": Case((8, 64), matrices((2, "n", "n"))(lambda x: torch.view_as_real(torch.fft.fft2(x)))),
    "irfft": Case(LONG, matrices((4, "n", 2))(lambda x: torch.fft.irfft(torch.view_as_complex(x)))),
    "lstm": Case((8, 64), recurrent("LSTM")),
    "gru": Case((8, 64), recurrent("GRU")),
    "index_add": Case((4, 1024), written(lambda x, i, s: x.index_add(0, i, s))),
    "index_add_": Case((4, 1024), written(lambda x, i, s: x.clone().index_add_(0, i, s))),
    "index_reduce": Case((4, 64), written(lambda x, i, s: x.index_reduce(0, i, s, "mean"))),
    "index_put": Case((4, 1024), written(lambda x, i, s: x.index_put((i,), s, accumulate=True))),
    "scatter_add": Case(
        (4, 1024), written(lambda x, i, s: x.scatter_add(0, i[:, None].expand(-1, 4), s))
    ),
    "scatter_reduce, mean": Case(
        (4, 1024), written(lambda x, i, s: x.scatter_reduce(0, i[:, None].expand(-1, 4), s, "mean"))
    ),
    "scatter_reduce, prod": Case(
        (4, 16),
        written(lambda x, i, s: x.scatter_reduce(0, i[:, None].expand(-1, 4), 1 + s / 20, "prod")),
    ),
    "col2im": Case(
        (2, 5), lambda n: (lambda x: F.fold(x, (12, 12), n), (R(1, 4 * n * n, (13 - n) ** 2),))
    ),
    "linalg.inv": Case((4, 32), lambda n: (torch.linalg.inv, (R(n, n) + n * torch.eye(n),))),
    "linalg.solve": Case(
        (4, 32), lambda n: (torch.linalg.solve, (R(n, n) + n * torch.eye(n), R(n, 2)))
    ),
}

NOT_IN_HALF = ("not implemented for", "Low precision", "Unsupported dtype", "MKL FFT", "half")
"""Texts of eager's errors where an operator does not take halves."""


def rms(values: Any) -> float:
    return float(values.double().square().mean().sqrt())


def errors(function: Function, tensors: Any, dtype: Any, in_order: Function | None) -> float:
    """Return the RMS of the true rounding error."""
    exact = function(*(t.to(dtype).double() for t in tensors))
    sizes = [rms(function(*(t.to(dtype) for t in tensors)).double() - exact)]
    if in_order is not None and dtype == torch.float32:
        sizes.append(rms(in_order(*tensors).double() - exact))
    return max(sizes)


def modelled(function: Function, tensors: Any, dtype: Any) -> float:
    """Return the RMS of the noise that random rounding makes."""
    rounded = [t.to(dtype) for t in tensors]
    right, runs = function(*rounded).double(), []
    for seed in range(SEEDS):
        with RandomRounding(37 * seed + 5):
            runs.append(function(*rounded).double() - right)
    return rms(torch.stack(runs))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype)[6:])
@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_noise_of_an_operator(name: str, dtype: Any) -> None:
    RANDOM.manual_seed(0)
    torch.manual_seed(0)
    sizes, make, in_order = CASES[name]
    for n in sizes:
        function, tensors = make(n)
        try:
            true = errors(function, tensors, dtype, in_order)
        except (RuntimeError, NotImplementedError) as error:
            assert dtype != torch.float32 and any(text in str(error) for text in NOT_IN_HALF)
            return  # eager has no such operator of halves
        ratio = modelled(function, tensors, dtype) / true
        assert BAND[0] <= ratio <= BAND[1], f"{n} terms: {ratio:.2g}"


class Names(TorchDispatchMode):
    """Collects the names of operators."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(unsuffixed(func._schema.name))
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def test_every_sum_is_measured() -> None:
    """Rows of the table are in a case; the others are names that eager decomposes, of which the
    graphs of programs consist, or that have the same kernel as a measured one."""
    mode = Names()
    for sizes, make, _ in CASES.values():
        function, tensors = make(sizes[0])
        with mode:
            function(*tensors)
    alike = set(sums.TABLE) - mode.names
    assert alike == set(
        (
            "_addmm_activation _convolution _embedding_bag _fused_rms_norm "
            "_native_batch_norm_legit _native_batch_norm_legit_functional _safe_softmax _scaled_mm "
            "_scaled_dot_product_attention_math adaptive_avg_pool1d adaptive_avg_pool2d "
            "avg_pool1d binary_cross_entropy convolution_overrideable huber_loss inner "
            "inverse layer_norm linalg_cholesky_ex linalg_lu_factor_ex linalg_qr "
            "linalg_solve_triangular linear log_softmax _linalg_det matmul norm rms_norm "
            "scaled_dot_product_attention smooth_l1_loss softmax std_mean vdot"
        ).split()
    )


def test_products_of_whole_numbers_round() -> None:
    """Small sums of large products have the error of these, though the input is exact; products of
    whole numbers have none."""
    torch.manual_seed(0)
    x = torch.randint(-3000, 3000, (512, 16)).float()
    weight, bias = torch.randn(8, 16), torch.randn(8)
    exact = torch.nn.functional.linear(x.double(), weight.double(), bias.double())
    plain = torch.nn.functional.linear(x, weight, bias)

    def run(mode: RandomRounding, weight: Any) -> Any:
        with mode:
            return torch.addmm(bias, x, weight.t())

    runs = rounding.samples(lambda mode: run(mode, weight), range(4))
    assert runs is not None
    small = exact.abs() < 0.01 * exact.abs().max()
    size = torch.stack([one - plain for one in runs])[:, small].square().mean().sqrt()
    error = (plain - exact)[small].square().mean().sqrt()
    assert 0.5 * error < size < 20 * error, (size, error)
    bias = bias.round()
    runs = rounding.samples(lambda mode: run(mode, weight.round()), range(4))
    assert runs is not None and all(one.equal(runs[0]) for one in runs)


LAYERS = {
    "TransformerEncoderLayer": lambda: torch.nn.TransformerEncoderLayer(
        64, 4, 256, batch_first=True
    ),
    "MultiheadAttention": lambda: Fn(
        lambda x, attention: attention(x, x, x, need_weights=False)[0],
        attention=torch.nn.MultiheadAttention(64, 4, batch_first=True),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
@torch.no_grad()
def test_noise_of_a_fused_layer(name: str) -> None:
    """Layers that torch computes with one operator in eval mode round as often as their parts."""
    torch.manual_seed(0)
    layer, x = LAYERS[name]().eval(), torch.randn(2, 128, 64)
    fused = modelled(layer, [x], torch.float32)
    assert torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        parts = modelled(layer, [x], torch.float32)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert 0.8 <= fused / parts <= 1.25
