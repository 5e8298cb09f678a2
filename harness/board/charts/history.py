"""Times over rounds: on a logarithmic scale where they are far apart."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from harness.board.charts.lines import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Line, curve, y_axis
from harness.board.charts.scales import Label, Scale, axis, px, svg


def history_chart(label: Label, rounds: Sequence[str], lines: Sequence[Line], y_name: str) -> Markup:
    """The lines over the numbers of the rounds, which are evenly spaced. Empty without points.

    Raises:
        ValueError: a value is not finite.
    """
    values = [value for line in lines for _, value in line.points]
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
    body += [curve(line, x_scale, y_scale) for line in lines if line.points]
    return svg(label, "chart", WIDTH, HEIGHT, body)
