"""A run did not reach its target.

## What it does
Looks for an evaluation within the run that reached the target, and for those that must confirm it.

## Why it matters
Such a run has no time to accuracy. A result may have as many of them as it drops on the slow side, which is why this is
a warning; QUA002 reports when there are too many.

## Example
Best top-1 accuracy within the budget 0.91, target 0.92.

## Instead
Nothing, if it is only one run: it counts as the slowest and is dropped. Otherwise review the hyperparameters.

## Source
MLPerf training rules, "Benchmark Results".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None or timeline.deciding(log, rules) is not None:
        return
    values = [value for _, value in timeline.qualities(log)]
    best = None if not values else max(values) if rules.metric.direction == "max" else min(values)
    seen = "no evaluation" if best is None else f"the best {rules.metric.name} is {best:g}"
    confirmed = f", {1 + rules.confirm_evaluations} times in a row" if rules.confirm_evaluations else ""
    stop = log.first(keys.RUN_STOP)
    reason = f" (ended: {printable(stop.metadata.get('reason'), 40)})" if stop is not None else ""
    yield Fault(
        str(log.path),
        stop.lineno if stop is not None else None,
        f"the run did not reach its target: {seen}; the target is {rules.target:g}{confirmed}{reason}",
        {"best": best, "target": rules.target},
    )
