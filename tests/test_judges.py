"""The judges of the tests: each accepts eager's own variation, and finds planted faults."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from tests import judge, variation
from tests.backends import xnnpack_judge
from tests.dtypes import np_dtype
from tests.judge import EXACT, Limit, assert_equal, difference, ulp
from tests.kernels import rows
from tests.op_db import opdb_judge

F = np.float32
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def numbers(dtype: str, smallest: float = 1e-9) -> np.ndarray:
    """Return numbers of all sizes from `smallest` to 1."""
    a = np.random.default_rng(0).standard_normal(500) * np.geomspace(smallest, 1, 500)
    return a.astype(np_dtype(dtype))


def moved(a: np.ndarray, ulps: float) -> np.ndarray:
    """Return elements that many units away from zero."""
    name = a.dtype.name
    return np.asarray(judge.wide(a) + np.sign(judge.wide(a)) * ulps * ulp(a, name)).astype(a.dtype)


# ---- the unit ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_unit_is_that_of_the_last_place(dtype: str) -> None:
    a = np.abs(np.concatenate([numbers(dtype), np.ones(1, np_dtype(dtype))]))
    info = ml_dtypes.finfo(np_dtype(dtype))
    if dtype == "bfloat16":
        bits = a.view(np.uint16)
        spacing = (bits + 1).astype(np.uint16).view(a.dtype).astype(float) - a.astype(float)
    else:
        spacing = np.spacing(a)
    np.testing.assert_array_equal(ulp(a, dtype), spacing.astype(float))
    assert ulp(np.zeros(1), dtype) == ulp(info.smallest_subnormal, dtype)
    assert ulp(np.ones(1), dtype) == float(info.eps)
    assert np.isfinite(ulp(np.inf, dtype))


# ---- numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("fault", [1, 2, 8])
def test_small_results_have_last_places(dtype: str, fault: int) -> None:
    """A unit is that of the element, independent of the rest of the array."""
    wanted = numbers(dtype, 1e-4 if dtype == "float16" else 1e-9)
    assert difference(wanted.copy(), wanted) is None
    for at in (0, 250, 499):
        result = wanted.copy()
        result[at] = moved(wanted, fault)[at]
        message = difference(result, wanted, exact=judge.wide(wanted))
        assert message and f"1 of 500 elements, worst at ({at},)" in message
        result[at] = 0
        assert difference(result, wanted, Limit(100)), "zero where there is a small number"


def test_all_elements_count() -> None:
    wanted = numbers("float32")
    for share in (1, 0.5, 0.02, 0.002):
        values = np.where(np.arange(500) < 500 * share, moved(wanted, 3), wanted)
        assert difference(values, wanted, Limit(2)), share
        assert difference(values, wanted, Limit(3)) is None, share


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_halves_round_once(half: str) -> None:
    """Rounding to the half between two steps is found, rounding of float32 is not."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(0.5, 1, 2000).astype(np_dtype(half)) for _ in range(3))
    exact = judge.wide(a) * judge.wide(b) + judge.wide(c)
    wanted = (F(1) * a * b + c).astype(np_dtype(half))
    once = (a.astype(F) * b.astype(F) + c.astype(F)).astype(np_dtype(half))
    twice = ((a * b).astype(np_dtype(half)).astype(F) + c.astype(F)).astype(np_dtype(half))
    assert difference(once, once, exact=exact) is None
    assert difference(twice, once, exact=exact)
    assert difference(once, twice, exact=exact) is None, "eager may round twice"
    assert wanted.dtype == a.dtype


def test_no_worse_than_eager_is_element_by_element() -> None:
    """Digits that eager loses in one element are not permitted in another."""
    exact = np.array([1.0, 2.0])
    wanted = np.array([1.0, 2.01], F)
    assert difference(np.array([1.0, 2.001], F), wanted) is not None
    assert difference(np.array([1.0, 2.001], F), wanted, exact=exact) is None
    assert difference(np.array([1.0, 1.985], F), wanted, exact=exact) is not None
    assert difference(np.array([1.001, 2.0], F), wanted, exact=exact) is not None


