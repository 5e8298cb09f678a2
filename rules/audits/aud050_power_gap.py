"""A power trace has gaps, or does not cover the run.

## What it does
Takes the longest time between two readings of each meter of power in the timed region, including the ends of the
region, and checks that the measurement has a duration at all. An energy counter loses nothing between two readings.

## Why it matters
Energy is the sum over the whole run. What was not read was guessed, and a start equal to the stop says nothing.

## Example
Readings every 2 s, and none for 40 s in the middle.

## Instead
Read at least once a second, from before run_start to after run_stop.

## Source
MLPerf power measurement rules: one reading per second over the timed part. Published v4.0 traces start where they stop.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
LIMITS = ("max_gap_s",)


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    for node in run.log.nodes:
        if node.start_ns is not None and node.start_ns == node.stop_ns:
            yield evidence(
                node.path, None, "the power measurement starts and stops at one instant", 0.5, kind="instant"
            )
        gaps = []
        for meter, samples in node.samples.items():
            if node.specs[meter].kind == "energy_j":
                continue
            times = [sample.mono_ns for sample in samples if sample.value is not None]
            if node.dialect == "mlperf" and times and run.start is not None and run.stop is not None:
                begin, end = int(run.start.time_ms * 1e6), int(run.stop.time_ms * 1e6)
                inside = [time for time in times if begin < time < end]
                times = [begin, *inside, end] if begin < end else times
            gaps += [((after - before) / 1e9, meter) for before, after in itertools.pairwise(sorted(times))]
        if gaps and max(gaps)[0] > rule["max_gap_s"]:
            gap_s, meter = max(gaps)
            count = sum(gap > rule["max_gap_s"] for gap, _ in gaps)
            yield evidence(
                node.path,
                None,
                f"{meter}: {gap_s:.1f} s without a reading, and {count} gaps of more than {rule['max_gap_s']:g} s",
                gap_s / (gap_s + 60),
                gap_s=gap_s,
                gaps=count,
            )
