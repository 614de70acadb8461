"""csrc/kernels/quantized against torch's references, bit for bit: every sample, both loops."""

from typing import Any

import numpy as np
import pytest

from tests.kernels import rows
from tests.kernels.eager import ALL, eager, ours
from tests.kernels.samples_quantized import SAMPLES
from tests.op_harness import OpError, Out, run

DTYPES = [d for d in ALL if d != "complex128"]


def check_rejected(name: str, args: list) -> None:
    """Check rejection, with outputs that fit everything but the sample."""
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
            pytest.fail(f"eager rejects {name} {args}")


def is_declared(name: str, args: list, wanted: Any) -> bool:
    """Return False if scales of several elements are on a dimension of size one: eager's result is
    larger than the declared one."""
    return "quantize_per" not in name or wanted[0].shape == args[0].shape


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in SAMPLES for d in DTYPES])
def test_samples(name: str, dtype: str, rng: np.random.Generator) -> None:
    for args in SAMPLES[name](rng, dtype):
        try:
            wanted: Any = eager(name, args)
        except rows.REFUSALS:
            if not rows.lacks_eager_kernel(args, dtype):
                check_rejected(name, args)
            continue
        if not is_declared(name, args, wanted):
            continue
        for reference in (False, True):
            outs = [Out(w.shape, w.dtype.name) for w in wanted]
            rows.check(name, args, run(name, [*ours(args), *outs], reference), wanted)
