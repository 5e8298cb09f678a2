"""The initial weights of a closed run are not a function of its seed.

## What it does
Compares the digest of the initial weights at `run_start` with the one in `tta_initial`, which another process made from
the same seed; and those of the runs of a result with each other, whose seeds differ.

## Why it matters
Weights that were chosen, trained, or carried along are the same whatever the seed; what changes from process to process
depends on something that is not in the log.

## Example
Five runs with five seeds and one digest; or a run whose weights are not those of its rehearsal.

## Instead
Draw all weights in `initialise()`, from the generators that the harness has seeded, and in an order that does not
change.

## Source
MLPerf training rules, "Random numbers": all weights are initialised from generators seeded by the run's seed.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.qua._initial import not_from_seed

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    yield from not_from_seed(result, is_open=False)
