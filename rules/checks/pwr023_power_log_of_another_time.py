"""A power log was not made while its run was.

## What it does
Lays the power logs that the referee wrote over the run's log: the measurement begins after the referee's first line and
ends before it writes `tta_energy`, give or take 2 s. Of a log that a person brought (`tta power import`), whose meter
is called csv:, it compares the wall clock and the monotonic one with those of the run, to a second.

## Why it matters
Readings of the hour before the run are the machine's idle ones. Moved by `tta_clock`, by a clock offset or by their own
times, they cover the run, and every reading is true.

## Example
The power log begins 40 s before the first line of the run that it is of.

## Instead
Hand in log and power logs as they were written.

## Source
The referee starts the meters after `tta_clock` and stops them before `tta_energy`: harness/referee.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import events as key
from harness.energyfaults import metered
from harness.findings import Fault
from harness.power import NodePower
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog
from harness.submission import Result

SCOPE = "result"
SLACK_S = 2.0
MAX_APART_S = 1.0


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in metered(result, ruleset):
        for node in run.log.nodes:
            if node.dialect == "tta" and (fault := _fault(node, run.log)) is not None:
                yield Fault(str(node.path), None, fault)


def _fault(node: NodePower, log: RunLog) -> str | None:
    origin_ns, first, last = log.field(key.TTA_CLOCK, "mono_ns"), log.events[0], log.first(key.TTA_ENERGY)
    if not isinstance(origin_ns, int) or first.elapsed_ns is None or node.start_ns is None:
        return None  # PWR020 and LOG021 say so
    ahead_ns = min(node.offsets, key=lambda item: item.round_trip_ns).offset_ns if node.offsets else 0
    begin_s = (node.start_ns - ahead_ns - origin_ns - first.elapsed_ns) / 1e9
    if node.specs and all(name.startswith("csv:") for name in node.specs):
        apart_s = 0.0 if node.wall_ms is None else (node.wall_ms - first.time_ms) / 1e3 - begin_s
        return f"its clocks are {apart_s:.1f} s from those of the run" if abs(apart_s) > MAX_APART_S else None
    if begin_s < -SLACK_S:
        return f"it begins {-begin_s:.1f} s before the run's log, which the referee opens first"
    if node.stop_ns is not None and last is not None and last.elapsed_ns is not None:
        late_s = (node.stop_ns - ahead_ns - origin_ns - last.elapsed_ns) / 1e9
        if late_s > SLACK_S:
            return f"it ends {late_s:.1f} s after tta_energy, before which the referee ends it"
    return None
