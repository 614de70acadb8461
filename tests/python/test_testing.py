"""executorch_c.testing: verdicts, metrics, reports; channels that quantising does not explain."""

import math

import ml_dtypes
import numpy as np
import pytest

import executorch_c
from executorch_c.compare import tolerance
from executorch_c.compare.arrays import compare_flat
from executorch_c.compare.comparison import HEAD
from executorch_c.compare.channels import mismatched, wrong_channels
from executorch_c.testing import MismatchError, assert_matches, compare
from tests.python.digits import DIGITS, EXPECTED, IMAGES


FLOATS = ["float16", ml_dtypes.bfloat16, "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3, 4)])
def test_equal_arrays_match(
    dtype: object, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    x = rng.integers(0, 2, shape).astype(dtype)  # type: ignore[call-overload]
    x.reshape(-1)[:1] = 1
    x.reshape(-1)[1:2] = 0
    comparison = compare(x, x.copy())
    [one] = comparison
    assert one.metrics is not None and one.metrics.mismatched == 0
    assert one.metrics.max_abs == 0
    assert comparison.verdict == ("match" if x.size else "inconclusive")
    assert ("outputs match" in str(comparison)) is bool(comparison) is bool(x.size)


def test_flushed_denormals_are_named() -> None:
    """Delegates flush denormal numbers to zero: the reason says so where nothing else differs."""
    tiny = np.array([1e-40, -3e-39, 2e-41], np.float32)
    assert "denormal numbers (below 1.2e-38) were flushed" in str(compare(0 * tiny, tiny))
    for wrong in (-tiny, np.array([0, 0, 1e-30], np.float32)):
        assert "denormal" not in str(compare(wrong, tiny)) and not compare(wrong, tiny)
    assert "denormal" not in str(compare(0 * tiny, np.array([1e-40, 1, 2], np.float32)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("limits", [{"rtol": 1e-3}, {"atol": 1e-4}, {"rtol": 0, "atol": 1e-6}])
def test_explicit_tolerances_are_those_of_torch(
    dtype: object, limits: dict[str, float], rng: np.random.Generator
) -> None:
    torch = pytest.importorskip("torch")
    ones = np.ones(2).astype(dtype)  # type: ignore[call-overload]
    tolerance = compare(ones, ones, **limits)[0].tolerance
    both = {"rtol": tolerance.rtol, "atol": tolerance.atol}
    expected = rng.standard_normal(2000).astype(dtype)  # type: ignore[call-overload]
    expected[:100] = 0
    for scale in (0, 1e-8, 1e-6, 1e-5, 1e-3, 1e-2):
        wide = expected.astype("complex128" if expected.dtype.kind == "c" else "float64")
        actual = (wide + rng.uniform(0, scale, 2000)).astype(expected.dtype)

        def tensor(array: np.ndarray) -> object:
            if array.dtype == ml_dtypes.bfloat16:
                return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
            return torch.from_numpy(array)

        try:
            torch.testing.assert_close(tensor(actual), tensor(expected), **both)
            close = True
        except AssertionError:
            close = False
        assert compare(actual, expected, **limits).ok is close
        assert compare(tensor(actual), tensor(expected), **limits).ok is close
    zeros = np.zeros(3, expected.dtype)
    assert compare(zeros, zeros, **limits).ok  # as in assert_close: only the tolerances decide


def test_figures() -> None:
    expected = np.array([[1.0, 2.0, 4.0], [8.0, 0.0, 1.0]], np.float32)
    actual = expected.copy()
    actual[0, 1] = 2.5
    actual[1, 2] = 9
    [one] = compare(actual, expected, rtol=0.1, atol=0)
    gap = one.metrics
    assert gap is not None
    assert (gap.mismatched, gap.elements) == (2, 6)
    assert (gap.first, gap.worst) == ((0, 1), (1, 2))
    assert (gap.actual_at_worst, gap.expected_at_worst) == (9, 1)
    assert (gap.max_abs, gap.max_rel, gap.argmax) == (8, 8, 0.5)
    assert gap.max_ulp == 3 * 2**23 + 2**20  # from 1 to 8 three binades, to 9 an eighth of one
    a, e = actual.ravel().astype("f8"), expected.ravel().astype("f8")
    assert gap.cosine == pytest.approx(a @ e / np.sqrt((a @ a) * (e @ e)))
    assert gap.snr_db == pytest.approx(20 * math.log10(np.linalg.norm(e) / np.linalg.norm(a - e)))


def test_ulp_counts_representable_values() -> None:
    one = np.float32(1)
    cases = [
        (np.nextafter(one, 2), one, 1),
        (np.float32(-0.0), np.float32(0), 0),
        (np.nextafter(np.float32(0), -one), np.nextafter(np.float32(0), one), 2),
    ]
    for a, e, ulp in cases:
        [result] = compare(np.asarray(a), np.asarray(e))
        assert result.metrics is not None and result.metrics.max_ulp == ulp
    lowest, highest = np.finfo("f8").min, np.finfo("f8").max
    [result] = compare(np.array([lowest]), np.array([highest]))
    assert result.metrics is not None
    assert result.metrics.max_ulp == pytest.approx(2 * (2047 * 2**52 - 1))


@pytest.mark.parametrize(
    ("actual", "expected", "ok"),
    [
        *(([np.nan, 1], [np.nan, 1], True), ([np.nan, 1], [0, 1], False)),
        *(([0, 1], [np.nan, 1], False), ([np.inf, -np.inf], [np.inf, -np.inf], True)),
        *(([np.inf], [-np.inf], False), ([3e38], [np.inf], False), ([np.nan], [np.inf], False)),
    ],
)
def test_nan_and_infinity(actual: list[float], expected: list[float], ok: bool) -> None:
    comparison = compare(np.array(actual, "f4"), np.array(expected, "f4"))
    assert comparison.ok is ok


def test_nan_and_huge_integers() -> None:
    x = np.array([np.nan], np.float32)
    assert not compare(x, x, equal_nan=False)
    big = np.array([2**62], np.int64)
    assert compare(big, big)
    assert not compare(big + 1, big)


@pytest.mark.parametrize(
    ("actual", "expected", "text"),
    [
        (np.zeros((2, 3), "f4"), np.zeros((3, 2), "f4"), "shape (2, 3), expected (3, 2)"),
        ([np.ones(2), np.ones(2)], [np.ones(2)], "2 outputs, expected 1"),
        ([], [np.ones(2)], "0 outputs, expected 1"),
        (np.zeros(2, "f4"), np.zeros(2, "f8"), "dtype float32, expected float64"),
        ([np.zeros(2)], [np.zeros(2), np.zeros(2)], "1 output, expected 2"),
        (None, np.zeros(2), "None, expected an array (ndarray)"),
        ("a", "b", "'a', expected 'b'"),
        (np.array([1, 5], "i8"), np.array([1, 4], "i8"), "worst at (1,): 5, expected 4"),
    ],
)
def test_differences_are_described(actual: object, expected: object, text: str) -> None:
    comparison = compare(actual, expected)
    assert not comparison
    assert text in str(comparison)
    assert "outputs differ" in str(comparison)
    assert "Outputs differ" in comparison._repr_html_()


def test_structures_and_wrong_arguments() -> None:
    x, y = np.arange(2, dtype="f4"), np.arange(3, dtype="f4")
    assert compare([x, y, 3, None], {"a": x, "b": (y, [3, None])})
    assert not compare([x, y], {"b": y, "a": x})
    with pytest.raises(ValueError, match="`rtol` is -1, expected 0 or more"):
        compare(1.0, 1.0, rtol=-1)
    with pytest.raises(TypeError, match="expected an array of numbers"):
        compare(np.array(["a"]), np.array(["a"]))


def test_a_program_matches() -> None:
    program = executorch_c.Runtime.get().load_program(DIGITS)
    for source in (DIGITS, DIGITS.read_bytes(), program, program.load_method("forward")):
        comparison = assert_matches([IMAGES], EXPECTED, program=source, atol=1e-4)
        assert comparison[0].metrics is not None and comparison[0].metrics.argmax == 1.0


def test_a_wrong_answer_is_an_assertion_error() -> None:
    expected = EXPECTED.copy()
    expected[3, 7] += 1
    with pytest.raises(MismatchError, match=r"(?s)output 0: 1 of .* worst at\s+\(3, 7\)") as caught:
        assert_matches([IMAGES], [expected], program=DIGITS, atol=1e-4)
    assert isinstance(caught.value, AssertionError)
    assert caught.value.comparison[0].metrics.mismatched == 1  # type: ignore[union-attr]


# ---- verdicts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        (np.zeros((2, 3), "f4"), "all zero"),
        (np.full(5, 7.0, "f4"), "constant (7.0)"),
        (np.full(4, np.nan, "f4"), "NaN everywhere"),
        (np.empty((0, 3), "f4"), "empty"),
        (np.zeros(3, "i8"), "all zero"),
        (np.ones(3, bool), "constant (True)"),
    ],
)
def test_an_uninformative_reference_is_inconclusive(reference: np.ndarray, why: str) -> None:
    comparison = compare(reference.copy(), reference)
    assert comparison.verdict == "inconclusive" and not comparison
    assert "inconclusive" in str(comparison) and why in str(comparison)
    assert "Inconclusive" in comparison._repr_html_()
    # With a conclusive output, an inconclusive one is a remark; one that differs decides.
    conclusive = np.arange(3, dtype="f4")
    assert compare([conclusive, reference.copy()], [conclusive, reference]).verdict == "match"
    if reference.size:
        assert compare((reference == 0).astype(reference.dtype), reference).verdict == "differ"


def test_no_comparison_is_not_a_match() -> None:
    assert compare([], []).verdict == "inconclusive" and not compare([], [])
    assert "nothing was compared" in str(compare([], []))
    assert compare([None], [None]).verdict == "inconclusive"
    assert compare(["text"], ["text"]).verdict == "match"


SCALES = (1e-30, 1e-12, 1e-6, 1.0, 1e6, 1e12)


@pytest.mark.parametrize("scale", SCALES)
def test_faults_are_found_at_any_scale(scale: float, rng: np.random.Generator) -> None:
    right = (rng.standard_normal((4, 50)) * scale).astype("f4")
    rounded = right * (1 + rng.uniform(-1, 1, right.shape) * 2e-7).astype("f4")
    assert compare(rounded, right).verdict == "match"
    for name, wrong in wrong_outputs(right).items():
        assert compare(wrong, right).verdict == "differ", name


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3])
@pytest.mark.parametrize("mask", [-1e9, -1e4, float(np.finfo("f4").min), -65504.0])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_masks_hide_no_fault(
    mask: float, share: float, scale: float, rng: np.random.Generator
) -> None:
    body = (rng.standard_normal((4, 50)) * scale).astype("f4")
    masked = np.zeros(200, bool)
    masked[rng.permutation(200)[: int(200 * share)]] = True
    masked = masked.reshape(4, 50)
    masked[0, [3, 7, 11]] = False  # faults are planted in these
    right = np.where(masked, np.float32(mask), body)
    assert compare(right * np.float32(1 - 1e-7), right).verdict == "match"
    for name, wrong in wrong_outputs(body).items():
        verdict = compare(np.where(masked, right, wrong), right).verdict
        assert verdict == "differ", name
    zeros = np.where(masked, right, 0)
    assert compare(zeros.astype("f4"), right).verdict == "differ"


