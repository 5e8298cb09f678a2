"""Line and bar charts as SVG: pure functions from numbers to markup, without a library or a script.

Colours, line widths and fonts come from the style sheet by class (`s0`..`s11` for series), so that a chart follows the
light and dark themes; the page's content policy allows no inline styles. No colour is used twice in a chart, and the
target has its own: more series than colours are drawn in one, and told apart by their titles. Every chart has a title
and a description; the pages have a table with the same numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.board.charts.scales import CROSS, Label, Scale, axis, finite, px, span, svg, tick_label

NUM_COLOURS = 12
MAX_POINTS = 400  # more points make no visible difference
WIDTH, HEIGHT = 560, 330
LEFT, RIGHT, TOP, BOTTOM = 68, 12, 14, 54
DIGIT = 9.5  # its width on a phone, for which the style sheet enlarges the text


@dataclass(frozen=True, slots=True)
class Line:
    """One curve. style: the number of its colour; None: that of series too many for a colour each.

    is_hit: whether its last point reached the target.
    """

    name: str
    style: int | None
    points: Sequence[tuple[float, float]]
    is_hit: bool = True


@dataclass(frozen=True, slots=True)
class Bar:
    """One stacked bar: its parts in order, each with a class name."""

    name: str
    parts: Sequence[tuple[str, float]]


def line_chart(
    label: Label,
    lines: Sequence[Line],
    x_name: str,
    y_name: str,
    target: float,
    limits: tuple[float, float],
) -> Markup:
    """Curves and a horizontal target line. Empty if no line has a point.

    limits: the range of possible y values; the axis exceeds it only where a curve does.

    Raises:
        ValueError: a coordinate or the target is not finite.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        return Markup()
    x_scale = Scale(0.0, span([0.0, *(x for x, _ in points)])[1], LEFT, WIDTH - RIGHT)
    y_scale = quality_scale(target, [y for _, y in points], limits, HEIGHT - BOTTOM, TOP)
    body = [axes(x_scale, y_scale, x_name, y_name, marked=target), target_line(target, x_scale, y_scale)]
    body += [curve(line, x_scale, y_scale) for line in lines if line.points]
    return svg(label, "chart", WIDTH, HEIGHT, body)


def quality_scale(
    target: float, heights: Sequence[float], limits: tuple[float, float], bottom: float, top: float
) -> Scale:
    """A scale from `bottom` to `top` for a target and qualities; it exceeds `limits` only where a quality does."""
    values = [target, *heights]
    low, high = span(values, 0.08)
    if min(values) < max(values):
        low, high = max(low, min(limits[0], *values)), min(high, max(limits[1], *values))
    return Scale(low, high, bottom, top)


def target_line(target: float, x_scale: Scale, y_scale: Scale) -> Markup:
    """The target line across the chart, with its value on the left."""
    at = px(y_scale(target))
    return Markup('<line class="target" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
        px(x_scale.start), px(x_scale.stop), at, at
    ) + Markup('<text class="tick target-tick" x="{}" y="{}" text-anchor="end" dy="0.32em">{}</text>').format(
        px(x_scale.start - 8), at, tick_label(target)
    )


def curve(line: Line, x_scale: Scale, y_scale: Scale) -> Markup:
    """A curve with dots at its points, and a larger dot or a cross at its end."""
    shown = thinned(line.points)
    places = [(px(x_scale(x)), px(y_scale(y))) for x, y in shown]
    style = style_class(line.style)
    path = Markup('<polyline class="line {}" points="{}"/>').format(style, " ".join(f"{x},{y}" for x, y in places))
    # The dots of a long curve would hide it.
    dots = (
        [Markup('<circle class="dot {}" cx="{}" cy="{}" r="1.7"/>').format(style, x, y) for x, y in places[:-1]]
        if len(places) <= 60
        else []
    )
    x, y = places[-1]
    end = (
        Markup('<circle class="end {}" cx="{}" cy="{}" r="3"/>').format(style, x, y)
        if line.is_hit
        else Markup('<path class="miss" transform="translate({} {})" d="{}"/>').format(x, y, CROSS)
    )
    return Markup("<g><title>{}</title>{}{}{}</g>").format(line.name, path, Markup().join(dots), end)


def target_swatch() -> Markup:
    """A sample of the target line, for the legend."""
    return Markup(
        '<svg class="swatch" viewBox="0 0 26 10" aria-hidden="true">'
        '<line class="target" x1="1" x2="25" y1="5" y2="5"/></svg>'
    )


def styles(num_series: int) -> list[int | None]:
    """A colour for each series of a chart; none for any where there are more series than colours."""
    return list(range(num_series)) if num_series <= NUM_COLOURS else [None] * num_series


def style_class(style: int | None) -> str:
    """The class name of a colour."""
    return "same" if style is None else f"s{style}"


def legend_swatch(style: int | None) -> Markup:
    """A sample of a series' line, for the legend."""
    return Markup(
        '<svg class="swatch" viewBox="0 0 26 10" aria-hidden="true">'
        '<line class="line {}" x1="1" x2="25" y1="5" y2="5"/></svg>'
    ).format(style_class(style))


