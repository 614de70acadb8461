"""Pictures: what their artists have, for odd outputs (NaN, zeros, 0-d) and for many rows."""

import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402

from executorch_c import plotting  # noqa: E402
from executorch_c._render import axes as _axes  # noqa: E402
from executorch_c._render.axes import Scale  # noqa: E402
from executorch_c.testing import CaseComparisons, ComparedCase, compare  # noqa: E402

EXPECTED = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
ACTUAL = EXPECTED.copy()
ACTUAL[1, 2, 3] += 0.5
ACTUAL[1, 0, 1] += 0.001
ACTUAL[0, 1, 1] = np.nan


def ticks(axis: Any) -> dict[str, float]:
    return dict(zip((text.get_text() for text in axis.get_ticklabels()), axis.get_ticklocs()))


def labels(axes: Any) -> str:
    legend = axes.get_legend()
    return "\n".join(text.get_text() for text in legend.get_texts()) if legend else ""


# ---- heat maps --------------------------------------------------------------------------------


def cells(figure: Figure) -> Any:
    return figure.axes[0].images[0].get_array()


def test_the_heat_map_is_the_slice_with_the_largest_error() -> None:
    actual = np.where(np.isnan(ACTUAL), EXPECTED, ACTUAL)
    figure = plotting.error_map(actual, EXPECTED)
    shown = cells(figure)
    np.testing.assert_array_equal(shown.mask, actual[1] == EXPECTED[1])  # zeros have no colour
    np.testing.assert_allclose(shown.compressed(), [0.001, 0.5], rtol=1e-3)
    axes = figure.axes[0]
    assert "at [1, :, :] of (2, 3, 4)" in axes.get_title("left")
    [ring] = axes.lines
    assert (*ring.get_xdata(), *ring.get_ydata()) == (3, 2) and not ring.get_clip_on()
    assert "0: 10 elements" in labels(axes) and "largest error" in labels(axes)


def test_other_slices_and_all_rows() -> None:
    rows = plotting.error_map(ACTUAL, EXPECTED, index="all")
    assert cells(rows).shape == (6, 4) and rows.axes[0].get_ylabel() == "axes 0 to 1"
    [ring] = rows.axes[0].lines
    assert (*ring.get_xdata(), *ring.get_ydata()) == (1, 1)  # NaN is the largest error
    assert cells(rows)[1, 1] > 0.5 and "NaN or infinite on one side: 1" in labels(rows.axes[0])
    other = plotting.error_map(ACTUAL, EXPECTED, index=(1,))
    assert not other.axes[0].lines and cells(other).count() == 2
    for index in ((2,), (0, 0), ()):
        with pytest.raises(IndexError, match=r"no slice .*: axes before the last two have \(2,\)"):
            plotting.error_map(ACTUAL, EXPECTED, index=index)
    with pytest.raises(ValueError, match=r"shape \(2, 3, 4\), expected \(4, 3\)"):
        plotting.error_map(ACTUAL, np.zeros((4, 3)))


def test_a_cell_has_the_largest_error_of_its_elements() -> None:
    expected = np.zeros((1000, 3000))
    actual = expected.copy()
    actual[777, 2222], actual[0, 0] = 1.0, 1e-12
    shown = cells(plotting.error_map(actual, expected))
    assert shown.shape == (256, 512) and shown.count() == 2
    assert shown.max() == 1 and shown.min() == 1e-6  # six decades of colours


# ---- histograms and scatter plots ----------------------------------------------------------------


def bars(axes: Any) -> list[tuple[Any, Any]]:
    data = [patch.get_data() for patch in axes.patches if hasattr(patch, "get_data")]
    return [(one.values, one.edges) for one in data]


