"""A measurement of energy has remarks.

## What it does
Reports, once per run, what does not void an energy but should be known: reads that failed, two readings with one time,
edges without a reading, an assumed accuracy, a clock that is more than 0.2 s off or that was never measured.

## Why it matters
Each of these widens the interval of the energy, and explains why it is wide.

## Example
12 reads of a counter failed; the others cover them.

## Instead
Nothing needs to be done.

## Source
harness/energy/reasons.py lists them.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energy.reasons import EnergyFlag
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import flagged

SCOPE = "result"
_FLAGS = tuple(flag for flag in EnergyFlag if flag.code == "PWR021")


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in flagged(result, ruleset, *_FLAGS):
        flags = [flag for flag in run.energy.flags if flag in _FLAGS]
        words = "; ".join(flag.words(ruleset.energy) for flag in flags)
        yield Fault(run.path(), None, words, {"flags": [flag.value for flag in flags]})
