"""Findings as text, as one JSON document, or as SARIF 2.1.0. Pure.

What comes from a log or a path may hold anything; no control character of it reaches a terminal.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from textwrap import indent
from typing import Any
from urllib.parse import quote

from harness import __version__
from harness.claims import Envelope
from harness.errors import printable
from harness.findings import Finding, Rule, Severity, sort_key
from harness.judging import WaiverUse, is_valid, waiver_uses
from harness.ruleset import RuleSet
from harness.signature import verdict
from harness.submission import Result

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_NUMBER = re.compile(r"[0-9][0-9.,]*")
_MAX_PATH = 1000
_MAX_MESSAGE = 2000


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file of a result, by name in it. sha256: None for what is no regular file; kind says what it is."""

    name: str
    num_bytes: int
    sha256: str | None
    kind: str = "file"


@dataclass(frozen=True, slots=True)
class Judged:
    """A result and what was found on it. facts: whose it is, by name; files: what it consists of."""

    path: str
    benchmark: str | None
    findings: tuple[Finding, ...]
    facts: tuple[tuple[str, str], ...] = ()
    files: tuple[FileFacts, ...] = ()

    @property
    def is_valid(self) -> bool:
        return is_valid(self.findings)


def judged(result: Result, findings: Iterable[Finding], ruleset: RuleSet | None = None) -> Judged:
    """What is shown of a result that was judged; with the ruleset it was judged by, who signed it, too."""
    files = [FileFacts(name, item.num_bytes, item.sha256, item.kind) for name, item in sorted(result.files.items())]
    if not files:
        files = [FileFacts(log.path.name, log.num_bytes, log.sha256) for log in result.runs]
    return Judged(str(result.path), result.benchmark, tuple(findings), tuple(_facts(result, ruleset)), tuple(files))


def _facts(result: Result, ruleset: RuleSet | None) -> Iterator[tuple[str, str]]:
    names = {"submitter": "submission_org", "system": "submission_platform", "division": "submission_division"}
    for name, key in names.items():
        logged = [value for log in result.runs if isinstance(value := log.value(key), str)]
        said = logged[0] if result.claim is None and logged else getattr(result.claim, name, None)
        if said is not None:
            yield name.capitalize(), said
    yield "Logs", f"{len(result.runs):,}"
    if ruleset is not None and result.envelope != Envelope():
        yield "Signature", verdict(result, ruleset).sentence


def as_text(results: Sequence[Judged], ruleset: RuleSet, explained: Mapping[str, Rule] | None = None) -> str:
    """One line a finding, errors first, `path:line: CODE severity: message`; then a line that sums up.

    Findings of one code in one file whose messages differ in numbers only are one line with a count.
    explained: the checks, to say of each that found something, once, why it matters and what to do.
    """
    blocks = []
    for judged in results:
        said = "; ".join(["valid" if judged.is_valid else "not valid", *_signed(judged)])
        name = "" if judged.benchmark is None else f" ({printable(judged.benchmark)})"
        lines = [f"  {line}" for line in _lines(judged.findings)]
        blocks.append("\n".join([f"{printable(judged.path, _MAX_PATH)}{name}: {said}", *lines]))
    if explained is not None:
        blocks += [_advice(rule) for rule in _that_found(results, explained)]
    return "\n\n".join([*blocks, _summary(results, ruleset)]) + "\n"


def _signed(judged: Judged) -> list[str]:
    return [printable(text) for name, text in judged.facts if name == "Signature"]


def _that_found(results: Sequence[Judged], rules: Mapping[str, Rule]) -> list[Rule]:
    codes = {finding.code for judged in results for finding in judged.findings}
    return [rules[code] for code in sorted(codes) if code in rules]


def _advice(rule: Rule) -> str:
    why, instead = indent(rule.why, "    "), indent(rule.instead, "    ")
    return f"{rule.code} {rule.title}\n  Why it matters:\n{why}\n  What to do:\n{instead}"


def findings_text(findings: Iterable[Finding]) -> str:
    """The lines of `as_text` alone, for a verb that has more to say; "no findings" where there are none."""
    return "\n".join(_lines(findings)) or "no findings"


def _lines(findings: Iterable[Finding]) -> list[str]:
    return [_line(group) for group in alike(findings)]