def test_zeros_of_the_histogram_stand_apart() -> None:
    [axes] = plotting.error_hist(ACTUAL, EXPECTED, limit=0.01).axes
    (counts, edges), zeros, infinite = bars(axes)
    assert counts.sum() == 2 and zeros[0] == [21] and infinite[0] == [1]
    at = ticks(axes.xaxis)
    assert zeros[1][0] < at["0"] < zeros[1][1] < edges[0]
    assert edges[-1] < infinite[1][0] < at["∞"] < infinite[1][1]
    assert axes.get_xscale() == "log" and "limit 0.01" in labels(axes)
    [band] = plotting.error_hist(ACTUAL, EXPECTED, limit=EXPECTED * 0.1 + 0.1).axes
    assert "limits 0.1 to 2.4" in labels(band)


def test_values_of_both_sides() -> None:
    [axes] = plotting.value_hist(ACTUAL, EXPECTED, names=("program", "eager")).axes
    (ours, edges), (theirs, same) = bars(axes)
    assert ours.sum() == 23 and theirs.sum() == 24 and (edges == same).all()
    assert labels(axes) == "program (1 NaN)\neager"


def test_scatter_has_the_band_and_what_is_beyond_it() -> None:
    [axes] = plotting.scatter(ACTUAL, EXPECTED, limit=np.full((2, 3, 4), 0.1)).axes
    band, within, beyond = axes.collections
    assert len(within.get_offsets()) == 22 and beyond.get_offsets().tolist() == [[23, 23.5]]
    [path] = band.get_paths()
    assert (path.vertices[:, 1] - path.vertices[:, 0]).max() == pytest.approx(0.1)
    assert "computed NaN or infinite: 1" in labels(axes)
    diagonal, edge = axes.lines
    assert list(edge.get_xdata()) == [5] and list(diagonal.get_xdata()) == [0, 23]


def test_many_elements_are_thinned_and_the_largest_errors_stay() -> None:
    expected = np.linspace(0, 1, 200_000)
    actual = expected.copy()
    actual[12_345] += 2
    [axes] = plotting.scatter(actual, expected, limit=1).axes
    _, within, beyond = axes.collections
    count = len(within.get_offsets()) + len(beyond.get_offsets())
    assert 4000 < count <= plotting.outputs.MAX_POINTS and len(beyond.get_offsets()) == 1
    assert axes.get_title("left") == f"{count:,} of 200,000 elements"


ODD = {
    "0-d": (np.float32(1.5), np.float32(1)),
    "equal": (np.ones((3, 4)), np.ones((3, 4))),
    "empty": (np.zeros((2, 0, 3)), np.zeros((2, 0, 3))),
    "NaN": (np.full(5, np.nan), np.arange(5.0)),
    "both NaN": (np.full((2, 2), np.nan), np.full((2, 2), np.nan)),
    "int64": (np.array([2**62 + 1, 5]), np.array([2**62, 5])),
    "bool": (np.array([True, False]), np.array([True, True])),
    "complex": (np.array([1 + 1j, 2]), np.array([1, 2j])),
    "huge": (np.array([1e308, np.inf]), np.array([-1e308, np.inf])),
    "tiny": (np.array([5e-324, 1]), np.array([0, 1.0])),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "limit"), [*zip(ODD, [None, 0.0, np.inf, 1e-3, 0.0] * 2)])
def test_odd_outputs_are_drawn(name: str, limit: float | None) -> None:
    actual, expected = ODD[name]
    figure = plotting.output(actual, expected, limit=limit)
    figure.draw_without_rendering()
    heat, hist = figure.axes[:2]
    drawn = [int(values.sum()) for values, _ in bars(hist)]
    different = {"0-d": 1, "NaN": 5, "int64": 1, "bool": 1, "complex": 2, "huge": 1, "tiny": 1}
    assert sum(drawn) == np.size(actual)
    zeros = re.search(r"0: (\d+) element", labels(heat))
    assert int(zeros[1] if zeros else 0) == np.size(actual) - different.get(name, 0)


# ---- rows -------------------------------------------------------------------------------------


