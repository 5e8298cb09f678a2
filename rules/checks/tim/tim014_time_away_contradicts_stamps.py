"""The time for which a run was interrupted is not what its time stamps say.

## What it does
Compares `away_s` and `lost_s` of each `tta_resume` with the time stamps around it. Where the monotonic clock went on
counting (`clock` is `monotonic`), its zero must be that of the process before, and the wall clock must have moved
as far as it, to within a second and half a thousandth of the time of the run.

## Why it matters
The clock of a run does not stop while it is interrupted. After a restart of the machine only the wall clock knows for
how long that was; the time stamps of the log then go on by it.

## Example
`away_s` is 12 s, and 4,000 s are between the last line before `tta_resume` and that line.

## Instead
Submit the log as it was written. Do not set the clock of the machine, or suspend it, while a run is interrupted.

## Source
The clock of a run that goes on: harness/run/resumption.py. NTP slews a clock by at most 500 ppm.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import finite_number, mapping_or_empty
from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"
EDGE_S = 0.1  # the referee reads its clock a moment before it writes the line
DRIFT_S, DRIFT_FRACTION = 1.0, 500e-6


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    checkpoints = {resume.lineno: stop for stop, resume in timeline.interrupted(log)}
    zero = log.field(keys.TTA_CLOCK, "mono_ns")
    for before, resume in timeline.resumptions(log):
        value = mapping_or_empty(resume.value)
        wrong = [*_contradicted(log, before, resume, checkpoints.get(resume.lineno), zero)]
        if wrong:
            yield Fault(str(log.path), resume.lineno, f"tta_resume: {'; '.join(wrong)}")
        zero = value.get("mono_ns")


def _contradicted(log: RunLog, before: Event, resume: Event, stop: Event | None, zero: object) -> Iterator[str]:
    value = mapping_or_empty(resume.value)
    derived = {"away_s": log.seconds(before, resume)}
    if stop is not None:
        derived["lost_s"] = log.seconds(stop, before)
    for name, derived_s in derived.items():
        stated_s = finite_number(value.get(name))
        if stated_s is not None and abs(stated_s - derived_s) > EDGE_S:
            yield f"{name} is {stated_s:.1f} s, the time stamps give {derived_s:.1f} s"
    if value.get("clock") == "monotonic":
        drift_ms, elapsed_ns = finite_number(value.get("wall_drift_ms")), resume.elapsed_ns or 0
        limit_s = DRIFT_S + DRIFT_FRACTION * elapsed_ns / 1e9
        if drift_ms is not None and abs(drift_ms) / 1e3 > limit_s:
            yield f"the wall clock moved by {drift_ms / 1e3:.1f} s against the monotonic clock; at most {limit_s:.1f} s"
        if value.get("mono_ns") != zero:
            yield f"the monotonic clock has another zero, {printable(value.get('mono_ns'))}, than before"
    elif value.get("clock") != "wall":
        yield f"clock is {printable(value.get('clock'))!r}; it must be 'monotonic' or 'wall'"
