"""More runs missed the target than the result may drop.

## What it does
Counts the runs that did not reach their target, including those that cannot be read, and compares the count with
`drop`. In a reproduction (`tta_reproduces` in its logs) misses are part of its verdict and no fault of its own; with
too many of them it has no score.

## Why it matters
A run that missed counts as slower than any other in the measured time; if it cannot be left out there, the result has
no time. And how many samples the recipe needs is not known from runs that did not get there.

## Example
Two of five runs missed, and one is dropped.

## Instead
Review the hyperparameters and say what was changed; then make another result, with all of its runs, and keep this one.

## Source
MLPerf training rules, "Benchmark Results": more than one run that does not converge makes the result invalid.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline
from harness.submission.layout import RESULT_PATTERN
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None or result.kind == "log" or result.repeats is not None:
        return
    missed = [log.path.name for log in result.runs if timeline.deciding(log, rules) is None]
    missed += [part.path.name for part in result.unreadable if RESULT_PATTERN.fullmatch(part.path.name)]
    if len(missed) > rules.drop:
        names = printable(", ".join(sorted(missed)))
        yield Fault(
            str(result.path),
            None,
            f"{len(missed)} runs did not reach the target ({names}); at most {rules.drop} may",
            {"num_missed": len(missed), "drop": rules.drop},
        )
