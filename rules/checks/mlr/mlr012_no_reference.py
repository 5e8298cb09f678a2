"""No reference exists to compare the result's convergence with.

## What it does
Looks for reference runs of the round at the result's batch size, or at a smaller and a larger one. A batch size smaller
than all of these is compared with the smallest, and a reference is missing only if the result is too fast for that.
Also reports logs that do not have one batch size, or that lack the unit in which evaluations are counted.

## Why it matters
Whether a result converges too fast cannot be decided without a reference. A benchmark without any reference in the
round, such as MiniGo, is not compared.

## Example
A batch size of 4,096, where the largest of the reference is 2,048.

## Instead
Submit reference runs at this batch size, or use a batch size that has some.

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
