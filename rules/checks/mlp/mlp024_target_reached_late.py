"""The target is reached only after the clock has stopped.

## What it does
Looks for an evaluation that meets the target at a time no later than `run_stop`. In a run that was evaluated after
training, from checkpoints (in every run of MiniGo and Stable Diffusion, in some of BERT), it looks at the training that
came before the first checkpoint that meets the target: that must have ended by `run_stop`.

## Why it matters
What is reached after the stop is not in the time. MLCommons' checker accepts any line of the file.

## Example
The only evaluation that reaches the target is an hour after `run_stop`.

## Instead
Stop the clock when the target is reached, or give `run_stop` the time of the first checkpoint that reaches it.

## Source
MLPerf training rules, "Quality measure". Not a rule of MLCommons' compliance checker, which passes a log changed in
this way; see docs/reports/mlperf-agreement.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
MAX_LATE_S = 1.0  # clocks are adjusted by a few milliseconds; six published logs are late by one


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    stop = log.first(keys.RUN_STOP)
    if stop is None or ruleset.round is None:
        return
    _, benchmark = compliance.benchmark_of(log, ruleset.round)
    reached = compliance.reached(log, ruleset.round)
    if benchmark is None or not reached:
        return
    if compliance.is_evaluated_afterwards(log, benchmark):
        what = "training before the checkpoint that reaches the target ended"
        places = [place for line in reached if (place := compliance.position(line, benchmark)) is not None]
        late = compliance.trained_before(log, benchmark, min(places, default=-math.inf))
    else:
        what, late = "the first evaluation that reaches the target is", compliance.first_reached(log, ruleset.round)
    late_s = (late.time_ms - stop.time_ms) / 1e3 if late is not None else 0.0
    if late is not None and late_s > MAX_LATE_S:
        message = f"{what} {late_s:.1f} s after run_stop; at most {MAX_LATE_S:g} s is allowed"
        yield Fault(str(log.path), late.lineno, message, {"late_s": late_s})
