"""An evaluation is missing, extra or in the wrong place.

## What it does
Expects each evaluation at the first whole global batch at or past the next multiple of `eval_every_samples`: none
skipped, none added.

## Why it matters
A run that evaluates more often stops earlier; one that evaluates less often pays less for evaluation.

## Example
eval_every_samples = 1,000, global batch 100, evaluations at 1,000 and 3,000 samples.

## Instead
Let the referee ask for evaluations.

## Source
MLPerf training rules, "Quality measure": the evaluation frequency is the reference's. MLPerf's checkers do not compare
the positions of evaluations with it.
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
    batch_size = timeline.batch_size(log)
    if rules is None or batch_size is None:
        return
    cadence = rules.eval_every_samples
    samples = 0
    for event in log.all(keys.EVAL_START):
        at = event.samples_count
        if at is None:
            return
        due = (samples // cadence + 1) * cadence
        expected = samples - (samples - due) // batch_size * batch_size
        if at != expected:
            yield Fault(
                str(log.path),
                event.lineno,
                f"an evaluation at {at:,} samples; the next one after {samples:,} samples is due at {expected:,} "
                f"(every {cadence:,}, in whole batches of {batch_size:,})",
                {"samples": at, "expected": expected},
            )
            return
        samples = at