def test_sums_in_any_order() -> None:
    """Another order and fused products are right; an omitted term, or a sum in half precision, is
    not."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((200, 300)).astype(F) for _ in range(2))
    products = judge.wide(x) * judge.wide(y)
    exact, terms = products.sum(1), np.abs(products).sum(1)
    limit = Limit(1, 2)

    def summed(order: np.ndarray, fused: bool, start: Any = np.float32) -> np.ndarray:
        total = np.zeros(200, start)
        for i in order:
            step = judge.wide(x[:, i]) * judge.wide(y[:, i]) if fused else x[:, i] * y[:, i]
            total = (total + step).astype(start)
        return total.astype(F)

    wanted = summed(np.arange(300), False)
    for fused in (False, True):
        for order in (np.arange(300), np.arange(300)[::-1], rng.permutation(300)):
            assert difference(summed(order, fused), wanted, limit, exact, terms) is None
    assert difference(summed(np.arange(299), True), wanted, limit, exact, terms)
    assert difference(summed(np.arange(300), True, np.float16), wanted, limit, exact, terms)
    assert difference(wanted * F(1 + 2.0**-17), wanted, limit, exact, terms)
    with pytest.raises(ValueError, match="no magnitudes"):
        difference(np.nextafter(wanted, F(9)), wanted, limit, exact)


@pytest.mark.parametrize("dtype", [*FLOATS, "complex64", "complex128"])
def test_non_finite_values(dtype: str) -> None:
    kinds = np.array([0, 1, np.inf, -np.inf, np.nan]).astype(np_dtype(dtype))
    for i, a in enumerate(kinds):
        for j, b in enumerate(kinds):
            for exact in (None, judge.wide(kinds[j : j + 1])):
                result = difference(kinds[i : i + 1], kinds[j : j + 1], Limit(2), exact)
                assert (result is None) == (i == j), (a, b)
    nan = difference(kinds[4:], kinds[1:2], exact=np.full(1, np.nan, judge.wide(kinds).dtype))
    assert nan, "eager has a number"


def test_the_end_of_the_range() -> None:
    """The largest number next to infinity is a place like any other."""
    most = np.full(1, np.finfo(F).max)
    inf = np.full(1, np.inf, F)
    near, far = np.full(1, 3.40282357e38), np.full(1, 3.4e38)
    assert difference(most, inf, Limit(1), near) is None
    assert difference(inf, most, Limit(1), near) is None
    assert difference(inf, most, Limit(1), far)
    assert difference(-most, inf, Limit(1), near)
    assert difference(most, inf, Limit(1), np.full(1, 1e39))


def test_complex_numbers_are_judged_as_one() -> None:
    """Relative to their magnitude; a part next to a larger one has no last places of its own."""
    wanted = np.array([1 + 1e-9j, 1e-9 + 1e-9j], np.complex64)
    assert difference(wanted + np.array([1e-8j, 0], np.complex64), wanted, Limit(1)) is None
    assert difference(wanted + np.array([1e-6j, 0], np.complex64), wanted, Limit(1))
    assert difference(wanted + np.array([0, 1e-12j], np.complex64), wanted, Limit(1))
    assert difference(wanted.conj(), wanted, Limit(1))


def test_shape_dtype_and_type() -> None:
    a = np.arange(6, dtype=np.int64)
    assert difference(a, a) is None
    for fault in (a.reshape(2, 3), a.astype(np.int32), a.astype(float), a + (a == 3), a[:5], 3):
        assert difference(fault, a, Limit(100)), fault
    for result, wanted in ((1, True), (1.0, 1), (np.nan, 1.0), (1.0, np.nan), (2, 3), (a, 3)):
        assert difference(result, wanted), (result, wanted)
    assert difference(float("nan"), float("nan")) is None


def test_equal_looks_at_zeros() -> None:
    zero = np.zeros(2, F)
    assert_equal(zero, zero)
    assert_equal(-zero, zero, signs=False)
    for fault in (-zero, zero + F(1e-45)):
        with pytest.raises(AssertionError):
            assert_equal(fault, zero)
    with pytest.raises(AssertionError):
        assert_equal(np.array([0j]), np.array([complex(0, -0.0)]))
    one = np.ones(1, ml_dtypes.bfloat16)
    assert difference(moved(one, 1), one, EXACT)


# ---- operators (tests/kernels) ----------------------------------------------------------------

OPERATORS = [
    name
    for name, (family, _) in rows.tables().items()
    if family != "random" and name not in rows.UNFILLED
]


def last_place(a: np.ndarray, at: tuple) -> np.ndarray:
    """Return a copy with one element off: the next integer, 2^-12 of a number, 2^-6 of a half."""
    result, name = a.copy(), a.dtype.name
    if a.dtype == bool:
        result[at] = ~result[at]
    elif not judge.is_inexact(name):
        result[at] += a.dtype.type(1)
    else:
        more = 1 + 2.0 ** (-6 if name in judge.HALVES else -12)
        result[at] = (judge.wide(a[at]) * more).astype(a.dtype)
    return result


def largest(a: np.ndarray) -> tuple | None:
    """Return the index of the largest finite element."""
    size = np.where(np.isfinite(judge.wide(a)), np.abs(judge.wide(a)), -1)
    at = np.unravel_index(int(size.argmax()), a.shape) if a.size else None
    return at if at is not None and (size[at] > 0 or not judge.is_inexact(a.dtype.name)) else None


def planted(name: str, args: list, results: list, i: int) -> list | None:
    """Return the results with a fault in output i; None if no fault is possible."""
    wanted = results[i]
    if not isinstance(wanted, np.ndarray):
        fault: Any = not wanted if isinstance(wanted, bool) else wanted + 1
    elif (at := largest(wanted)) is None:
        return None
    else:
        fault = last_place(wanted, at)
    if name == rows.ROW:  # a row of the result is written
        whole = np.zeros((args[2] + 1, *args[0].shape[1:]), args[0].dtype)
        whole[args[2]] = fault
        return [whole]
    return [fault if k == i else r for k, r in enumerate(results)]


def unseen(name: str, dtype: str) -> set[int]:
    """Return the outputs of an operator in which no fault is found, for any of some samples."""
    left: set[int] = set()
    seen: set[int] = set()
    for args, results in rows.samples(name, dtype, 4):
        for i in set(range(len(results or []))) - seen:
            left.add(i)
            result = planted(name, args, results, i)
            if result is None:
                continue
            try:
                rows.check(name, args, result, results)
            except AssertionError:
                seen.add(i)
    return left - seen if left else {-1}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPERATORS)
def test_every_output_of_an_operator_can_be_wrong(name: str) -> None:
    """In some dtype, with the check of test_rows.py, test_exported.py and test_official.py."""
    dtypes = ("float32", "int64", "complex64", "bfloat16", "bool", "uint8", "int8")
    left = [unseen(name, d) for d in dtypes if d in rows.dtypes_of(name)]
    assert not set.intersection(*left)


# ---- models (variation.py), functions (tests/op_db), delegates (tests/backends) ---------------


class Layers(torch.nn.Module):
    """Sums of products, with results of all sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(40, 60), torch.nn.Linear(60, 50)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.last(torch.tanh(self.first(x))))


