"""The runs of a result vary so much that its rank says little.

## What it does
Compares the longest and the shortest of the runs that are averaged: the longest should be at most 4 times as long.

## Why it matters
A result may have the rank of a faster one unless it is significantly slower. A result that is six times as slow on
average is not, if its runs are far enough apart.

## Example
Runs of 8, 10, 60, 90 and 95 s next to a leader whose runs take 8 s: both may be first.

## Instead
Find out why the runs differ, and submit a result with all runs made again.

## Source
Welch's test over few runs (docs/explanation/statistics.md): its uncertainty grows with the spread of either side.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.repeated import scored
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline
from harness.submission.result import Result
from rules.checks.run._runs import required_runs

SCOPE = "result"
FACTOR = 4.0


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None:
        return
    runs = scored(result.runs, required_runs(result, rules))
    if len(runs) != required_runs(result, rules):
        return  # it is not known which runs are averaged
    reached = [log for log in runs if timeline.deciding(log, rules) is not None]
    times_s = sorted(seconds for log in reached if (seconds := timeline.run_s(log)) is not None)
    # A run that missed the target counts as the slowest.
    kept = times_s[rules.drop : len(runs) - rules.drop]
    if not kept:
        return
    shortest_s, longest_s = kept[0], kept[-1]
    if longest_s > FACTOR * shortest_s > 0:
        yield Fault(
            str(result.path),
            None,
            f"the runs that are averaged take {shortest_s:.3f} to {longest_s:.3f} s, "
            f"{longest_s / shortest_s:.1f} times as long; up to {FACTOR:g} times is usual",
            {"shortest_s": shortest_s, "longest_s": longest_s},
        )
