"""The framework's own output was removed from the log.

## What it does
Counts the lines of other programs: reported if there are none although a launcher numbered the lines by rank, or if the
other runs of the result have many.

## Why it matters
What the framework prints is a second witness of times, seeds and hosts. A log without it says only what it was made to
say.

## Example
Nine logs of 6,000 lines, of which 1,100 are log lines, and one of 1,100 lines.

## Instead
Submit the whole output of the job.

## Source
MLPerf training_policies 588: full framework logs are to be disclosed from v6.1 on.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from harness.checker.audit.facts import Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "result"
LIMITS = ("max_below_fraction", "min_others")


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    for run in subject.runs:
        if run.is_ours:
            continue  # only the harness writes this log
        others = [other.text.num_others for other in subject.runs if other is not run]
        usual = statistics.median(others) if others else 0
        if usual >= rule["min_others"] and run.text.num_others < rule["max_below_fraction"] * usual:
            yield evidence(
                run.path,
                None,
                f"{run.text.num_others} lines are of other programs; the other runs have {usual:g}",
                1.0 if run.text.num_others == 0 else 0.5,
                others=run.text.num_others,
                usual=usual,
            )
        elif run.text.num_others == 0 and run.text.launched:
            yield evidence(
                run.path,
                None,
                f"a launcher numbered {run.text.launched} lines by rank, but no line of another program is there",
                0.8,
                launched=run.text.launched,
            )
