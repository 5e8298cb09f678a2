"""A run went on after an interruption.

## What it does
Notes how many times a run went on from a checkpoint, and for how long nothing of it was running.

## Why it matters
It is one run with one clock, and the time away counts. But it is not what the system does undisturbed, its energy is
not measured, and what was lost after the checkpoint was done twice, on an accelerator not always with the same result.

## Example
The run went on once, after 5,400 s away.

## Instead
Nothing, where the rules permit it. A run without interruption is faster.

## Source
docs/explanation/integrity.md, "Runs that were interrupted".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if found := timeline.resumptions(log):
        away_s = timeline.away_s(log)
        times = "once" if len(found) == 1 else f"{len(found)} times"
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_RESUME),
            f"the run was interrupted and went on {times}; the time away, {away_s:,.1f} s, counts",
            {"num_resumed": len(found), "away_s": away_s},
        )
