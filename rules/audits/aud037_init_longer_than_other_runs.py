"""A run initialised far longer than the other runs of its result.

## What it does
Compares the time from init_start to init_stop of each run with the median of the others. The run is named if it took
1.5 times as long and the difference is more than a tenth of its timed region.

## Why it matters
Initialisation is not on the clock. What takes much longer once may have trained, or made something that the other runs
found: a cache of weights, of preprocessed data, of compiled code.

## Example
Four runs that initialise in 1.2 s, and one in 31 s, of a benchmark that takes 30 s.

## Instead
Nothing, if a program was compiled or read from a cold disk, which is the usual reason in published results. An auditor
asks what was done in that time, and what of it the other runs used.

## Source
MLPerf training rules, "Run Results": compilation may be done in initialisation, training may not.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts, Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys

SCOPE = "result"
LIMITS = ("min_runs", "max_factor", "max_share")


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    times = [(run, init_s) for run in subject.runs if (init_s := _init_s(run)) is not None]
    if len(times) < rule["min_runs"]:
        return
    for run, init_s in times:
        median = statistics.median(other for another, other in times if another is not run)
        more_s, run_s = init_s - median, run.run_s
        if run_s is not None and init_s > rule["max_factor"] * median and more_s > rule["max_share"] * run_s:
            yield evidence(
                run.path,
                run.log.line_of(keys.INIT_STOP),
                f"initialisation took {init_s:.1f} s, in the other runs {median:.1f} s (median); the difference is "
                f"{more_s / run_s:.0%} of the run's {run_s:.1f} s; up to {rule['max_share']:.0%} is usual",
                1 - rule["max_share"] * run_s / more_s,
                init_s=init_s,
                median=median,
            )


def _init_s(run: RunFacts) -> float | None:
    start, stop = run.log.first(keys.INIT_START), run.log.first(keys.INIT_STOP)
    return None if start is None or stop is None else run.log.seconds(start, stop)
