"""Time goes backwards.

## What it does
Compares the times of consecutive lines of one key, for the keys that a run writes repeatedly; and `run_stop` with the
evaluations before it. A line that a program printed again, with its time, counts once. In a run that was evaluated
after training, from checkpoints (in every run of MiniGo and Stable Diffusion, in some of BERT), only the lines before
the first evaluation are compared: checkpoints are evaluated in any order, by several programs at once.

## Why it matters
One process writes these lines in sequence, by one clock. Lines of different keys may come from different processes.

## Example
Evaluations and blocks were shuffled; `run_stop` was edited to half the time, so that it follows evaluations of a later
time.

## Instead
Leave the log as it was written.

## Source
Not a rule of MLCommons' compliance checker, which passes a log changed in this way; see
docs/reports/mlperf-agreement.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from harness.findings import Fault
from harness.log import keys
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.mlperf.model import RoundBenchmark
from harness.ruleset.model import BenchmarkRules, RuleSet
from rules.checks.mlp._keys import benchmark_of

SCOPE = "log"
MAX_BACK_S = 1.0  # clocks are adjusted by a few milliseconds


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    benchmark = benchmark_of(log, ruleset)
    for name, lines in compliance.sequences(log, benchmark):
        if back := _back(lines) and _back(_without_reprints(lines, benchmark)):
            back_s, worst = max(back, key=lambda item: item[0])
            yield Fault(str(log.path), worst.lineno, f"{name} is {back_s:.3f} s earlier than the {name} before it")
    stop = log.first(keys.RUN_STOP)
    if stop is None or compliance.is_evaluated_afterwards(log, benchmark):
        return
    before = [line for line in log.all(keys.EVAL_ACCURACY) if line.lineno < stop.lineno]
    early_s = (max((line.time_ms for line in before), default=stop.time_ms) - stop.time_ms) / 1e3
    if early_s > MAX_BACK_S:
        yield Fault(str(log.path), stop.lineno, f"run_stop is {early_s:.3f} s earlier than an evaluation before it")


def _back(lines: Sequence[Event]) -> list[tuple[float, Event]]:
    pairs = itertools.pairwise(lines)
    return [(back_s, b) for a, b in pairs if (back_s := (a.time_ms - b.time_ms) / 1e3) > MAX_BACK_S]


def _without_reprints(lines: Sequence[Event], benchmark: RoundBenchmark | None) -> list[Event]:
    """The lines without reprints: lines that repeat an earlier one's value for the same point in training within
    MAX_BACK_S."""
    by_place: dict[str, list[Event]] = {}
    kept = []
    for line in lines:
        place = repr([line.metadata.get(name) for name in (*compliance.POSITION_FIELDS, "metric")])
        is_placed = any(name in line.metadata for name in compliance.POSITION_FIELDS)
        same = by_place.setdefault(place, []) if is_placed else []
        again = [other for other in same if abs(other.time_ms - line.time_ms) <= MAX_BACK_S * 1e3]
        if not any(compliance.is_reprint(line.value, other.value, benchmark) for other in again):
            kept.append(line)
        same.append(line)
    return kept
