"""A run continued after it had reached its target.

## What it does
Expects no block and no evaluation after the evaluation that decided the run. Reference runs (`full_curve`), which
continue by design and never count, are left out.

## Why it matters
The time is that of the first evaluation that decides. A run that continued chose its own end, and with it its quality.

## Example
0.93 after 6,000 samples with a target of 0.92; then another block, 0.95 after 7,000 samples, and only then `run_stop`.

## Instead
Let the referee stop the run.

## Source
MLPerf training rules, "Run Results": the clock stops when any part of the system determines that the target is met.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import finite_number
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    decided = None if rules is None else timeline.deciding(log, rules)
    stop = log.first(keys.RUN_STOP)
    if decided is None or timeline.is_full_curve(log):
        return
    for event in log.events:
        if event is stop:
            return
        if event.key in (keys.BLOCK_START, keys.EVAL_START, keys.EVAL_ACCURACY) and event.lineno > decided.lineno:
            yield Fault(
                str(log.path),
                event.lineno,
                f"{event.key} after the target was reached (line {decided.lineno}: {finite_number(decided.value):g})",
            )
            return