def wrong_outputs(right: np.ndarray) -> dict[str, np.ndarray]:
    """Return outputs with a fault far above rounding."""
    size = np.float32(np.sqrt(np.mean(right.astype("f8") ** 2)))
    one = right.copy()
    one.flat[7] += size / 100
    column = right.copy()
    column[:, 3] += size / 1000
    nan = right.copy()
    nan.flat[11] = np.nan
    return {
        "zeros": np.zeros_like(right),
        "scaled": right * np.float32(1.01),
        "swapped": right[::-1].copy(),
        "one element": one,
        "a biased column": column,
        "NaN": nan,
        "negated": -right,
        "transposed": right.T.copy().reshape(right.shape),
    }


@pytest.mark.parametrize("rows", [3, 4, 8, 15])
def test_scores_of_few_detections(rows: int, rng: np.random.Generator) -> None:
    """Scores beside boxes have a tolerance of their own in few rows, too."""
    boxes = rng.uniform(200, 640, (rows, 4)).astype("f4")
    scores = rng.uniform(0.2, 0.9, (rows, 1)).astype("f4")
    right = np.concatenate((boxes, scores), 1)
    assert compare(right * np.float32(1 + 2e-6), right)
    wrong = right.copy()
    wrong[rows - 1, 4] += 1e-3  # far less than 1e-5 of the boxes
    assert compare(wrong, right).verdict == "differ"
    assert compare(wrong.T.copy(), right.T.copy()).verdict == "differ"
    wrong = right.copy()
    wrong[0, 1] += 0.1
    assert compare(wrong, right).verdict == "differ"


