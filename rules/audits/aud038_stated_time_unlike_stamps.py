"""Times that the run states for its steps and evaluations are longer than its stamps allow.

## What it does
Takes what the run states about its own speed: seconds per step (`train_step_time`, `validation_step_time`) and samples
per second (`throughput`) in `tracked_stats`, seconds per evaluation (`validation_time`), and the "Total time" that
PyTorch's reference scripts print. Divides each stated time by the time that passed by the stamps: from the line before
it, divided by the steps between the two; from `eval_start`; from `run_start` to the end of the log. Of each name, the
median of a run must not exceed one; and runs of one result must agree, whatever the name means.

## Why it matters
The program measured these times with a clock of its own. If stamps were moved together, the run seems faster, and only
these numbers still say how fast it was.

## Example
`train_step_time` is 0.457 s, and lines that are 32 steps apart have stamps 11.7 s apart: 0.366 s per step.

## Instead
Leave times as they were measured.

## Source
Published rounds: in each result the medians of its runs agree within 0.5 %, and `train_step_time`,
`validation_step_time` and `validation_time` with the stamps within 0.4 %.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator

from harness.base.values import finite_number
from harness.checker.audit.facts import RunFacts, Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys

SCOPE = "result"
LIMITS = ("max_longer", "max_between_runs", "max_spread", "min_lines", "min_runs")
TIME, SPEED = re.compile(r"(?:^|_)time$"), re.compile(r"throughput$|_sec$|_per_second$")
EDGES = (keys.RUN_START, keys.RUN_STOP, keys.EVAL_START, keys.EVAL_STOP)
EVALUATION = "validation_time"
TOTAL_S = 1.0  # each total is rounded to seconds
Ratios = dict[str, list[tuple[float, int]]]  # by name: stated time by stamped time, with its line


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    between: dict[str, list[tuple[RunFacts, float, int]]] = {}
    for run in subject.runs:
        steps, paces = _ratios(run)
        for name, found in steps.items():
            ratio = statistics.median(value for value, _ in found)
            if len(found) >= _least(name, rule) and ratio > rule["max_longer"]:
                yield _longer(run, found[0][1], name, ratio, rule["max_longer"])
        for name, found in paces.items():
            if (steady := _steady([value for value, _ in found], rule)) is not None:
                between.setdefault(name, []).append((run, steady, found[0][1]))
        yield from _totals(run, rule)
    for name, seen in between.items():
        for run, ratio, line in seen if len(seen) >= rule["min_runs"] else ():
            others = statistics.median(other for another, other, _ in seen if another is not run)
            if ratio > rule["max_between_runs"] * others:
                message = (
                    f"{name} in proportion to the time from line to line is {ratio / others:.3f} times that of the "
                    f"other runs of the result; they agree within {rule['max_between_runs'] - 1:.0%} elsewhere"
                )
                yield evidence(run.path, line, message, 1 - others / ratio, name=name, ratio=ratio / others)


def _least(name: str, rule: SignalRule) -> float:
    return 1 if name == EVALUATION else rule["min_lines"]


def _longer(run: RunFacts, line: int, name: str, ratio: float, limit: float) -> Evidence:
    message = (
        f"{name} is {ratio:.3f} times the time that passed by the stamps (median of the run); up to {limit:g} times is "
        f"usual"
    )
    return evidence(run.path, line, message, 1 - limit / ratio, name=name, ratio=ratio)


def _ratios(run: RunFacts) -> tuple[Ratios, Ratios]:
    """What each statistic states for a second of a step, where the steps are counted; and from line to line."""
    steps: Ratios = {}
    paces: Ratios = {}
    last: dict[str, tuple[float, float | None]] = {}
    evaluated_ms: float | None = None
    for event in run.log.events:
        if event.key in EDGES:
            last.clear()
            evaluated_ms = event.time_ms if event.key == keys.EVAL_START else None
        if event.key != keys.TRACKED_STATS or not isinstance(event.value, dict):
            continue
        step = finite_number(event.metadata.get("step"))
        for name, content in event.value.items():
            stated = finite_number(content)
            if stated is None or stated <= 0:
                continue
            if name == EVALUATION and evaluated_ms is not None and event.time_ms > evaluated_ms:
                steps.setdefault(name, []).append((1e3 * stated / (event.time_ms - evaluated_ms), event.lineno))
            is_time = TIME.search(name) is not None
            if not is_time and not SPEED.search(name):
                continue
            before_ms, before = last.get(name, (event.time_ms, None))
            last[name] = (event.time_ms, step)
            passed_s = (event.time_ms - before_ms) / 1e3
            if passed_s > 0 and stated * passed_s > 0:  # the product of tiny numbers is zero
                pace = stated / passed_s if is_time else 1 / (stated * passed_s)
                paces.setdefault(name, []).append((pace, event.lineno))
                if is_time and step is not None and before is not None and step > before:
                    steps.setdefault(name, []).append((_per_step(pace * (step - before), run.batch), event.lineno))
    return steps, paces


def _per_step(ratio: float, batch: float | None) -> float:
    """The ratio by steps, or by samples, which some programs state as `step`: whichever is nearer to one."""
    by_samples = ratio / batch if batch else ratio
    return by_samples if ratio > 1 and abs(by_samples - 1) < abs(ratio - 1) else ratio


def _steady(ratios: list[float], rule: SignalRule) -> float | None:
    """The median, if there are enough ratios and the middle half of them are close together."""
    if len(ratios) < rule["min_lines"]:
        return None
    low, middle, high = statistics.quantiles(ratios, n=4)
    return middle if high - low <= rule["max_spread"] * middle else None


def _totals(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    """The totals that one process printed one after the other since run_start, against the rest of the log."""
    if run.start is None or run.wall_ms is None:
        return
    totals = [(seconds, line) for seconds, line in run.text.parts_s if line > run.start.lineno]
    stated_s = sum(max(0.0, seconds - TOTAL_S) for seconds, _ in totals)
    stamped_s = (run.wall_ms[1] - run.start.time_ms) / 1e3
    if stamped_s > 0 and stated_s > rule["max_longer"] * stamped_s:
        name = f"the sum of {len(totals)} total times"
        yield _longer(run, totals[0][1], name, stated_s / stamped_s, rule["max_longer"])
