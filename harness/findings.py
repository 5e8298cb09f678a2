"""Findings: what a check saw, where, and how bad that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

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
