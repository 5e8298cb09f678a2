"""Initialisation takes almost all of the time allowed.

## What it does
Compares the time from init_start to init_stop with the limit of the rules, where the rules are known.

## Why it matters
A time close to a limit was often made to fit: work was moved out, or the stop was written early.

## Example
1,790 s of initialisation; the limit is 1,800 s.

## Instead
Nothing, if that is how long it took. An auditor asks what was done in that time.

## Source
MLPerf training rules, "Run Results": 30 minutes in the closed division, 4 hours in the open.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys

SCOPE = "log"
LIMITS = ("near_fraction",)


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    start, stop, limit_s = run.log.first(keys.INIT_START), run.log.first(keys.INIT_STOP), run.standard.max_init_s
    if start is None or stop is None or limit_s is None:
        return
    init_s = run.log.seconds(start, stop)
    if init_s >= rule["near_fraction"] * limit_s:
        yield evidence(
            run.path,
            stop.lineno,
            f"initialisation took {init_s:.1f} s of the {limit_s:g} s allowed",
            (init_s / limit_s - rule["near_fraction"]) / (1 - rule["near_fraction"]),
            init_s=init_s,
            limit_s=limit_s,
        )
