"""An evaluation has a value that is impossible, or better than that of any published run of the benchmark.

## What it does
Looks for accuracies and other shares below zero or above one, and losses and error rates below zero. Compares each
evaluation with the best value in the bands of the audit's rules, which come from half of the published rounds that were
examined, with a margin; if the target of the benchmark is not known, with the worst value, too.

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
from math import inf

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys

SCOPE = "log"
LIMITS = ("margin_fraction",)


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    low, high = _possible(run)
    impossible = [point for point in run.curve if not low <= point.value <= high]
    if impossible:
        point = impossible[0]
        message = f"the quality is {point.value:g}, one of {len(impossible)} evaluations that no such quality can have"
        yield evidence(run.path, point.line, message, 1.0, value=point.value)
        return
    band = run.bands.get(str(run.log.value(keys.SUBMISSION_BENCHMARK)))
    if band is None or run.is_evaluated_afterwards:
        return
    margin = rule["margin_fraction"] * (band[1] - band[0])
    is_known = run.standard.target is not None
    low = -inf if is_known and run.standard.direction == "max" else band[0] - margin
    high = inf if is_known and run.standard.direction == "min" else band[1] + margin
    outside = [point for point in run.curve if not low <= point.value <= high]
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


def _possible(run: RunFacts) -> tuple[float, float]:
    """The lowest and highest value that the quality of a round's benchmark can have, as far as its target says."""
    target = run.standard.target
    if target is None or run.is_ours:
        return -inf, inf
    return 0.0, 1.0 if run.standard.direction == "max" and target <= 1 else inf