def test_small_outputs_have_no_small_slices_by_chance(rng: np.random.Generator) -> None:
    """Outputs of few rows with errors of 20 roundings of the whole; in some a sum cancels."""
    for _ in range(3000):
        shape = tuple(rng.integers(2, 16, 2))
        right = rng.standard_normal(shape).astype("f4")
        right.flat[-1] = 3  # not a mask value
        if rng.random() < 0.2:
            right[:, 0] = right[:, 1] - right[:, 1]
        elif rng.random() < 0.2:
            right[:, 0] = rng.standard_normal(shape[0]) * 1e-7
        error = rng.uniform(-20, 20, shape) * 2.0**-23 * np.sqrt(np.mean(right**2))
        assert compare((right + error).astype("f4"), right), (right, error)


@pytest.mark.parametrize(("rows", "classes"), [(1, 2), (1, 10), (2, 10), (64, 10)])
def test_log_probabilities_of_sure_classifiers(
    rows: int, classes: int, rng: np.random.Generator
) -> None:
    """The probability near 1 has a small logarithm, with the error of the others' scale."""
    for _ in range(100):
        logits = rng.standard_normal((rows, classes)).astype("f4")
        sure = np.resize(rng.permutation(classes), rows)  # another class in each of two rows
        logits[range(rows), sure] += rng.uniform(8, 16, rows)
        high = logits.max(1, keepdims=True)
        right = logits - (high + np.log(np.exp(logits - high).sum(1, keepdims=True)))
        error = rng.uniform(-2, 2, right.shape) * 2.0**-23 * np.abs(right).max()
        assert compare((right + error).astype("f4"), right), (right, error)
        wrong = right.copy()
        wrong[0, 0] += 1e-3 * np.abs(right).max()
        assert compare(wrong, right).verdict == "differ"


