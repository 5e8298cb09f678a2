"""Power over time: below the quality curves on one time axis, and of one run by component."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from harness.board.charts.lines import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Line,
    curve,
    quality_scale,
    style_class,
    target_line,
    x_axis,
    x_grid,
    y_axis,
)
from harness.board.charts.scales import Label, Scale, px, span, svg, tick_label
from harness.board.pages.power_trace import PowerLine, PowerTrace, Step

_UPPER, _LOWER, _BETWEEN = 190, 170, 26
_SINGLE = 220
_TIME = "seconds since run_start"


def quality_and_power(
    label: Label,
    curves: Sequence[Line],
    traces: Sequence[tuple[int | None, str, PowerTrace]],
    quality_name: str,
    target: float,
    limits: tuple[float, float],
    idle_w: float | None,
) -> Markup:
    """Quality above and the watts of all nodes below, on one time axis, one colour per run. Empty without traces.

    traces: the colour of the run, its name, its power.

    Raises:
        ValueError: a coordinate is not finite.
    """
    if not traces:
        return Markup()
    ends = [trace.from_s + trace.step_s * len(trace.total.steps) for _, _, trace in traces]
    ends += [x for line in curves for x, _ in line.points]
    x_scale = Scale(min(trace.from_s for _, _, trace in traces), max(ends), LEFT, WIDTH - RIGHT)
    quality = quality_scale(target, [y for line in curves for _, y in line.points], limits, TOP + _UPPER, TOP)
    top = TOP + _UPPER + _BETWEEN
    watts = _watt_scale([trace.total for _, _, trace in traces], idle_w, top, _LOWER, with_bands=False)
    body = [
        y_axis(quality, quality_name, x_scale, marked=target),
        x_grid(x_scale, TOP, TOP + _UPPER),
        target_line(target, x_scale, quality),
        y_axis(watts, "watts, all nodes", x_scale),
        x_grid(x_scale, top, top + _LOWER),
        x_axis(x_scale, _TIME, top + _LOWER),
        _edge(x_scale(0.0), TOP, top + _LOWER, "run_start", is_start=True),
    ]
    body += [curve(line, x_scale, quality) for line in curves if line.points]
    for colour, name, trace in traces:
        style = style_class(colour)
        at = px(x_scale(trace.run_s))
        stop = Markup('<line class="stop {}" x1="{}" x2="{}" y1="{}" y2="{}"><title>{}</title></line>').format(
            style, at, at, px(top), px(top + _LOWER), f"{name}: run_stop after {trace.run_s:.3f} s"
        )
        body.append(
            Markup("<g><title>{}</title>{}{}</g>").format(
                f"{name}, watts", _path(trace, trace.total, style, x_scale, watts), stop
            )
        )
    body.append(_idle(idle_w, x_scale, watts))
    return svg(label, "chart", WIDTH, top + _LOWER + BOTTOM, body)


def time_axis(traces: Sequence[PowerTrace]) -> Scale:
    """The seconds that all `traces` take, so that charts one below the other can be compared."""
    ends = [trace.from_s + trace.step_s * len(trace.total.steps) for trace in traces]
    return Scale(min(trace.from_s for trace in traces), max(ends), LEFT, WIDTH - RIGHT)


def component_chart(label: Label, trace: PowerTrace, idle_w: float | None, x_scale: Scale) -> Markup:
    """The watts of one run by component, and their sum if there are several; a band spans minimum to maximum.

    x_scale: the time axis, which all runs of a result have in common.

    Raises:
        ValueError: a value is not finite.
    """
    lines = [*trace.lines, *([trace.total] if len(trace.lines) > 1 else [])]
    if not any(step is not None for line in lines for step in line.steps):
        return Markup()
    watts = _watt_scale(lines, idle_w, TOP, _SINGLE, with_bands=True)
    bottom = TOP + _SINGLE
    body = [y_axis(watts, "watts", x_scale), x_grid(x_scale, TOP, bottom), x_axis(x_scale, _TIME, bottom)]
    for number, line in enumerate(lines):
        style = style_class(number)
        body.append(
            Markup("<g><title>{}</title>{}{}</g>").format(
                line.name,
                _band(trace, line, style, x_scale, watts),
                _path(trace, line, style, x_scale, watts),
            )
        )
    body.append(_edge(x_scale(0.0), TOP, bottom, "run_start", is_start=True))
    body.append(_edge(x_scale(trace.run_s), TOP, bottom, "run_stop", is_start=False))
    body.append(_idle(idle_w, x_scale, watts))
    return svg(label, "chart", WIDTH, bottom + BOTTOM, body)


def _watt_scale(
    lines: Sequence[PowerLine], idle_w: float | None, top: float, height: float, *, with_bands: bool
) -> Scale:
    steps = [step for line in lines for step in line.steps if step is not None]
    highest = [step.high_w if with_bands else step.mean_w for step in steps]
    high = span([0.0, *highest, idle_w or 0.0], 0.08)[1]
    return Scale(0.0, high, top + height, top)


def _stretches(steps: Sequence[Step | None]) -> list[list[tuple[int, Step]]]:
    """The stretches without gaps."""
    found: list[list[tuple[int, Step]]] = []
    is_open = False
    for index, step in enumerate(steps):
        if step is None:
            is_open = False
            continue
        if not is_open:
            found.append([])
        found[-1].append((index, step))
        is_open = True
    return found


def _path(trace: PowerTrace, line: PowerLine, style: str, x_scale: Scale, y_scale: Scale) -> Markup:
    pieces = []
    for stretch in _stretches(line.steps):
        points = [(trace.at(index), step.mean_w) for index, step in stretch]
        if len(points) == 1:  # a line of one point is invisible
            half = trace.step_s / 2
            points = [(points[0][0] - half, points[0][1]), (points[0][0] + half, points[0][1])]
        places = " ".join(f"{px(x_scale(x))},{px(y_scale(y))}" for x, y in points)
        pieces.append(Markup('<polyline class="line {}" points="{}"/>').format(style, places))
    return Markup().join(pieces)


def _band(trace: PowerTrace, line: PowerLine, style: str, x_scale: Scale, y_scale: Scale) -> Markup:
    pieces = []
    for stretch in _stretches(line.steps):
        if len(stretch) < 2:
            continue
        upper = [f"{px(x_scale(trace.at(index)))},{px(y_scale(step.high_w))}" for index, step in stretch]
        lower = [f"{px(x_scale(trace.at(index)))},{px(y_scale(step.low_w))}" for index, step in reversed(stretch)]
        pieces.append(Markup('<polygon class="band-w {}" points="{}"/>').format(style, " ".join([*upper, *lower])))
    return Markup().join(pieces)


def _edge(x: float, top: float, bottom: float, name: str, *, is_start: bool) -> Markup:
    """A vertical line with its name at the top, on the side where there is room."""
    dx, anchor = (4, "start") if is_start else (-4, "end")
    return Markup(
        '<line class="edge" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>'
        '<text class="edge-name" x="{at}" y="{y}" text-anchor="{anchor}">{name}</text>'
    ).format(x=px(x), top=px(top), bottom=px(bottom), at=px(x + dx), y=px(top - 3), anchor=anchor, name=name)


def _idle(idle_w: float | None, x_scale: Scale, y_scale: Scale) -> Markup:
    if idle_w is None:
        return Markup()
    y = px(y_scale(idle_w))
    return Markup(
        '<line class="idle" x1="{}" x2="{}" y1="{}" y2="{}"/>'
        '<text class="edge-name" x="{}" y="{}" text-anchor="end" dy="1.15em">{}</text>'
    ).format(
        px(x_scale.start), px(x_scale.stop), y, y, px(x_scale.stop - 2), y, f"idle {tick_label(round(idle_w, 1))} W"
    )
