"""The timeline of a run: intervals, quality curve, deciding evaluation. Pure.

Unlike `harness.scoring.run_result`, which refuses a damaged log, this reads as much of it as it can: what it cannot
read is for a check to report.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.base.values import finite_number, is_whole
from harness.log import keys
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules
from harness.workload import Metric

STARTED, SUCCESS, ABORTED = "started", "success", "aborted"


@dataclass(frozen=True, slots=True)
class Interval:
    """A start with its stop; None where there is none."""

    start: Event
    stop: Event | None


def intervals(log: RunLog, start_key: str, stop_key: str) -> tuple[Interval, ...]:
    """The intervals of one kind in the order of the file.

    Each start opens an interval, which is unfinished if the next start comes before a stop. A stop without a start
    is ignored.
    """
    found: list[Interval] = []
    opened: Event | None = None
    for event in sorted((*log.all(start_key), *log.all(stop_key)), key=lambda event: event.lineno):
        if event.key == start_key:
            if opened is not None:
                found.append(Interval(opened, None))
            opened = event
        elif opened is not None:
            found.append(Interval(opened, event))
            opened = None
    if opened is not None:
        found.append(Interval(opened, None))
    return tuple(found)


def finished(log: RunLog, start_key: str, stop_key: str) -> list[tuple[Event, Event]]:
    """Start and stop of the finished intervals."""
    return [(item.start, item.stop) for item in intervals(log, start_key, stop_key) if item.stop is not None]


def interrupted(log: RunLog) -> list[tuple[Event, Event]]:
    """The end of each checkpoint from which the run went on after an interruption, and the line on which it did."""
    events = sorted((*log.all(keys.TTA_CHECKPOINT_STOP), *log.all(keys.TTA_RESUME)), key=lambda event: event.lineno)
    return [(before, event) for before, event in itertools.pairwise(events) if event.key == keys.TTA_RESUME]


def resumptions(log: RunLog) -> list[tuple[Event, Event]]:
    """The lines on which the run went on after an interruption, each with the line before it, even if that was lost."""
    if keys.TTA_RESUME not in log.counts:
        return []
    events = sorted((*log.events, *log.lost), key=lambda event: event.lineno)
    return [(before, event) for before, event in itertools.pairwise(events) if event.key == keys.TTA_RESUME]


def away_s(log: RunLog) -> float:
    """Seconds in which nothing of the run was running: between the last line before an interruption and the next."""
    return math.fsum(log.seconds(before, event) for before, event in resumptions(log))


def status(log: RunLog) -> str:
    """The status that the first `run_stop` reports; "started" where there is none."""
    stop = log.first(keys.RUN_STOP)
    reported = None if stop is None else stop.metadata.get("status")
    return reported if isinstance(reported, str) else STARTED


def is_full_curve(log: RunLog) -> bool:
    """Whether the run was configured to continue past the target, as reference runs are."""
    return log.field(keys.TTA_CONFIG, "full_curve") is True


def run_s(log: RunLog) -> float | None:
    """Seconds from the first `run_start` to the first `run_stop`; None if either is missing."""
    start, stop = log.first(keys.RUN_START), log.first(keys.RUN_STOP)
    return None if start is None or stop is None else log.seconds(start, stop)


def block_stats(log: RunLog) -> Iterator[tuple[Event, Event, Event]]:
    """Each `tracked_stats` with start and stop of the last block that was finished before it."""
    blocks = finished(log, keys.BLOCK_START, keys.BLOCK_STOP)
    num_before = 0
    for event in log.all(keys.TRACKED_STATS):
        while num_before < len(blocks) and blocks[num_before][1].lineno < event.lineno:
            num_before += 1
        if num_before:
            yield event, *blocks[num_before - 1]


def qualities(log: RunLog) -> tuple[tuple[Event, float], ...]:
    """The evaluations with a finite quality, in the order of the file."""
    return tuple(
        (event, value) for event in log.all(keys.EVAL_ACCURACY) if (value := finite_number(event.value)) is not None
    )


def num_confirmed(values: Sequence[float], rules: BenchmarkRules) -> int:
    """How many of `values` at the end, without a gap, reach the target."""
    count = 0
    for value in reversed(values):
        if not rules.metric.is_reached(value, rules.target):
            break
        count += 1
    return count


def first_reached(qualities: Sequence[float], metric: Metric, target: float, confirm: int = 0) -> int | None:
    """Index of the evaluation at which the clock stops; None if there is none.

    It is the first that reaches the target right after `confirm` others that reach it too.
    """
    streak = 0
    for index, quality in enumerate(qualities):
        streak = streak + 1 if metric.is_reached(quality, target) else 0
        if streak > confirm:
            return index
    return None


def crossing(curve: Sequence[tuple[float, float]], metric: Metric, target: float, confirm: int = 0) -> float | None:
    """Return the samples at which a run would have reached its target if it were evaluated all the time.

    curve: samples and quality of each evaluation, in order. The quality is taken to be linear between the last
    evaluation below the target and the first at it; the evaluations that confirm it are added. The first evaluation
    of a run has none before it and counts as it is. None if the target is not reached.
    """
    index = first_reached([quality for _, quality in curve], metric, target, confirm)
    if index is None:
        return None
    hit = index - confirm
    samples, quality = curve[hit]
    confirmed = curve[index][0] - samples
    if hit == 0:
        return float(samples + confirmed)
    before, below = curve[hit - 1]
    share = (target - below) / (quality - below)
    return before + (samples - before) * share + confirmed


def deciding(log: RunLog, rules: BenchmarkRules) -> Event | None:
    """The evaluation at which the run has reached its target, confirmations included; None if there is none."""
    curve = qualities(log)
    index = first_reached([value for _, value in curve], rules.metric, rules.target, rules.confirm_evaluations)
    return None if index is None else curve[index][0]


def samples_to_target(log: RunLog, rules: BenchmarkRules) -> float | None:
    """Samples to target, interpolated (see `crossing`); None if the run did not reach it or does not count samples."""
    curve = [(event.samples_count, quality) for event, quality in qualities(log)]
    known = [(samples, quality) for samples, quality in curve if samples is not None]
    if len(known) < len(curve):
        return None
    return crossing(known, rules.metric, rules.target, rules.confirm_evaluations)


def batch_size(log: RunLog) -> int | None:
    """The run's global batch size; None where it is not a positive integer."""
    value = log.value(keys.GLOBAL_BATCH_SIZE)
    return value if is_whole(value) and value > 0 else None


def hyperparameters(log: RunLog) -> dict[str, object] | None:
    """The hyperparameters of `tta_config`; None where they are missing or not a mapping."""
    found = log.field(keys.TTA_CONFIG, "hyperparameters")
    return found if isinstance(found, dict) else None


def ranks(log: RunLog) -> list[dict[str, object]]:
    """What each rank reports of itself in `tta_world`; empty if the log has no such list."""
    world = log.value(keys.TTA_WORLD)
    return [rank for rank in world if isinstance(rank, dict)] if isinstance(world, list) else []
