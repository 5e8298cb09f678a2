"""Applies the checks in force to a result: the same engine for `check`, `submit`, `score` and the board."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator
from datetime import date

from harness.errors import RulesError, unknown_name
from harness.findings import Fault, Finding, Rule, Severity, sort_key
from harness.ruleset import BenchmarkRules, RuleSet
from harness.submission import Result

JUDGEMENT = "judgement"
FOREIGN_LOG = "LOG002"


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
    for rule in sorted(in_force, key=lambda rule: rule.scope == JUDGEMENT):
        severity = Severity(ruleset.codes[rule.code])
        if rule.scope == JUDGEMENT:
            faults = list(rule.check(result, tuple(found), ruleset, today))
        else:
            faults = list(_faults(rule, result, ruleset))
        found += [_finding(rule, fault, severity, ruleset, today) for fault in faults]
    return sorted(found, key=sort_key)


def _faults(rule: Rule, result: Result, ruleset: RuleSet) -> Iterator[Fault]:
    if rule.scope == "log":
        for log in result.runs:
            if log.is_foreign and FOREIGN_LOG in ruleset.codes and rule.code != FOREIGN_LOG:
                continue
            name = log.value("submission_benchmark")
            yield from rule.check(log, _benchmark(ruleset, name), ruleset)
    else:
        yield from rule.check(result, _benchmark(ruleset, result.benchmark), ruleset)


def _benchmark(ruleset: RuleSet, name: object) -> BenchmarkRules | None:
    return ruleset.benchmarks.get(name) if isinstance(name, str) else None


def _finding(rule: Rule, fault: Fault, severity: Severity, ruleset: RuleSet, today: date) -> Finding:
    waived = None
    for waiver in ruleset.waivers:
        is_in_force = waiver.code == rule.code and waiver.until >= today.isoformat()
        if waived is None and is_in_force and fnmatch.fnmatch(fault.path, waiver.path):
            waived = f"{waiver.why} ({waiver.who}, until {waiver.until})"
    return Finding(rule.code, rule.name, severity, fault.path, fault.line, fault.message, fault.evidence, waived)


def is_valid(findings: Iterable[Finding]) -> bool:
    """Whether no finding makes the result invalid."""
    return not any(finding.counts for finding in findings)
