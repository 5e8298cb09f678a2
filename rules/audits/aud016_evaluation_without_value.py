"""Evaluations were started whose values are not in the log.

## What it does
Compares the number of `eval_start` with the number of values.

## Why it matters
An evaluation that took time had a value. Deleting misses makes a run look clean.

## Example
Twelve eval_start, one eval_accuracy.

## Instead
Log the value of every evaluation.

## Source
Facts of published rounds: all evaluations but the last can be deleted, and MLPerf's checker passes the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys

SCOPE = "log"
ONLINE_ONLY = True  # programs that evaluate checkpoints have starts of their own
LIMITS = ("max_missing_fraction",)


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    starts = [event for event in run.log.all(keys.EVAL_START) if run.stop is None or event.lineno < run.stop.lineno]
    missing = len(starts) - len(run.evaluations)
    if starts and missing > 1 and missing > rule["max_missing_fraction"] * len(starts):
        yield evidence(
            run.path,
            starts[0].lineno,
            f"{len(starts)} evaluations were started, but {len(run.evaluations)} values are logged",
            missing / len(starts),
            starts=len(starts),
            values=len(run.evaluations),
        )
