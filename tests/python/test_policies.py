"""Requirements on outputs (`require=`, `metrics=`): formulas, verdicts, messages."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_c.compare import policies
from executorch_c.compare.requiring import settled
from executorch_c.testing import Comparison, compare

EXPECTED = np.array([[1.0, -2.0, 3.0, 0.5], [0.0, 4.0, -1.0, 2.0]], np.float32)
ACTUAL = EXPECTED + np.array([[0, 0.1, 0, 0], [0, -0.2, 0, 0.4]], np.float32)
ERROR = np.abs(ACTUAL.astype(float) - EXPECTED.astype(float))
RMSE = math.sqrt(np.mean(ERROR**2))
NORM = math.sqrt(np.sum(EXPECTED.astype(float) ** 2))
VALUES = {
    "max_abs": ERROR.max(),
    "mean_abs": ERROR.mean(),
    "p99_abs": np.percentile(ERROR, 99),
    "p50_abs": np.percentile(ERROR, 50),
    "p99.9_abs": np.percentile(ERROR, 99.9),
    "rmse": RMSE,
    "max_rel": np.max(ERROR[EXPECTED != 0] / np.abs(EXPECTED[EXPECTED != 0])),
    "relative_l2": RMSE * math.sqrt(8) / NORM,
    "sqnr_db": 20 * math.log10(NORM / (RMSE * math.sqrt(8))),
    "psnr_db": 20 * math.log10(4 / RMSE),
    "cosine": np.sum(ACTUAL * EXPECTED) / (NORM * np.linalg.norm(ACTUAL)),
    "equal": 5 / 8,
    "top1": 1.0,
}


def softmax(rows: Any) -> Any:
    e = np.exp(rows.astype(float))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("name", VALUES)
def test_a_metric_is_its_formula(name: str) -> None:
    assert policies.metric_of(name)(ACTUAL, EXPECTED) == pytest.approx(VALUES[name], rel=1e-5)


def test_kl_is_of_softmax_in_nats() -> None:
    p, q = softmax(EXPECTED), softmax(ACTUAL)
    wanted = np.mean(np.sum(p * np.log(p / q), axis=-1))
    assert policies.metric_of("kl")(ACTUAL, EXPECTED) == pytest.approx(wanted)
    assert policies.metric_of("kl")(EXPECTED, EXPECTED) == 0


def test_max_ulp_counts_representable_values() -> None:
    one = np.array([1.0, 2.0], np.float32)
    next_ = np.nextafter(np.nextafter(one, np.float32(9)), np.float32(9))
    assert policies.metric_of("max_ulp")(next_, one) == 2


def test_top_k_looks_for_the_expected_class_among_the_largest() -> None:
    expected = np.eye(6, dtype=np.float32)  # class i in row i
    actual = np.tile(np.arange(6, dtype=np.float32), (6, 1))  # 5, then 4, ...
    for k, share in (("top1", 1 / 6), ("top2", 2 / 6), ("top5", 5 / 6)):
        assert policies.metric_of(k)(actual, expected) == pytest.approx(share)
    assert math.isnan(policies.metric_of("top6")(actual, expected))  # any class would do


def test_every_metric_of_the_table_tells_a_wrong_output() -> None:
    actual = -np.tile(EXPECTED, (1, 2))
    expected = np.tile(EXPECTED, (1, 2)) + np.arange(8, dtype=np.float32)
    for name, metric in policies.METRICS.items():
        right, wrong = metric(expected, expected), metric(actual, expected)
        assert (wrong < right) if metric.is_better_large else (wrong > right), name


@pytest.mark.parametrize("name", policies.METRICS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_never_pass(name: str, bad: float) -> None:
    expected = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 12)
    actual = expected.copy()
    actual[0, 3] = bad
    larger = policies.METRICS[name].is_better_large
    text = f"{name}>=-1e300" if larger else f"{name}<=1e300"
    assert compare(expected, expected, require=text)
    assert compare(actual, expected, require=text).verdict == "differ"


def test_nan_of_a_callers_metric_never_passes() -> None:
    for text in ("mine>=-1e300", "mine<=1e300"):
        result = compare(EXPECTED, EXPECTED, require=text, metrics={"mine": lambda a, e: math.nan})
        assert result.verdict == "differ" and "mine is not defined (NaN)" in str(result)


def test_equal_nan_and_infinities_are_left_out() -> None:
    expected = np.array([1, np.nan, -np.inf, 4], np.float32)
    assert compare(expected.copy(), expected, require=["max_abs<=0", "cosine>=0.999"])
    assert not compare(expected[::-1].copy(), expected, require="max_abs<=100")


# ---- verdicts ---------------------------------------------------------------------------------


def test_a_requirement_decides_and_the_default_is_beside() -> None:
    loose = compare(ACTUAL, EXPECTED, require="cosine>=0.99")
    assert (loose.verdict, loose.by_default()) == ("match", "differ")
    assert "outputs match, by requirement (by default: differ)" in str(loose)
    tight = compare(EXPECTED, EXPECTED + np.float32(1e-7), require="max_abs<=0")
    assert (tight.verdict, tight.by_default()) == ("differ", "match")
    assert "max_abs is 1.19209e-07, <= 0 is required" in str(tight)


def test_each_requirement_has_a_row_with_value_and_limit() -> None:
    result = compare(ACTUAL, EXPECTED, require=["cosine>=0.9999", "max_abs<=0.5"])
    rows = policies.summarized(result.requirements())
    assert [(row.requirement, row.limit, row.ok) for row in rows] == [
        ("cosine>=0.9999", ">= 0.9999", False),
        ("max_abs<=0.5", "<= 0.5", True),
    ]
    assert [row.cells()[4] for row in rows] == ["differ", "match"]
    text = result.table() + result.requirements_table()
    assert "cosine>=0.9999" in text and ">= 0.9999" in text
    assert max(map(len, str(result).splitlines())) <= 80
    figures = json.loads(result.to_json())
    assert figures["verdict"] == "differ" and figures["by_default"] == "differ"
    cosine = figures["outputs"][0]["requirements"][0]
    assert cosine["limit"] == 0.9999 and cosine["value"] == pytest.approx(VALUES["cosine"])
    assert not cosine["ok"]
    assert "Requirements" in result.to_html() and "&gt;= 0.9999" in result.to_html()


def test_a_name_or_index_selects_the_output() -> None:
    actual = {"logits": EXPECTED, "boxes": ACTUAL}
    expected = {"logits": EXPECTED, "boxes": EXPECTED}
    assert not compare(actual, expected, require="logits:max_abs<=0")  # boxes: by default
    assert compare(actual, expected, require=["logits:max_abs<=0", "boxes:cosine>=0.99"])
    assert compare(actual, expected, require=["0:max_abs<=0", "1:cosine>=0.99"])
    with pytest.raises(ValueError, match="no output 'logit', did you mean 'logits'"):
        compare(actual, expected, require="logit:max_abs<=0")


def test_a_requirement_without_a_name_is_about_floats() -> None:
    ids = np.array([1, 2, 3])
    assert not compare([EXPECTED, ids + 1], [EXPECTED, ids], require="cosine>=0.9")
    assert compare([EXPECTED, ids], [EXPECTED, ids], require="cosine>=0.9")
    assert compare([ids + 1], [ids], require="max_abs<=1")  # no float at all
    assert compare([EXPECTED, ids + 1], [EXPECTED, ids], require="1:max_abs<=1")


def test_shape_dtype_count_and_the_callers_tolerance_hold_as_well() -> None:
    assert not compare(ACTUAL[:1], EXPECTED, require="cosine>=0")
    assert not compare(ACTUAL.astype(np.float64), EXPECTED, require="cosine>=0")
    assert not compare([ACTUAL, ACTUAL], [EXPECTED], require="cosine>=0")
    assert not compare(ACTUAL, EXPECTED, require="cosine>=0", atol=0.1, rtol=0)
    assert compare(ACTUAL, EXPECTED, require="cosine>=0", atol=0.5, rtol=0)


def test_an_undefined_metric_of_an_uninformative_output_is_inconclusive() -> None:
    zeros = np.zeros(4, np.float32)
    result = compare(zeros, zeros, require="cosine>=0.9")
    assert result.verdict == "inconclusive" and "all zero" in str(result)
    assert compare(zeros, zeros, require="max_abs<=0")
    assert compare(zeros + 1, zeros, require=["cosine>=0.9", "max_abs<=0"]).verdict == "differ"


def test_a_metric_of_the_callers() -> None:
    metrics = {"shift": lambda a, e: float(np.mean(a - e))}
    assert compare(ACTUAL, EXPECTED, require="shift<=0.05", metrics=metrics)
    assert not compare(ACTUAL, EXPECTED, require="shift>=0.05", metrics=metrics)
    shown = compare(ACTUAL, EXPECTED, metrics=metrics)
    assert shown.verdict == "differ" and shown.by_default() is None and "shift" in str(shown)
    with pytest.raises(TypeError, match="metric 'bad' returns a str"):
        compare(ACTUAL, EXPECTED, require="bad<=1", metrics={"bad": lambda a, e: "x"})
    with pytest.raises(TypeError, match=r"`metrics\['bad'\]` is a int, expected a function"):
        compare(ACTUAL, EXPECTED, metrics={"bad": 1})  # type: ignore[dict-item]


def test_a_share_is_of_the_rows_of_all_cases() -> None:
    """One row of ten is wrong: of that case no row is right, of all 90 %."""

    def case(is_right: bool) -> Comparison:
        expected = np.arange(8, dtype=np.float32)[None]
        actual = expected if is_right else expected[:, ::-1].copy()
        return compare(actual, expected, require="top1>=0.9")

    parts = [case(is_right=i != 3) for i in range(10)]
    assert [part.verdict for part in parts].count("differ") == 1
    assert all(part.verdict == "match" for part in settled(parts))
    few = settled(parts[:9])
    assert [part.verdict for part in few].count("differ") == 1
    values = [row for i, part in enumerate(parts) for row in part.requirements(str(i))]
    [row] = policies.summarized(values)
    assert (row.value, row.ok, row.case) == (0.9, True, "3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cosin>=0.9", "no metric 'cosin', did you mean 'cosine'"),
        ("cosine=0.9", "expected \\[OUTPUT:\\]METRIC>=VALUE"),
        ("cosine", "expected \\[OUTPUT:\\]METRIC>=VALUE"),
        ("cosine>=", "expected \\[OUTPUT:\\]METRIC>=VALUE"),
        ("cosine>=high", "high is no number"),
        ("cosine>=nan", "nan is no number"),
        ("cosine<=0.9", "larger is better of cosine, expected >="),
        ("max_abs>=0.9", "smaller is better of max_abs, expected <="),
        ("top0>=0.9", "no metric 'top0'"),
        ("", "expected"),
    ],
)
def test_a_wrong_requirement_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(ACTUAL, EXPECTED, require=text)


def test_spaces_units_and_aliases() -> None:
    one = policies.parse(" 0:sqnr >= 30 dB ")
    assert (one.output, one.metric.name, one.relation, one.limit) == ("0", "sqnr_db", ">=", 30.0)
    assert policies.parse("a:b:top3>0.5").output == "a:b"


def test_the_page_has_every_metric() -> None:
    page = Path(__file__).parents[2] / "executorch_c" / "docs" / "howto" / "inputs.md"
    text = page.read_text()
    assert [name for name in policies.METRICS if f"`{name}`" not in text] == []
