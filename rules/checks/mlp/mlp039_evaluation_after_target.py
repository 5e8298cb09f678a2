"""The run was evaluated again after it had reached its target.

## What it does
In the closed division: looks between the first line that reaches the target and `run_stop` for evaluations at other
positions in training. Runs that were evaluated afterwards, from checkpoints (MiniGo, Stable Diffusion), are exempt.

## Why it matters
MLCommons' program counts epochs or samples to target up to the last evaluation before `run_stop`. An evaluation
inserted there makes a result that converges too fast as slow as the reference, and its factor 1.

## Example
The target is reached at 3,072 samples; a line before `run_stop` says 3,456.

## Instead
Stop where the target is reached.

## Source
MLPerf training rules, "Run Results"; mlperf_logging, rcp_checker. 34 published logs of rounds 0.7 and 1.0 continued.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.mlperf import compliance, score
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
KEYS = (keys.EVAL_ACCURACY, "eval_error")


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    stop = log.first(keys.RUN_STOP)
    if stop is None or ruleset.round is None or not score.is_closed(log.value(keys.SUBMISSION_DIVISION)):
        return
    _, benchmark = compliance.benchmark_of(log, ruleset.round)
    reached = compliance.reached(log, ruleset.round)  # by line, as convergence is counted, whatever the clock says
    if benchmark is None or compliance.is_evaluated_afterwards(log, benchmark) or not reached:
        return
    first = reached[0]
    between = [line for name in KEYS for line in log.all(name) if first.lineno < line.lineno < stop.lineno]
    later = [line for line in between if _places(line) != _places(first)]
    if later:
        where = compliance.progress(first)
        message = f"the target was reached at {where}, but {len(later)} evaluations elsewhere come before run_stop"
        yield Fault(str(log.path), min(line.lineno for line in later), message, {"num_lines": len(later)})


def _places(line: Event) -> list[object]:
    return [line.metadata.get(name) for name in compliance.POSITION_FIELDS]
