"""Applies the signals in force to results and to the tree they form, and sorts what they find by score. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from harness.checker.audit.facts import Subject, Tree
from harness.checker.audit.signals import AuditRules, Evidence, Signal, Suspicion, suspicion

MAX_PER_SIGNAL = 2  # of the worst things, so that a signal that fires on every result hides no other


@dataclass(frozen=True, slots=True)
class Audited:
    """A result and its suspicions, the worst first. ruleset: the one its targets and limits come from; None if
    there is none.
    """

    path: str
    benchmark: str | None
    num_runs: int
    suspicions: tuple[Suspicion, ...]
    ruleset: str | None = None


@dataclass(frozen=True, slots=True)
class TopSuspicion:
    """What one signal finds on one result: the strongest of its suspicions, and how many more there are."""

    first: Suspicion
    num_more: int


def audit(subject: Subject, rules: AuditRules, signals: Mapping[str, Signal]) -> list[Suspicion]:
    """What the signals for logs and results find on one result."""
    found: list[Suspicion] = []
    online = replace(subject, runs=tuple(run for run in subject.runs if not run.is_evaluated_afterwards))
    for code, rule in rules.signals.items():
        signal = signals[code]
        shown = online if signal.is_online_only else subject
        evidence: list[Evidence] = []
        if signal.scope == "log":
            evidence = [item for run in shown.runs for item in signal.look(run, rule)]
        elif signal.scope == "result":
            evidence = list(signal.look(shown, rule))
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


def worst(audited: Iterable[Audited], number: int = 10) -> list[TopSuspicion]:
    """The most suspicious things of all, the worst first; at most two of one signal while there are others."""
    groups: dict[tuple[str, str], list[Suspicion]] = {}
    for one in audited:
        for item in one.suspicions:
            groups.setdefault((item.finding.code, one.path), []).append(item)
    things = [TopSuspicion(found[0], len(found) - 1) for found in groups.values()]
    things.sort(key=lambda thing: order(thing.first))
    times: Counter[str] = Counter()
    places = []  # how many worse ones of its signal each has, two at a time
    for thing in things:
        places.append(times[thing.first.finding.code] // MAX_PER_SIGNAL)
        times[thing.first.finding.code] += 1
    kept = sorted(range(len(things)), key=lambda nth: (places[nth], nth))[:number]
    return [things[nth] for nth in sorted(kept)]
