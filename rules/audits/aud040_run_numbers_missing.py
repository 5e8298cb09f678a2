"""Numbers of runs are missing, so runs may have been left out.

## What it does
Looks at the numbers in the names result_<k>.txt for gaps.

## Why it matters
Numbers are assigned as runs are made. A missing number was a run that is not shown.

## Example
result_0, result_1, result_3, result_4 and result_7.

## Instead
Submit consecutive runs, the bad ones with the good ones.

## Source
MLPerf training rules, "Run Results": choosing among runs is prohibited; the runs of a result are consecutive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts, Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "result"
LIMITS = ()


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    numbered = {number: run for run in subject.runs if (number := _number(run)) is not None}
    if len(numbered) < 2:
        return
    low, high = min(numbered), max(numbered)
    missing = [number for number in range(low, high) if number not in numbered]
    if low > 1:
        missing = [*range(min(low, 1), low), *missing]
    if missing:
        shown = ", ".join(str(number) for number in missing[:10])
        absent = "1 number is" if len(missing) == 1 else f"{len(missing):,} numbers are"
        yield evidence(
            subject.path,
            None,
            f"{len(numbered)} runs are numbered {low} to {high}; {absent} missing ({shown})",
            len(missing) / (len(missing) + len(numbered)),
            missing=missing[:100],
        )


def _number(run: RunFacts) -> int | None:
    match = re.fullmatch(r"result_(\d{1,4})\.txt", run.path.name)
    return int(match.group(1)) if match else None
