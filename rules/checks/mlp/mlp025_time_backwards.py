"""Time goes backwards.

## What it does
Compares the times of the lines of one key one after the other, of those that a run writes again and again; and
`run_stop` with the evaluations that stand before it.

## Why it matters
One process writes them, one after the other, by one clock. Lines of different keys may come from different processes.

## Example
Evaluations and blocks shuffled; `run_stop` edited to half the time, so that it stands after evaluations of later.

## Instead
Leave the log as it was written.

## Source
Not a rule of MLCommons' compliance checker, which passes a log so changed; see docs/mlperf-agreement.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.findings import Fault
from harness.log import events as key
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
MAX_BACK_S = 1.0  # clocks are set by some milliseconds
KEYS = (key.BLOCK_START, key.BLOCK_STOP, "epoch_start", "epoch_stop", key.EVAL_START, key.EVAL_STOP, key.EVAL_ACCURACY)


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for name in KEYS:
        pairs = itertools.pairwise(log.all(name))
        back = [(back_s, b) for a, b in pairs if (back_s := (a.time_ms - b.time_ms) / 1e3) > MAX_BACK_S]
        if back:
            back_s, worst = max(back, key=lambda item: item[0])
            yield Fault(
                str(log.path), worst.lineno, f"{name} is {back_s:.3f} s before the {name} that stands before it"
            )
    stop = log.first(key.RUN_STOP)
    if stop is None:
        return
    before = [line for line in log.all(key.EVAL_ACCURACY) if line.lineno < stop.lineno]
    for last in before[-1:]:
        early_s = (last.time_ms - stop.time_ms) / 1e3
        if early_s > MAX_BACK_S:
            yield Fault(
                str(log.path), stop.lineno, f"run_stop is {early_s:.3f} s before an evaluation that stands before it"
            )