def alike(findings: Iterable[Finding]) -> list[list[Finding]]:
    """The findings sorted, those of one code in one file together whose messages differ in numbers only."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in sorted(findings, key=sort_key):
        shape = shape_of(finding)
        groups.setdefault((finding.severity, finding.code, finding.path, finding.waived, shape), []).append(finding)
    return list(groups.values())


def shape_of(finding: Finding) -> str:
    """The message without its numbers."""
    return _NUMBER.sub("#", finding.message)


def _line(group: Sequence[Finding]) -> str:
    finding = group[0]
    text = (
        f"{printable(finding.place, _MAX_PATH)}: {finding.code} {finding.severity}: "
        f"{printable(finding.message, _MAX_MESSAGE)}"
    )
    if len(group) > 1:
        last = group[-1].line
        text += f" ({len(group)} times{'' if last is None else f', last on line {last}'})"
    if finding.waived is not None:
        text += f" [waived: {printable(finding.waived, _MAX_MESSAGE)}]"
    return text


def _summary(results: Sequence[Judged], ruleset: RuleSet) -> str:
    num_valid = sum(judged.is_valid for judged in results)
    found = [finding for judged in results for finding in judged.findings]
    counts = Counter(finding.severity for finding in found if finding.waived is None)
    num_waived = sum(finding.waived is not None for finding in found)
    parts = [_count(counts[severity], severity.value) for severity in Severity if counts[severity]]
    parts += [f"{num_waived} waived"] if num_waived else []
    return (
        f"{_count(len(results), 'result')}, {num_valid} valid; {', '.join(parts) or 'no findings'}; "
        f"ruleset {printable(ruleset.version)} ({ruleset.digest[:12]})"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def as_json(results: Sequence[Judged], ruleset: RuleSet, rules: Mapping[str, Rule], today: date) -> str:
    """One document: the ruleset with its digest, its waivers and what they excused, of each check that found something
    why it matters and what to do, and per result its path, benchmark, verdict and findings.
    """
    uses = waiver_uses(ruleset, [finding for judged in results for finding in judged.findings], today)
    document = {
        "ruleset": ruleset.version,
        "ruleset_digest": ruleset.digest,
        "waivers": [_waiver_record(use) for use in uses],
        "checks": {
            rule.code: {"title": rule.title, "why": rule.why, "instead": rule.instead}
            for rule in _that_found(results, rules)
        },
        "results": [
            {
                "path": judged.path,
                "benchmark": judged.benchmark,
                "valid": judged.is_valid,
                **({"signature": signed[0]} if (signed := _signed(judged)) else {}),
                "findings": [_record(finding) for finding in judged.findings],
            }
            for judged in results
        ],
    }
    return _dumped(document)


def _waiver_record(use: WaiverUse) -> dict[str, Any]:
    names = ("code", "path", "who", "why", "until")
    waiver = {name: getattr(use.waiver, name) for name in names}
    return {**waiver, "is_expired": use.is_expired, "num_findings": use.num_findings}


def _record(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "path": finding.path,
        "line": finding.line,
        "message": finding.message,
        "evidence": dict(finding.evidence),
        "waived": finding.waived,
    }


def _dumped(document: Mapping[str, Any]) -> str:
    # ensure_ascii: what is not ASCII, control characters among it, is escaped.
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, indent=2)
    return text.replace("\x7f", "\\u007f") + "\n"


def as_sarif(results: Sequence[Judged], ruleset: RuleSet, rules: Mapping[str, Rule], base: Path) -> str:
    """A SARIF log of one run, with the checks in force as its rules and paths relative to `base`.

    A waived finding is a result with a suppression.

    Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
    """
    in_force = [rule for code, rule in rules.items() if code in ruleset.codes]
    index = {rule.code: place for place, rule in enumerate(in_force)}
    document = {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "tta",
                        "version": __version__,
                        "rules": [_descriptor(rule, ruleset) for rule in in_force],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "properties": {"ruleset": ruleset.version, "rulesetDigest": ruleset.digest},
                "results": [_sarif_result(finding, index, base) for judged in results for finding in judged.findings],
            }
        ],
    }
    return _dumped(document)


def _descriptor(rule: Rule, ruleset: RuleSet) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("_")),
        "shortDescription": {"text": f"{rule.title}."},
        "fullDescription": {"text": f"{rule.why} {rule.instead}"},
        "help": {"text": rule.document, "markdown": rule.document},
        "defaultConfiguration": {"level": ruleset.codes[rule.code]},
    }


def _sarif_result(finding: Finding, index: Mapping[str, int], base: Path) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.path, base)}}
    if finding.line is not None:
        location["region"] = {"startLine": finding.line}
    found: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": finding.severity.value,  # SARIF has the same three words
        "message": {"text": printable(finding.message, _MAX_MESSAGE)},
        "locations": [{"physicalLocation": location}],
        "properties": dict(finding.evidence),
    }
    if finding.waived is not None:
        found["suppressions"] = [{"kind": "external", "justification": finding.waived}]
    return found


def _uri(path: str, base: Path) -> str:
    """`path` relative to `base` as a URI reference."""
    relative = os.path.relpath(path, base) if Path(path).is_absolute() else os.path.normpath(path)
    return quote(Path(relative).as_posix().encode("utf-8", "surrogateescape"))
