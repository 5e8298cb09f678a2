"""The system clock was set during the run.

## What it does
Looks at `wall_drift_ms` in `tta_end`: how far the system clock moved relative to the monotonic clock during the run.

## Why it matters
Nothing in the result depends on the wall clock. But a clock that moves by more than a second is being set by someone or
something, and when the run took place is then known only that precisely.

## Example
The system clock was set back by an hour in the middle of a run: -3600000 ms.

## Instead
Let NTP or chrony slew the clock, and do not set it during a run.

## Source
The referee's clock: harness/base/clock.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import finite_number
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
MAX_DRIFT_MS = 1000


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    drift_ms = finite_number(log.field(keys.TTA_END, "wall_drift_ms"))
    if drift_ms is not None and abs(drift_ms) > MAX_DRIFT_MS:
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_END),
            f"the system clock moved by {drift_ms / 1e3:.3f} s during the run; up to {MAX_DRIFT_MS / 1e3:g} s is usual",
            {"wall_drift_ms": drift_ms},
        )
