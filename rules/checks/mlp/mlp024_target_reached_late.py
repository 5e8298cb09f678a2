"""The target is reached only after the clock has stopped.

## What it does
Looks for an evaluation that meets the target at a time no later than `run_stop`.

## Why it matters
What is reached after the stop is not in the time. MLCommons' checker accepts any line of the file.

## Example
The only evaluation that reaches the target is an hour after `run_stop`.

## Instead
Stop the clock when the target is reached. Benchmarks whose checkpoints are evaluated afterwards (Stable Diffusion) are
exempt.

## Source
Not a rule of MLCommons' compliance checker, which passes a log changed in this way; see
docs/reports/mlperf-agreement.md.
"""

from __future__ import annotations

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
    late = compliance.first_reached(log, ruleset.round)
    if benchmark is None or benchmark.join is not None or late is None:
        return
    late_s = (late.time_ms - stop.time_ms) / 1e3
    if late_s > MAX_LATE_S:
        yield Fault(
            str(log.path),
            late.lineno,
            f"the first evaluation that reaches the target is {late_s:.1f} s after run_stop; "
            f"at most {MAX_LATE_S:g} s is allowed",
            {"late_s": late_s},
        )
