"""An interrupted run went on although the rules do not permit it.

## What it does
Reports `tta_resume` in a run of a benchmark whose rules do not have `permits_resume`.

## Why it matters
A run of seconds or minutes is made again if it is interrupted. Going on from a checkpoint makes a run depend on more
than its seed and its system, which is accepted only where making it again would cost hours.

## Example
`tta_resume` in a run of a `mini` suite.

## Instead
Make the run again: `tta run --resume` without checkpoints does.

## Source
docs/explanation/integrity.md, "Runs that were interrupted".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is not None and not rules.permits_resume and log.first(keys.TTA_RESUME) is not None:
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_RESUME),
            f"the run went on after an interruption; the rules of {rules.name} do not permit it",
        )