def test_small_masks_have_their_own_scale(rng: np.random.Generator) -> None:
    scores = rng.uniform(-0.1, 0.1, (4, 16)).astype("f4")
    mask = np.triu(np.full((4, 16), np.float32(-1000)), 1)
    wrong = scores + mask
    wrong[3, :2] += 1e-3
    assert compare(scores + mask, scores + mask)
    assert compare(wrong, scores + mask).verdict == "differ"


def test_a_large_slice_hides_no_small_one(rng: np.random.Generator) -> None:
    boxes = rng.uniform(0, 640, (1, 4, 300)).astype("f4")
    scores = rng.uniform(0, 0.1, (1, 80, 300)).astype("f4")
    right = np.concatenate((boxes, scores), 1)
    wrong = right.copy()
    wrong[:, 4:] *= 1.01
    assert compare(right * np.float32(1 + 1e-7), right).verdict == "match"
    assert compare(wrong, right).verdict == "differ"


def test_signal_to_noise_leaves_masks_out() -> None:
    right = np.array([1.0, -2.0, -1e9, 3.0, -1e9], "f4")
    wrong = np.array([0.0, 0.0, -1e9, 0.0, -1e9], "f4")
    metrics = compare(wrong, right)[0].metrics
    assert metrics is not None
    assert metrics.snr_db == pytest.approx(0) and math.isnan(metrics.cosine)


def test_texts_of_reports(rng: np.random.Generator) -> None:
    right = np.array([1.0, 1234567.0], "f8")
    text = str(compare(right + [0, 1e-5], right))
    assert "1234567.00001, expected 1234567" in " ".join(text.split())
    outputs = [rng.standard_normal(shape).astype("f4") for shape in [(2,) * 12, (3, 4), (5,)]]
    text = str(compare([out + np.float32(1) for out in outputs], outputs))
    assert max(map(len, text.splitlines())) <= 80


