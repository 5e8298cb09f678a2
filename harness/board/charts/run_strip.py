"""The small chart in a table's row: the runs of one result on one line.

All strips of a table share one scale, in per cent of each row's own mean, so that spreads can be compared between rows
whose times differ by a factor of a thousand. The times themselves are next to the strips as numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.board.charts.scales import CROSS, Label, Scale, px, svg

WIDTH, HEIGHT = 150, 26
_LEAST_REACH = 0.005  # a scale finer than half a per cent would show only the noise of the clock


@dataclass(frozen=True, slots=True)
class Strip:
    """The runs of one result, in seconds.

    counted, dropped: runs inside and outside the mean. num_missed: runs that missed the target.
    middle: the mean; without a score, the mean of all times; None where no run has a time.
    """

    counted: Sequence[float]
    dropped: Sequence[float]
    num_missed: int
    middle: float | None
    interval: tuple[float, float] | None


def strip_reach(strips: Sequence[Strip]) -> float:
    """The greatest distance of a run from its row's middle, as a fraction of the middle; at least half a per cent."""
    return max(
        [
            _LEAST_REACH,
            *(
                abs(seconds / strip.middle - 1)
                for strip in strips
                if strip.middle
                for seconds in (*strip.counted, *strip.dropped)
            ),
        ]
    )


def strip_plot(label: Label, strip: Strip, reach: float) -> Markup:
    """Each run a dot (hollow if excluded from the mean), the interval a bar, the mean a line, a miss a cross.

    The strip extends from `-reach` to `reach` around its middle; the interval is clipped to it.
    """
    middle = HEIGHT / 2
    scale = Scale(-reach, reach, 18, WIDTH - 18)
    body = [Markup('<line class="rail" x1="2" x2="{}" y1="{}" y2="{}"/>').format(WIDTH - 2, middle, middle)]
    if strip.middle:
        if strip.interval is not None:
            low, high = (min(max(scale(end / strip.middle - 1), 4.0), WIDTH - 4.0) for end in strip.interval)
            body.append(
                Markup('<rect class="interval" x="{}" y="{}" width="{}" height="10" rx="2"/>').format(
                    px(low), middle - 5, px(max(high - low, 1.0))
                )
            )
        at = px(scale(0.0))
        body.append(Markup('<line class="mean" x1="{}" x2="{}" y1="3" y2="{}"/>').format(at, at, HEIGHT - 3))
        for values, name in ((strip.counted, "run"), (strip.dropped, "run dropped")):
            for seconds in values:
                x = px(scale(seconds / strip.middle - 1))
                body.append(Markup('<circle class="{}" cx="{}" cy="{}" r="3.2"/>').format(name, x, middle))
    if strip.num_missed:
        body.append(Markup('<path class="miss" transform="translate({} {})" d="{}"/>').format(WIDTH - 8, middle, CROSS))
    return svg(label, "strip", WIDTH, HEIGHT, body)
