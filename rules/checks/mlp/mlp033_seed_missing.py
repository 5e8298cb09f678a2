"""The log has no seed.

## What it does
Looks for a line of the key `seed`.

## Why it matters
Without it no one can see whether two runs were the same run, and no one can repeat it. From round 4.1 on, MLPerf
requires it of a whole result; a log by itself passes.

## Example
A log of a framework that draws its seed and does not log it.

## Instead
Log the seed with `mllog`.

## Source
MLPerf training rules, "Random Numbers" (from round 4.1 on); MLCommons' seed checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if log.first(keys.SEED) is None:
        yield Fault(str(log.path), None, "no seed is logged")
