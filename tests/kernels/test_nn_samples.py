"""The sample tables of linalg, conv, pool, norm and resize against eager, for every dtype."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from eager import ALL, eager
from eager_compare import check
from op_harness import OpError, Out, run

FAMILIES = ["linalg", "conv", "pool", "norm", "resize"]
MODULES = [importlib.import_module(f"samples_{family}") for family in FAMILIES]
TABLES = {name: samples for m in MODULES for name, samples in m.SAMPLES.items()}


def accepted(name: str, args: list) -> list[np.ndarray] | None:
    """Eager's results, None where it refuses the dtype for this call."""
    try:
        return eager(name, args)
    except RuntimeError:
        return None


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("dtype", ALL)
def test_samples(rng, name, dtype):
    """What eager computes is computed; a dtype that it refuses with elements is refused."""
    samples = list(TABLES[name](rng, dtype))
    if not samples:
        pytest.skip("the family has a test of its own for this dtype")
    full = [args for args in samples if args[0].ndim and all(getattr(a, "size", 1) for a in args)]
    results = [accepted(name, args) for args in full]
    if all(wanted is None for wanted in results):
        with pytest.raises(OpError, match=f"dtype {dtype}"):
            run(name, [*full[0], *[Out((1,) * 9, dtype)] * 3])
        return
    for args in samples:
        wanted = accepted(name, args)
        if wanted is not None:
            check(name, args, len(wanted), ulps=60, wanted=wanted)