def test_limits_stand_beside_values() -> None:
    """Of the worst element; of outputs without such a limit, that of the RMS error or the SQNR."""
    expected = np.array([1.0, 2.0, 4.0], np.float32)

    def limit(comparison: executorch_c.testing.Comparison) -> str:
        return comparison[0].row()[HEAD.index("limit")]

    assert limit(compare([expected + [0, 0, 1]], [expected], rtol=0, atol=0.01)) == "0.01"
    assert limit(compare([expected + [0, 0, 1]], [expected], rtol=0.5, atol=0)) == "2"
    assert limit(compare([np.arange(3)], [np.arange(3)])) == "0"
    rule = tolerance.of_float_model(expected, 10.0)
    assert limit(compare_flat([expected], [expected], lambda *_: rule)) == "10 dB"
    rule = tolerance.within_quantization(expected, expected, expected + np.float32(0.1), 2.0)
    assert limit(compare_flat([expected], [expected], lambda *_: rule)).endswith(" rms")


def test_what_is_not_judged_is_marked() -> None:
    """As `validate` shows it: classes of a quantised program that quantising may have changed."""
    classes = np.arange(20)
    other = np.where(classes == 7, 3, classes)
    rule = lambda _, a, e: tolerance.against_float(a, e, 10.0)  # noqa: E731
    comparison = compare_flat([other], [classes], rule, check_dtype=False)
    assert comparison and comparison[0].metrics.not_judged == 1
    assert "0 (1 not judged)" in str(comparison)
    assert "quantising may change them" in str(comparison)
    assert "not judged" not in str(compare_flat([classes], [classes], rule))


def test_outputs_have_names_and_tolerances_of_their_own() -> None:
    expected = {"logits": np.arange(4.0), "cache": [np.arange(3.0), np.arange(2.0)]}
    actual = [np.arange(4.0) + 0.01, np.arange(3.0), np.arange(2.0)]
    comparison = compare(actual, expected)
    assert [output.name for output in comparison] == ["logits", "cache.0", "cache.1"]
    assert comparison.verdict == "differ" and "output 0 ('logits')" in str(comparison)
    for key in ("logits", 0):
        assert compare(actual, expected, atol={key: 0.1}).ok
        assert not compare([*actual[:2], actual[2] + 0.01], expected, atol={key: 0.1})
    assert compare(actual, list(expected.values()), names=["a", "b", "c"], atol={"a": 0.1})
    with pytest.raises(ValueError, match="'logit'.*'cache.0'"):
        compare(actual, expected, atol={"logit": 0.1})
    with pytest.raises(ValueError, match=r"`atol\['logits'\]` is -1"):
        compare(actual, expected, atol={"logits": -1})


@pytest.mark.parametrize(
    ("dtype", "ends"),
    [("int64", (-(2**63), 2**63 - 1)), ("uint64", (0, 2**64 - 1)), ("int8", (-128, 127))],
)
def test_differences_of_integers_are_exact(dtype: str, ends: tuple[int, int]) -> None:
    low, high = ends
    for expected in (high, high - 9, low + 9):
        for off in (0, 1, 2, 3):
            a, e = np.array([expected - off, 5], dtype), np.array([expected, 5], dtype)
            assert compare(a, e, atol=2).ok is (off <= 2), (expected, off)
            assert compare(e, a, atol=2).ok is (off <= 2), (expected, off)
    for a, e in ((low, high), (high, low)):
        assert not compare(np.array([a, 5], dtype), np.array([e, 5], dtype), atol=2)


def test_numbers_of_python_and_of_numpy() -> None:
    for actual, expected in ((5, 5.0), (True, 1), (1.0, True)):
        [one] = compare(actual, expected)
        assert one.verdict == "differ" and type(expected).__name__ in one.why()
        assert compare(actual, expected, check_dtype=False)
    assert compare(5, np.int32(5)) and compare(np.float64(5), 5.0)
    x = np.array([1, 2.5], ">f4")
    assert compare(x, x.astype("<f4")) and compare(x.astype("<f4"), x)
    assert not compare(x, np.array([1, 2], "<f4"))
    wide = np.array([1, 2], np.longdouble)
    assert compare(wide, wide) and not compare(wide, wide + 1)


SMALL = {
    ":, 3": ((4, 50), np.s_[:, 3]),
    ":, 8:16": ((1, 16), np.s_[:, 8:]),
    ":, 3:6, :, :": ((4, 8, 5, 5), np.s_[:, 3:6]),
    "150:200": ((200,), np.s_[150:]),
}
"""Small parts of arrays, by what a note calls them."""


