"""A run reached its target after its time was up.

## What it does
Compares the time from `run_start` to `run_stop` with `max_seconds` plus the grace for the answer that is then due
(`timing.answer_grace_s`). Aborted runs do not count anyway.

## Why it matters
The budget is the same for everyone. A run that continues until it succeeds is not the run that the rules describe.

## Example
max_seconds = 600, answer_grace_s = 30, and `run_stop` with success 700 s after `run_start`.

## Instead
Nothing; the run missed its target. A result may have one such run.

## Source
The ruleset: `max_seconds` of the benchmark, `timing.answer_grace_s`.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    run_s = timeline.run_s(log)
    if rules is None or run_s is None or timeline.status(log) != timeline.SUCCESS:
        return
    limit_s = rules.max_seconds + ruleset.timing.answer_grace_s
    if run_s > limit_s:
        yield Fault(
            str(log.path),
            log.line_of(keys.RUN_STOP),
            f"the run took {run_s:.1f} s; its budget is {rules.max_seconds:g} s "
            f"plus {ruleset.timing.answer_grace_s:g} s of grace",
            {"run_s": run_s, "limit_s": limit_s},
        )
