"""Times over rounds: one line per series, on a logarithmic scale, because rounds differ by factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.board.charts.lines import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Line, curve, y_axis
from harness.board.charts.scales import Label, Scale, axis, px, svg


@dataclass(frozen=True, slots=True)
class Series:
    """One line. values: by the number of the round; a round without a value is skipped."""

    name: str
    style: int
    values: Sequence[tuple[int, float]]


def history_chart(label: Label, rounds: Sequence[str], series: Sequence[Series], y_name: str) -> Markup:
    """A line for each series over the rounds, which are evenly spaced. Empty without values.

    Raises:
        ValueError: a value is not finite.
    """
    values = [value for one in series for _, value in one.values]
    if not values:
        return Markup()
    x_scale = Scale(-0.3, max(len(rounds) - 1, 1) + 0.3, LEFT, WIDTH - RIGHT)
    y_scale = axis(values, HEIGHT - BOTTOM, TOP, from_zero=True)
    body = [y_axis(y_scale, f"{y_name} (logarithmic)" if y_scale.is_log else y_name, x_scale)]
    bottom = px(HEIGHT - BOTTOM)
    body.append(
        Markup('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            px(x_scale.start), px(x_scale.stop), bottom, bottom
        )
    )
    for number, name in enumerate(rounds):
        body.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
                px(x_scale(number)), px(HEIGHT - BOTTOM + 19), name
            )
        )
    body.append(
        Markup('<text class="axis-name" x="{}" y="{}" text-anchor="middle">round</text>').format(
            px((x_scale.start + x_scale.stop) / 2), px(HEIGHT - BOTTOM + 42)
        )
    )
    body += [curve(Line(one.name, one.style, one.values), x_scale, y_scale) for one in series if one.values]
    return svg(label, "chart", WIDTH, HEIGHT, body)