@pytest.mark.parametrize("place", SMALL)
def test_small_parts_that_were_not_compared_have_a_note(
    place: str, rng: np.random.Generator
) -> None:
    """A part below the tolerance may be twice as large, or zero, and match: the match says so."""
    shape, part = SMALL[place]
    right = rng.standard_normal(shape).astype("f4")
    assert not compare(right * np.float32(1 + 2e-7), right).notes()
    right[part] *= 1e-8
    rounded = right * np.float32(1 + 2e-7)
    assert compare(rounded, right).verdict == "match" and not compare(rounded, right).notes()
    for factor in (0, 2):
        wrong = right.copy()
        wrong[part] *= factor
        for limits in ({}, {"atol": 1e-5}):
            comparison = compare(wrong, right, **limits)
            [note] = comparison.notes()
            assert comparison.ok and f"output 0[{place}] not compared" in note
            assert note in " ".join(str(comparison).split()) and comparison.as_dict()["notes"] == [
                note
            ]


def test_noise_has_no_note(rng: np.random.Generator) -> None:
    """Zeros, mask values, infinities and the zero crossings of a wave are no parts."""
    wave = np.sin(np.linspace(0, 60, 20000)).astype("f4")
    some = rng.standard_normal((4, 16)).astype("f4")
    zeros, masked, infinite = some.copy(), some.copy(), some.copy()
    zeros[:, 8:], masked[0], infinite[1] = 0, -1e9, np.inf
    for right in (wave, zeros, masked, infinite):
        comparison = compare(right + np.float32(1e-7), right)
        assert comparison.ok and not comparison.notes()


SHAPES = [((16, 32), 1), ((2, 8, 6, 6), 1), ((2, 5, 24), 2)]
"""Shapes of a linear layer, a convolution and a layer of sequences, with the axis of channels."""


def quantised(x: np.ndarray, axis: int | None) -> np.ndarray:
    """Return values rounded to 255 steps of the array's range, or of each channel's."""
    others = None if axis is None else tuple(i for i in range(x.ndim) if i != axis)
    step = np.abs(x).max(others, keepdims=True) / 127
    return (np.rint(x / step) * step).astype(np.float32)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("each", [False, True])
def test_quantising_is_no_wrong_channel(shape, axis: int, each: bool) -> None:
    """Neither with channels of quite different sizes, one of them zero, and outliers."""
    for seed in range(20):
        x = np.random.default_rng(seed).standard_t(3, shape).astype(np.float32)
        sizes = np.exp(2 * np.random.default_rng(seed + 100).standard_normal(shape[axis]))
        sizes[0] = 0
        x *= sizes.reshape([-1 if i == axis else 1 for i in range(x.ndim)]).astype(np.float32)
        with np.errstate(invalid="ignore"):
            near = np.nan_to_num(quantised(x, axis if each else None))
        assert not wrong_channels(near, x)[1].size
        assert mismatched(near, x) == 0
        assert not wrong_channels(np.maximum(near, 0), np.maximum(x, 0))[1].size


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("fault", ["swapped", "zero", "negative"])
def test_wrong_channels_are_found(rng, shape, axis: int, fault: str) -> None:
    x = rng.standard_normal(shape, np.float32)
    near = np.moveaxis(quantised(x, None).copy(), axis, 0)
    if fault == "swapped":
        near[[1, 3]] = near[[3, 1]]
    elif fault == "zero":
        near[[1, 3]] = 0
    else:
        near[[1, 3]] *= -1
    found = np.moveaxis(near, 0, axis)
    channels, wrong = wrong_channels(found, x)
    assert (channels, wrong.tolist()) == (axis, [1, 3])
    assert mismatched(found, x) == 2 * x.size // x.shape[axis]


def test_values_without_channels_are_not_judged(rng) -> None:
    for shape in [(), (9,), (4, 3), (2, 64)]:
        x = rng.standard_normal(shape).astype(np.float32)
        assert not wrong_channels(-np.asarray(x), np.asarray(x))[1].size
    x = rng.standard_normal((8, 8)).astype(np.float32)
    assert not wrong_channels(x[:4], x)[1].size
    assert not wrong_channels(np.full_like(x, np.nan), x)[1].size
