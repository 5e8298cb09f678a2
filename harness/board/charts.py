"""Charts as SVG text: pure functions from numbers to markup, without a library and without a script.

Colours, line widths and letters come from the style sheet by class (`s0`..`s7` for series), so that a chart
follows light and dark; the page's policy allows no style of its own in the markup. Every chart has a title
and a description; the pages put a table with the same numbers under it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from harness.board.scales import Scale, axis, finite, pareto_front, span, tick_label

NUM_STYLES = 8  # colours; a series beyond them has the same colour and another dash
NUM_DASHES = 3
MAX_POINTS = 400  # a line of more points is not finer on a screen
_WIDTH, _HEIGHT = 720, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 18, 18, 52
_CROSS = "M-4-4 4 4M-4 4 4-4"


@dataclass(frozen=True, slots=True)
class Label:
    """What a chart is called, said at length, and marked with in the page (`key`: letters, digits and hyphens)."""

    key: str
    title: str
    description: str


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

    limits: values y can take at all; the axis does not go beyond them.

    Raises:
        ValueError: a coordinate or the target is not finite.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        return Markup()
    x_scale = Scale(0.0, span([0.0, *(x for x, _ in points)])[1], _LEFT, _WIDTH - _RIGHT)
    low, high = span([target, *(y for _, y in points)], 0.08)
    y_scale = Scale(max(low, min(limits[0], target)), min(high, max(limits[1], target)), _HEIGHT - _BOTTOM, _TOP)
    if y_scale.low >= y_scale.high:  # everything lies on one limit
        y_scale = Scale(low, high, y_scale.start, y_scale.stop)
    at = y_scale(target)
    body = [_axes(x_scale, y_scale, x_name, y_name)]
    body.append(
        Markup('<line class="target" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            _LEFT, _WIDTH - _RIGHT, _px(at), _px(at)
        )
    )
    body.append(
        Markup('<text class="target-label" x="{}" y="{}">target {}</text>').format(
            _LEFT + 6, _px(at - 6 if at > _TOP + 16 else at + 16), tick_label(target)
        )
    )
    body += [_line(line, x_scale, y_scale) for line in lines if line.points]
    return _svg(label, "chart", _WIDTH, _HEIGHT, body)


def _line(line: Line, x_scale: Scale, y_scale: Scale) -> Markup:
    shown = thinned(line.points)
    places = [(_px(x_scale(x)), _px(y_scale(y))) for x, y in shown]
    style = style_class(line.style)
    path = Markup('<polyline class="line {}" points="{}"/>').format(style, " ".join(f"{x},{y}" for x, y in places))
    # Dots of a long curve would hide it.
    dots = (
        [Markup('<circle class="dot {}" cx="{}" cy="{}" r="2.2"/>').format(style, x, y) for x, y in places[:-1]]
        if len(places) <= 60
        else []
    )
    x, y = places[-1]
    end = (
        Markup('<circle class="end {}" cx="{}" cy="{}" r="4"/>').format(style, x, y)
        if line.is_hit
        else Markup('<path class="miss" transform="translate({} {})" d="{}"/>').format(x, y, _CROSS)
    )
    return Markup("<g><title>{}</title>{}{}{}</g>").format(line.name, path, Markup().join(dots), end)


def style_class(series: int) -> str:
    """The class names of the colour and the dash of a series, counted from 0."""
    return f"s{series % NUM_STYLES} d{series // NUM_STYLES % NUM_DASHES}"


def legend_swatch(series: int) -> Markup:
    """A short piece of the series' line, for the legend beside its name."""
    return Markup(
        '<svg class="swatch" viewBox="0 0 26 10" aria-hidden="true"><line class="line {}" x1="1" x2="25" y1="5" y2="5"/>'
        "</svg>"
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
        right, height = _px(x_scale(dots[index].x)), _px(y_scale(dots[index].y))
        corners += [f"{right},{above}"] if above else []
        corners.append(f"{right},{height}")
        above = height
    body.append(Markup('<polyline class="front" points="{}"/>').format(" ".join(corners)))
    for index, dot in enumerate(dots):
        x, y = x_scale(dot.x), y_scale(dot.y)
        is_left = x < _WIDTH - 60
        body.append(
            Markup(
                '<g><title>{}</title><circle class="{}" cx="{}" cy="{}" r="5"/>'
                '<text class="mark" x="{}" y="{}" text-anchor="{}">{}</text></g>'
            ).format(
                dot.name,
                "best" if index in front else "beaten",
                _px(x),
                _px(y),
                _px(x + (9 if is_left else -9)),
                _px(y - 7),
                "start" if is_left else "end",
                dot.mark,
            )
        )
    return _svg(label, "chart", _WIDTH, _HEIGHT, body)


def _with_log(name: str, scale: Scale) -> str:
    return f"{name}, logarithmic" if scale.is_log else name


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
                    f"p-{name}", _px(start), y, _px(stop - start), height, f"{name}: {part:.3f} s"
                )
            )
            done += part
    return _svg(label, "chart", _WIDTH, total, body)


