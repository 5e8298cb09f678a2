"""A reproduction as one HTML page: styles included, no script, nothing fetched, every text from outside escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness import __version__
from harness.board.charts.lines import Line, legend_swatch, line_chart, target_swatch
from harness.board.charts.scales import Label
from harness.errors import printable
from harness.reproduction import report
from harness.reproduction.reproduction import Reproduction
from harness.scoring.run_result import RunResult

_HERE = Path(__file__).parent
_STYLE = _HERE.parent / "assets" / "style.css"
CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_COLOURS = {"claimed": 0, "new": 3}  # as unlike each other as the style sheet has them, in light and in dark
_CHIPS = {"reproduced": "valid", "not reproduced": "invalid"}


def as_html(found: Reproduction) -> str:
    """The page, in pure ASCII: it reads the same in whatever encoding it is saved."""
    claim = found.claim
    series = (("claimed", claim.runs), ("new", found.new))
    text = _environment().get_template("reproduction.html").render(
        found=found,
        claim=claim,
        policy=CONTENT_POLICY,
        style=_style(),
        version=__version__,
        chip=_CHIPS.get(found.status, "warning"),
        header=report.HEADER,
        rows=report.rows_of(found),
        conclusion=report.conclusion(found).removeprefix(f"{found.status}: "),  # the chip has the status
        notes=list(report.notes(found)),
        before=[*report.identity_lines(found.identity), *report.outlook_lines(claim, found.terms, found.outlook)],
        exact=[report.replay_text(found.replay), *report.quality_lines(found)],
        chart=_curves(found),
        legend=[(legend_swatch(_COLOURS[name]), name) for name, _ in series],
        target=target_swatch(),
        series=series,
    )  # fmt: skip
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _curves(found: Reproduction) -> Markup:
    """Quality over samples of both sets of runs: samples, unlike seconds, are comparable anywhere."""
    rules = found.claim.rules
    lines = [
        Line(
            f"{name}, {_log(run)}",
            _COLOURS[name],
            [(item.samples, item.quality) for item in run.evaluations],
            run.samples is not None,
        )
        for name, runs in (("claimed", found.claim.runs), ("new", found.new))
        for run in runs
    ]
    metric = rules.metric
    text = (
        f"{len(found.claim.runs)} claimed and {len(found.new)} new curves of {metric.name} over training samples; the "
        f"target is {rules.target:g}. The tables below have where each crosses it."
    )
    label = Label("curves", "Quality over training samples", text)
    return line_chart(
        label, lines, "training samples", f"{metric.name} ({metric.unit})", rules.target, rules.quality_range
    )


def _log(run: RunResult) -> str:
    return printable(run.path.rpartition("/")[2], 60)


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(shown=printable, log=_log)
    return found


@cache
def _style() -> str:
    text = _STYLE.read_text(encoding="utf-8")
    return "".join(letter if letter.isascii() else f"\\{ord(letter):x} " for letter in text)
