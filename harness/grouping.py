"""Findings that are alike, as one with a count: what text, JSON, SARIF and the page all show. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.findings import Finding, sort_key

MAX_LINES = 20  # that a group names; the last line is named beside them
_NUMBER = re.compile(r"[0-9][0-9.,]*")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Group:
    """Findings of one code, severity, file and waiver whose messages differ in numbers only."""

    findings: tuple[Finding, ...]

    @property
    def first(self) -> Finding:
        """Whose message and evidence stand for the group."""
        return self.findings[0]

    @property
    def count(self) -> int:
        return len(self.findings)

    @property
    def lines(self) -> list[int]:
        """The lines by number, each once."""
        return sorted({item.line for item in self.findings if item.line is not None})

    def named_lines(self, most: int = MAX_LINES) -> list[int]:
        """The first `most` lines, and the last."""
        lines = self.lines
        return lines if len(lines) <= most + 1 else [*lines[:most], lines[-1]]


def alike(findings: Iterable[Finding]) -> list[Group]:
    """The groups, sorted as their first findings are: errors first, then by place."""
    return [Group(tuple(members)) for members in together(sorted(findings, key=sort_key), lambda finding: finding)]


def together(items: Iterable[Item], finding_of: Callable[[Item], Finding]) -> list[list[Item]]:
    """The items in their order, those together whose findings make one group; a group stands where its first does."""
    found: dict[tuple[object, ...], list[Item]] = {}
    for item in items:
        finding = finding_of(item)
        kind = (finding.severity, finding.code, finding.path, finding.waived, shape_of(finding))
        found.setdefault(kind, []).append(item)
    return list(found.values())


def shape_of(finding: Finding) -> str:
    """The message without its numbers."""
    return _NUMBER.sub("#", finding.message)


def alone(finding: Finding) -> dict[str, Any]:
    """A finding as JSON has it."""
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


def record(group: Group) -> dict[str, Any]:
    """A group as JSON has it: its first finding, how many there are, the first twenty lines and the last."""
    return {**alone(group.first), "count": group.count, "lines": group.named_lines()}
