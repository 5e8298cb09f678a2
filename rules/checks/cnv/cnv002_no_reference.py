"""There is no reference to compare the convergence with.

## What it does
Notes a closed result whose global batch size the reference convergence points do not cover, or a benchmark that has
none.

## Why it matters
Whether the recipe was followed is then looked at by nobody.

## Example
A global batch of 4,096 where the reference's largest is 1,024.

## Instead
The organiser runs the reference at that batch size (`tta run --full-curve`, `tta target`).

## Source
MLPerf training rules, "Reference Convergence Points": a batch size beyond them needs new points.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import events as key
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline
from harness.scoring.convergence import judge_convergence
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None or result.kind == "log":
        return
    sizes = {timeline.batch_size(log) for log in result.runs}
    if len(sizes) != 1 or None in sizes or any(log.value(key.SUBMISSION_DIVISION) == "open" for log in result.runs):
        return
    batch_size = sizes.pop()
    assert batch_size is not None
    samples = [timeline.samples_to_target(log, rules) for log in result.runs]
    verdict = judge_convergence(samples, batch_size, rules.reference_convergence, rules.drop)
    # Too few runs and too many misses, which have no mean, have findings of their own.
    if verdict.status == "missing" and verdict.submission_mean is not None:
        yield Fault(str(result.path), None, f"the convergence is not compared: {verdict.how}")
