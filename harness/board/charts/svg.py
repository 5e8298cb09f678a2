"""The frame of a chart, and coordinates as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from harness.board.charts.scales import finite

CROSS = "M-3.5-3.5 3.5 3.5M-3.5 3.5 3.5-3.5"


@dataclass(frozen=True, slots=True)
class Label:
    """What a chart is called, said at length, and marked with in the page (`key`: letters, digits and hyphens)."""

    key: str
    title: str
    description: str


def svg(label: Label, kind: str, width: float, height: float, body: Sequence[Markup]) -> Markup:
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
    """A coordinate with two decimals at most, so that equal numbers give equal text everywhere."""
    return f"{finite(value):.2f}".rstrip("0").rstrip(".")
