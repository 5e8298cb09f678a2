"""A reimplementation does not compute what the reference computes.

## What it does
Compares, in `tta_equivalent`, each difference between the module's steps and the reference's with its tolerance, and
what the line says with what follows from its numbers. Of loss, gradients' norm, initial weights and the update of all
weights, no tolerance may be above 0.1.

## Why it matters
The closed division compares systems that do the same mathematics. Label smoothing of 0.09 in place of 0.1, a dropped
bias, or a skipped weight decay is another recipe, and perhaps a faster one.

## Example
At step 3 the update of head.bias differs by its whole size; other orders of summation explain 0.0003.

## Instead
Mend the module, or submit to the open division with `--module`.

## Source
docs/explanation/reproduction.md, "The same mathematics"; MLPerf training rules, "Divisions": a closed submission
computes mathematically the same as the reference.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.equivalence import MOST, equivalence_of
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if (found := equivalence_of(log)) is None:
        return
    line = log.line_of(keys.TTA_EQUIVALENT)
    if (name := found.broken) is not None:
        yield Fault(str(log.path), line, f"the module is {found.words()}", found.differences[name].record())
    elif not found.is_equivalent:
        yield Fault(str(log.path), line, "is_equivalent is false, although every difference is within its tolerance")
    for name, most in MOST.items():
        if (tolerance := found.differences[name].tolerance) > most:
            yield Fault(str(log.path), line, f"{name} has a tolerance of {tolerance:g}; at most {most:g} is permitted")
