"""Charts as SVG text: pure functions from numbers to markup, without a library and without a script.

Colours, line widths and letters come from the style sheet by class (`s0`..`s7` for series), so that a chart
follows light and dark; the page's policy allows no style of its own in the markup. Every chart has a title
and a description; the pages put a table with the same numbers under it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.board.scales import Scale, axis, finite, pareto_front, span, tick_label
from harness.board.svg import CROSS, Label, px, svg

NUM_STYLES = 8  # colours; a series beyond them has the same colour and another dash
NUM_DASHES = 3
MAX_POINTS = 400  # a line of more points is not finer on a screen
_WIDTH, _HEIGHT = 560, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 68, 12, 14, 54


@dataclass(frozen=True, slots=True)
class Line:
    """One curve. style: which series it belongs to. is_hit: whether its last point reached the target."""

    name: str
    style: int
    points: Sequence[tuple[float, float]]
    is_hit: bool = True


@dataclass(frozen=True, slots=True)
class Dot:
    """One point of a scatter chart, marked with `mark` (a number or a letter or two)."""

    name: str
    mark: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One stacked bar: its parts by class name, in order."""

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
    """Curves over a horizontal target line. Empty where no line has a point.

    limits: values y can take at all; the axis goes beyond them only where a curve does.

    Raises:
        ValueError: a coordinate or the target is not finite.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        return Markup()
    x_scale = Scale(0.0, span([0.0, *(x for x, _ in points)])[1], _LEFT, _WIDTH - _RIGHT)
    heights = [target, *(y for _, y in points)]
    low, high = span(heights, 0.08)
    if min(heights) < max(heights):
        low, high = max(low, min(limits[0], *heights)), min(high, max(limits[1], *heights))
    y_scale = Scale(low, high, _HEIGHT - _BOTTOM, _TOP)
    at = px(y_scale(target))
    body = [_axes(x_scale, y_scale, x_name, y_name, marked=target)]
    body.append(
        Markup('<line class="target" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(_LEFT, _WIDTH - _RIGHT, at, at)
        + Markup('<text class="tick target-tick" x="{}" y="{}" text-anchor="end" dy="0.32em">{}</text>').format(
            _LEFT - 8, at, tick_label(target)
        )
    )
    body += [_line(line, x_scale, y_scale) for line in lines if line.points]
    return svg(label, "chart", _WIDTH, _HEIGHT, body)


def _line(line: Line, x_scale: Scale, y_scale: Scale) -> Markup:
    shown = thinned(line.points)
    places = [(px(x_scale(x)), px(y_scale(y))) for x, y in shown]
    style = style_class(line.style)
    path = Markup('<polyline class="line {}" points="{}"/>').format(style, " ".join(f"{x},{y}" for x, y in places))
    # Dots of a long curve would hide it.
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
    """A short piece of the target line, for the legend."""
    return Markup(
        '<svg class="swatch" viewBox="0 0 26 10" aria-hidden="true">'
        '<line class="target" x1="1" x2="25" y1="5" y2="5"/></svg>'
    )


def style_class(series: int) -> str:
    """The class names of the colour and the dash of a series, counted from 0."""
    return f"s{series % NUM_STYLES} d{series // NUM_STYLES % NUM_DASHES}"


def legend_swatch(series: int) -> Markup:
    """A short piece of the series' line, for the legend beside its name."""
    return Markup(
        '<svg class="swatch" viewBox="0 0 26 10" aria-hidden="true">'
        '<line class="line {}" x1="1" x2="25" y1="5" y2="5"/></svg>'
    ).format(style_class(series))


def thinned(points: Sequence[tuple[float, float]], limit: int = MAX_POINTS) -> list[tuple[float, float]]:
    """At most `limit` of the points, evenly taken, the first and the last among them."""
    if len(points) <= limit:
        return list(points)
    last = len(points) - 1
    return [points[round(number * last / (limit - 1))] for number in range(limit)]


