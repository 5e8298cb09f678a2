"""A run was made to continue past its target.

## What it does
Looks for `full_curve` in `tta_config`, which `tta run --full-curve` sets.

## Why it matters
Such runs are for deriving targets and reference convergence. They do not stop when the target is reached, and so have
no time to target.

## Example
`tta check` on a folder that `tta run --full-curve` wrote.

## Instead
Run without `--full-curve`. Reference runs are read by `tta target`.

## Source
The run: harness/run/referee.py.
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
    if timeline.is_full_curve(log):
        yield Fault(
            str(log.path), log.line_of(keys.TTA_CONFIG), "a reference run (full_curve) is never part of a result"
        )
