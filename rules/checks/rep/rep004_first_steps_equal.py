"""Two runs of a result have the same first steps.

## What it does
Compares the batches and the losses in `tta_replay` of the runs of a result with each other.

## Why it matters
Runs are independent only if their seeds decide the order of the data and the initial weights. Two that saw the same
batches, or had the same losses, are one run under two numbers.

## Example
result_1.txt and result_3.txt have the seeds 17 and 40, and the same first batches.

## Instead
Make each run with a seed of its own, with `tta run`, and submit all of them.

## Source
docs/explanation/reproduction.md, "The first steps"; MLPerf training rules, "Run Results".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.replay import replay_of
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    seen: dict[tuple[str, ...], RunLog] = {}
    for log in result.runs:
        replay = replay_of(log)
        if replay is None or replay.not_available is not None:
            continue
        other = next((seen[part] for part in (replay.batches, replay.bits) if part in seen), None)
        for part in (replay.batches, replay.bits):
            seen.setdefault(part, log)
        if other is not None:
            yield Fault(
                str(log.path),
                log.line_of(keys.TTA_REPLAY),
                f"has the first steps of {other.path.name}: these runs are not independent",
                {"other": other.path.name},
            )
