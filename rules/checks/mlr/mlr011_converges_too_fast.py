"""The result needed significantly fewer epochs or samples than the reference allows.

## What it does
Compares the mean of the runs' epochs or samples to target, without the extremes, with the smallest mean that the
reference runs at this batch size allow (one-sided t-test, 5 %), by the definition of MLCommons' program. The limit by
the text of the rules is given as well.

## Why it matters
A result that converges faster than the model can has changed the model, the data or the target.

## Example
Five runs with a mean of 14.6 epochs; the reference has 15.75, and 14.78 is the minimum.

## Instead
Find what differs from the reference. If the reference is wrong, submit reference runs.

## Source
MLPerf training rules, "Reference Convergence Points"; mlperf_logging, rcp_checker. See docs/reports/mlperf-results.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.mlperf.score import round_score
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None:
        return
    score = round_score(result.runs, ruleset.round)
    if score.code is None or score.code.status != "fail":
        return
    verdict = score.code
    assert verdict.mean is not None
    assert verdict.acceptable_mean is not None
    assert verdict.reference_mean is not None
    assert score.rules is not None
    rules_mean = score.rules.acceptable_mean
    by_text = f"; {rules_mean:,.3f} by the rules' text" if rules_mean is not None else ""
    yield Fault(
        str(result.path),
        None,
        f"the runs converge at {verdict.mean:,.3f} on average; at least {verdict.acceptable_mean:,.3f} is allowed"
        f"{by_text} (mean of the reference {verdict.reference_mean:,.3f}, {verdict.why})",
        {"mean": verdict.mean, "allowed": verdict.acceptable_mean, "reference": verdict.reference_mean},
    )
