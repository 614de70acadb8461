"""csrc/kernels/llm against eager (llm_forms.py) and the official kernels."""

from __future__ import annotations

from typing import Any

import llm_forms
import numpy as np
import pytest
from accuracy import compare
from eager import HALVES, eager
from op_harness import OpError, Out, run
from samples_llm import CHANGED, SAMPLES

DTYPES = {name: ["float32", *HALVES] for name in SAMPLES}
DTYPES |= dict.fromkeys(("llama::gated_delta_rule.out", "llama::channelwise_gated_delta_rule.out"),
                        ["float32"])  # fmt: skip
DTYPES["llama::custom_quantized_sdpa.out"] = ["int8", "float32", *HALVES]
for name_ in ("llama::update_cache.out", "llama::update_cache_with_indices.out",
              "llama::fallback.out", "preprocess::tile_crop.out"):  # fmt: skip
    DTYPES[name_] = ["float32", *HALVES, "int8", "bool", "complex128", "int64"]


def expected(name: str, args: list) -> list[np.ndarray] | None:
    """Return eager's results; None if it rejects the arguments."""
    try:
        llm_forms.check_dtypes(name, args)
        return eager(name, args)
    except (ValueError, TypeError):
        return None


def prepared(name: str, args: list, results: list[np.ndarray], order: Any = None) -> list:
    """Return the arguments with those that change as `Out`s, and the outputs."""
    changed = CHANGED.get(name, ())
    given = [Out(a.shape, a.dtype.name, order_of(a), initial=a) if i in changed else a
             for i, a in enumerate(args)]  # fmt: skip
    outs = [Out(r.shape, r.dtype.name, order) for r in results[len(changed) :]]
    return [*given, *(outs or [Out((1,), args[0].dtype.name)])]


def order_of(a: np.ndarray) -> tuple[int, ...]:
    return tuple(sorted(range(a.ndim), key=lambda d: (-a.strides[d], d)))


def check(name: str, args: list, order: Any = None) -> None:
    results = expected(name, args)
    for reference in (True, False):
        if results is None:
            with pytest.raises(OpError, match="argument '"):
                run(name, prepared(name, args, outputs_like(name, args)), reference)
            continue
        found = run(name, prepared(name, args, results, order), reference)[: len(results)]
        compare(name, args, found, results, (name, args, reference))


def outputs_like(name: str, args: list) -> list[np.ndarray]:
    """Return outputs that would fit arguments that are wrong."""
    dtype = "float32" if args[0].dtype == np.int8 else args[0].dtype.name
    count = 0 if "update" in name else 2 if "delta" in name else 1
    return [*(args[i] for i in CHANGED.get(name, ())), *[np.zeros(args[0].shape, dtype)] * count]


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in SAMPLES for d in DTYPES[n]])
def test_samples(name: str, dtype: str, rng: np.random.Generator) -> None:
    accepted = 0
    for args in SAMPLES[name](rng, dtype):
        check(name, args)
        accepted += expected(name, args) is not None
    assert accepted
