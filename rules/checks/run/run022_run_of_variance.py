"""A run was made by `tta variance`.

## What it does
Looks for `tta_seeds`, which the runs of `tta variance` have.

## Why it matters
Such runs are for finding out where the scatter comes from. Some of their seeds are held fixed, in all runs of a folder
alike: they are not independent of each other, and a lucky seed would count five times.

## Example
`tta check` on a folder in which only the initial weights differ between the runs.

## Instead
Submit runs that `tta run` has made. Those of `tta variance` are read by `tta variance`.

## Source
docs/explanation/reproduction.md, "Where the scatter comes from".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if log.first(keys.TTA_SEEDS) is not None:
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_SEEDS),
            "is a run of `tta variance`, which is never part of a result",
        )
