"""A quality could not be computed again.

## What it does
Says why `tta check` did not compute the deciding qualities of a result from its kept predictions: the data are not
prepared here or are others, a library is missing or another, or the predictions were not kept because they are too
large. `tta score` and the board compute nothing again, and logs of format 1 have no predictions.

## Why it matters
Without it a quality is what the log says.

## Example
The data of `translation_mini` are not prepared on this machine.

## Instead
`tta data prepare WORKLOAD` prepares the data; `tta check --data DIR` takes those of another cache.

## Source
docs/explanation/integrity.md, "What the kept predictions prove".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.predictions import IMPOSSIBLE
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    reasons = [again.why for again in result.recomputed.values() if again.state == IMPOSSIBLE]
    if reasons:
        yield Fault(
            str(result.path),
            None,
            f"the quality of {len(reasons)} of {len(result.runs)} runs was not computed again: {reasons[0]}",
            {"num_runs": len(reasons)},
        )
