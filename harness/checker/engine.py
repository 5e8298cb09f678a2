"""Applies the checks in force to a result: one engine for `check`, `submit`, `score` and the leaderboard."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from harness.errors import RulesError, unknown_name
from harness.findings import Fault, Finding, LogPlace, Rule, Severity, sort_key
from harness.mlperf.score import excused
from harness.ruleset import waivers
from harness.ruleset.model import BenchmarkRules, RuleSet, Waiver
from harness.submission.result import Result

JUDGEMENT, TREE = "judgement", "tree"
FOREIGN_LOG = "LOG002"
# What an MLPerf run that did not converge may lack: the end of its last line, run_stop, a good enough evaluation, a
# status that exists, any progress.
_NOT_CONVERGED = ("MLP001", "MLP003", "MLP007", "MLP023", "MLP028")


def judge(result: Result, ruleset: RuleSet, checks: Iterable[Rule], today: date) -> list[Finding]:
    """Every finding on `result` under `ruleset`, sorted: errors first, then by place.

    A check of scope "log" is called as `check(log, rules, ruleset)` for each log, one of scope "result" as
    `check(result, rules, ruleset)`, one of scope "judgement", after all others, as
    `check(result, findings, ruleset, today)`; those of scope "tree" are left to `judge_together`. If LOG002 is in
    force, a log that another program wrote is shown only to LOG002 and to the checks of the result. `rules` is None if
    the logs name no benchmark of the ruleset; that is itself a finding of LOG010, so nothing passes for want of rules
    to check it against.

    Raises:
        RulesError: the ruleset puts a check in force that does not exist.
    """
    found: list[Finding] = []
    known = list(checks)
    if absent := sorted(set(ruleset.codes) - {rule.code for rule in known}):
        # A rule in force without a check would let everything pass.
        raise RulesError(
            f"ruleset {ruleset.version}: codes: {unknown_name('check', absent[0], [r.code for r in known])}"
        )
    in_force = [rule for rule in known if rule.code in ruleset.codes and rule.scope != TREE]
    named = result.benchmark
    benchmark = _benchmark(ruleset, named)
    logs = [(log, _benchmark(ruleset, log.value("submission_benchmark"))) for log in result.runs]
    own = [(log, rules) for log, rules in logs if not (log.is_foreign and FOREIGN_LOG in ruleset.codes)]
    tree = waivers.tree_of(result.path)
    for rule in sorted(in_force, key=lambda rule: rule.scope == JUDGEMENT):
        severity = Severity(ruleset.severity(rule.code, named))
        if rule.scope == JUDGEMENT:
            faults = list(rule.check(result, tuple(found), ruleset, today))
        elif rule.scope == "log":
            shown = logs if rule.code == FOREIGN_LOG else own
            faults = [fault for log, rules in shown for fault in rule.check(log, rules, ruleset)]
        else:
            faults = list(rule.check(result, benchmark, ruleset))
        found += [_finding(rule, fault, severity, ruleset, tree, today) for fault in faults]
    if ruleset.round is not None and result.kind != "log":
        may_fail = {str(log.path) for log in excused(result.runs, ruleset.round)}
        found = [_of_a_round(item, may_fail) for item in found]
    return sorted(found, key=sort_key)


def judge_together(
    logs: Sequence[LogPlace], ruleset: RuleSet, checks: Iterable[Rule], today: date
) -> dict[str, list[Finding]]:
    """The findings under `ruleset` that only all results together give, by the path of the result.

    A check of scope "tree" is called once, as `check(logs, ruleset)`; what it finds has the path of one of the `logs`.
    """
    found: dict[str, list[Finding]] = {}
    results_of: dict[str, dict[str, str | None]] = {}  # several, where a log was named alone and with its folder
    for log in logs:
        results_of.setdefault(log.path, {})[log.result] = log.benchmark
    for rule in checks:
        if rule.scope == TREE and rule.code in ruleset.codes:
            for fault in rule.check(logs, ruleset):
                for result, benchmark in results_of[fault.path].items():
                    severity = Severity(ruleset.severity(rule.code, benchmark))
                    finding = _finding(rule, fault, severity, ruleset, waivers.tree_of(Path(result)), today)
                    found.setdefault(result, []).append(finding)
    return found


def _of_a_round(finding: Finding, may_fail: Container[str]) -> Finding:
    """The finding; only a warning if it says that a run that the olympic mean leaves out did not converge."""
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
    """A waiver and its effect. num_findings: the findings it matches; an expired waiver excuses none of them."""

    waiver: Waiver
    num_findings: int
    is_expired: bool


def waiver_uses(ruleset: RuleSet, judged: Iterable[tuple[str, Iterable[Finding]]], today: date) -> list[WaiverUse]:
    """Every waiver of the ruleset, in its order; a finding that two waivers match counts for both.

    judged: the path of each result, and its findings.

    A waiver that matches nothing shows here, over all results; on one result it is a finding of RUL001 if the waiver is
    about that result.
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