@pytest.fixture(scope="module")
def layers() -> tuple[torch.nn.Module, torch.Tensor, np.ndarray]:
    torch.manual_seed(0)
    net, x = Layers().eval(), torch.randn(7, 40)
    with torch.no_grad():
        return net, x, net(x).numpy()


def faults(wanted: np.ndarray) -> dict[str, np.ndarray]:
    """Return wrong results with the dtype and shape of the right ones."""
    unit = judge.ulp(wanted, wanted.dtype.name)
    table = {
        "zeros": wanted * 0,
        "1 % more": wanted * 1.01,
        "negative": -wanted,
        "last places": wanted + 1000 * unit,
        "in another order": wanted[::-1],
        "NaN": np.where(np.arange(wanted.size).reshape(wanted.shape), wanted, np.nan),
        "half of them": wanted + np.where(wanted > np.median(wanted), 1000 * unit, 0),
        "in half precision": wanted.astype(np.float16),
    }
    for at in (wanted.argmin(), np.abs(wanted).argmin(), wanted.argmax()):
        table[f"element {at}"] = wanted.copy()
        table[f"element {at}"].flat[at] += 1e-5
    return {name: fault.astype(wanted.dtype) for name, fault in table.items()}


def test_models_may_round_as_eager_does(layers: Any) -> None:
    net, x, wanted = layers
    fine = [wanted, np.nextafter(wanted, F(9))]
    with torch.no_grad():
        fine.append(net.double()(x.double()).float().numpy())
        net.float()
        fine.append(np.stack([net(row).numpy() for row in x]))
    for result in fine:
        variation.assert_eager([result], net, x)
    for fault, result in faults(wanted).items():
        with pytest.raises(AssertionError, match="units in the last place"):
            variation.assert_eager([result], net, x)
            pytest.fail(f"{fault} is not seen")


