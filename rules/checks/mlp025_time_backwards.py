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

from harness import events as key
from harness.findings import Fault
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog

SCOPE = "log"
MAX_BACK_S = 1.0  # clocks are set by some milliseconds
KEYS = (key.BLOCK_START, key.BLOCK_STOP, "epoch_start", "epoch_stop", key.EVAL_START, key.EVAL_STOP, key.EVAL_ACCURACY)


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for name in KEYS:
        lines = log.all(name)
        back = [(b, (a.time_ms - b.time_ms) / 1e3) for a, b in itertools.pairwise(lines) if a.time_ms > b.time_ms]
        if back and max(back_s for _, back_s in back) > MAX_BACK_S:
            worst, back_s = max(back, key=lambda item: item[1])
            yield Fault(
                str(log.path), worst.lineno, f"{name} is {back_s:.3f} s before the {name} that stands before it"
            )
    stop = log.first(key.RUN_STOP)
    before = [line for line in log.all(key.EVAL_ACCURACY) if stop is not None and line.lineno < stop.lineno]
    if stop is not None and before and before[-1].time_ms - stop.time_ms > MAX_BACK_S * 1e3:
        early_s = (before[-1].time_ms - stop.time_ms) / 1e3
        yield Fault(
            str(log.path), stop.lineno, f"run_stop is {early_s:.3f} s before an evaluation that stands before it"
        )
