"""Signals of the audit, what they yield, and the suspicions an auditor is shown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import RulesError, unknown_name
from harness.findings import Fault, Finding, Rule, Severity


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a signal yields. strength: from just beyond its limit (0) to beyond doubt (1)."""

    fault: Fault
    strength: float


def _not_a_check(*_: object) -> Iterator[Fault]:
    raise AssertionError("a signal is not a check: only `tta audit` runs it")


@dataclass(frozen=True, slots=True)
class Signal:
    """One file of rules/audits.

    scope: "log" (called with each `RunFacts`), "result" (with a `Subject`) or "tree" (with the `Tree` of all results).
    limits: the names of the limits it takes from the audit's rules. is_online_only: it is not shown runs that are
    evaluated afterwards, from checkpoints.
    """

    code: str
    name: str
    scope: str
    look: Callable[..., Iterator[Evidence]]
    document: str
    limits: tuple[str, ...]
    is_online_only: bool = False

    @property
    def as_rule(self) -> Rule:
        """The signal in the form of a check, to be explained and reported like one."""
        return Rule(self.code, self.name, self.scope, _not_a_check, self.document)


@dataclass(frozen=True, slots=True)
class SignalRule:
    """How a signal is used. weight: the score of evidence of full strength; the maximum is 100."""

    severity: Severity
    weight: float
    limits: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.limits[name]


@dataclass(frozen=True, slots=True)
class AuditRules:
    """The audit's rules: which signals are in force, and by which limits.

    bands: by benchmark, the lowest and the highest value of any evaluation in published results. flops: by benchmark,
    floating-point operations of a forward pass of one sample.
    """

    version: str
    digest: str
    signals: Mapping[str, SignalRule]
    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    flops: Mapping[str, float] = field(default_factory=dict)

    def refuse_unknown(self, known: Mapping[str, Signal]) -> None:
        """Raises:
        RulesError: a signal is unknown, or the rules do not give it the limits it takes.
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
    """A finding of the audit. score: from 0 to 100, the worst."""

    finding: Finding
    score: float


def suspicion(signal: Signal, rule: SignalRule, evidence: Evidence) -> Suspicion:
    """The evidence weighed by the audit's rules: the weakest scores half of the weight, the strongest all of it."""
    fault = evidence.fault
    strength = min(1.0, max(0.0, evidence.strength))
    finding = Finding(signal.code, signal.name, rule.severity, fault.path, fault.line, fault.message, fault.evidence)
    return Suspicion(finding, round(rule.weight * (0.5 + 0.5 * strength), 1))


def evidence(path: object, line: int | None, message: str, strength: float, **evidence: Any) -> Evidence:
    """`Evidence` from its parts, as signals yield it."""
    return Evidence(Fault(str(path), line, message, evidence), strength)