def test_rooms_are_of_each_element(layers: Any) -> None:
    net, x, wanted = layers
    (room,) = variation.rooms(lambda: [net(x).numpy()], variation.LAST_PLACES["float32"])
    assert room.max() < 1e-5 * np.abs(wanted).max() and np.median(room) < 1e-6
    xnnpack_judge.assert_close([np.nextafter(wanted, F(9))], [wanted], [room])
    for fault, result in faults(wanted).items():
        for rooms in ([room], []):
            with pytest.raises(AssertionError, match="units in the last place"):
                xnnpack_judge.assert_close([result], [wanted], rooms)
                pytest.fail(f"{fault} is not seen")


def test_integers_have_no_room() -> None:
    whole = np.arange(4)
    xnnpack_judge.assert_close([whole], [whole])
    for fault in (whole + 1, whole.astype(np.int32), whole.reshape(2, 2), whole * 1.0):
        with pytest.raises(AssertionError):
            xnnpack_judge.assert_close([fault], [whole])
    with pytest.raises(AssertionError):
        judge.assert_within(np.array([np.inf], F), np.ones(1, F), np.full(1, 1e30))


def test_functions_compared_with_their_terms(layers: Any) -> None:
    net, x, wanted = layers
    exact, terms = judge.wide(wanted), np.abs(judge.wide(wanted)) + 1e-3
    for result in ({}, {"exact": exact}, {"exact": exact, "terms": terms}):
        assert opdb_judge.difference(wanted.copy(), wanted, **result) is None
        for fault, value in faults(wanted).items():
            assert opdb_judge.difference(value, wanted, **result), fault
    assert opdb_judge.difference(wanted.astype(np.float64), wanted)
    assert opdb_judge.difference(wanted * 2, wanted, filled=False) is None
    assert opdb_judge.difference(wanted[1:], wanted, filled=False)


def test_functions_accept_errors_up_to_eagers() -> None:
    exact, wanted = np.array([1.0, 2.0]), np.array([1.0, 2.01], F)
    assert opdb_judge.difference(np.array([1.0, 2.001], F), wanted) is not None
    assert opdb_judge.difference(np.array([1.0, 2.001], F), wanted, exact) is None
    assert opdb_judge.difference(np.array([1.0, 1.985], F), wanted, exact) is not None
    assert opdb_judge.difference(np.array([np.nan, 2.0], F), wanted, exact) is not None


def test_other_positions_of_equal_values() -> None:
    values = np.array([[3.0, 1.0, 3.0], [2.0, 2.0, 5.0]])
    wanted = np.array([[1, 0, 2], [0, 1, 2]])
    assert opdb_judge.point_alike(np.array([[1, 2, 0], [1, 0, 2]]), wanted, values)
    assert not opdb_judge.point_alike(np.array([[0, 1, 2], [1, 0, 2]]), wanted, values)
    assert not opdb_judge.point_alike(np.array([[1, 0, 0], [0, 1, 2]]), wanted, values)
    assert opdb_judge.point_alike(np.array([2, 2]), np.array([0, 2]), values)


def test_vectors_of_another_phase() -> None:
    rng = np.random.default_rng(0)
    wanted = rng.standard_normal((5, 3)) + 1j * rng.standard_normal((5, 3))
    phases = np.exp(1j * np.array([0.3, 2, -1]))
    assert np.allclose(opdb_judge.turned(wanted * phases, wanted, -2), wanted, 1e-13)
    assert not np.allclose(opdb_judge.turned(wanted * phases, wanted, -1), wanted, 1e-2)
    for fault in (wanted.conj(), np.abs(wanted), wanted * 1.01, wanted * 0, wanted[::-1]):
        assert not np.allclose(opdb_judge.turned(fault, wanted, -2), wanted, 1e-3)