def scatter_chart(label: Label, dots: Sequence[Dot], x_name: str, y_name: str) -> Markup:
    """Points where less is better on both axes, those that none beats joined and filled. Empty without points.

    Raises:
        ValueError: a coordinate is not finite.
    """
    if not dots:
        return Markup()
    x_scale = axis([dot.x for dot in dots], _LEFT, _WIDTH - _RIGHT, from_zero=True)
    y_scale = axis([dot.y for dot in dots], _HEIGHT - _BOTTOM, _TOP, from_zero=True)
    front = pareto_front((dot.x, dot.y) for dot in dots)
    body = [_axes(x_scale, y_scale, _with_log(x_name, x_scale), _with_log(y_name, y_scale))]
    corners: list[str] = []
    above = ""
    for index in front:  # a staircase: up to the next point, the last one is still the best there is
        right, height = px(x_scale(dots[index].x)), px(y_scale(dots[index].y))
        corners += [f"{right},{above}"] if above else []
        corners.append(f"{right},{height}")
        above = height
    body.append(Markup('<polyline class="front" points="{}"/>').format(" ".join(corners)))
    taken: list[tuple[float, float]] = []
    for index, dot in enumerate(dots):
        x, y = x_scale(dot.x), y_scale(dot.y)
        mark_x, mark_y, anchor = _mark_place(x, y, taken)
        taken.append((mark_x, mark_y))
        kind = "best" if index in front else "beaten"
        body.append(
            Markup(
                '<g><title>{}</title><circle class="{}" cx="{}" cy="{}" r="5"/>'
                '<text class="mark" x="{}" y="{}" text-anchor="{}">{}</text></g>'
            ).format(dot.name, kind, px(x), px(y), px(mark_x), px(mark_y), anchor, dot.mark)
        )
    return svg(label, "chart", _WIDTH, _HEIGHT, body)


def _mark_place(x: float, y: float, taken: Sequence[tuple[float, float]]) -> tuple[float, float, str]:
    """Where a point's mark goes: the first corner of the point where no other mark is near, inside the chart."""
    corners = [(x + dx, y + dy) for dx, dy in ((9, -7), (9, 16), (-9, -7), (-9, 16)) if _LEFT < x + dx < _WIDTH - 24]
    free = [
        (place_x, place_y)
        for place_x, place_y in corners
        if all(abs(place_x - a) > 18 or abs(place_y - b) > 14 for a, b in taken)
    ]
    place_x, place_y = (free or corners or [(x, y - 9)])[0]
    return place_x, place_y, "start" if place_x >= x else "end"


def _with_log(name: str, scale: Scale) -> str:
    return f"{name} (logarithmic)" if scale.is_log else name


def bar_chart(label: Label, bars: Sequence[Bar], x_name: str) -> Markup:
    """Stacked horizontal bars from 0. Empty without bars.

    Raises:
        ValueError: a part is negative or not finite.
    """
    if not bars:
        return Markup()
    for bar in bars:
        if any(finite(part) < 0 for _, part in bar.parts):
            raise ValueError(f"{bar.name}: a part of a bar is negative")
    left, pitch, height = 86, 30, 20
    total = _TOP + pitch * len(bars) + _BOTTOM
    longest = max(sum(part for _, part in bar.parts) for bar in bars)
    scale = Scale(0.0, longest * 1.02 or 1.0, left, _WIDTH - _RIGHT)
    body = [_x_axis(scale, x_name, _TOP, total - _BOTTOM)]
    for number, bar in enumerate(bars):
        y, done = _TOP + pitch * number + (pitch - height) // 2, 0.0
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
                    f"p-{name}", px(start), y, px(stop - start), height, f"{name}: {part:.3f} s"
                )
            )
            done += part
    return svg(label, "chart", _WIDTH, total, body)


def _axes(x_scale: Scale, y_scale: Scale, x_name: str, y_name: str, marked: float | None = None) -> Markup:
    """Both axes; a tick beside the value `marked`, which has a label of its own, has none."""
    lines = []
    for value in y_scale.ticks():
        y = px(y_scale(value))
        is_beside = marked is not None and abs(y_scale(value) - y_scale(marked)) < 16
        lines.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(_LEFT, _WIDTH - _RIGHT, y, y)
        )
        if not is_beside:
            lines.append(
                Markup('<text class="tick" x="{}" y="{}" text-anchor="end" dy="0.32em">{}</text>').format(
                    _LEFT - 8, y, tick_label(value)
                )
            )
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    lines.append(
        Markup(
            '<text class="axis-name" transform="translate(13 {}) rotate(-90)" text-anchor="middle">{}</text>'
        ).format(middle, y_name)
    )
    return Markup().join(lines) + _x_axis(x_scale, x_name, _TOP, _HEIGHT - _BOTTOM)


def _x_axis(scale: Scale, name: str, top: float, bottom: float) -> Markup:
    lines = [
        Markup('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(scale.start, scale.stop, bottom, bottom)
    ]
    for value in scale.ticks(6):
        x = px(scale(value))
        lines.append(Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(x, x, top, bottom))
        lines.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
                x, bottom + 19, tick_label(value)
            )
        )
    lines.append(
        Markup('<text class="axis-name" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            px((scale.start + scale.stop) / 2), bottom + 42, name
        )
    )
    return Markup().join(lines)