def test_zero_infinity_and_nan_have_places_of_their_own() -> None:
    scale = Scale([0, 1e-6, 0.1, np.inf, np.nan], log=True)
    low, small, large, high, nan = scale.places([0, 1e-6, 0.1, np.inf, np.nan])
    assert low < 5e-7 < small and (small, large) == pytest.approx((1e-6, 0.1))
    assert large < 0.5 < high < nan
    axes = Figure().add_subplot()
    scale.label(axes, "y")
    at = ticks(axes.yaxis)
    assert [at["0"], at["∞"], at["NaN"]] == pytest.approx([low, high, nan])
    assert len([line for line in axes.lines if line.get_linestyle() == ":"]) == 2
    bottom, top = axes.get_ylim()
    assert bottom < low and nan < top
    plain = Scale([3.0, 4.0], log=False)
    assert not (plain.has_low or plain.has_infinite or plain.has_nan)


@pytest.mark.parametrize("draw", [plotting.sqnr, plotting.node_errors])
def test_300_rows_are_readable(draw: Callable[..., Figure]) -> None:
    numbers = np.linspace(20, 60, 300)
    numbers[[7, 77, 123]] = (1, np.nan, 2) if draw is plotting.sqnr else (1000, np.nan, 900)
    names = [f"blocks.{i}.attention.projection.of.a.long.name" for i in range(300)]
    figure = draw(names, {"cost": numbers})
    axes = figure.axes[0]
    at = ticks(axes.xaxis)
    assert {7, 77, 123} <= {*at.values()}, "the worst rows have labels"
    assert len(at) <= _axes.MAX_LABELS and max(map(len, at)) <= _axes.MAX_LETTERS
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.get_xticklabels()]
    assert all(a.x1 <= b.x0 for a, b in zip(boxes, boxes[1:])), "labels overlap"
    numbers[77] = ticks(axes.yaxis)["NaN"]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), numbers)


def test_limits_of_nodes_are_marks() -> None:
    axes = plotting.node_errors(["a", "b"], {"error": [0.1, 0.2]}, limits=[1e-3, None]).axes[0]
    limits = next(line for line in axes.lines if line.get_label() == "limit")
    assert limits.get_marker() == "_" and limits.get_ydata().count() == 1


def test_sqnr_has_target_and_unknown_layers() -> None:
    figure = plotting.sqnr(
        ["a", "b", "c"], {"cost": [30.0, None, np.inf]}, target_db=25, whole_db=22.5
    )
    axes = figure.axes[0]
    drawn = axes.lines[0].get_ydata()
    assert drawn[0] == 30 and np.ma.getmaskarray(drawn).tolist() == [False, True, False]
    assert drawn[2] == ticks(axes.yaxis)["∞"] and "NaN" not in ticks(axes.yaxis)
    assert "target 25.0 dB" in labels(axes) and "outputs 22.5 dB" in labels(axes)
    levels = {tuple(line.get_ydata()) for line in axes.lines if line.get_linestyle() == "--"}
    assert levels == {(25, 25), (22.5, 22.5)}


@pytest.mark.parametrize("draw", [plotting.sqnr, plotting.node_errors])
@pytest.mark.parametrize("numbers", [[], [0.0, 0.0], [np.nan], [np.inf, -np.inf]])
@pytest.mark.filterwarnings("error")
def test_odd_rows_are_drawn(draw: Callable[..., Figure], numbers: list[float]) -> None:
    draw([str(i) for i in numbers], {"cost": numbers}).draw_without_rendering()


# ---- timelines ----------------------------------------------------------------------------------


