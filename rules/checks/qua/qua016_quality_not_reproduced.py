"""The kept predictions do not have the quality that decided the run.

## What it does
Where `tta check` has the data of the run prepared, it computes the quality of the kept predictions again, with the
labels of the test set and the same library, and compares it with the last `eval_accuracy`: to one part in a million,
and the number of examples exactly. Predictions that cannot be evaluated are reported, too. Episodes that are played
again and end otherwise are QUA017's: they may do so on another processor.

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

from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.predictions import COMPUTED, contradiction
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for log in result.runs:
        again = result.recomputed.get(log.path.name)
        if again is not None and (why := contradiction(log, again)):
            event = log.all(keys.EVAL_ACCURACY)[-1]
            facts = {"logged": event.value, "computed": again.value, "num_examples": again.num_examples}
            yield Fault(str(log.path), event.lineno, why, facts if again.state == COMPUTED else {})
