"""Evaluations took less time than the run's own speed allows.

## What it does
Divides `eval_samples` by the median time from `eval_start` to `eval_stop`, and the samples trained by the time between
evaluations, to see how many times as fast as training the evaluation is. Also compares the evaluations of one run with
their median, and with that of the runs of one result. Evaluations that are too short but save next to nothing are left
out.

## Why it matters
The time of evaluations is part of the time to target. If all later times are shifted along, cutting it leaves no other
trace.

## Example
Training at 2.8 samples per second, and 173 samples evaluated in 0.9 s; nine evaluations of 26 s, one of 3 s.

## Instead
Log `eval_start` before the first batch is evaluated and `eval_stop` when the quality is known.

## Source
MLPerf training rules, "Run Results": the clock runs while a model is evaluated. A training step is a forward and a
backward pass, of which the backward pass costs more: an evaluation is a few times as fast, not many times.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from harness.base.values import finite_number
from harness.checker.audit.facts import RunFacts, Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys
from harness.log.events import Event

SCOPE = "result"
ONLINE_ONLY = True
LIMITS = (
    "max_faster", "max_faster_ours", "max_shorter", "max_shorter_ours", "min_saved_fraction",
    "min_evaluations", "min_runs",
)  # fmt: skip
LEAST_S = 0.001  # resolution of a millisecond clock
Timed = list[tuple[float, Event]]


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    timed = [(run, found) for run in subject.runs if (found := _evaluations(run))]
    for run, found in timed:
        yield from _faster_than_training(run, found, rule)
        if len(found) >= rule["min_evaluations"]:
            yield from _shorter(run, found, _median(found), "the run's evaluations", rule)
    for run, found in timed if len(timed) >= rule["min_runs"] else ():
        usual = median(_median(other) for _, other in timed)
        if _median(found) * _limit("max_shorter", run, rule) < usual:
            yield from _shorter(run, found, usual, "the runs of this result", rule)


def _faster_than_training(run: RunFacts, found: Timed, rule: SignalRule) -> Iterator[Evidence]:
    num_samples, speed = finite_number(run.log.value(keys.EVAL_SAMPLES)), _training_speed(run, found)
    if num_samples is None or speed is None:
        return
    factor, limit = num_samples / _median(found) / speed, _limit("max_faster", run, rule)
    if factor > limit:
        yield evidence(
            run.path,
            found[0][1].lineno,
            f"the run evaluates {num_samples:g} samples in {_median(found):.4g} s, {factor:.3g} times as fast as it "
            f"trains ({speed:.4g} samples/s); up to {limit:g} times is usual",
            1 - limit / factor,
            factor=factor,
            speed=speed,
        )


def _shorter(run: RunFacts, found: Timed, usual: float, words: str, rule: SignalRule) -> Iterator[Evidence]:
    """Evaluations that are much shorter than usual, if they shorten the run noticeably."""
    limit = _limit("max_shorter", run, rule)
    short = [(seconds, event) for seconds, event in found if seconds * limit < usual]
    saved_s = sum(usual - seconds for seconds, _ in short)
    if short and saved_s >= rule["min_saved_fraction"] * (run.run_s or 0.0):
        seconds, event = min(short, key=lambda pair: pair[0])
        yield evidence(
            run.path,
            event.lineno,
            f"this evaluation takes {seconds:.4g} s; the median of {words} is {usual:.4g} s ({len(short)} of "
            f"{len(found)} are too short, by {saved_s:.4g} s)",
            1 - limit * seconds / usual,
            seconds=seconds,
            usual=usual,
            times=len(short),
        )


def _limit(name: str, run: RunFacts, rule: SignalRule) -> float:
    """The limit, another one for `tta` logs: small workloads make data as they train and play games that end early."""
    return rule[f"{name}_ours" if run.is_ours else name]


def _evaluations(run: RunFacts) -> Timed:
    """Seconds of each evaluation, from its start to the next stop, with the event of the stop."""
    found, start = [], None
    for event in run.log.events:
        if event.key == keys.EVAL_START:
            start = start or event
        elif event.key == keys.EVAL_STOP and start is not None:
            found.append((max(run.log.seconds(start, event), LEAST_S), event))
            start = None
    return found


def _median(found: Timed) -> float:
    return median(seconds for seconds, _ in found)


def _training_speed(run: RunFacts, found: Timed) -> float | None:
    """Samples per second up to the end of the last evaluation, without evaluation time; None if not counted."""
    if run.final is None or run.final.position is None or run.start is None:
        return None
    each = {"samples": 1.0, "epochs": finite_number(run.log.value(keys.TRAIN_SAMPLES))}.get(run.final.unit)
    seconds = run.log.seconds(run.start, found[-1][1]) - sum(seconds for seconds, _ in found)
    speed = run.final.position * (each or 0.0) / max(seconds, LEAST_S)
    return speed if speed > 0 else None