def test_a_delegates_nodes_follow_it() -> None:
    spans = [
        plotting.Span(("aten::add.out",), 0, 5),
        plotting.Span(("d0 Npu",), 5, 20),
        plotting.Span(("d0 Npu", "Convolution"), 5, 12),
        plotting.Span(("aten::add.out",), 25, 5),
        plotting.Span(("aten::mul.out",), 30, 1),
    ]
    axes = plotting.timeline(spans[::-1]).axes[0]
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert [name.split("  ")[-2].strip() or name for name in names] == [
        *("aten::add.out", "d0 Npu", "Convolution", "aten::mul.out")
    ]
    assert names[2].startswith("    ") and names[0].endswith("10.0 us")
    first = [path.vertices[:, 0] for path in axes.collections[0].get_paths()]
    assert [(at.min(), at.max()) for at in first] == [(0, 5), (25, 30)]
    assert axes.get_xlim() == (0, 31)


def test_many_operators_share_a_row() -> None:
    spans = [plotting.Span((f"op{i}",), i, 1 + i % 7) for i in range(300)]
    spans += [plotting.Span(("d0", f"node{i}"), 300 + i, 1) for i in range(50)]
    spans.append(plotting.Span(("d0",), 300, 50))
    axes = plotting.timeline(spans).axes[0]
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert len(names) <= plotting.calls.MAX_ROWS
    assert sum("others" in name for name in names) == 2
    total = sum(float(name.split("  ")[-1].split()[0].replace(",", "")) for name in names)
    assert total == sum(span.us for span in spans), "no time is lost"
    plotting.timeline([]).draw_without_rendering()


def test_pictures_of_many_shapes_are_png() -> None:
    few = plotting.timeline([plotting.Span(("op",), i, 1) for i in range(10)])
    many = plotting.timeline([plotting.Span(("op",), i, 1) for i in range(3000)])
    assert "image/svg" in few._repr_html_() and "image/png" in many._repr_html_()


# ---- reports ------------------------------------------------------------------------------------


def test_a_comparison_draws_its_worst_output() -> None:
    result = compare([EXPECTED, ACTUAL], [EXPECTED, EXPECTED])
    assert set(result.PLOTS) == {"output", "error_map", "error_hist", "value_hist", "scatter"}
    assert "output 1" in result.plot().get_suptitle()
    axes = Figure().add_subplot()
    assert result.plot("scatter", ax=axes, output=0) is axes.figure
    assert axes.get_title("left") == "24 elements"
    assert "data:image/" in result.to_html() and "data:image/" in result._repr_html_()
    with pytest.raises(ValueError, match="'scater', did you mean 'scatter'"):
        result.plot("scater")
    with pytest.raises(ValueError, match="no output 7 whose error can be drawn"):
        result.plot(output=7)
    with pytest.raises(ValueError, match="other kinds take ax"):
        result.plot(ax=axes)
    with pytest.raises(TypeError):
        result.plot("scatter", target_db=3)


def test_cases_draw_the_worst_that_differs() -> None:
    cases = [
        ComparedCase("right", compare(EXPECTED, EXPECTED)),
        ComparedCase("small", compare(EXPECTED + 1, EXPECTED), None, (EXPECTED + 1,), (EXPECTED,)),
        ComparedCase("large", compare(EXPECTED * 9, EXPECTED), None, (EXPECTED * 9,), (EXPECTED,)),
    ]
    result = CaseComparisons("title", "forward", tuple(cases))
    assert result.plot().get_suptitle() == "large: output 0, differ"
    assert cells(result.plot("error_map", case=cases[1])).max() == 1
    with pytest.raises(ValueError, match="there is none"):
        result.plot(case=cases[0])
    assert result.to_html().count("<img") == 1
    assert "<img" not in CaseComparisons("title", "forward", tuple(cases[:1])).to_html()


def test_outputs_without_an_error_have_no_picture() -> None:
    result = compare([np.ones(3), "a"], [np.ones(4), "b"])
    assert "<img" not in result.to_html() + result._repr_html_()
    with pytest.raises(ValueError, match="numbers of one shape"):
        result.plot()


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    result = compare(ACTUAL, EXPECTED)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"executorch_c\[view\]"):
        result.plot()
    page = result.to_html()
    assert "<img" not in page and "executorch_c[view]" in page
