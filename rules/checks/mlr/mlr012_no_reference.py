"""There is no reference to compare the result's convergence with.

## What it does
Looks for the reference's runs at the result's batch size, or at one smaller and one larger, in the round. A batch size
smaller than all is held against the smallest; only who is too fast for that misses a reference. Found as well: logs
without one batch size, or without what the evaluations count in.

## Why it matters
Whether a result converges too fast cannot be said without a reference. A benchmark without any reference in the round,
as MiniGo, is not compared.

## Example
batch size 4,096; the reference's largest is 2,048.

## Instead
Submit reference runs at this batch size, or use one that has some.

## Source
MLPerf training rules, "Reference Convergence Points"; mlperf_logging, rcp_checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.mlperf import score
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None or result.kind == "log":
        return
    verdict = score.round_score(result.runs, ruleset.round).code
    if verdict is not None and verdict.status in ("missing", "unknown"):
        yield Fault(str(result.path), None, f"convergence cannot be compared: {verdict.why}")
