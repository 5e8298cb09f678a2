"""Time goes backwards.

## What it does
Compares the times of consecutive lines of one key, for the keys that a run writes repeatedly; and `run_stop` with the
evaluations before it.

## Why it matters
One process writes these lines in sequence, by one clock. Lines of different keys may come from different processes.

## Example
Evaluations and blocks were shuffled; `run_stop` was edited to half the time, so that it follows evaluations of a later
time.

## Instead
Leave the log as it was written.

## Source
Not a rule of MLCommons' compliance checker, which passes a log changed in this way; see
docs/reports/mlperf-agreement.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from rules.checks.mlp._keys import REPEATED_KEYS

SCOPE = "log"
MAX_BACK_S = 1.0  # clocks are adjusted by a few milliseconds


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for name in REPEATED_KEYS:
        pairs = itertools.pairwise(log.all(name))
        back = [(back_s, b) for a, b in pairs if (back_s := (a.time_ms - b.time_ms) / 1e3) > MAX_BACK_S]
        if back:
            back_s, worst = max(back, key=lambda item: item[0])
            yield Fault(str(log.path), worst.lineno, f"{name} is {back_s:.3f} s earlier than the {name} before it")
    stop = log.first(keys.RUN_STOP)
    if stop is None:
        return
    before = [line for line in log.all(keys.EVAL_ACCURACY) if line.lineno < stop.lineno]
    for last in before[-1:]:
        early_s = (last.time_ms - stop.time_ms) / 1e3
        if early_s > MAX_BACK_S:
            yield Fault(str(log.path), stop.lineno, f"run_stop is {early_s:.3f} s earlier than an evaluation before it")
