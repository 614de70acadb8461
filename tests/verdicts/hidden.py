"""Faults that standard normal inputs do not show, for the search of `check_model(search=)`.

Each is a right and a wrong function with the same example. `python -m tests.verdicts.hidden` plants
all and prints which are found in 60 s each.
"""

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

from executorch_c.testing import CheckResult, check_model

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Hidden:
    """A fault: the right function and the wrong one."""

    right: Callable[..., Any]
    wrong: Callable[..., Any]
    example: tuple[Tensor, ...]
    dynamic_shapes: Any = None


class Calls(nn.Module):
    """A module that calls a function of its layers and its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 4)
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.router, self.table = nn.Linear(16, 6), nn.Embedding(64, 16)
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


MISSED: tuple[str, ...] = ()
"""Faults that the search does not find in 60 s."""
HIDDEN: dict[str, Hidden] = {}
X = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))


def after_layer(name: str, right: Function, wrong: Function, example: Tensor = X) -> None:
    """Add a fault in a function of the first layer's results."""

    def both(f: Function) -> Callable[..., Any]:
        return lambda m, x: m.last(f(m.first(x)))

    HIDDEN[name] = Hidden(both(right), both(wrong), (example,))


def of_input(name: str, right: Function, wrong: Function, example: Tensor = X) -> None:
    """Add a fault in a function of the input."""
    HIDDEN[name] = Hidden(lambda m, x: right(x), lambda m, x: wrong(x), (example,))


# ---- clamps -----------------------------------------------------------------------------------

for low, high in ((-5.0, 5.0), (-9.0, 9.0), (-30.0, 30.0), (-128.0, 127.0)):
    after_layer(
        f"clamp to {low:g}, {high:g} lost", partial(torch.clamp, min=low, max=high), lambda x: x + 0
    )
after_layer("upper clamp of 10 lost", lambda x: x.clamp(-10, 10), lambda x: x.clamp(min=-10))
after_layer("lower clamp of -8 lost", lambda x: x.clamp(-8, 8), lambda x: x.clamp(max=8))
after_layer("clamp at 20 is at 30", lambda x: x.clamp(max=20.0), lambda x: x.clamp(max=30.0))
after_layer("relu6 is relu", F.relu6, F.relu)
after_layer(
    "hardsigmoid without its upper end", F.hardsigmoid, lambda x: (x / 6 + 0.5).clamp(min=0)
)
after_layer(
    "hardswish above 3", F.hardswish, lambda x: torch.where(x > 4, x * 0.98, F.hardswish(x))
)
HIDDEN["relu6 of a convolution is relu"] = Hidden(
    lambda m, x: F.relu6(m.conv(x)).mean((2, 3)),
    lambda m, x: F.relu(m.conv(x)).mean((2, 3)),
    (torch.randn(1, 3, 6, 6, generator=torch.Generator().manual_seed(1)),),
)

# ---- tails ------------------------------------------------------------------------------------

after_layer("gelu below -5", F.gelu, lambda x: torch.where(x < -5, -0.02, F.gelu(x)))
after_layer("gelu above 5", F.gelu, lambda x: torch.where(x > 5, 0.99 * x, F.gelu(x)))
after_layer("gelu is linear beyond 8", F.gelu, lambda x: torch.where(x < -8, 0.001 * x, F.gelu(x)))
after_layer("silu below -8", F.silu, lambda x: torch.where(x < -8, 0.02, F.silu(x)))
after_layer(
    "tanh of a polynomial above 6",
    torch.tanh,
    lambda x: torch.where(x.abs() > 6, x / 6, torch.tanh(x)),
)
after_layer(
    "sigmoid below -10", torch.sigmoid, lambda x: torch.where(x < -10, 0.01, torch.sigmoid(x))
)
after_layer("elu below -6", F.elu, lambda x: torch.where(x < -6, -0.97, F.elu(x)))
after_layer("erf above 4", torch.erf, lambda x: torch.where(x > 4, 0.98, torch.erf(x)))
after_layer(
    "exp is clamped at 12", lambda x: torch.exp(x / 2), lambda x: torch.exp(x.clamp(max=12) / 2)
)
after_layer(
    "leaky slope ends",
    lambda x: F.leaky_relu(x, 0.1),
    lambda x: F.leaky_relu(x, 0.1).clamp(min=-0.8),
)

