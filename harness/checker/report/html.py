"""A report as one HTML page: styles included, no script, nothing fetched, every text from outside escaped.

Text from a log, a path or a file may contain anything. The page keeps none of its control or direction-changing
characters, and is pure ASCII, so that it reads the same in whatever encoding it is saved.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from harness import __version__
from harness.base.docstrings import Piece, pieces, section
from harness.checker.engine import WaiverUse
from harness.checker.report.text import FileFacts, Judged
from harness.errors import printable
from harness.findings import Finding, Group, Severity, grouped, message_shape

_HERE = Path(__file__).parent
_STYLES = (_HERE.parents[1] / "assets" / "style.css", _HERE / "templates" / "report.css")
CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
WAIVED = "waived"
MAX_PLACES = 30  # of one kind of finding, and kinds of one code; the JSON output has all of them
MAX_FILES = 200
MAX_DOCUMENTED = 12  # up to this many results, each finding says why it matters; beyond, the page says so per check


@dataclass(frozen=True, slots=True)
class Part:
    """One result. kind: "valid", "invalid" or "unscored", which sets the colour of its verdict; see `part_of`.

    ruleset: the one that it is judged by.
    """

    path: str
    benchmark: str | None
    verdict: str
    kind: str
    findings: tuple[Finding, ...]
    ruleset: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    files: tuple[FileFacts, ...] = ()

    @property
    def counts(self) -> Counter[str]:
        """The number of errors, warnings, notes and waived findings."""
        return Counter(_column(item) for item in self.findings)


@dataclass(frozen=True, slots=True)
class Worst:
    """One of the most suspicious things. score: from 0 to 100."""

    finding: Finding
    score: float


@dataclass(frozen=True, slots=True)
class Report:
    """The content of the page.

    rules: the names and the digests of the rules applied. documents: of the checks or signals with findings, by code.
    noun: what a code stands for, "check" or "signal". waivers: those of the rulesets, with their effect here. standard:
    the rulesets that an audit takes its targets and limits from. missed: what could not be read, and why.
    """

    title: str
    rules: Sequence[tuple[str, str]]
    parts: Sequence[Part]
    documents: Mapping[str, str]
    today: date
    worst: Sequence[Worst] = ()
    waivers: Sequence[WaiverUse] = ()
    noun: str = "check"
    standard: str | None = None
    missed: Sequence[tuple[str, str]] = ()


def part_of(judged: Judged) -> Part:
    """A result of `tta check`."""
    verdict, kind = ("valid", "valid") if judged.is_valid else ("not valid", "invalid")
    facts = (*judged.facts, ("Ruleset", f"{judged.ruleset}{judged.why}"))
    return Part(judged.path, judged.benchmark, verdict, kind, judged.findings, judged.ruleset, facts, judged.files)


def as_html(report: Report) -> str:
    """The page."""
    shown = [part for part in report.parts if part.findings]
    codes = Counter(item.code for part in report.parts for item in part.findings)
    text = _environment().get_template("report.html").render(
        report=report,
        policy=CONTENT_POLICY,
        style=_style(),
        version=__version__,
        shown=[(f"r{number}", part, _groups(part)) for number, part in enumerate(shown, 1)],
        clean=[part for part in report.parts if not part.findings],
        codes=sorted(codes.items()),
        folder=_common(report.parts),
        is_inline=len(shown) <= MAX_DOCUMENTED,
        totals=sum((part.counts for part in report.parts), Counter()),
        num_refused=sum(part.kind == "invalid" for part in report.parts),
    )  # fmt: skip
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _groups(part: Part) -> list[tuple[str, list[tuple[str, list[list[Group]]]]]]:
    """The findings by severity, waived ones last; then by code; then those that are alike, one group per file."""
    groups: dict[str, dict[str, dict[object, list[Group]]]] = {name: {} for name in (*Severity, WAIVED)}
    for group in grouped(part.findings):
        by_code = groups[_column(group.first)].setdefault(group.first.code, {})
        by_code.setdefault((group.first.waived, message_shape(group.first)), []).append(group)
    return [
        (name, [(code, list(kinds.values())) for code, kinds in by_code.items()])
        for name, by_code in groups.items()
        if by_code
    ]


def _column(finding: Finding) -> str:
    return WAIVED if finding.waived is not None else finding.severity.value


def _place(finding: Finding, part: Part) -> str:
    """`result_0.txt` for a file below the result, the whole path for any other."""
    return printable(finding.path.removeprefix(f"{part.path}/"), 1000)


def _common(parts: Sequence[Part]) -> str:
    """The folder of all results, with its slash; empty for a single result and where there is none."""
    folder = os.path.commonpath([part.path for part in parts]) if len(parts) > 1 and _is_one_kind(parts) else ""
    return f"{folder}/" if folder not in ("", "/") else ""


def _is_one_kind(parts: Sequence[Part]) -> bool:
    """Whether either all paths are absolute or none is."""
    return len({part.path.startswith("/") for part in parts}) == 1


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(shown=printable, lines=_lines, evidence=_evidence, counted=_counted)
    found.globals.update(
        section_of=_section, title_of=_title, place_in=_place, MAX_PLACES=MAX_PLACES, MAX_FILES=MAX_FILES
    )
    return found


@cache
def _style() -> str:
    text = "\n".join(path.read_text(encoding="utf-8") for path in _STYLES)
    return "".join(letter if letter.isascii() else f"\\{ord(letter):x} " for letter in text)


def _section(document: str, title: str) -> list[Piece]:
    return pieces(section(document, title))


def _title(document: str) -> str:
    return document.split("\n", 1)[0].strip()


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _lines(group: Group) -> str:
    """`:7`, or `: 400 times, lines 7, 9, … 41`, to follow the path of a file; at most eight lines."""
    lines = [str(line) for line in group.named_lines(7)]
    shown = ", ".join(lines if len(group.lines) <= 8 else [*lines[:-1], f"… {lines[-1]}"])
    if group.count == 1:
        return f":{shown}" if shown else ""
    return f": {group.count:,} times{f', lines {shown}' if shown else ''}"


def _evidence(finding: Finding) -> list[tuple[str, str]]:
    """Names, and values as in JSON, cut to length."""
    return [(printable(name, 60), _value(value)) for name, value in finding.evidence.items()]


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.10g}"
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), 300)
