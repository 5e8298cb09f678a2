"""An evaluation has a value that no published run of the benchmark has had.

## What it does
Compares each evaluation with the lowest and the highest value in the bands of the audit's rules, which come from half
of the published rounds that were examined, with a margin.

## Why it matters
A translation does not reach BLEU 60, and a loss of 0.01 is not that of a language model.

## Example
An evaluation loss of 0.01, where published runs are between 0.92 and 1.3.

## Instead
Check what is evaluated, and on which data.

## Source
The logs of MLPerf Training v0.7, v1.0, v4.0 and v5.1 of half of the submitters (docs/explanation/audit.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys

SCOPE = "log"
LIMITS = ("margin_fraction",)


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    band = run.bands.get(str(run.log.value(keys.SUBMISSION_BENCHMARK)))
    if band is None:
        return
    margin = rule["margin_fraction"] * (band[1] - band[0])
    outside = [point for point in run.curve if not band[0] - margin <= point.value <= band[1] + margin]
    if outside:
        point = max(outside, key=lambda point: max(band[0] - point.value, point.value - band[1]))
        away = max(band[0] - point.value, point.value - band[1])
        yield evidence(
            run.path,
            point.line,
            f"the quality is {point.value:g}, one of {len(outside)} evaluations outside the range of published runs, "
            f"{band[0]:g} to {band[1]:g}",
            away / (abs(band[1]) + abs(band[0]) + 1e-12),
            value=point.value,
            lowest=band[0],
            highest=band[1],
        )
