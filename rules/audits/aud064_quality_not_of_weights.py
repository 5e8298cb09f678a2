"""Evaluated again with the kept weights, the quality of a run is not that of its log.

## What it does
With `tta audit --weights DIR`: puts the weights that a run kept into the workload's session, in a confined process that
trains nothing, and evaluates them with the data of the run, where these are prepared. The quality must be that of the
last `eval_accuracy`: exactly where the predictions are the same, else within three examples of the test set, or ten
times what another order of summation changes here. Weights that the session does not take, or that have no quality, are
reported, too. What plays episodes is held to the log only where it plays the same.

## Why it matters
Predictions can be made up; weights that make them have been trained, by someone.

## Example
The log says 0.9261; the weights have 0.8713.

## Instead
Submit logs and weights as `tta run --keep-weights` left them.

## Source
docs/explanation/integrity.md, "What the kept weights prove".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys
from harness.submission.predictions import contradiction

SCOPE = "result"
LIMITS = ()


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    for log in subject.result.runs:
        if why := contradiction(log, subject.result.reevaluated.get(log.path.name), "the kept weights"):
            yield evidence(log.path, log.all(keys.EVAL_ACCURACY)[-1].lineno, why, 1.0)
