"""csrc/kernels/pointwise against eager: every operator, dtype, pair of dtypes and layout."""

import ctypes
import itertools

import numpy as np
import pytest
import torch

from tests.judge import assert_equal
from tests.kernels.accuracy import check, compare
from tests.kernels.eager import ALL, COMPLEX, HALVES, array, eager, to_numpy
from tests.kernels.eager import to_torch
from tests.op_harness import OpError, Out, library, run


def ours(name: str, args: list, want: np.ndarray) -> np.ndarray:
    return run(name, [*args, Out(want.shape, want.dtype.name)])[0]


@pytest.mark.parametrize("out", ALL)
@pytest.mark.parametrize("dtype", ["bool", "int16", "float16", "float32", "complex64"])
def test_output_dtypes(dtype: str, out: str, rng: np.random.Generator) -> None:
    """The result is rounded to its own dtype, then cast to every dtype that torch.can_cast
    allows."""
    a, b = array(rng, (3, 37), dtype), array(rng, (37,), dtype)
    for name, args in (
        ("aten::mul.out", [a, b]),
        ("aten::eq.Tensor_out", [a, b]),
        ("aten::exp.out", [a]),
        ("aten::abs.out", [a]),
    ):
        if name == "aten::abs.out" and dtype == "bool":
            continue
        want, call = eager(name, args)[0], [*args, Out((3, 37), out)]
        own = ours(name, args, want)
        compare(name, args, [own], [want])
        if torch.can_cast(to_torch(own).dtype, getattr(torch, out)):
            wanted = to_numpy(to_torch(own).to(getattr(torch, out)))
            assert_equal(run(name, call)[0], wanted, (name, dtype, out))
        else:
            with pytest.raises(OpError, match=f"'out': dtype {out} cannot hold"):
                run(name, call)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        *((1.2345678, "float32"), (1.2345678, "float64"), (2049, "int64"), (4099, "int32")),
        *((0.1, "float16"), (0.1, "bfloat16")),
    ],
)
def test_numbers_with_halves(
    number: float, dtype: str, shape: tuple, half: str, rng: np.random.Generator
) -> None:
    """As in eager: in products and quotients, a second operand of one element keeps its precision;
    elsewhere, and as a first operand, it is rounded to float16."""
    a = (rng.random(997) * 40 + 0.5).astype(array(rng, (), half).dtype)
    b = np.full(shape, number).astype(array(rng, (), dtype).dtype)
    for name, tail in (
        *(("mul.out", []), ("div.out", []), ("floor_divide.out", [])),
        *(("div.out_mode", ["trunc"]), ("div.out_mode", ["floor"]), ("add.out", [1])),
        *(("remainder.Tensor_out", []), ("pow.Tensor_Tensor_out", [])),
    ):
        rounded = b.astype(a.dtype)
        kept = b if name[:3] in ("mul", "div", "flo") else rounded
        sides = ([a, b], [a, kept]), ([b, a], [rounded, a])
        for arguments, exact in (([*g, *tail], [*e, *tail]) for g, e in sides):
            want = eager(f"aten::{name}", arguments)
            if want[0].dtype == a.dtype:
                results = [ours(f"aten::{name}", arguments, want[0])]
                compare(f"aten::{name}", exact, results, want, (name, arguments[0].shape))


def test_outputs_keep_their_bounds(rng: np.random.Generator) -> None:
    a, b = array(rng, (3, 4), "float32"), array(rng, (3, 1), "float32")
    out = Out((6, 4), "float32")
    assert run("aten::mul.out", [a, b, out])[0].shape == (3, 4)


FAST = tuple(
    (
        "exp expm1 log log2 log10 log1p tanh sigmoid erf sin cos sqrt rsqrt floor ceil "
        "trunc round sinh cosh tan asin acos atan asinh acosh atanh"
    ).split()
)


def run_for(isa: str, name: str, a: np.ndarray) -> np.ndarray | None:
    """Return the results of the loop for an instruction set; None if this machine lacks it."""
    out = np.empty_like(a)
    room = [x.ctypes.data_as(ctypes.c_void_p) for x in (a, out)]
    count = ctypes.c_int64(a.size)
    result = library().ec_testing_fast(name.upper().encode(), isa.encode(), count, *room)
    return out if result else None


