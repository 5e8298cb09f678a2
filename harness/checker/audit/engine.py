"""Applies the signals in force to results and to the tree they form, and sorts what they find by score. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from harness.checker.audit.facts import Subject, Tree
from harness.checker.audit.signals import AuditRules, Evidence, Signal, Suspicion, suspicion


@dataclass(frozen=True, slots=True)
class Audited:
    """A result and its suspicions, the worst first. ruleset: that of its targets and limits; None without."""

    path: str
    benchmark: str | None
    num_runs: int
    suspicions: tuple[Suspicion, ...]
    ruleset: str | None = None


def audit(subject: Subject, rules: AuditRules, signals: Mapping[str, Signal]) -> list[Suspicion]:
    """What the signals for logs and results find on one result."""
    found: list[Suspicion] = []
    for code, rule in rules.signals.items():
        signal = signals[code]
        evidence: list[Evidence] = []
        if signal.scope == "log":
            evidence = [item for run in subject.runs for item in signal.look(run, rule)]
        elif signal.scope == "result":
            evidence = list(signal.look(subject, rule))
        found += [suspicion(signal, rule, item) for item in evidence]
    return sorted(found, key=order)


def audit_tree(tree: Tree, rules: AuditRules, signals: Mapping[str, Signal]) -> Iterator[tuple[str, Suspicion]]:
    """What the signals for trees find over all results, each with the folder of the log it is about."""
    folders = {str(run.path): str(run.result) for run in tree.runs}
    for code, rule in rules.signals.items():
        if signals[code].scope == "tree":
            for item in signals[code].look(tree, rule):
                yield folders[item.fault.path], suspicion(signals[code], rule, item)


def with_tree(audited: Iterable[Audited], found: Iterable[tuple[str, Suspicion]]) -> list[Audited]:
    """Each result together with what was found on its logs over the whole tree, the worst first."""
    extra: dict[str, list[Suspicion]] = {}
    for folder, item in found:
        extra.setdefault(folder, []).append(item)
        extra.setdefault(item.finding.path, []).append(item)  # for a log that was audited by itself
    return [
        replace(one, suspicions=tuple(sorted([*one.suspicions, *extra.get(one.path, ())], key=order)))
        for one in audited
    ]


def order(item: Suspicion) -> tuple[float, str, int, str]:
    """Sort key: the highest score first, then by place and code."""
    finding = item.finding
    return (-item.score, finding.path, finding.line or 0, finding.code)


def worst(audited: Iterable[Audited], number: int = 10) -> list[Suspicion]:
    """The most suspicious things of all, at most two of one code on one result, so that they differ."""
    found: list[Suspicion] = []
    seen: dict[tuple[str, str], int] = {}
    candidates = [(item, one.path) for one in audited for item in one.suspicions]
    for item, path in sorted(candidates, key=lambda pair: order(pair[0])):
        place = (item.finding.code, path)
        seen[place] = seen.get(place, 0) + 1
        if seen[place] <= 2 and len(found) < number:
            found.append(item)
    return found
