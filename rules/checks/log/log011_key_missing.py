"""A key that every run writes is missing.

## What it does
Looks for the keys that the referee writes: those before the clock always; those of each stage once a later stage has
begun; those of all stages, a block and an evaluation in a run that ended in success; and the summary after `run_stop`.
`run_stop` and `tta_end` have checks of their own.

## Why it matters
The other checks look at what is there. This one makes sure that it is there, so that nothing passes by being left out.

## Example
A log has `run_start` but no `init_stop`: how long initialisation took cannot be determined.

## Instead
Submit the log as it was written. If another program made it, write every key of harness/log/keys.py.

## Source
The order of a run: harness/run/referee.py. MLPerf training rules, logging.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"
_STAGES = (*keys.OPENING_KEYS, *keys.BODY_KEYS)
_SUMMARY = tuple(name for name in keys.SUMMARY_KEYS if name != keys.TTA_END)


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    present = [name in log.counts for name in _STAGES]
    num_begun = max((place for place, is_there in enumerate(present) if is_there), default=0)
    if timeline.status(log) == timeline.SUCCESS:
        num_begun = len(_STAGES)
    required = [*keys.HEADER_KEYS, *_STAGES[:num_begun], *(_SUMMARY if keys.RUN_STOP in log.counts else ())]
    missing = [name for name in required if name not in log.counts]
    if missing:
        yield Fault(str(log.path), None, f"missing: {', '.join(missing)}", {"missing": missing})