def bit_patterns(rng: np.random.Generator) -> np.ndarray:
    """Return numbers of all magnitudes, usual ones and special points, in float32."""
    edges = [
        *(0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38, 88.72, 88.73, -87.3, -88.73),
        *(-103.9, -104.1, 1, -1, 0.93, -0.93, 4, 10, -30, 3e38, -3e38, 8192, 8193),
    ]
    bits = rng.integers(0, 2**32, 40_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        some = rng.standard_normal(40_000) * 3, rng.uniform(-110, 110, 20_000)
        return np.concatenate([bits, *some, edges]).astype(np.float32)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", FAST)
def test_float32_functions_to_the_last_places(
    name: str, plain: bool, rng: np.random.Generator
) -> None:
    """Over all bit patterns and around special points: signs of zero, ends, NaN included."""
    a = bit_patterns(rng)
    full = f"aten::{name}.out"
    want = eager(full, [a])
    output = run_for("generic", name, a) if plain else run(full, [a, Out(a.shape)])[0]
    assert output is not None
    compare(full, [a], [output], want, name)
    # Eager's sigmoid is 0 where exp(-x) overflows.
    zero = (want[0] == 0) & (output == 0)
    np.testing.assert_array_equal(np.signbit(output[zero]), np.signbit(want[0][zero]))


@pytest.mark.parametrize("name", [*FAST, "reciprocal", "gelu", "gelu_tanh", "pow", "div"])
def test_vector_extensions_give_equal_bits(name: str, rng: np.random.Generator) -> None:
    a = bit_patterns(rng)
    results = [run_for(isa, name, a) for isa in ("avx2", "avx512")]
    if any(x is None for x in results):
        pytest.skip("this machine lacks AVX2 or AVX-512")
    bits = [np.where(np.isnan(x), np.float32(np.nan), x).view(np.uint32) for x in results]
    np.testing.assert_array_equal(*bits)


@pytest.mark.parametrize(
    "divisor", [6, -7.3, 0.1, 8, 1.9999999, 1e-8, 1e10, 1e20, 1e-40, 0, np.inf]
)
def test_quotients_by_a_number_are_rounded_once(divisor: float, rng: np.random.Generator) -> None:
    a, b = bit_patterns(rng), np.float32(divisor)
    output = run("aten::div.out", [a, np.asarray(b), Out(a.shape)])[0]
    with np.errstate(all="ignore"):
        want = a / b
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(output), ~numbers)
    np.testing.assert_array_equal(output[numbers].view("u4"), want[numbers].view("u4"))


@pytest.mark.parametrize("exponent", [None, 1.7, -0.3, 3.0, 40.0])
@pytest.mark.parametrize("plain", [False, True])
def test_powers_are_rounded_once(
    exponent: float | None, plain: bool, rng: np.random.Generator
) -> None:
    """Against float64: at most 0.51 units in the last place, libm's values at special points."""
    a = bit_patterns(rng)
    b = a[::-1].copy() if exponent is None else np.full_like(a, exponent)
    if exponent is None and plain:
        output = run_for("generic", "pow", a)
    else:
        output = run("aten::pow.Tensor_Tensor_out", [a, b, Out(a.shape)])[0]
    assert output is not None
    with np.errstate(all="ignore"):
        exact = np.power(a.astype(np.float64), b.astype(np.float64))
        rounded = exact.astype(np.float32)
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
        near = np.abs(output - exact) <= 0.51 * unit
        # subnormal results and powers of negative numbers are libm's, within a unit
        special = ~((a >= 2.0**-126) & (np.abs(rounded) > 2.0**-124) & np.isfinite(rounded))
        near |= special & (np.abs(output - exact) <= 1.01 * unit)
        near |= (output == rounded) | (np.isnan(output) & np.isnan(rounded))
    bad = np.flatnonzero(~near)
    assert bad.size == 0, (a[bad][:5], b[bad][:5], output[bad][:5], exact[bad][:5])
    ends = rounded == 0
    np.testing.assert_array_equal(np.signbit(output[ends]), np.signbit(rounded[ends]))


