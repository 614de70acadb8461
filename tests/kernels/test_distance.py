"""csrc/kernels/distance against eager."""

import numpy as np
import pytest

from tests.kernels.accuracy import check
from tests.kernels.samples_distance import NORMS, SAMPLES
from tests.op_harness import OpError, Out, run


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_samples(name: str, dtype: str) -> None:
    for args in SAMPLES[name](np.random.default_rng(0), dtype):
        check(name, args)


@pytest.mark.parametrize("p", NORMS)
def test_nan_and_infinity(p: float) -> None:
    """cdist's maximum ignores NaN, pdist's propagates it; sums propagate it."""
    a = np.random.default_rng(0).standard_normal((6, 11)).astype("float32")
    a[1, 3], a[2, 10], a[4, 0] = np.nan, np.inf, -np.inf
    check("aten::_cdist_forward.out", [a, a[::-1].copy(), p, None])
    check("aten::_pdist_forward.out", [a, p])


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("_cdist_forward", [(3, 4), (5, 3), 2.0, None], "3 columns, expected 4"),
        ("_cdist_forward", [(3, 4), (5, 4), -1.0, None], "'p': -1"),
        ("_cdist_forward", [(3, 4), (5, 4), 2.0, 3], "expected 0, 1 or 2"),
        ("_cdist_forward", [(4,), (5, 4), 2.0, None], "expected 2 to 16 dim"),
        ("_cdist_forward", [(2, 3, 4), (3, 5, 4), 2.0, None], "broadcast|size"),
        ("_pdist_forward", [(4,), 2.0], "expected 2 dim"),
        ("_pdist_forward", [(3, 4), float("nan")], "'p'"),
    ],
)
def test_refused(name: str, args: list, message: str) -> None:
    given = [np.zeros(a, "float32") if isinstance(a, tuple) else a for a in args]
    with pytest.raises(OpError, match=message):
        run(f"aten::{name}.out", [*given, Out((90,), "float32")])
