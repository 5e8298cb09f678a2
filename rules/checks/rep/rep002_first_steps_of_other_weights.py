"""The first steps that a run states begin from other weights than the run.

## What it does
Compares the digest of the weights before the first step in `tta_replay` with that in `run_start`.

## Why it matters
Both are drawn from the seed of the run by the same code. First steps that begin elsewhere are those of another run, and
whoever makes them again confirms that one.

## Example
`tta_replay` begins from weights 3f0c…, the run from 91ab….

## Instead
Nothing to do by hand: make the run again. If it happens again with an unchanged `tta`, report it.

## Source
docs/explanation/reproduction.md, "The first steps".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.replay import replay_of
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    replay, start = replay_of(log), log.first(keys.RUN_START)
    if replay is None or start is None or replay.not_available is not None:
        return
    own = start.metadata.get("weights_digest")
    if replay.weights["0"] != own:
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_REPLAY),
            f"the first steps begin from weights {replay.weights['0'][:12]}…, the run from {printable(own, 60)[:12]}…",
            {"replay": replay.weights["0"], "run": own},
        )
