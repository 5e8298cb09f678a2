"""A power log has lines or marks that are not in order.

## What it does
Reports what the reader of a run's power logs found: each kind of defect once, with how often it occurs and in how many
logs. harness/log/power_log.py lists the kinds.

## Why it matters
Nothing is repaired, and a line that cannot be understood is a missing reading. A `power_measurement_stop` with the time
of the start has made one of MLPerf's programs divide by zero.

## Example
metadata "" instead of an object; the text "null"; nodes numbered from 1; a last line without a line end.

## Instead
Submit the logs as the power agent wrote them.

## Source
The published logs of MLPerf Training v4.0 with power, which contain all of these examples.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.power_format import NodePower
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import metered

SCOPE = "result"
_OTHERS = frozenset({"time_backwards", "time_doubled"})  # reported by PWR013 and PWR021


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in metered(result, ruleset):
        yield from _damage(run.log.nodes)
    if result.runs:
        yield from _damage(result.runs[0].idle)


def _damage(nodes: tuple[NodePower, ...]) -> Iterator[Fault]:
    """One fault per kind, at the first of its lines."""
    damaged: dict[str, list[NodePower]] = {}
    for node in nodes:
        for kind in node.defect_counts:
            damaged.setdefault(kind, []).append(node)
    for kind in sorted(set(damaged) - _OTHERS):
        logs = damaged[kind]
        defect, count = logs[0].defects_of(kind)[0], sum(node.defect_counts[kind] for node in logs)
        yield Fault(
            str(logs[0].path),
            defect.lineno or None,
            f"{kind}: {defect.message} ({count:,} in {len(logs)} of {len(nodes)} power logs)",
            {"kind": kind, "count": count, "num_logs": len(logs)},
        )
