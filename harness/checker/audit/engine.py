"""Applies the signals in force to results and to the tree they form; sorts by suspicion. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from harness.checker.audit.facts import Subject, Tree
from harness.checker.audit.signals import AuditRules, Signal, Suspicion, Trace, suspicion


@dataclass(frozen=True, slots=True)
class Audited:
    """A result and what is suspicious about it, the worst first."""

    path: str
    benchmark: str | None
    num_runs: int
    suspicions: tuple[Suspicion, ...]


def audit(subject: Subject, rules: AuditRules, signals: Mapping[str, Signal]) -> list[Suspicion]:
    """What the signals of logs and results see on one result."""
    found: list[Suspicion] = []
    for code, rule in rules.signals.items():
        signal = signals[code]
        traces: list[Trace] = []
        if signal.scope == "log":
            traces = [trace for run in subject.runs for trace in signal.look(run, rule)]
        elif signal.scope == "result":
            traces = list(signal.look(subject, rule))
        found += [suspicion(signal, rule, trace) for trace in traces]
    return sorted(found, key=order)


def audit_tree(tree: Tree, rules: AuditRules, signals: Mapping[str, Signal]) -> Iterator[tuple[str, Suspicion]]:
    """What the signals of trees see over all results, each with the folder of the log it lies on."""
    folders = {str(run.path): str(run.result) for run in tree.runs}
    for code, rule in rules.signals.items():
        if signals[code].scope == "tree":
            for trace in signals[code].look(tree, rule):
                yield folders[trace.fault.path], suspicion(signals[code], rule, trace)


def with_tree(audited: Iterable[Audited], found: Iterable[tuple[str, Suspicion]]) -> list[Audited]:
    """Each result with what was seen on its logs over the whole tree, the worst first."""
    extra: dict[str, list[Suspicion]] = {}
    for folder, item in found:
        extra.setdefault(folder, []).append(item)
        extra.setdefault(item.finding.path, []).append(item)  # where a log that was audited alone stands
    return [
        replace(one, suspicions=tuple(sorted([*one.suspicions, *extra.get(one.path, ())], key=order)))
        for one in audited
    ]


def order(item: Suspicion) -> tuple[float, str, int, str]:
    """The worst first, then by place and code."""
    finding = item.finding
    return (-item.score, finding.path, finding.line or 0, finding.code)


def worst(audited: Iterable[Audited], number: int = 10) -> list[Suspicion]:
    """The most suspicious things of all: no more than two of one code on one result, so that ten are ten things."""
    found: list[Suspicion] = []
    seen: dict[tuple[str, str], int] = {}
    candidates = [(item, one.path) for one in audited for item in one.suspicions]
    for item, path in sorted(candidates, key=lambda pair: order(pair[0])):
        place = (item.finding.code, path)
        seen[place] = seen.get(place, 0) + 1
        if seen[place] <= 2 and len(found) < number:
            found.append(item)
    return found
