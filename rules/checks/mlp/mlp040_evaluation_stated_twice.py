"""A part of a joined evaluation has two values at one step.

## What it does
For benchmarks whose quality is joined from several lines (Stable Diffusion: FID and CLIP at one step), looks for a step
and metric with two different values.

## Why it matters
The last line of a step and metric is the one that counts. A second FID, written below the first, meets the target.

## Example
FID 95.2 at step 3,072, and further down FID 89.9 at step 3,072; the target is 90.

## Instead
Evaluate a checkpoint once.

## Source
MLPerf training rules, "Benchmarks". Not a rule of MLCommons' compliance checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None:
        return
    _, benchmark = compliance.benchmark_of(log, ruleset.round)
    if benchmark is None or (join := benchmark.join) is None:
        return
    seen: dict[tuple[str, str], object] = {}
    for line in log.all(join.key):
        by, part = line.metadata.get(join.by), line.metadata.get(join.part)
        before = seen.setdefault((repr(by), repr(part)), line.value)
        if before != line.value:
            at = f"{printable(part, 40)} at {join.by} {printable(by, 40)}"
            message = f"{at} is {printable(line.value, 60)} here and {printable(before, 60)} before"
            yield Fault(str(log.path), line.lineno, message)
