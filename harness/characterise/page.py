"""A measurement as one HTML page: styles included, no script, nothing fetched, every text from outside escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from harness import __version__
from harness.board.charts.lines import legend_swatch
from harness.characterise.report import Report
from harness.errors import printable

_HERE = Path(__file__).parent
_STYLE = _HERE.parent / "assets" / "style.css"
CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def as_html(report: Report) -> str:
    """The page, in pure ASCII: it reads the same in whatever encoding it is saved."""
    text = _environment().get_template("measurement.html").render(
        report=report, policy=CONTENT_POLICY, style=_style(), version=__version__
    )  # fmt: skip
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(shown=printable, swatch=legend_swatch)
    return found


@cache
def _style() -> str:
    text = _STYLE.read_text(encoding="utf-8")
    return "".join(letter if letter.isascii() else f"\\{ord(letter):x} " for letter in text)