# ---- overflow ---------------------------------------------------------------------------------

HALF = X.half()


def _softmax(x: Tensor) -> Tensor:
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


of_input("softmax in half without the maximum", lambda x: torch.softmax(x, -1), _softmax, HALF)
after_layer("softmax without the maximum", lambda x: torch.softmax(x, -1), _softmax)
of_input("softplus in half overflows", F.softplus, lambda x: torch.log(1 + torch.exp(x)), HALF)
after_layer("softplus overflows", F.softplus, lambda x: torch.log(1 + torch.exp(x)))
after_layer("logsigmoid underflows", F.logsigmoid, lambda x: torch.log(torch.sigmoid(x)))
after_layer(
    "logsumexp overflows",
    lambda x: torch.logsumexp(x, -1, keepdim=True).expand(4, 16),
    lambda x: torch.log(torch.exp(x).sum(-1, keepdim=True)).expand(4, 16),
)
after_layer(
    "tanh by exp overflows", torch.tanh, lambda x: (torch.exp(2 * x) - 1) / (torch.exp(2 * x) + 1)
)
of_input(
    "norm in half overflows",
    lambda x: x.float().pow(2).sum(-1).sqrt(),
    lambda x: x.pow(2).sum(-1).float().sqrt(),
    HALF,
)
of_input(
    "sum in half is clamped",
    lambda x: x.float().sum(-1) / 16,
    lambda x: x.sum(-1).clamp(-300, 300).float() / 16,
    HALF,
)
after_layer("silu by exp overflows", F.silu, lambda x: x * torch.exp(x) / (1 + torch.exp(x)))

# ---- ties -------------------------------------------------------------------------------------

of_input("halves are rounded up", torch.round, lambda x: torch.floor(x + 0.5))
of_input("sign of zero is 1", torch.sign, lambda x: torch.where(x >= 0, 1.0, -1.0))
of_input("step at zero", lambda x: (x > 0).float(), lambda x: (x >= 0).float())
of_input("the last of equal elements", lambda x: x.argmax(-1), lambda x: 15 - x.flip(-1).argmax(-1))
of_input("ceil of whole numbers", torch.ceil, lambda x: torch.floor(x) + 1)
of_input(
    "equal neighbours",
    lambda x: (x[:, 1:] == x[:, :-1]).float().cumsum(-1) + x[:, 1:],
    lambda x: x[:, 1:] + 0,
)

# ---- conditions, dead units and experts -------------------------------------------------------


def experts(fault: int, bias: float) -> Callable[..., Any]:
    """Return a mixture of 6 experts, of which one is rarely chosen, and maybe wrong."""

    def forward(m: Any, x: Tensor) -> Tensor:
        scale = torch.ones(6)
        scale[4] = 1.5 if fault else 1.0
        push = torch.zeros(6)
        push[4] = bias
        chosen = (m.router(x) + push).argmax(-1)
        return m.last(m.first(x)) * scale[chosen][:, None]

    return forward


def unit(fault: bool, bias: float, layers: int = 1) -> Callable[..., Any]:
    """Return layers of which one unit is dead, and its weights maybe wrong."""

    def forward(m: Any, x: Tensor) -> Tensor:
        push = torch.zeros(16)
        push[5] = bias
        for _ in range(layers - 1):
            x = torch.relu(m.first(x)) + 0.1
        h = torch.relu(m.first(x) + push)
        wrong = torch.ones(16)
        wrong[5] = 1.3 if fault else 1.0
        return m.last(h * wrong)

    return forward


for bias in (-4.0, -8.0, -16.0):
    HIDDEN[f"expert with a bias of {bias:g}"] = Hidden(experts(0, bias), experts(1, bias), (X,))
for bias in (-5.0, -10.0, -25.0):
    HIDDEN[f"unit with a bias of {bias:g}"] = Hidden(unit(False, bias), unit(True, bias), (X,))
