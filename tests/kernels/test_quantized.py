"""csrc/kernels/quantized against torch's references, bit for bit: every sample, both loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rows
from eager import ALL, eager, ours
from op_harness import OpError, Out, run
from samples_quantized import SAMPLES

DTYPES = [d for d in ALL if d != "complex128"]


def refused(name: str, args: list) -> None:
    """With outputs that fit all but the sample, as far as that can be told."""
    if "choose" in name:
        outs = [[Out((1,), "float64"), Out((1,), "int64")]]
    elif "embedding" in name:
        shape = (*args[5].shape, args[0].shape[1] * 8 // max(args[4].bit_length() + 1, 2))
        outs = [[Out(shape, to)] for to in (args[1].dtype.name, "float32")]
    else:
        outs = [[Out(args[0].shape, to)] for to in ("int8", "uint8", "float32", "int64")]
    for out in outs:
        with pytest.raises(OpError):
            run(name, [*ours(args), *out])
            pytest.fail(f"eager refuses {name} {args}")


def is_declared(name: str, args: list, wanted: Any) -> bool:
    """Not so where scales of several elements lie along a dimension of one: eager's result is
    larger than what the operator declares."""
    return "quantize_per" not in name or wanted[0].shape == args[0].shape


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in SAMPLES for d in DTYPES])
def test_samples(name: str, dtype: str, rng: np.random.Generator) -> None:
    for args in SAMPLES[name](rng, dtype):
        try:
            wanted: Any = eager(name, args)
        except rows.REFUSALS:
            if not rows.is_beyond_eager(args, dtype):
                refused(name, args)
            continue
        if not is_declared(name, args, wanted):
            continue
        for reference in (False, True):
            outs = [Out(w.shape, w.dtype.name) for w in wanted]
            rows.check(name, args, run(name, [*ours(args), *outs], reference), wanted)
