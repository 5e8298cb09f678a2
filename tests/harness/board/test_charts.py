"""Scales, ticks and charts: coordinates that can be checked in the head, and values that cannot be drawn."""

from __future__ import annotations

import math
import re

import pytest

from harness.board.charts.history import history_chart
from harness.board.charts.lines import NUM_COLOURS, Bar, Line, bar_chart, line_chart, style_class, styles, thinned
from harness.board.charts.run_strip import Strip, strip_plot, strip_reach
from harness.board.charts.scales import Label, Scale, axis, linear_ticks, log_ticks, pareto_front, span, tick_label
from harness.board.charts.scatter import Dot, scatter_chart
from tests.harness.board.test_render import Page

LABEL = Label("c", "A chart", "What it shows.")
NAN, INF = math.nan, math.inf


def test_a_scale_maps_its_ends_and_its_middle() -> None:
    """Low goes to start, high to stop, even backwards; on a logarithmic scale 1, 10 and 100 are equally far apart."""
    linear, logarithmic = Scale(0.0, 10.0, 100.0, 0.0), Scale(1.0, 100.0, 0.0, 200.0, is_log=True)

    assert [linear(value) for value in (0.0, 5.0, 10.0)] == [100.0, 50.0, 0.0]
    assert [logarithmic(value) for value in (1, 10, 100)] == pytest.approx([0, 100, 200])


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_a_scale_refuses_what_is_not_finite(value: float) -> None:
    """NaN cannot be drawn and does not become 0."""
    with pytest.raises(ValueError, match="cannot be drawn"):
        Scale(0.0, 1.0, 0.0, 1.0)(value)
    with pytest.raises(ValueError, match="cannot be drawn"):
        span([0.0, value])


def test_the_span_of_equal_values_is_not_empty() -> None:
    """Equal values get a tenth of their size on both sides, zeros get 1; without values there is none."""
    assert span([5.0, 5.0]) == (4.5, 5.5)
    assert span([0.0]) == (-1.0, 1.0)
    assert span([0.0, 10.0], 0.1) == (-1.0, 11.0)
    with pytest.raises(ValueError, match="without values"):
        span([])


def test_an_axis_turns_logarithmic_beyond_a_ratio_of_twenty() -> None:
    """Exactly twenty is still linear; a zero among the values keeps it linear, and on request an axis begins at 0."""
    assert not axis([1.0, 20.0], 0, 1).is_log
    assert axis([1.0, 20.1], 0, 1).is_log
    assert not axis([0.0, 1000.0], 0, 1).is_log
    assert axis([90.0, 100.0], 0, 1, from_zero=True).low == axis([0.0, 0.0], 0, 1, from_zero=True).low == 0.0


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 10.0, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.1, 0.3, [0.1, 0.15, 0.2, 0.25, 0.3]),
        (-1.0, 1.0, [-1.0, -0.5, 0.0, 0.5, 1.0]),
        (3.0, 3.0, [3.0]),
        (0.0, 9e9, [0.0, 2e9, 4e9, 6e9, 8e9]),
    ],
)
def test_linear_ticks_are_round_and_include_the_ends(low: float, high: float, ticks: list[float]) -> None:
    """A round number at an end is a tick; no tick is outside."""
    assert linear_ticks(low, high) == pytest.approx(ticks)


def test_logarithmic_ticks_are_one_two_five() -> None:
    """Over many powers of ten, only the powers."""
    assert log_ticks(1.0, 10.0) == [1.0, 2.0, 5.0, 10.0]
    assert log_ticks(1.0, 1e6) == [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]
    with pytest.raises(ValueError, match="logarithmic"):
        log_ticks(0.0, 1.0)


@pytest.mark.parametrize(
    ("value", "label"), [(0.0, "0"), (-0.0, "0"), (0.5, "0.5"), (1500.0, "1,500"), (1e9, "1e+09"), (2.5e-5, "2.5e-05")]
)
def test_tick_labels_have_no_needless_zeros(value: float, label: str) -> None:
    """What a reader expects at a tick."""
    assert tick_label(value) == label


def test_the_pareto_front_keeps_unbeaten_points() -> None:
    """(2, 2) beats (3, 3) and (2, 4); equal points both stay; ordered by the first coordinate."""
    assert pareto_front([(3.0, 3.0), (2.0, 2.0), (1.0, 9.0), (2.0, 4.0), (2.0, 2.0)]) == [2, 1, 4]
    assert pareto_front([]) == []
    assert pareto_front([(1.0, 1.0)]) == [0]