HIDDEN["dead unit in the second layer"] = Hidden(unit(False, -6.0, 2), unit(True, -6.0, 2), (X,))
HIDDEN["branch for large sums"] = Hidden(
    lambda m, x: torch.where(m.last(x).sum() > 25, 2 * x, x),
    lambda m, x: torch.where(m.last(x).sum() > 25, 3 * x, x),
    (X,),
)
HIDDEN["branch for a negative mean"] = Hidden(
    lambda m, x: torch.where(x.mean() < -2, m.first(x), x),
    lambda m, x: torch.where(x.mean() < -2, m.first(x) * 1.1, x),
    (X,),
)
of_input("scale of large inputs", lambda x: x / (x.abs().max() / 8).clamp(min=1.0), lambda x: x + 0)
of_input(
    "bucket of large values",
    lambda x: torch.arange(24.0)[(x.abs() * 2).long().clamp(max=23)],
    lambda x: torch.arange(24.0)[(x.abs() * 2).long().clamp(max=19)],
)
of_input(
    "index of the upper bound",
    lambda x: torch.arange(32.0)[(x * 2 + 16).long().clamp(0, 31)],
    lambda x: torch.arange(32.0)[(x * 2 + 16).long().clamp(0, 30)],
)

# ---- indices and sizes ------------------------------------------------------------------------

IDS = torch.randint(0, 64, (1, 12), generator=torch.Generator().manual_seed(1))
HIDDEN["three equal ids"] = Hidden(
    lambda m, i: m.table(i) * (1 + ((i == i[:, :1]).sum() > 4)),
    lambda m, i: m.table(i) * 1.0,
    (IDS,),
)
HIDDEN["expert of tokens"] = Hidden(
    lambda m, i: experts(0, -0.6)(m, m.table(i)[0]),
    lambda m, i: experts(1, -0.6)(m, m.table(i)[0]),
    (IDS,),
)


# ---- integers, boundaries, numbers that are not finite, several inputs -------------------------


def of_inputs(
    name: str, right: Callable[..., Any], wrong: Callable[..., Any], *example: Tensor
) -> None:
    """Add a fault in a function of several inputs."""
    HIDDEN[name] = Hidden(lambda m, *x: right(*x), lambda m, *x: wrong(*x), example)


