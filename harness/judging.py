"""Applies the checks in force to a result: the same engine for `check`, `submit`, `score` and the board."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path

from harness.findings import Fault, Finding, Rule, Severity, sort_key
from harness.ruleset import BenchmarkRules, RuleSet
from harness.submission import Result


def judge(result: Result, ruleset: RuleSet, checks: Iterable[Rule], today: date) -> list[Finding]:
    """Every finding on `result` under `ruleset`, sorted: errors first, then by place.

    A check of scope "log" is called as `check(log, rules, ruleset)` for each log, one of scope "result" as
    `check(result, rules, ruleset)`. `rules` is None where the logs name no benchmark of the ruleset; which
    is itself a finding of LOG010, so that nothing passes because nobody knew what to look at.
    """
    found: list[Finding] = []
    for rule in checks:
        severity = ruleset.codes.get(rule.code)
        if severity is None:
            continue
        for fault in _faults(rule, result, ruleset):
            found.append(_finding(rule, fault, Severity(severity), result.path, ruleset, today))
    return sorted(found, key=sort_key)


def _faults(rule: Rule, result: Result, ruleset: RuleSet) -> Iterator[Fault]:
    if rule.scope == "log":
        for log in result.runs:
            name = log.value("submission_benchmark")
            yield from rule.check(log, _benchmark(ruleset, name), ruleset)
    else:
        yield from rule.check(result, _benchmark(ruleset, result.benchmark), ruleset)


def _benchmark(ruleset: RuleSet, name: object) -> BenchmarkRules | None:
    return ruleset.benchmarks.get(name) if isinstance(name, str) else None


def _finding(rule: Rule, fault: Fault, severity: Severity, root: Path, ruleset: RuleSet, today: date) -> Finding:
    waived = next(
        (
            f"{waiver.why} ({waiver.who}, until {waiver.until})"
            for waiver in ruleset.waivers
            if waiver.code == rule.code and waiver.until >= today.isoformat() and fnmatch.fnmatch(fault.path, waiver.path)
        ),
        None,
    )
    return Finding(rule.code, rule.name, severity, fault.path, fault.line, fault.message, fault.evidence, waived)


def is_valid(findings: Iterable[Finding]) -> bool:
    """Whether no finding makes the result invalid."""
    return not any(finding.counts for finding in findings)
