"""Findings: what a check saw, where, and how bad that is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from harness.base.docstrings import section


class Severity(StrEnum):
    """error: the result does not count. warning: a person should look. note: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Fault:
    """What a check yields: place and message. The engine adds the code and the ruleset's severity.

    message: what was seen, what is allowed, with units. evidence: the numbers in it, for machines.
    """

    path: str
    line: int | None
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault under a ruleset. `waived` names the waiver's reason where the rulebook accepts it."""

    code: str
    name: str
    severity: Severity
    path: str
    line: int | None
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    waived: str | None = None

    @property
    def place(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"

    @property
    def counts(self) -> bool:
        """Whether this alone makes the result invalid."""
        return self.severity is Severity.ERROR and self.waived is None


@dataclass(frozen=True, slots=True)
class Rule:
    """A check as the registry knows it.

    code: family and number, `LOG001`. name: the fault in snake case. scope: "log" (the check is called
    with each log), "result" (called once with the whole result) or "judgement" (called last, with the findings
    of the others). document: the check's docstring.
    """

    code: str
    name: str
    scope: str
    check: Callable[..., Iterator[Fault]]
    document: str

    @property
    def title(self) -> str:
        return self.document.split("\n", 1)[0].strip().rstrip(".")

    @property
    def why(self) -> str:
        """Why it matters, as the document says."""
        return section(self.document, "Why it matters")

    @property
    def instead(self) -> str:
        """What to do, as the document says."""
        return section(self.document, "Instead")


def sort_key(finding: Finding) -> tuple[int, str, int, str]:
    """Errors first, then by place, then by code."""
    order = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}
    return (order[finding.severity], finding.path, finding.line or 0, finding.code)


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
