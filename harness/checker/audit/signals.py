"""What a signal sees, and what the auditor is shown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import RulesError, unknown_name
from harness.findings import Fault, Finding, Rule, Severity


@dataclass(frozen=True, slots=True)
class Trace:
    """What a signal yields. strength: from just beyond its limit (0) to beyond all doubt (1)."""

    fault: Fault
    strength: float


def _not_a_check(*_: object) -> Iterator[Fault]:
    raise AssertionError("a signal is no check: `tta audit` carries it out")


@dataclass(frozen=True, slots=True)
class Signal:
    """One file of rules/audits. scope: "log" (called with each `RunFacts`), "result" (with a `Subject`), "tree" (with
    the `Tree` of all results). limits: the names of the limits it takes from the audit's rules."""

    code: str
    name: str
    scope: str
    look: Callable[..., Iterator[Trace]]
    document: str
    limits: tuple[str, ...]

    @property
    def as_rule(self) -> Rule:
        """As whoever explains checks knows them."""
        return Rule(self.code, self.name, self.scope, _not_a_check, self.document)


@dataclass(frozen=True, slots=True)
class SignalRule:
    """How one signal is used. weight: the score of a trace of full strength; 100 is the worst there is."""

    severity: Severity
    weight: float
    limits: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.limits[name]


@dataclass(frozen=True, slots=True)
class AuditRules:
    """The audit's rules: which signals are in force, and by which limits.

    bands: by benchmark, the lowest and the highest value of any evaluation that was ever seen.
    """

    version: str
    digest: str
    signals: Mapping[str, SignalRule]
    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def fits(self, known: Mapping[str, Signal]) -> None:
        """Whether rules and signals are of one kind.

        Raises:
            RulesError: a signal is unknown, or its limits are not those it takes.
        """
        for code, rule in self.signals.items():
            if code not in known:
                raise RulesError(f"audit rules {self.version}: {unknown_name('signal', code, known)}")
            if set(rule.limits) != set(known[code].limits):
                raise RulesError(
                    f"audit rules {self.version}: {code}: has the limits {', '.join(sorted(rule.limits)) or 'none'}; "
                    f"it takes {', '.join(sorted(known[code].limits)) or 'none'}"
                )


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A finding of the audit. score: from 0 to 100, by which the worst come first."""

    finding: Finding
    score: float


def suspicion(signal: Signal, rule: SignalRule, trace: Trace) -> Suspicion:
    """The trace under the audit's rules: a weak one has half of the weight, a full one all of it."""
    fault = trace.fault
    strength = min(1.0, max(0.0, trace.strength))
    finding = Finding(signal.code, signal.name, rule.severity, fault.path, fault.line, fault.message, fault.evidence)
    return Suspicion(finding, round(rule.weight * (0.5 + 0.5 * strength), 1))


def trace(path: object, line: int | None, message: str, strength: float, **evidence: Any) -> Trace:
    """What signals yield, in one call."""
    return Trace(Fault(str(path), line, message, evidence), strength)
