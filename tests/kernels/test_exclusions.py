"""Proofs with eager's own results for the exclusions of the operator tests."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.judge import assert_equal
from tests.kernels import test_special_values
from tests.kernels.accuracy import ALL_FLOATS, OPEN_ZEROS, ROWS, has_open_zeros

COUNT = 67  # elements: some vectors, and a remainder
BOTH = [(0.0, -0.0), (-0.0, 0.0)]
ZEROS = list(itertools.product((0.0, -0.0), repeat=3))[1:-1]  # of both signs
NAMES = list(OPEN_ZEROS)


def filled(value: float, dtype: str) -> torch.Tensor:
    return torch.full((COUNT,), value, dtype=getattr(torch, dtype))


def signs(x: torch.Tensor) -> list[bool]:
    return torch.signbit(x).flatten().tolist()


def clamped(dtype: str) -> set[bool]:
    """Return the signs of one result's elements, whose operands have equal elements."""
    return set(signs(torch.clamp(filled(0.0, dtype), filled(-0.0, dtype), filled(1.0, dtype))))


def larger(name: str) -> Callable[[str], set[bool]]:
    """Return a predicate of the dtype: the zero is the second operand's, in that dtype and in
    float32."""

    def predicate(dtype: str) -> set[bool]:
        call = getattr(torch, name)
        pairs = [(filled(a, d), filled(b, d)) for d in (dtype, "float32") for a, b in BOTH]
        return {x == y for a, b in pairs for x, y in zip(signs(call(a, b)), signs(b), strict=True)}

    return predicate


def ordered(call: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[str], set[bool]]:
    """Return a function of the dtype: the signs of zeros found among equal zeros in any order."""

    def predicate(dtype: str) -> set[bool]:
        orders = (torch.tensor(zeros, dtype=getattr(torch, dtype)) for zeros in ZEROS)
        return {sign for zeros in orders for sign in signs(call(zeros))}

    return predicate


EAGER: dict[str, Callable[[str], set[bool]]] = {
    "clamp.Tensor_out": clamped,
    "fmax.out": larger("fmax"),
    "fmin.out": larger("fmin"),
    "median.out": ordered(torch.median),
    "nanmedian.out": ordered(torch.nanmedian),
    "_unique2.out": ordered(lambda x: torch._unique2(x)[0]),
}


@pytest.mark.parametrize("dtype", [d for d in ALL_FLOATS if "complex" not in d])
@pytest.mark.parametrize("name", NAMES)
def test_open_zeros(name: str, dtype: str) -> None:
    """Eager returns both signs where any is accepted, and one elsewhere."""
    assert len(EAGER[name](dtype)) == 1 + has_open_zeros(f"aten::{name}", dtype)
    assert name not in ROWS and name.split(".")[0] not in ROWS, "has a row, which is what counts"


def test_acos_loses_signs_of_zeros() -> None:
    """acos of conjugates are conjugates in complex64."""
    z = np.array([1.0, 0.5, -1.0]) + 0j

    def sides(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
        x = torch.from_numpy(z.astype(dtype))
        other = torch.acos(x.conj().resolve_conj()).conj()
        return torch.acos(x).numpy(), other.resolve_conj().numpy()

    assert_equal(*sides(np.complex64))
    with pytest.raises(AssertionError, match="another sign of"):
        assert_equal(*sides(np.complex128))


def test_erf_has_no_subnormal_results() -> None:
    least = torch.tensor([2.0**-133]).bfloat16()
    assert torch.erf(least).item() == 0.0
    assert torch.erf(least.float()).bfloat16() == least


def test_zeros_of_bfloat16() -> None:
    """`test_open_zeros` covers the other two operators."""
    others = set(test_special_values.LEFT_OUT) - {"aten::acos.out", "aten::erf.out"}
    assert others == {"aten::fmax.out", "aten::fmin.out"}
    for name in others:
        dtype = test_special_values.LEFT_OUT[name]
        assert list(OPEN_ZEROS[name.removeprefix("aten::")][0]) == [dtype]
