"""The first steps of a run are not stated as others could compare them.

## What it does
Reads `tta_replay`: the number of steps, a loss of 64 bits and a digest of the batch for each, and digests of the
weights after 0, 1, 5 and all steps; or the name of an operation that has no deterministic form.

## Why it matters
The same steps, made again on the same system, are equal bit by bit. That is the cheapest way to see that a result was
made with the code, the data and the recipe that it names, and it needs each of these values.

## Example
`tta_replay` states 20 steps and 19 losses.

## Instead
Nothing to do by hand: `tta run` writes the line before the clock starts. Submit the log as it is.

## Source
docs/explanation/reproduction.md, "The first steps".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.replay import parse_replay
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if log.first(keys.TTA_REPLAY) is None:
        return
    try:
        parse_replay(log.value(keys.TTA_REPLAY))
    except ValueError as error:
        yield Fault(str(log.path), log.line_of(keys.TTA_REPLAY), f"{keys.TTA_REPLAY}: {error}")
