"""A run does not state its first steps, although the rules ask for them.

## What it does
Looks for `tta_replay` in the logs of a benchmark whose rules have `replay_steps`.

## Why it matters
Without them nobody can see in seconds that the result comes from the code, the data and the recipe that it names; only
whole runs can confirm it.

## Example
A log of an earlier `tta`, which did not write the line.

## Instead
Make the runs with this version of `tta`.

## Source
docs/explanation/reproduction.md, "The first steps".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is not None and rules.replay_steps and log.first(keys.TTA_REPLAY) is None:
        yield Fault(
            str(log.path), None, f"the log has no {keys.TTA_REPLAY}; the rules ask for {rules.replay_steps} steps"
        )
