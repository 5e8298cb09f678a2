"""Applies the checks in force to a result: the same engine for `check`, `submit`, `score` and the board."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from harness.errors import RulesError, unknown_name
from harness.findings import Fault, Finding, Rule, Severity, sort_key
from harness.mlperf.score import excused
from harness.ruleset import waivers
from harness.ruleset.model import BenchmarkRules, RuleSet, Waiver
from harness.submission.result import Result

JUDGEMENT = "judgement"
FOREIGN_LOG = "LOG002"
_NOT_CONVERGED = (
    "MLP001",
    "MLP003",
    "MLP007",
)  # of MLPerf's rounds: the last line is cut off; one is missing, as run_stop; no evaluation is good enough


def judge(result: Result, ruleset: RuleSet, checks: Iterable[Rule], today: date) -> list[Finding]:
    """Every finding on `result` under `ruleset`, sorted: errors first, then by place.

    A check of scope "log" is called as `check(log, rules, ruleset)` for each log, one of scope "result" as
    `check(result, rules, ruleset)`, one of scope "judgement", after all others, as
    `check(result, findings, ruleset, today)`. A log that another program wrote is shown to LOG002 only, where
    that is in force, and to the checks of the result. `rules` is None where the logs name no benchmark of the
    ruleset; which is itself a finding of LOG010, so that nothing passes because nobody knew what to look at.

    Raises:
        RulesError: the ruleset puts a check in force that does not exist.
    """
    found: list[Finding] = []
    known = list(checks)
    if absent := sorted(set(ruleset.codes) - {rule.code for rule in known}):
        # A rule in force that nobody can look at would let everything pass.
        raise RulesError(
            f"ruleset {ruleset.version}: codes: {unknown_name('check', absent[0], [r.code for r in known])}"
        )
    in_force = [rule for rule in known if rule.code in ruleset.codes]
    benchmark = _benchmark(ruleset, result.benchmark)
    logs = [(log, _benchmark(ruleset, log.value("submission_benchmark"))) for log in result.runs]
    ours = [(log, rules) for log, rules in logs if not (log.is_foreign and FOREIGN_LOG in ruleset.codes)]
    tree = waivers.tree_of(result.path)
    for rule in sorted(in_force, key=lambda rule: rule.scope == JUDGEMENT):
        severity = Severity(ruleset.codes[rule.code])
        if rule.scope == JUDGEMENT:
            faults = list(rule.check(result, tuple(found), ruleset, today))
        elif rule.scope == "log":
            shown = logs if rule.code == FOREIGN_LOG else ours
            faults = [fault for log, rules in shown for fault in rule.check(log, rules, ruleset)]
        else:
            faults = list(rule.check(result, benchmark, ruleset))
        found += [_finding(rule, fault, severity, ruleset, tree, today) for fault in faults]
    if ruleset.round is not None and result.kind != "log":
        may_fail = {str(log.path) for log in excused(result.runs, ruleset.round)}
        found = [_of_a_round(item, may_fail) for item in found]
    return sorted(found, key=sort_key)


def _of_a_round(finding: Finding, may_fail: Container[str]) -> Finding:
    """As it is; a warning where it says that a run did not converge that the olympic mean leaves out."""
    if finding.code not in _NOT_CONVERGED or finding.path not in may_fail or not finding.counts:
        return finding
    return replace(finding, severity=Severity.WARNING, message=f"{finding.message} (a run that may fail)")


def _benchmark(ruleset: RuleSet, name: object) -> BenchmarkRules | None:
    return ruleset.benchmarks.get(name) if isinstance(name, str) else None


def _finding(rule: Rule, fault: Fault, severity: Severity, ruleset: RuleSet, tree: Path | None, today: date) -> Finding:
    waived = next(
        (
            f"{waiver.why} ({waiver.who}, until {waiver.until})"
            for waiver in ruleset.waivers
            if waiver.until >= today.isoformat() and waivers.fits(waiver, tree, rule.code, fault.path)
        ),
        None,
    )
    return Finding(rule.code, rule.name, severity, fault.path, fault.line, fault.message, fault.evidence, waived)


def is_valid(findings: Iterable[Finding]) -> bool:
    """Whether no finding makes the result invalid."""
    return not any(finding.counts for finding in findings)


@dataclass(frozen=True, slots=True)
class WaiverUse:
    """A waiver and what it did. num_findings: those that it fits; an expired one excuses none of them."""

    waiver: Waiver
    num_findings: int
    is_expired: bool


def waiver_uses(ruleset: RuleSet, judged: Iterable[tuple[str, Iterable[Finding]]], today: date) -> list[WaiverUse]:
    """Every waiver of the ruleset, in its order; a finding that two of them fit counts for both.

    judged: the path of each result, and what was found on it.

    What fits nothing is for the reader of all results to see; of one result it is a finding of RUL001 where the
    waiver speaks of that result.
    """
    found = [(waivers.tree_of(Path(path)), item) for path, findings in judged for item in findings]
    return [
        WaiverUse(
            waiver,
            sum(waivers.fits(waiver, tree, item.code, item.path) for tree, item in found),
            waiver.until < today.isoformat(),
        )
        for waiver in ruleset.waivers
    ]