def _lines(*points: tuple[float, float], is_hit: bool = True) -> list[Line]:
    return [Line("a run", 0, points, is_hit)]


def test_a_line_chart_has_title_target_and_curve() -> None:
    """The target line is where the axis says; title and description are there for readers who cannot see it.

    One evaluation, exactly on the target at second 0, is a chart, too.
    """
    svg = line_chart(LABEL, _lines((0.0, 0.0), (10.0, 1.0)), "seconds", "accuracy", 0.5, (0.0, 1.0))

    Page(svg)
    assert '<title id="c-t">A chart</title><desc id="c-d">What it shows.</desc>' in svg
    # 0..1 fills the height from 276 to 14, so 0.5 is at 145.
    assert re.search(r'class="target" x1="68" x2="548" y1="145" y2="145"', svg)
    assert 'points="68,276 ' in svg
    point = line_chart(LABEL, _lines((0.0, 0.9)), "x", "y", 0.9, (0.0, 1.0))
    Page(point)
    assert "nan" not in point


@pytest.mark.parametrize(
    ("longest", "labels"),
    [
        (400.0, ["0", "50", "100", "150", "200", "250", "300", "350", "400"]),
        (400_000.0, ["0", "100,000", "200,000", "300,000", "400,000"]),
    ],
)
def test_long_labels_leave_out_every_other_tick(longest: float, labels: list[str]) -> None:
    """On a phone they would be written over each other."""
    svg = line_chart(LABEL, _lines((0.0, 0.0), (longest, 1.0)), "samples", "accuracy", 0.5, (0.0, 1.0))

    assert re.findall(r'text-anchor="middle">([0-9,]+)<', svg) == labels
    assert len(re.findall(r'class="grid" x1="([0-9.]+)" x2="\1"', svg)) == 9


def test_a_line_chart_shows_values_outside_its_limits() -> None:
    """A quality that the rules consider impossible is drawn inside the frame, not above it."""
    svg = line_chart(LABEL, _lines((0.0, 0.5), (1.0, 1.5)), "x", "y", 0.9, (0.0, 1.0))

    heights = [float(y) for y in re.findall(r'<circle [^>]*cy="([0-9.-]+)"', svg)]
    assert heights
    assert all(14 <= height <= 276 for height in heights)


def test_a_run_that_missed_ends_in_a_cross() -> None:
    """A missed run differs in shape, not only in colour."""
    assert 'class="miss' in line_chart(LABEL, _lines((1.0, 0.5), is_hit=False), "x", "y", 0.9, (0, 1))
    assert 'class="miss' not in line_chart(LABEL, _lines((1.0, 0.95)), "x", "y", 0.9, (0, 1))


def test_no_colour_is_used_twice() -> None:
    """As many series as colours have one each; one more, and all have the same one."""
    assert len({style_class(style) for style in styles(NUM_COLOURS)}) == NUM_COLOURS
    assert {style_class(style) for style in styles(NUM_COLOURS + 1)} == {"same"}


def test_charts_without_data_are_empty() -> None:
    """The page shows a sentence instead."""
    assert line_chart(LABEL, [Line("a run", 0, [])], "x", "y", 0.9, (0, 1)) == ""
    assert scatter_chart(LABEL, [], "x", "y") == ""
    assert bar_chart(LABEL, [], "x") == ""


@pytest.mark.parametrize("value", [NAN, INF])
def test_charts_refuse_what_is_not_finite(value: float) -> None:
    """A chart with a missing number would mislead."""
    with pytest.raises(ValueError, match="cannot be drawn"):
        line_chart(LABEL, _lines((0.0, value)), "x", "y", 0.9, (0, 1))
    with pytest.raises(ValueError, match="cannot be drawn"):
        line_chart(LABEL, _lines((0.0, 0.5)), "x", "y", value, (0, 1))
    with pytest.raises(ValueError, match="cannot be drawn"):
        scatter_chart(LABEL, [Dot("a", "1", value, 1.0)], "x", "y")
    with pytest.raises(ValueError, match="cannot be drawn"):
        bar_chart(LABEL, [Bar("a", [("train", value)])], "x")