def count(high: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.randint(1, high, (8,), generator=torch.Generator().manual_seed(1), dtype=dtype)


def waves(m: Any, level: Tensor, limit: float) -> Tensor:
    """Return a layer of sines and cosines of noise levels."""
    angles = level.clamp(max=limit)[:, None] * 10.0 ** -torch.arange(0, 4, 0.5)
    return m.first(torch.cat([angles.sin(), angles.cos()], -1))


HIDDEN["levels above 500"] = Hidden(
    lambda m, t: waves(m, t.float(), 1e9),
    lambda m, t: waves(m, t.float(), 500.0),
    (torch.tensor([3, 17]),),
)
of_input(
    "division of negatives",
    lambda n: torch.div(n, 4, rounding_mode="floor"),
    lambda n: torch.div(n, 4, rounding_mode="trunc"),
    count(60),
)
of_input(
    "remainder of negatives", lambda n: torch.remainder(n, 7), lambda n: torch.fmod(n, 7), count(60)
)
of_input(
    "product of int32 overflows",
    lambda n: (9 * n.long() * n.long()).float(),
    lambda n: (9 * n * n).float(),
    count(3000, torch.int32),
)
of_input("counts above 255", lambda n: n.float(), lambda n: n.clamp(max=255).float(), count(90))
of_input(
    "cast to int8 wraps",
    lambda n: n.clamp(-128, 127).to(torch.int8),
    lambda n: n.to(torch.int8),
    count(60),
)
of_input("NaN is not replaced", lambda x: torch.where(x.isnan(), 0.0, x), lambda x: x + 0)
of_input(
    "infinity is not replaced",
    lambda x: torch.nan_to_num(x, 0.5, 3.0, -3.0),
    lambda x: torch.nan_to_num(x, 0.5),
)
BUCKETS = torch.tensor([-3.0, -0.7, 0.3, 1.1, 7.0, 55.0])
of_input(
    "bucket of a boundary",
    lambda x: torch.arange(7.0)[torch.bucketize(x, BUCKETS)],
    lambda x: torch.arange(7.0)[torch.bucketize(x, BUCKETS, right=True)],
)
of_inputs(
    "equal elements of two inputs",
    lambda a, b: torch.where(a <= b, a, 2 * b + 1),
    lambda a, b: torch.where(a < b, a, 2 * b + 1),
    X,
    X.flip(0).clone(),
)


def over_norm(f: Function) -> Callable[..., Any]:
    """Return a layer after a normalisation, which takes the scale off its inputs."""
    return lambda m, x: f(m.first(F.layer_norm(m.first(F.layer_norm(x, (16,))).relu(), (16,))))


HIDDEN["clamp after two norms"] = Hidden(
    over_norm(lambda x: x.clamp(max=1.9)), over_norm(lambda x: x.clamp(max=2.3)), (X,)
)
HIDDEN["softmax of a norm without the maximum"] = Hidden(
    over_norm(lambda x: torch.softmax(50 * x, -1)), over_norm(lambda x: _softmax(50 * x)), (X,)
)


def blocks(m: Any, x: Tensor, keep: int) -> Tensor:
    """Return the sums of columns up to a size that is rounded down, or not."""
    n = x.shape[1]
    return x[:, : n - (n % 16 if keep else 0)].sum(1) + x[:, n - 1]


def masked(m: Any, x: Tensor, limit: int) -> Tensor:
    """Return the sum of at most the first columns."""
    return (x * (torch.arange(x.shape[1]) < limit)).sum(1)


WIDE = {"inputs": ({1: Dim("n", min=2, max=64)},)}
HIDDEN["columns from 50 to 60"] = Hidden(
    lambda m, x: x.cumsum(1)[:, -1] * (1 + (torch.arange(x.shape[1]).sum() == 1275) * 0.5),
    lambda m, x: x.cumsum(1)[:, -1] * 1.0,
    (X,),
    WIDE,
)
HIDDEN["sizes of 8 modulo 16"] = Hidden(
    lambda m, x: x.mean(1),
    lambda m, x: x.sum(1) / (x.shape[1] - (x.shape[1] % 16) // 8 * (1 - (x.shape[1] % 8 + 7) // 8)),
    (X,),
    WIDE,
)


def run(name: str, seconds: float, planted: bool = True) -> CheckResult:
    """Return the check of a fault, or of the right program, with a search of at most some
    seconds."""
    fault = HIDDEN[name]
    right, wrong = Calls(fault.right).eval(), Calls(fault.wrong if planted else fault.right).eval()

    def flow(exported: Any) -> Any:
        program = torch.export.export(wrong, fault.example, dynamic_shapes=fault.dynamic_shapes)
        config = EdgeCompileConfig(_check_ir_validity=False)
        return to_edge_transform_and_lower(program, compile_config=config)

    return check_model(
        right,
        fault.example,
        flow=flow,
        dynamic_shapes=fault.dynamic_shapes,
        search=seconds,
        engines=("here",),
        progress=False,
    )


def main(arguments: list[str]) -> int:
    """Print which faults are found, and how: by the default cases or by the search; with --right,
    which right programs differ in 10 s."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    planted = "--right" not in arguments
    counts = {"default": 0, "search": 0, "": 0}
    for name in [one for one in arguments if one != "--right"] or HIDDEN:
        start = time.monotonic()
        result = run(name, 60.0 if planted else 10.0, planted)
        kinds = {case.kind for case in result.failures}
        how = "default" if kinds - {"search"} else "search" if kinds else ""
        counts[how] += 1
        word = how or ("MISSED" if planted else "right")
        print(f"{word:8} {time.monotonic() - start:5.1f} s  {name}", flush=True)
        if how and not planted:
            print(result)
    print(
        f"{sum(counts.values())} programs: {counts['search']} differ by the search, {counts['']} "
        f"match, {counts['default']} differ without it"
    )
    return int(counts[""] > len(MISSED) if planted else counts[""] < len(HIDDEN))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