def thinned(points: Sequence[tuple[float, float]], limit: int = MAX_POINTS) -> list[tuple[float, float]]:
    """At most `limit` of the points, evenly spaced, including the first and the last."""
    if len(points) <= limit:
        return list(points)
    last = len(points) - 1
    return [points[round(number * last / (limit - 1))] for number in range(limit)]


def curve_chart(label: Label, lines: Sequence[Line], x_name: str, y_name: str) -> Markup:
    """Curves without a target, with both axes from 0, or logarithmic where values are far apart. Empty without a point.

    Raises:
        ValueError: a coordinate is not finite.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        return Markup()
    x_scale = axis((x for x, _ in points), LEFT, WIDTH - RIGHT, from_zero=True)
    y_scale = axis((y for _, y in points), HEIGHT - BOTTOM, TOP, from_zero=True)
    body = [axes(x_scale, y_scale, x_name, y_name), *(curve(line, x_scale, y_scale) for line in lines if line.points)]
    return svg(label, "chart", WIDTH, HEIGHT, body)


def bar_chart(label: Label, bars: Sequence[Bar], x_name: str, unit: str = "s", left: float = 86) -> Markup:
    """Stacked horizontal bars that start at 0. Empty without bars.

    unit: of the parts, in their titles. left: the room for the bars' names.

    Raises:
        ValueError: a part is negative or not finite.
    """
    if not bars:
        return Markup()
    for bar in bars:
        if any(finite(part) < 0 for _, part in bar.parts):
            raise ValueError(f"{bar.name}: a part of a bar is negative")
    pitch, height = 30, 20
    total = TOP + pitch * len(bars) + BOTTOM
    longest = max(sum(part for _, part in bar.parts) for bar in bars)
    scale = Scale(0.0, longest * 1.02 or 1.0, left, WIDTH - RIGHT)
    body = [x_grid(scale, TOP, total - BOTTOM), x_axis(scale, x_name, total - BOTTOM)]
    for number, bar in enumerate(bars):
        y, done = TOP + pitch * number + (pitch - height) // 2, 0.0
        body.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>').format(
                left - 8, y + height - 5, bar.name
            )
        )
        for name, part in bar.parts:
            if part == 0:
                continue
            start, stop = scale(done), scale(done + part)
            body.append(
                Markup('<rect class="part {}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
                    f"p-{name}", px(start), y, px(stop - start), height, f"{name}: {part:.3f} {unit}"
                )
            )
            done += part
    return svg(label, "chart", WIDTH, total, body)


def axes(x_scale: Scale, y_scale: Scale, x_name: str, y_name: str, marked: float | None = None) -> Markup:
    """Both axes; a tick close to the value `marked`, which has its own label, is not labelled."""
    grid = x_grid(x_scale, y_scale.stop, y_scale.start)
    return y_axis(y_scale, y_name, x_scale, marked) + grid + x_axis(x_scale, x_name, y_scale.start)


def y_axis(scale: Scale, name: str, x_scale: Scale, marked: float | None = None) -> Markup:
    """Tick labels, horizontal grid lines and name of the axis on the left."""
    lines = []
    left, right = px(x_scale.start), px(x_scale.stop)
    for value in scale.ticks():
        y = px(scale(value))
        is_near_mark = marked is not None and abs(scale(value) - scale(marked)) < 16
        lines.append(Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(left, right, y, y))
        if not is_near_mark:
            lines.append(
                Markup('<text class="tick" x="{}" y="{}" text-anchor="end" dy="0.32em">{}</text>').format(
                    px(x_scale.start - 8), y, tick_label(value)
                )
            )
    lines.append(
        Markup('<text class="axis-name" transform="translate(8 {}) rotate(-90)" text-anchor="middle">{}</text>').format(
            px((scale.start + scale.stop) / 2), name
        )
    )
    return Markup().join(lines)


def x_grid(scale: Scale, top: float, bottom: float) -> Markup:
    """Vertical grid lines at the ticks."""
    return Markup().join(
        Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            px(scale(value)), px(scale(value)), px(top), px(bottom)
        )
        for value in scale.ticks(6)
    )


def _labelled(values: Sequence[float], scale: Scale) -> int:
    """How many ticks share a label, so that labels do not touch."""
    apart = min((scale(after) - scale(before) for before, after in itertools.pairwise(values)), default=math.inf)
    return max(1, math.ceil((1 + max(len(tick_label(value)) for value in values)) * DIGIT / apart))


def x_axis(scale: Scale, name: str, bottom: float) -> Markup:
    """Line, tick labels and name of the axis at the bottom."""
    lines = [
        Markup('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            px(scale.start), px(scale.stop), px(bottom), px(bottom)
        )
    ]
    values = scale.ticks(6)
    for value in values if scale.is_log else values[:: _labelled(values, scale)]:
        lines.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
                px(scale(value)), px(bottom + 19), tick_label(value)
            )
        )
    lines.append(
        Markup('<text class="axis-name" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            px((scale.start + scale.stop) / 2), px(bottom + 42), name
        )
    )
    return Markup().join(lines)
