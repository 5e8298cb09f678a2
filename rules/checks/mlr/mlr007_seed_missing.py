"""A run of a result logs no seed.

## What it does
Looks for a line of the key `seed` in every log of the closed division, from round 4.1 on.

## Why it matters
Without it no one can see whether two runs were the same run.

## Example
A framework that draws its seed and does not log it, as in most results for recommendation in round 4.0.

## Instead
Log the seed with mllog.

## Source
MLPerf training rules, "Random Numbers" (from round 4.1 on); mlperf_logging, seed_checker, which requires it in all
rounds.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.mlperf import score
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None or result.kind == "log":
        return
    for log in result.runs:
        if score.is_closed(log.value("submission_division")) and log.first(keys.SEED) is None:
            yield Fault(str(log.path), None, "no seed is logged; each run must log at least one")
