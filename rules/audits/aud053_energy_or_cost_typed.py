"""Energy or cost is stated without anything it follows from.

## What it does
Looks for joules, watts, dollars or cost in the lines of a run log that has no power log. (CST001 and CST006 check what
a claim or a bill says about cost.)

## Why it matters
A stated total is wishful thinking. Energy follows from readings, cost from hours and prices.

## Example
`"energy_j": 12345.0` with no readings.

## Instead
Submit the power logs; cost is computed by the leaderboard.

## Source
A principle of `tta`: everything is computed from logs and rules alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.base.values import finite_number
from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
LIMITS = ()
_NAME = re.compile(r"(?i)(?:^|_)(?:energy|joules?|kwh|watts?|cost|usd|dollars?|price)(?:_|$)")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    if run.log.nodes:
        return
    for event in run.log.events:
        fields = event.value.items() if isinstance(event.value, dict) else ((event.key, event.value),)
        for name, value in fields:
            if isinstance(name, str) and _NAME.search(name) and finite_number(value):
                message = f"{name} is stated as {value!r}; the run has no power log that it could follow from"
                yield evidence(run.path, event.lineno, message, 1.0, field=name)
                return