@pytest.mark.parametrize("number", ["base", "exponent", None])
def test_powers_of_any_length(number: str | None, rng: np.random.Generator) -> None:
    """Ends of vectors, and rare powers among others, are those of whole calls."""
    a, b = np.abs(rng.standard_normal((2, 40))).astype(np.float32) + 0.1
    a[::7], a[3], b[5], b[38] = -1.5, 0, 1e30, np.nan
    if number == "base":
        a[:] = 1.25
    elif number == "exponent":
        b[:] = 1.7
    op = "aten::pow.Tensor_Tensor_out"
    with np.errstate(all="ignore"):
        want = np.power(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    for start, stop in [(i, n) for i in (0, 1, 6) for n in range(i + 1, 41)]:
        x, y = a[start:stop].copy(), b[start:stop].copy()
        x, y = (x[:1] if number == "base" else x), (y[:1] if number == "exponent" else y)
        output = run(op, [x, y, Out((stop - start,))])[0]
        np.testing.assert_array_equal(output, want[start:stop])


def test_gelu_near_its_definition(rng: np.random.Generator) -> None:
    """x (1 + erf(x / sqrt 2)) / 2 with an error of erf of one unit in the last place of 1."""
    x = np.concatenate([rng.uniform(-8, 8, 200_000), [0.0, -0.0, np.nan, np.inf]])
    x = x.astype(np.float32)
    wide = torch.from_numpy(x.astype(np.float64))
    want = torch.nn.functional.gelu(wide).numpy()
    output = run("aten::gelu.out", [x, "none", Out(x.shape)])[0]
    limit = 2.0**-24 * (1.1 * np.abs(want) + np.abs(x))
    np.testing.assert_array_equal(np.isnan(output), np.isnan(want))
    with np.errstate(invalid="ignore"):
        ok = (np.abs(output - want) <= limit) | (output == want) | np.isnan(want)
    assert ok.all(), (x[~ok][:5], output[~ok][:5], want[~ok][:5])


def test_float32_atan2(rng: np.random.Generator) -> None:
    """The whole circle within the last places; axes, infinities and signs of zero as in eager."""
    bits = rng.integers(0, 2**32, (2, 60_000), dtype=np.uint64).astype(np.uint32).view(np.float32)
    ends = np.asarray([0, -0.0, 1, -1, 1e-45, -1e-38, 3e38, np.inf, -np.inf, np.nan], "f4")
    pairs = [bits, rng.standard_normal((2, 60_000)), np.meshgrid(ends, ends)]
    with np.errstate(all="ignore"):
        y, x = (np.concatenate([np.ravel(p[k]) for p in pairs]).astype(np.float32) for k in (0, 1))
        exact = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    output = run("aten::atan2.out", [y, x, Out(y.shape)])[0]
    check("aten::atan2.out", [y, x])
    kept = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(output)[kept], np.signbit(exact)[kept])


@pytest.mark.parametrize("form", ["none", "tanh"])
def test_float32_gelu(form: str, rng: np.random.Generator) -> None:
    a = np.concatenate([rng.standard_normal(50_000) * 4, [0, -0.0, 1e30, -1e30]])
    a = a.astype(np.float32)
    check("aten::gelu.out", [a, form])
    assert np.isnan(run("aten::gelu.out", [np.full(9, np.nan, "f4"), form, Out((9,))])[0]).all()


def same_parts(result: np.ndarray, want: np.ndarray) -> None:
    """Assert bitwise equality, except for the payload of NaN."""
    a, b = (np.stack([v.real, v.imag]) for v in (result, want))
    np.testing.assert_array_equal(a, b)
    signs = ~np.isnan(b)
    np.testing.assert_array_equal(np.signbit(a[signs]), np.signbit(b[signs]))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_sums_and_products_of_ends(dtype: str) -> None:
    """Signed zeros, infinities and NaN, also as a number and as alpha."""
    ends = np.asarray([0, -0.0, 1, -1.5, np.inf, -np.inf, np.nan])
    z = (ends[:, None] + np.zeros_like(ends) * 1j).astype(dtype)
    z.imag = ends
    z, numbers = z.ravel(), [*ends.tolist(), 0, 2]
    pairs = [(np.repeat(z, z.size), np.tile(z, z.size)), *((z, number) for number in numbers)]
    for (x, y), name in itertools.product(pairs, ("add", "sub", "rsub", "mul")):
        form = "out" if isinstance(y, np.ndarray) else "Scalar_out"
        if (name, form) == ("rsub", "out"):
            continue  # no such operator
        b = torch.from_numpy(y) if isinstance(y, np.ndarray) else y
        for tail in [{}] if name == "mul" else [{"alpha": number} for number in numbers]:
            want = getattr(torch, name)(torch.from_numpy(x), b, **tail).numpy()
            output = run(f"aten::{name}.{form}", [x, y, *tail.values(), Out(x.shape, dtype)])[0]
            same_parts(output, want)


@pytest.mark.parametrize("dtype", HALVES)
def test_relu_of_every_half(dtype: str) -> None:
    """Its loop tests bits only."""
    x = np.arange(1 << 16).astype(np.uint16).view(array(np.random.default_rng(), (), dtype).dtype)
    for a in (x, np.repeat(x, 2)[::2]):
        check("aten::relu.out", [a])
