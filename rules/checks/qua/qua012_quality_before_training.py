"""The network was good before it was trained.

## What it does
Compares the quality in `tta_initial`, measured after initialisation and before any training, with `untrained_limit` of
the benchmark: no network with random weights is better than that. In both divisions; a benchmark without the limit is
not checked.

## Why it matters
What is better was trained before the clock started, or has its weights, or the answers, in its code.

## Example
An accuracy of 0.91 after 0 samples, where no untrained network reaches more than 0.699.

## Instead
Begin with weights that a generator of random numbers gave, from the run's seed, and train inside the clock. Pretrained
weights are not permitted in the open division either.

## Source
MLPerf training rules, "Training loop": training begins with random weights. The limit: `untrained_limit` in the rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import finite_number
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None or rules.untrained_limit is None:
        return
    quality, limit = finite_number(log.field(keys.TTA_INITIAL, "quality")), rules.untrained_limit
    if quality is not None and quality != limit and rules.metric.is_reached(quality, limit):
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_INITIAL),
            f"the {rules.metric.name} before any training is {quality:.4g} {rules.metric.unit}; "
            f"no untrained network is better than {limit:g}",
            {"quality": quality, "untrained_limit": limit},
        )
