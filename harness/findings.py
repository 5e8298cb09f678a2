"""What authors of checks need: a check is a `Rule`, yields `Fault`s, and a `Finding` is a fault under a ruleset.

Findings that differ in numbers only form a `Group`: text, JSON, SARIF and the page show each group once, with a count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from harness.base.docstrings import section


class Severity(StrEnum):
    """error: the result does not count. warning: a person should look at it. note: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Fault:
    """What a check yields: a place and a message. The engine adds the code and the ruleset's severity.

    message: what was seen and what is allowed, with units. evidence: its numbers, machine-readable.
    """

    path: str
    line: int | None
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault under a ruleset. waived: the reason of the waiver that accepts it; None if there is none."""

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
        """Whether this finding makes the result invalid: an error that is not waived."""
        return self.severity is Severity.ERROR and self.waived is None


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A log among those that are judged together. result: the path of its result, of `benchmark`; path: its own."""

    result: str
    path: str
    sha256: str
    benchmark: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A check, as the registry finds it.

    code: family and number, `LOG001`. name: the fault in snake case. scope: "log" (the check is called with each log),
    "result" (called once with the whole result), "judgement" (called last, with the others' findings) or "tree" (called
    once with the logs of all results). document: the check's docstring.
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
        """The document's section "Why it matters"."""
        return section(self.document, "Why it matters")

    @property
    def instead(self) -> str:
        """The document's section "Instead": what to do."""
        return section(self.document, "Instead")


def sort_key(finding: Finding) -> tuple[int, str, int, str]:
    """Return the key that sorts errors first, then by place, then by code."""
    order = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}
    return (order[finding.severity], finding.path, finding.line or 0, finding.code)


MAX_LINES = 20  # that a group names, plus the last one
_NUMBER = re.compile(r"[0-9][0-9.,]*")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Group:
    """Findings of the same code, severity, file and waiver whose messages differ in numbers only."""

    findings: tuple[Finding, ...]

    @property
    def first(self) -> Finding:
        """The finding whose message and evidence represent the group."""
        return self.findings[0]

    @property
    def count(self) -> int:
        return len(self.findings)

    @property
    def lines(self) -> list[int]:
        """The line numbers in ascending order, each once."""
        return sorted({item.line for item in self.findings if item.line is not None})

    def named_lines(self, most: int = MAX_LINES) -> list[int]:
        """Return the first `most` lines, and the last one."""
        lines = self.lines
        return lines if len(lines) <= most + 1 else [*lines[:most], lines[-1]]


def grouped(findings: Iterable[Finding]) -> list[Group]:
    """Return the groups of `findings`, sorted as their first findings are: errors first, then by place."""
    return [Group(tuple(members)) for members in grouped_by(sorted(findings, key=sort_key), lambda finding: finding)]


def grouped_by(items: Iterable[Item], finding_of: Callable[[Item], Finding]) -> list[list[Item]]:
    """Return the items in lists, one list per group of their findings, in the order of each group's first item."""
    found: dict[tuple[object, ...], list[Item]] = {}
    for item in items:
        finding = finding_of(item)
        kind = (finding.severity, finding.code, finding.path, finding.waived, message_shape(finding))
        found.setdefault(kind, []).append(item)
    return list(found.values())


def message_shape(finding: Finding) -> str:
    """Return the message with each number replaced by `#`."""
    return _NUMBER.sub("#", finding.message)


def finding_object(finding: Finding) -> dict[str, Any]:
    """Return a finding as a JSON object."""
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


def group_object(group: Group) -> dict[str, Any]:
    """Return a group as a JSON object: its first finding, their number, the first twenty lines and the last."""
    return {**finding_object(group.first), "count": group.count, "lines": group.named_lines()}
