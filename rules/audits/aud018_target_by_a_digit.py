"""The target is met only by its last digit.

## What it does
Compares the deciding value with the target: equal, or better by less than the limit, relative to the target.

## Why it matters
Few random values are exactly on the line. One that is was rounded, or chosen.

## Example
A target of 0.759 and a value of 0.759.

## Instead
Nothing, if it is only one run. It should not happen in all runs of a result.

## Source
Values of published rounds; the limit was set on half of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
LIMITS = ("max_relative",)


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    target = run.standard.target
    if target is None or run.final is None:
        return
    beyond = (run.final.value - target) * (1 if run.standard.direction == "max" else -1)
    if 0 <= beyond <= rule["max_relative"] * abs(target):
        yield evidence(
            run.path,
            run.final.line,
            f"the last quality is {run.final.value!r} and the target {target:g}: met by {beyond:.1g}",
            1.0 if beyond == 0 else 0.3,
            value=run.final.value,
            target=target,
        )
