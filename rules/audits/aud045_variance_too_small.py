"""The run times vary less than seeds and machines allow.

## What it does
Takes the spread of the run times relative to their mean, over the runs of a result.

## Why it matters
Different seeds take different paths, and the same machine never takes exactly the same time. Runs without spread were
copied, or their times were made up.

## Example
Ten runs of 1,204.3 s, none more than a tenth of a second from the others.

## Instead
Nothing, if they are genuine; an auditor asks for the framework's logs.

## Source
Spreads of published rounds; the limit was set on half of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from harness.checker.audit.facts import Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "result"
LIMITS = ("min_runs", "min_spread_fraction")


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    times = [run.run_s for run in subject.runs if run.run_s is not None]
    if len(times) < rule["min_runs"]:
        return
    spread = statistics.pstdev(times) / statistics.fmean(times)
    if spread < rule["min_spread_fraction"]:
        yield evidence(
            subject.path,
            None,
            f"{len(times)} runs take {min(times):.3f} to {max(times):.3f} s, a spread of {100 * spread:.3g} %; "
            f"published results have more than {100 * rule['min_spread_fraction']:g} %",
            1 - spread / rule["min_spread_fraction"],
            spread_fraction=spread,
        )
