"""The samples are not a number of whole batches.

## What it does
Where the log counts samples and states its batch, divides one by the other; where it counts steps too, compares steps
times batch with the samples.

## Why it matters
Training goes by whole batches. Samples that are no multiple of the batch were trained with another batch, or typed.

## Example
100,000 samples at a batch of 768.

## Instead
Log the batch that is used and the samples as they are counted.

## Source
MLPerf training rules: global_batch_size is the number of samples of one step.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.auditing.facts import RunFacts
from harness.auditing.suspicion import SignalRule, Trace, trace
from harness.course import number

SCOPE = "log"
LIMITS = ("max_relative",)


def check(run: RunFacts, rule: SignalRule) -> Iterator[Trace]:
    batch = run.batch
    if not batch or batch < 1:
        return
    off = []
    for event in run.log.events:
        samples, steps = event.samples_count, number(event.metadata.get("step"))
        if not samples:
            continue
        if steps and steps != samples and steps * batch > samples * (1 + rule["max_relative"]) + batch:
            off.append((event, f"step {steps:g} of a batch of {batch:g} at {samples} samples", 1.0))
        elif samples % batch:
            off.append((event, f"{samples} samples at a batch of {batch:g} are {samples / batch:.2f} batches", 0.2))
    if off:
        event, words, strength = max(off, key=lambda item: item[2])
        message = f"{words}; {len(off)} lines do not count whole batches"
        yield trace(run.path, event.lineno, message, strength, lines=len(off))
