"""An evaluation has no quality, or a quality has no evaluation.

## What it does
Expects exactly one `eval_accuracy` after each `eval_stop` and before the next block or evaluation. The last evaluation
of an aborted run may have none.

## Why it matters
An evaluation whose quality was removed may have been one that should have stopped the run; a quality without an
evaluation was not measured.

## Example
`eval_start`, `eval_stop`, then immediately `block_start`.

## Instead
Submit the log as it was written.

## Source
MLPerf logging: every evaluation prints its quality; enforced in round 0.6 and not since.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    waiting: Event | None = None
    for event in log.events:
        if event.key == keys.EVAL_STOP:
            if waiting is not None:
                yield Fault(str(log.path), waiting.lineno, "the evaluation that ends here has no eval_accuracy")
            waiting = event
        elif event.key == keys.EVAL_ACCURACY:
            if waiting is None:
                yield Fault(str(log.path), event.lineno, "eval_accuracy without an evaluation right before it")
            waiting = None
        elif event.key in (keys.BLOCK_START, keys.EVAL_START, keys.RUN_STOP) and waiting is not None:
            if event.key != keys.RUN_STOP or timeline.status(log) == timeline.SUCCESS:
                yield Fault(str(log.path), waiting.lineno, "the evaluation that ends here has no eval_accuracy")
            waiting = None
        if event.key == keys.RUN_STOP:
            return
