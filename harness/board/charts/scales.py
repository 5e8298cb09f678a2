"""What all charts share: scales, ticks, labels, coordinates as text, the SVG frame. Pure; refuses non-finite values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

LOG_FROM_RATIO = 20.0  # above it the small values of a linear axis coincide
CROSS = "M-3.5-3.5 3.5 3.5M-3.5 3.5 3.5-3.5"  # path of the mark of a missed target


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps `low`..`high` to `start`..`stop`, logarithmically if `is_log`. `low` < `high`."""

    low: float
    high: float
    start: float
    stop: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        finite(value)
        if self.is_log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        """Round values from `low` to `high`, approximately `about` of them."""
        return log_ticks(self.low, self.high) if self.is_log else linear_ticks(self.low, self.high, about)


def finite(value: float) -> float:
    """`value` itself.

    Raises:
        ValueError: it is NaN or infinite, so it cannot be drawn.
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be drawn on a chart")
    return value


def span(values: Iterable[float], pad_fraction: float = 0.05) -> tuple[float, float]:
    """The minimum and maximum of `values`, extended on both sides by `pad_fraction` of their distance.

    Equal values are extended by a tenth of their size (by 1 if they are 0), so that a scale exists.

    Raises:
        ValueError: there are no values, or one is not finite.
    """
    found = [finite(value) for value in values]
    if not found:
        raise ValueError("a chart without values has no scale")
    low, high = min(found), max(found)
    pad = (high - low) * pad_fraction if high > low else abs(low) / 10 or 1.0
    return low - pad, high + pad


def axis(values: Iterable[float], start: float, stop: float, from_zero: bool = False) -> Scale:
    """A scale for `values`: from 0 if `from_zero`, logarithmic if they are positive and far apart."""
    found = list(values)
    low, high = span(found)
    if found and min(found) > 0 and max(found) / min(found) > LOG_FROM_RATIO:
        return Scale(min(found) / 1.15, max(found) * 1.15, start, stop, is_log=True)
    if from_zero and low >= 0 - (high - low) and min(found) >= 0:
        low = 0.0
    return Scale(low, high, start, stop)


def linear_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from `low` to `high`, both included."""
    finite(low), finite(high)
    if high <= low:
        return [low]
    rough = (high - low) / max(1, about)
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor, up_to in ((1, 1.5), (2, 3.5), (5, 7.5), (10, 11)) if rough < up_to * power)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)) + 1)
    return [round(number * step, digits) + 0.0 for number in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten from `low` to `high`; only the powers if there are many."""
    finite(low), finite(high)
    if low <= 0 or high <= low:
        raise ValueError(f"a logarithmic axis cannot go from {low:g} to {high:g}")
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(powers) <= 4 else (1,)
    places = [factor * 10.0**power for power in powers for factor in factors]
    return [place for place in places if low * (1 - 1e-9) <= place <= high * (1 + 1e-9)]


def tick_label(value: float) -> str:
    """A tick's value without trailing zeros: `0.5`, `20`, `1,500`."""
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3g}"
    text = f"{value:,.6f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def pareto_front(points: Iterable[tuple[float, float]]) -> list[int]:
    """Indices of the points that no other point beats, by the first coordinate; lower is better in both.

    Equal points are all kept.
    """
    listed = list(points)
    front: list[int] = []
    for index, (x, y) in enumerate(listed):
        is_beaten = any(a <= x and b <= y and (a < x or b < y) for a, b in listed)
        if not is_beaten:
            front.append(index)
    return sorted(front, key=lambda index: listed[index])


@dataclass(frozen=True, slots=True)
class Label:
    """Title and description of a chart. key: its id in the page, of letters, digits and hyphens."""

    key: str
    title: str
    description: str


def svg(label: Label, kind: str, width: float, height: float, body: Sequence[Markup]) -> Markup:
    """The frame of a chart with its title and description. kind: its class."""
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


def px(value: float) -> str:
    """A coordinate with at most two decimals, so that the same number gives the same text on every machine."""
    return f"{finite(value):.2f}".rstrip("0").rstrip(".")
