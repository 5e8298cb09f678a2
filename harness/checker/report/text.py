"""Findings as text, or as one JSON document. Pure.

Text from a log or a path may contain anything; none of its control characters reaches a terminal.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from textwrap import indent
from typing import Any

from harness.checker.engine import WaiverUse, is_valid, waiver_uses
from harness.errors import printable
from harness.findings import Finding, Group, LogPlace, Rule, Severity, group_object, grouped
from harness.ruleset.model import RuleSet
from harness.submission.claim import Envelope
from harness.submission.result import Result
from harness.submission.signature import verdict

_MAX_PATH = 1000
_MAX_MESSAGE = 2000


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file of a result, by its name there. sha256: None if it is not a regular file; kind says what it is."""

    name: str
    num_bytes: int
    sha256: str | None
    kind: str = "file"


@dataclass(frozen=True, slots=True)
class Judged:
    """A result and its findings by a ruleset. facts: whose it is, by name; files: what it consists of, or one log.

    why: why it is judged by that ruleset, if results may have different ones. logs: what is compared with the logs of
    other results.
    """

    path: str
    benchmark: str | None
    findings: tuple[Finding, ...]
    ruleset: str
    why: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    files: tuple[FileFacts, ...] = ()
    logs: tuple[LogPlace, ...] = ()

    @property
    def is_valid(self) -> bool:
        return is_valid(self.findings)


def judged(result: Result, findings: Iterable[Finding], ruleset: RuleSet, why: str = "") -> Judged:
    """What is shown of a result judged by `ruleset`. why: why by that one."""
    files = [FileFacts(name, item.num_bytes, item.sha256, item.kind) for name, item in sorted(result.files.items())]
    if not files:
        files = [FileFacts(log.path.name, log.num_bytes, log.sha256) for log in result.runs]
    facts = tuple(_facts(result, ruleset))
    return Judged(
        str(result.path),
        result.benchmark,
        tuple(findings),
        ruleset.version,
        why,
        facts,
        tuple(files),
        result.log_places,
    )


def _facts(result: Result, ruleset: RuleSet) -> Iterator[tuple[str, str]]:
    names = {"submitter": "submission_org", "system": "submission_platform", "division": "submission_division"}
    for name, key in names.items():
        logged = [text for log in result.runs if isinstance(text := log.value(key), str)]
        value = logged[0] if result.claim is None and logged else getattr(result.claim, name, None)
        if value is not None:
            yield name.capitalize(), value
    yield "Logs", f"{len(result.runs):,}"
    if result.envelope != Envelope():
        yield "Signature", verdict(result, ruleset.allowed_signers, ruleset.version).sentence


def as_text(results: Sequence[Judged], rulesets: Sequence[RuleSet], explained: Mapping[str, Rule] | None = None) -> str:
    """One line per finding, errors first, `path:line: CODE severity: message`; then a summary line.

    rulesets: those in use; if there are several, each result is shown with the name of its own.
    Findings of one code in one file whose messages differ only in numbers are one line with a count.
    explained: the checks; each one with findings is followed once by why it matters and what to do.
    """
    blocks = []
    for judged in results:
        verdicts = "; ".join(["valid" if judged.is_valid else "not valid", *_signed(judged)])
        verdicts += f"; ruleset {printable(judged.ruleset)}" if len(rulesets) > 1 else ""
        name = "" if judged.benchmark is None else f" ({printable(judged.benchmark)})"
        lines = [f"  {line}" for line in _lines(judged.findings)]
        blocks.append("\n".join([f"{printable(judged.path, _MAX_PATH)}{name}: {verdicts}", *lines]))
    if explained is not None:
        blocks += [_advice(rule) for rule in _with_findings(results, explained)]
    return "\n\n".join([*blocks, _summary(results, rulesets)]) + "\n"


def _signed(judged: Judged) -> list[str]:
    return [printable(text) for name, text in judged.facts if name == "Signature"]


def _with_findings(results: Sequence[Judged], rules: Mapping[str, Rule]) -> list[Rule]:
    codes = {finding.code for judged in results for finding in judged.findings}
    return [rules[code] for code in sorted(codes) if code in rules]


