"""Findings as text, as one JSON document, or as SARIF 2.1.0. Pure.

What comes from a log or a path may hold anything; no control character of it reaches a terminal.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness import __version__
from harness.errors import printable
from harness.findings import Finding, Rule, Severity, sort_key
from harness.judging import is_valid
from harness.ruleset import RuleSet

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_NUMBER = re.compile(r"[0-9][0-9.,]*")
_MAX_PATH = 1000
_MAX_MESSAGE = 2000


@dataclass(frozen=True, slots=True)
class Judged:
    """A result and what was found on it."""

    path: str
    benchmark: str | None
    findings: tuple[Finding, ...]

    @property
    def is_valid(self) -> bool:
        return is_valid(self.findings)


def as_text(results: Sequence[Judged], ruleset: RuleSet) -> str:
    """One line a finding, errors first, `path:line: CODE severity: message`; then a line that sums up.

    Findings of one code in one file whose messages differ in numbers only are one line with a count.
    """
    blocks = []
    for judged in results:
        verdict = "valid" if judged.is_valid else "not valid"
        name = "" if judged.benchmark is None else f" ({printable(judged.benchmark)})"
        lines = [f"  {line}" for line in _lines(judged.findings)]
        blocks.append("\n".join([f"{printable(judged.path, _MAX_PATH)}{name}: {verdict}", *lines]))
    return "\n\n".join([*blocks, _summary(results, ruleset)]) + "\n"


def findings_text(findings: Iterable[Finding]) -> str:
    """The lines of `as_text` alone, for a verb that has more to say; "no findings" where there are none."""
    return "\n".join(_lines(findings)) or "no findings"


def _lines(findings: Iterable[Finding]) -> list[str]:
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in sorted(findings, key=sort_key):
        shape = _NUMBER.sub("#", finding.message)
        groups.setdefault((finding.severity, finding.code, finding.path, finding.waived, shape), []).append(finding)
    return [_line(group) for group in groups.values()]


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


def as_json(results: Sequence[Judged], ruleset: RuleSet) -> str:
    """One document: the ruleset with its digest, and per result its path, benchmark, verdict and findings."""
    document = {
        "ruleset": ruleset.version,
        "ruleset_digest": ruleset.digest,
        "results": [
            {
                "path": judged.path,
                "benchmark": judged.benchmark,
                "valid": judged.is_valid,
                "findings": [_record(finding) for finding in judged.findings],
            }
            for judged in results
        ],
    }
    return _dumped(document)


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
