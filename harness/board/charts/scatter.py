"""Results as points: cost or energy and score, with intervals and the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.board.charts.lines import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, axes
from harness.board.charts.scales import CROSS, Label, Scale, axis, pareto_front, px, svg

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Dot:
    """One result, labelled with `mark` (a number or a letter or two), which ends the id of its group in the chart.

    x_interval, y_interval: 95 % intervals; None where there is none.
    is_reached: whether it reached the target; one that did not is a cross where it stopped, and never on the front.
    """

    name: str
    mark: str
    x: float
    y: float
    x_interval: Interval | None = None
    y_interval: Interval | None = None
    is_reached: bool = True


def front_of(dots: Sequence[Dot]) -> list[int]:
    """Indices of the points on the Pareto front of those that reached the target, in order of x."""
    reached = [index for index, dot in enumerate(dots) if dot.is_reached]
    return [reached[place] for place in pareto_front((dots[index].x, dots[index].y) for index in reached)]


def scatter_chart(label: Label, dots: Sequence[Dot], x_name: str, y_name: str) -> Markup:
    """Points where lower is better on both axes; the Pareto front is filled and connected. Empty without points.

    Raises:
        ValueError: a coordinate is not finite.
    """
    if not dots:
        return Markup()
    x_scale = axis(_ends(dots, "x"), LEFT, WIDTH - RIGHT, from_zero=True)
    y_scale = axis(_ends(dots, "y"), HEIGHT - BOTTOM, TOP, from_zero=True)
    front = front_of(dots)
    body = [axes(x_scale, y_scale, _with_log(x_name, x_scale), _with_log(y_name, y_scale))]
    corners: list[str] = []
    above = ""
    for index in front:  # a staircase: until the next point, the previous one is the best
        right, height = px(x_scale(dots[index].x)), px(y_scale(dots[index].y))
        corners += [f"{right},{above}"] if above else []
        corners.append(f"{right},{height}")
        above = height
    if corners:
        body.append(Markup('<polyline class="front" points="{}"/>').format(" ".join(corners)))
    places = [(x_scale(dot.x), y_scale(dot.y)) for dot in dots]
    taken: list[tuple[float, float]] = []
    for index in sorted(range(len(dots)), key=lambda index: index in front):  # the front is drawn last
        dot, (x, y) = dots[index], places[index]
        mark_x, mark_y, anchor = _mark_place(x, y, [*taken, *(place for place in places if place != (x, y))])
        taken.append((mark_x + (5 if anchor == "start" else -5), mark_y - 4))  # its middle
        body.append(
            Markup(
                '<g id="{}-{}"><title>{}</title>{}{}<text class="mark" x="{}" y="{}" text-anchor="{}">{}</text></g>'
            ).format(
                label.key,
                dot.mark,
                dot.name,
                _whiskers(dot, x_scale, y_scale),
                _point(dot, x, y, index in front),
                px(mark_x),
                px(mark_y),
                anchor,
                dot.mark,
            )
        )
    return svg(label, "chart", WIDTH, HEIGHT, body)


def _ends(dots: Sequence[Dot], name: str) -> list[float]:
    """The coordinates and the ends of their intervals; non-positive ends only where a coordinate is."""
    values = [getattr(dot, name) for dot in dots]
    least = min(values)
    for dot in dots:
        interval = getattr(dot, f"{name}_interval")
        values += [end for end in interval or () if end > 0 or least <= 0]
    return values


def _point(dot: Dot, x: float, y: float, is_best: bool) -> Markup:
    if not dot.is_reached:
        return Markup('<path class="miss" transform="translate({} {})" d="{}"/>').format(px(x), px(y), CROSS)
    kind = "best" if is_best else "beaten"
    return Markup('<circle class="{}" cx="{}" cy="{}" r="5"/>').format(kind, px(x), px(y))


def _whiskers(dot: Dot, x_scale: Scale, y_scale: Scale) -> Markup:
    x, y = px(x_scale(dot.x)), px(y_scale(dot.y))
    parts = []
    if dot.x_interval is not None:
        low, high = (px(x_scale(_within(end, x_scale))) for end in dot.x_interval)
        parts.append(Markup('<line class="whisker" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(low, high, y, y))
    if dot.y_interval is not None:
        low, high = (px(y_scale(_within(end, y_scale))) for end in dot.y_interval)
        parts.append(Markup('<line class="whisker" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(x, x, low, high))
    return Markup().join(parts)


def _within(value: float, scale: Scale) -> float:
    return min(max(value, scale.low), scale.high)


def _mark_place(x: float, y: float, taken: Sequence[tuple[float, float]]) -> tuple[float, float, str]:
    """The position of a point's mark: its first corner without another mark or point nearby."""
    corners = [(x + dx, y + dy) for dx, dy in ((9, -7), (9, 16), (-9, -7), (-9, 16)) if LEFT < x + dx < WIDTH - 24]
    free = [
        (place_x, place_y)
        for place_x, place_y in corners
        if all(abs(place_x + (5 if place_x > x else -5) - a) > 12 or abs(place_y - 4 - b) > 12 for a, b in taken)
    ]
    place_x, place_y = (free or corners or [(x, y - 9)])[0]
    return place_x, place_y, "start" if place_x >= x else "end"


def _with_log(name: str, scale: Scale) -> str:
    return f"{name} (logarithmic)" if scale.is_log else name