def _advice(rule: Rule) -> str:
    why, instead = indent(rule.why, "    "), indent(rule.instead, "    ")
    return f"{rule.code} {rule.title}\n  Why it matters:\n{why}\n  What to do:\n{instead}"


def findings_text(findings: Iterable[Finding]) -> str:
    """Only the lines of `as_text`, for a verb with its own output; "no findings" if there are none."""
    return "\n".join(_lines(findings)) or "no findings"


def _lines(findings: Iterable[Finding]) -> list[str]:
    return [_line(group) for group in grouped(findings)]


def _line(group: Group) -> str:
    finding = group.first
    text = (
        f"{printable(finding.place, _MAX_PATH)}: {finding.code} {finding.severity}: "
        f"{printable(finding.message, _MAX_MESSAGE)}"
    )
    if group.count > 1:
        last = group.lines[-1:]
        text += f" ({group.count} times{f', last on line {last[0]}' if last else ''})"
    if finding.waived is not None:
        text += f" [waived: {printable(finding.waived, _MAX_MESSAGE)}]"
    return text


def _summary(results: Sequence[Judged], rulesets: Sequence[RuleSet]) -> str:
    num_valid = sum(judged.is_valid for judged in results)
    found = [finding for judged in results for finding in judged.findings]
    counts = Counter(finding.severity for finding in found if finding.waived is None)
    num_waived = sum(finding.waived is not None for finding in found)
    parts = [_count(counts[severity], severity.value) for severity in Severity if counts[severity]]
    parts += [f"{num_waived} waived"] if num_waived else []
    return (
        f"{_count(len(results), 'result')}, {num_valid} valid; {', '.join(parts) or 'no findings'}; "
        f"{rulesets_line(rulesets)}"
    )


def rulesets_line(rulesets: Sequence[RuleSet]) -> str:
    """The rulesets in use, each with the first digits of its digest."""
    names = ", ".join(f"{printable(one.version)} ({one.digest[:12]})" for one in rulesets)
    return f"ruleset{'' if len(rulesets) == 1 else 's'} {names}" if rulesets else "no ruleset"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def as_json(results: Sequence[Judged], rulesets: Sequence[RuleSet], rules: Mapping[str, Rule], today: date) -> str:
    """One JSON document: the rulesets with their digests, and their waivers with what they excused; for each check that
    has findings why it matters and what to do; for each result its path, benchmark, ruleset, verdict and grouped
    findings.
    """
    document = {
        "rulesets": [
            {
                **ruleset_record(ruleset),
                "waivers": [_waiver_record(use) for use in waivers_used(results, ruleset, today)],
            }
            for ruleset in rulesets
        ],
        "checks": {
            rule.code: {"title": rule.title, "why": rule.why, "instead": rule.instead}
            for rule in _with_findings(results, rules)
        },
        "results": [
            {
                "path": judged.path,
                "benchmark": judged.benchmark,
                "ruleset": judged.ruleset,
                "valid": judged.is_valid,
                **({"signature": signed[0]} if (signed := _signed(judged)) else {}),
                "findings": [group_object(group) for group in grouped(judged.findings)],
            }
            for judged in results
        ],
    }
    return dumped(document)


def ruleset_record(ruleset: RuleSet) -> dict[str, str]:
    """Name and digest, as they are in the JSON documents."""
    return {"ruleset": ruleset.version, "ruleset_digest": ruleset.digest}


def waivers_used(results: Sequence[Judged], ruleset: RuleSet, today: date) -> list[WaiverUse]:
    """The waivers of `ruleset`, with their effect on the results judged by it."""
    found = [(judged.path, judged.findings) for judged in results if judged.ruleset == ruleset.version]
    return waiver_uses(ruleset, found, today)


def _waiver_record(use: WaiverUse) -> dict[str, Any]:
    names = ("code", "path", "who", "why", "until")
    waiver = {name: getattr(use.waiver, name) for name in names}
    return {**waiver, "is_expired": use.is_expired, "num_findings": use.num_findings}


def dumped(document: Mapping[str, Any]) -> str:
    """The document as JSON in ASCII without control characters."""
    # ensure_ascii: what is not ASCII, control characters among it, is escaped.
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, indent=2)
    return text.replace("\x7f", "\\u007f") + "\n"
