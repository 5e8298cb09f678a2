"""The stated throughput does not follow from the samples and times.

## What it does
Compares the median of `throughput` in the log with the samples it counts, divided by the time they took without
evaluations and the opening of the data.

## Why it matters
Both numbers measure the same thing. If times were divided or samples multiplied, the other number was forgotten.

## Example
The log states 4.8 samples/s, but counts 2,688 samples in 62 s: 43 samples/s.

## Instead
Leave both as they were measured.

## Source
`tracked_stats` of published rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from harness.base.values import finite_number
from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys
from harness.scoring.timeline import intervals

SCOPE = "log"
ONLINE_ONLY = True
LIMITS = ("max_above", "max_below")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    stated, line = [], None
    for event in run.log.all("tracked_stats"):
        value = finite_number(event.value.get("throughput")) if isinstance(event.value, dict) else None
        if value is not None and value > 0:
            stated.append(value)
            line = line or event.lineno
    if not stated or not run.samples or run.run_s is None:
        return
    training_s = run.run_s - _other_s(run)
    if training_s <= 0:
        return
    median, derived = statistics.median(stated), run.samples / training_s
    factor = median / derived
    if not 1 / rule["max_below"] <= factor <= rule["max_above"]:
        yield evidence(
            run.path,
            line,
            f"the stated throughput is {median:.4g} samples/s; {run.samples:g} samples in {training_s:.1f} s are "
            f"{derived:.4g} samples/s",
            1 - min(factor, derived / median),
            stated=median,
            derived=derived,
        )


def _other_s(run: RunFacts) -> float:
    """Seconds of the run in which no samples are trained, as far as the log has both ends of the interval."""
    edges = ((keys.EVAL_START, keys.EVAL_STOP), (keys.TTA_DATA_OPEN_START, keys.TTA_DATA_OPEN_STOP))
    found = [item for start, stop in edges for item in intervals(run.log, start, stop)]
    return sum(run.log.seconds(item.start, item.stop) for item in found if item.stop is not None)
