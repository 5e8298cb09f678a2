"""A key that a run writes once appears twice.

## What it does
Reports every second event of a key that the referee writes exactly once: the header, the hyperparameters, the start and
end of initialisation, of the run and of opening the data, and the summary.

## Why it matters
Of two `run_start` lines, the later one makes the run faster. If there are two seeds, no one can tell which was used.

## Example
A second `run_start` ten seconds before `run_stop`: MLPerf's checker passes it with a warning, and the run takes 10 s.

## Instead
Submit the log as it was written, one run per log.

## Source
The order of a run: harness/run/referee.py. MLPerf training rules, "Run Results".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"
_REPEATED = frozenset({*keys.BODY_KEYS, *keys.RESUME_KEYS, keys.POWER_READING})
_ONCE = frozenset(
    {
        *keys.HEADER_KEYS,
        keys.TTA_CLOCK,
        *keys.REPRODUCTION_KEYS,
        *keys.WITNESS_KEYS,
        *keys.VARIANCE_KEYS,
        *keys.REPLAY_KEYS,
        *keys.OPENING_KEYS,
        *keys.NODES_KEYS,
        keys.RUN_STOP,
        *keys.SUMMARY_KEYS,
        *keys.WEIGHTS_KEYS,
    }
)


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    once = _ONCE | frozenset(timeline.hyperparameters(log) or {}) - _REPEATED
    for name, count in log.counts.items():
        is_single = name in once or name.startswith(keys.HYPERPARAMETER_PREFIX)
        # Only events that were kept: what comes after 64 MiB of events is LOG009's.
        if is_single and len(found := log.all(name)) > 1:
            yield Fault(
                str(log.path),
                found[1].lineno,
                f"{printable(name)} appears here a second time; the first is on line {found[0].lineno}, "
                f"and a run has one ({count} in total)",
                {"key": name, "count": count},
            )
