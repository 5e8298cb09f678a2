"""A part of a joined evaluation has two values at one step, and which of them counts decides the result.

## What it does
For benchmarks whose quality is joined from several lines (Stable Diffusion: FID and CLIP at one step), looks for a
step and metric with two different values; a difference of float32 rounding does not count. If by one of the values the
target is reached earlier than by all of them, `run_stop` must not be before the later step.

## Why it matters
The last line of a step and metric is the one that counts. A second FID, written below the first, meets the target.

## Example
FID 95.2 at step 3,072, and further down FID 89.9 at step 3,072; the target is 90.

## Instead
Evaluate a checkpoint once.

## Source
MLPerf training rules, "Benchmarks". Not a rule of MLCommons' compliance checker. In one published log of round 3.1 each
checkpoint was evaluated twice; its clock stops where both evaluations reach the target.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from harness.base.values import finite_number
from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.mlperf.formula import Line
from harness.mlperf.model import RoundBenchmark
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
MAX_CHOICES = 100


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None:
        return
    division, benchmark = compliance.benchmark_of(log, ruleset.round)
    if benchmark is None or (join := benchmark.join) is None:
        return
    stated: dict[float, dict[Any, list[Any]]] = {}  # values by place and part
    disputed = []
    for line in log.all(join.key):
        place, part = finite_number(line.metadata.get(join.by)), line.metadata.get(join.part)
        if place is None or not isinstance(part, str):
            continue
        values = stated.setdefault(place, {}).setdefault(part, [])
        if not any(compliance.is_reprint(line.value, before, benchmark) for before in values):
            if values:
                seen = f"{printable(line.value, 60)} here and {printable(values[0], 60)} before"
                disputed.append((line.lineno, f"{printable(part, 40)} at {join.by} {place:g} is {seen}"))
            values.append(line.value)
    if disputed and not _is_stopped_in_time(log, benchmark, division, stated):
        lineno, message = disputed[0]
        more = f", one of {len(disputed):,} such lines" if len(disputed) > 1 else ""
        yield Fault(str(log.path), lineno, f"{message}{more}")


def _is_stopped_in_time(
    log: RunLog, benchmark: RoundBenchmark, division: str | None, stated: Mapping[float, Mapping[Any, list[Any]]]
) -> bool:
    """Whether the clock stops no earlier than at the first place where all values that are stated reach the target."""
    target = benchmark.target(division or "closed")
    possible, certain = math.inf, math.inf
    for place, parts in stated.items():
        choices = itertools.islice(itertools.product(*parts.values()), MAX_CHOICES)
        values = [{**dict(zip(parts, choice, strict=True)), benchmark.position: place} for choice in choices]
        reached = [target is not None and target.holds(Line(value)) for value in values]
        possible = min(possible, place) if any(reached) else possible
        certain = min(certain, place) if all(reached) and len(reached) < MAX_CHOICES else certain
    if possible == certain:
        return True
    stop, before = log.first(keys.RUN_STOP), compliance.trained_before(log, benchmark, certain)
    if stop is None or before is None or certain == math.inf:
        return False
    return stop.time_ms >= before.time_ms and (compliance.position(before, benchmark) or 0) >= possible