@dataclass(frozen=True, slots=True)
class Strip:
    """The runs of one result on one line.

    counted, dropped: seconds of runs inside and outside the mean. num_missed: runs that missed the target.
    """

    counted: Sequence[float]
    dropped: Sequence[float]
    num_missed: int
    mean: float | None
    interval: tuple[float, float] | None


STRIP_WIDTH, STRIP_HEIGHT = 190, 26


def strip_scale(strips: Sequence[Strip]) -> Scale | None:
    """One scale for the strips of a table, so that its rows can be compared; None where no run has a time."""
    values = [value for strip in strips for value in (*strip.counted, *strip.dropped, *(strip.interval or ()))]
    return axis([value for value in values if value > 0], 8, STRIP_WIDTH - 22) if any(v > 0 for v in values) else None


def strip_plot(label: Label, strip: Strip, scale: Scale) -> Markup:
    """Each run a dot (hollow where the mean leaves it out), the interval a bar, the mean a line, a miss a cross."""
    middle = STRIP_HEIGHT / 2
    body = [Markup('<line class="rail" x1="2" x2="{}" y1="{}" y2="{}"/>').format(STRIP_WIDTH - 2, middle, middle)]
    if strip.interval is not None:
        low, high = (min(max(scale(max(end, scale.low)), 2), STRIP_WIDTH - 2) for end in strip.interval)
        body.append(
            Markup('<rect class="interval" x="{}" y="{}" width="{}" height="10" rx="2"/>').format(
                _px(low), middle - 5, _px(max(high - low, 1.0))
            )
        )
    if strip.mean is not None:
        at = _px(scale(max(strip.mean, scale.low)))
        body.append(Markup('<line class="mean" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(at, at, 3, STRIP_HEIGHT - 3))
    for values, name in ((strip.counted, "run"), (strip.dropped, "run dropped")):
        body += [
            Markup('<circle class="{}" cx="{}" cy="{}" r="3.2"/>').format(name, _px(scale(value)), middle)
            for value in values
        ]
    if strip.num_missed:
        body.append(
            Markup('<path class="miss" transform="translate({} {})" d="{}"/>').format(STRIP_WIDTH - 8, middle, _CROSS)
        )
    return _svg(label, "strip", STRIP_WIDTH, STRIP_HEIGHT, body)


def _axes(x_scale: Scale, y_scale: Scale, x_name: str, y_name: str) -> Markup:
    lines = []
    for value in y_scale.ticks():
        y = _px(y_scale(value))
        lines.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(_LEFT, _WIDTH - _RIGHT, y, y)
        )
        lines.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="end" dy="0.32em">{}</text>').format(
                _LEFT - 8, y, tick_label(value)
            )
        )
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    lines.append(
        Markup(
            '<text class="axis-name" transform="translate(14 {}) rotate(-90)" text-anchor="middle">{}</text>'
        ).format(middle, y_name)
    )
    return Markup().join(lines) + _x_axis(x_scale, x_name, _TOP, _HEIGHT - _BOTTOM)


def _x_axis(scale: Scale, name: str, top: float, bottom: float) -> Markup:
    lines = [
        Markup('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(scale.start, scale.stop, bottom, bottom)
    ]
    for value in scale.ticks(6):
        x = _px(scale(value))
        lines.append(Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(x, x, top, bottom))
        lines.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
                x, bottom + 19, tick_label(value)
            )
        )
    lines.append(
        Markup('<text class="axis-name" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            _px((scale.start + scale.stop) / 2), bottom + 42, name
        )
    )
    return Markup().join(lines)


def _svg(label: Label, kind: str, width: float, height: float, body: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" aria-labelledby="{key}-t {key}-d">'
        '<title id="{key}-t">{title}</title><desc id="{key}-d">{description}</desc>{body}</svg>'
    ).format(
        kind=kind,
        width=width,
        height=height,
        key=escape(label.key),
        title=label.title,
        description=label.description,
        body=Markup().join(body),
    )


def _px(value: float) -> str:
    """A coordinate with two decimals at most, so that equal numbers give equal text everywhere."""
    return f"{finite(value):.2f}".rstrip("0").rstrip(".")
