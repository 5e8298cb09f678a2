"""There is something to know about a measurement of energy.

## What it does
Tells, once a run, what voids nothing and is yet to be known: reads that failed, readings twice at one time, edges that
no reading reaches, an accuracy that was assumed, a clock that is over 0.2 s off or that nobody measured.

## Why it matters
Each of these widens the interval of the energy. A person may want to know why it is so wide.

## Example
12 reads of a counter failed; the others cover them.

## Instead
Nothing needs to be done.

## Source
harness/energy/run_energy.py names them all.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import flagged

SCOPE = "result"
_WORDS = {
    "failed_reads": "reads of a meter failed",
    "duplicates": "readings stand twice at one time",
    "held_edges": "a meter began late or ended early, and its power is held there",
    "accuracy_assumed": "a meter does not say how accurate it is; 5 % is assumed, 40 % of a model",
    "clock_offset": "a node's clock is off by more than a fifth of a second after correction",
    "clock_unknown": "no clock offset is logged",
}


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in flagged(result, ruleset, *_WORDS):
        flags = [flag for flag in run.energy.flags if flag in _WORDS]
        yield Fault(run.path(), None, "; ".join(_WORDS[flag] for flag in flags), {"flags": flags})
