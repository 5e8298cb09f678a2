"""Computed again from the kept predictions, the quality that decided the run is another.

## What it does
What QUA016 does in a check: computes the quality of the kept predictions again, where the data of the run are prepared,
and compares it with the last `eval_accuracy`.

## Why it matters
A quality that its own predictions do not have was written by hand, or by another evaluator.

## Example
The log says 0.9261; the predictions have 0.8713.

## Instead
Submit logs and predictions as `tta run` left them.

## Source
docs/explanation/integrity.md, "What the kept predictions prove".
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
        if why := contradiction(log, subject.result.recomputed.get(log.path.name)):
            yield evidence(log.path, log.all(keys.EVAL_ACCURACY)[-1].lineno, why, 1.0)
