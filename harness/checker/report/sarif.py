"""Findings as a SARIF 2.1.0 log, for code hosts and editors. Pure.

Findings that are alike are one result, at the first of their lines, with their number as `occurrenceCount`. The other
lines are `relatedLocations`: `locations` must not hold distinct occurrences that can be corrected one by one.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0, 3.27.12 and 3.27.22.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness import __version__
from harness.checker.report.text import dumped
from harness.errors import printable
from harness.findings import Group, Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_MAX_MESSAGE = 2000
_ALSO = {"text": "the same again"}


def as_sarif(runs: Iterable[dict[str, Any]]) -> str:
    """A log of these runs: one for each ruleset in use."""
    return dumped({"$schema": SCHEMA, "version": "2.1.0", "runs": list(runs)})


def run_record(
    found: Iterable[tuple[Group, float | None]],
    rules: Iterable[Rule],
    levels: Mapping[str, str],
    properties: Mapping[str, object],
    base: Path,
) -> dict[str, Any]:
    """A run of a log: the `rules` that have a level, and the groups found, with paths relative to `base`.

    found: each group with its rank from 0 to 100, or None if they are not ranked. A waived finding is a result with a
    suppression.
    """
    in_force = [rule for rule in rules if rule.code in levels]
    index = {rule.code: place for place, rule in enumerate(in_force)}
    driver = {
        "name": "tta",
        "version": __version__,
        "rules": [_descriptor(rule, levels[rule.code]) for rule in in_force],
    }
    return {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "properties": dict(properties),
        "results": [_result(group, rank, index, base) for group, rank in found],
    }


def _descriptor(rule: Rule, level: str) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("_")),
        "shortDescription": {"text": f"{rule.title}."},
        "fullDescription": {"text": f"{rule.why} {rule.instead}"},
        "help": {"text": rule.document, "markdown": rule.document},
        "defaultConfiguration": {"level": level},
    }


def _result(group: Group, rank: float | None, index: Mapping[str, int], base: Path) -> dict[str, Any]:
    finding = group.first
    uri = _uri(finding.path, base)
    found: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": finding.severity.value,  # SARIF has the same three words
        "message": {"text": printable(finding.message, _MAX_MESSAGE)},
        "locations": [{"physicalLocation": _place(uri, finding.line)}],
        "properties": dict(finding.evidence),
    }
    if rank is not None:
        found["rank"] = rank
    if group.count > 1:
        found["occurrenceCount"] = group.count
        others = [line for line in group.named_lines() if line != finding.line]
        found["relatedLocations"] = [{"physicalLocation": _place(uri, line), "message": _ALSO} for line in others]
    if finding.waived is not None:
        found["suppressions"] = [{"kind": "external", "justification": finding.waived}]
    return found


def _place(uri: str, line: int | None) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    return place if line is None else {**place, "region": {"startLine": line}}


def _uri(path: str, base: Path) -> str:
    """`path` relative to `base` as a URI reference."""
    relative = os.path.relpath(path, base) if Path(path).is_absolute() else os.path.normpath(path)
    return quote(Path(relative).as_posix().encode("utf-8", "surrogateescape"))