def test_a_chart_escapes_names() -> None:
    """A submitter's name stays text in a chart, too."""
    svg = scatter_chart(Label("k", "<b>", "&"), [Dot("<script>", "<i>", 1.0, 1.0)], "x<", "y>")

    assert "<script>" not in svg
    assert "&lt;script&gt;" in svg
    assert "<b>" not in svg
    assert "<i>" not in svg
    Page(svg)


def test_a_scatter_chart_marks_its_front() -> None:
    """Two of three points are on the front; equal values in one coordinate are fine."""
    dots = [Dot("a", "1", 1.0, 3.0), Dot("b", "2", 2.0, 1.0), Dot("c", "3", 2.0, 3.0)]
    svg = scatter_chart(LABEL, dots, "x", "y")

    assert svg.count('class="best"') == 2
    assert svg.count('class="beaten"') == 1


def test_bars_add_up() -> None:
    """The second part starts where the first ends; a part of 0 is not drawn; a bar cannot go backwards."""
    svg = bar_chart(LABEL, [Bar("run 0", [("init", 1.0), ("train", 3.0), ("eval", 0.0)])], "seconds")

    places = [
        (float(x), float(width)) for x, width in re.findall(r'<rect [^>]*x="([0-9.]+)"[^>]*width="([0-9.]+)"', svg)
    ]
    assert len(places) == 2
    assert places[0][0] + places[0][1] == pytest.approx(places[1][0], abs=0.02)
    assert places[1][1] == pytest.approx(3 * places[0][1], abs=0.05)
    with pytest.raises(ValueError, match="negative"):
        bar_chart(LABEL, [Bar("run 0", [("other", -0.1)])], "seconds")


def test_thinning_keeps_the_ends() -> None:
    """1,000 points become 10, including the first and the last; 10 stay 10."""
    points = [(float(index), 0.0) for index in range(1000)]

    thin = thinned(points, 10)
    assert len(thin) == 10
    assert (thin[0], thin[-1]) == (points[0], points[-1])
    assert thinned(points[:10], 10) == points[:10]


def test_a_strip_shows_every_run_once() -> None:
    """Three counted, two hollow, one cross, the mean in the middle; if all runs missed, a cross and no dots."""
    strip = Strip([9.0, 10.0, 11.0], [8.0, 12.0], 1, 10.0, (9.5, 10.5))

    svg = strip_plot(LABEL, strip, strip_reach([strip]))
    assert svg.count('class="run"') == 3
    assert svg.count('class="run dropped"') == 2
    assert svg.count('class="miss"') == 1
    assert 'class="mean" x1="75"' in svg
    missed = strip_plot(LABEL, Strip([], [], 5, None, None), 0.01)
    assert "circle" not in missed
    assert 'class="miss"' in missed


def test_the_reach_of_strips_is_that_of_the_farthest_run() -> None:
    """Two rows, a thousand times apart, 20 % and 5 % wide: the scale extends to 20 %; for equal runs, to 0.5 %."""
    wide, narrow = Strip([8.0, 10.0], [], 0, 10.0, None), Strip([9_500.0, 10_000.0], [], 0, 10_000.0, None)

    assert strip_reach([wide, narrow]) == pytest.approx(0.2)
    assert strip_reach([Strip([5.0, 5.0], [], 0, 5.0, None)]) == 0.005
    assert strip_reach([]) == 0.005


def test_a_history_has_a_line_for_each_series_and_a_name_for_each_round() -> None:
    """Rounds are evenly spaced; times far apart are on a logarithmic scale; a round without a value is skipped."""
    series = [Line("fastest", 0, [(0, 100.0), (2, 1.0)]), Line("on a node", 1, [(1, 50.0)]), Line("none", 2, [])]

    chart = history_chart(LABEL, ["0.7", "1.0", "<2.0>"], series, "minutes")

    Page(str(chart))
    assert chart.count("<polyline") == 2
    assert "minutes (logarithmic)" in chart
    assert "&lt;2.0&gt;" in chart
    assert "none" not in chart
    assert 'class="line s0" points="123.38,21.5 492.62,268.5"' in chart
    assert "logarithmic" not in history_chart(LABEL, ["0.7"], [Line("one", 0, [(0, 3.0)])], "minutes")
    assert history_chart(LABEL, ["0.7"], [], "minutes") == ""
