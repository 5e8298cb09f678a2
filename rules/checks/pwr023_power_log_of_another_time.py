"""A power log was not made while its run was.

## What it does
Lays the power logs that the referee wrote over the run's log, by the clock that their energy is added up by: all
readings lie between the first line of the run's log and the last, give or take 2 s. Of a log that a person brought
(`tta power import`), whose meters are all called csv:, it compares the wall clock and the monotonic one with those of
the run, to a second.

## Why it matters
Readings of the hour before the run are the machine's idle ones. Moved by `tta_clock`, by a clock offset or by their own
times, they cover the run, and every reading is true.

## Example
The readings begin 40 s before the first line of the run that they are of.

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
from harness.loggedenergy import window_ns
from harness.nodeclock import node_clock
from harness.power import NodePower
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog
from harness.submission import Result

SCOPE = "result"
SLACK_S = 2.0
MAX_APART_S = 1.0


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in metered(result, ruleset):
        window = window_ns(run.log)  # without one the run is nowhere: PWR020
        for node in run.log.nodes:
            if window is not None and node.dialect == "tta" and (fault := _fault(node, run.log, window)) is not None:
                yield Fault(str(node.path), None, fault)


def _fault(node: NodePower, log: RunLog, window: tuple[int, int]) -> str | None:
    """What the times of a power log say against it; `window`: run_start and run_stop on the referee's clock."""
    readings_ns = [sample.mono_ns for series in node.samples.values() for sample in series]
    if not readings_ns:
        return None  # PWR020 says so
    clock, start = node_clock(node.offsets, *window), log.first(key.RUN_START)
    assert start is not None  # or there were no window
    assert start.elapsed_ns is not None
    if all(name.startswith("csv:") for name in node.specs):
        if node.wall_ms is None:
            return "no line of it has a time_ms, by which a log that was brought is laid over the run"
        apart_ns = (node.wall_ms - start.time_ms) * 1e6 - (min(readings_ns) - clock.node_ns(window[0]))
        if abs(apart_s := apart_ns / 1e9) > MAX_APART_S:
            return f"its clocks are {apart_s:.3f} s from those of the run; {MAX_APART_S:g} s is the most"
        return None
    origin_ns = window[0] - start.elapsed_ns
    lines_ns = [origin_ns + event.elapsed_ns for event in log.events if event.elapsed_ns is not None]
    early_s = (clock.node_ns(min(lines_ns)) - min(readings_ns)) / 1e9
    late_s = (max(readings_ns) - clock.node_ns(max(lines_ns))) / 1e9
    if early_s > SLACK_S:
        return f"its readings begin {early_s:.3f} s before the run's log does; {SLACK_S:g} s is the most"
    if late_s > SLACK_S:
        return f"its readings end {late_s:.3f} s after the run's log does; {SLACK_S:g} s is the most"
    return None
