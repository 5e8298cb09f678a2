"""A power trace is constant.

## What it does
Takes the longest stretch in which a power meter gives exactly one value.

## Why it matters
A machine under load fluctuates. A constant value is a meter that hangs, or a line that was copied.

## Example
300 W for six minutes of a run that loads and waits.

## Instead
Repair the meter; run again.

## Source
The power traces of MLPerf v4.0 that were examined; the limit was set on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
LIMITS = ("max_flat_readings", "max_flat_fraction")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    for node in run.log.nodes:
        for meter, samples in node.samples.items():
            spec = node.specs.get(meter)
            if node.is_switch or spec is None or spec.kind != "power_w" or spec.meter_class == "E":
                continue
            values = [sample.value for sample in samples if sample.value is not None]
            stretches = [(len(list(group)), value) for value, group in itertools.groupby(values)]
            longest, value = max(stretches, default=(0, 0.0))
            limit = max(rule["max_flat_readings"], rule["max_flat_fraction"] * len(values))
            if longest > limit:
                yield evidence(
                    node.path,
                    None,
                    f"{meter}: {longest} readings in a row are exactly {value:g} W, of {len(values)} in total",
                    longest / len(values),
                    readings=longest,
                )
