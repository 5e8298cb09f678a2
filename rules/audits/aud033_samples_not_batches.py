"""The samples are not a number of whole batches.

## What it does
Where the log counts samples and states its batch, divides one by the other; where it counts steps too, compares steps
times batch with the samples. And where a line before each evaluation states a step, as `step`, `step_num` or
`curr_global_step`: most evaluations of a run are at one number of samples (or epochs) a step; one that is not is told.

## Why it matters
Training goes by whole batches. Samples that are no multiple of the batch were trained with another batch, or typed; an
evaluation that was counted farther on than it was has not one step more.

## Example
100,000 samples at a batch of 768; evaluations at steps 288, 336 and 384, the last at 3,136 samples, the others at
eight times their step.

## Instead
Log the batch that is used and the samples as they are counted.

## Source
MLPerf training rules: global_batch_size is the number of samples of one step.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import finite_number
from harness.checker.audit.facts import Point, RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, trace

SCOPE = "log"
LIMITS = ("max_relative", "max_ratio_off")
STEPS = ("step", "step_num", "curr_global_step")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    yield from _batches(run, rule)
    yield from _steps(run, rule)


def _batches(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    batch = run.batch
    if not batch or batch < 1:
        return
    off = []
    for event in run.log.events:
        samples, steps = event.samples_count, finite_number(event.metadata.get("step"))
        if not samples:
            continue
        if steps and steps != samples and steps * batch > samples * (1 + rule["max_relative"]) + batch:
            off.append((event, f"step {steps:g} of a batch of {batch:g} at {samples} samples", 1.0))
        elif samples % batch:
            off.append((event, f"{samples} samples at a batch of {batch:g} are {samples / batch:.2f} batches", 0.2))
    if off:
        event, words, strength = max(off, key=lambda item: item[2])
        message = f"{words}; {len(off)} lines do not count whole batches"
        yield trace(run.path, event.lineno, message, strength, lines=len(off))


def _steps(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    """Evaluations whose position is another number of steps than that of most others, by each field that has steps."""
    for name, stated in _stated(run).items():
        usual = sorted(ratio for _, _, ratio in stated)[len(stated) // 2]
        odd = [(point, step) for point, step, ratio in stated if abs(ratio - usual) > rule["max_ratio_off"] * usual]
        if odd and 2 * len(odd) < len(stated):
            point, step = odd[-1]
            yield trace(
                run.path,
                point.line,
                f"{point.position:g} {point.unit} where the lines before have {name} {step:g}: {usual * step:g} at "
                f"{usual:g} a step, as of {len(stated) - len(odd)} other evaluations",
                1.0,
                step=step,
                usual=usual,
                times=len(odd),
            )


def _stated(run: RunFacts) -> dict[str, list[tuple[Point, float, float]]]:
    """By key and field, the evaluations before which a line states a step, each with the last one and with samples a
    step."""
    points = {point.line: point for point in run.curve}
    found: dict[str, list[tuple[Point, float, float]]] = {}
    last: dict[str, float] = {}
    for event in run.log.events:
        for field in STEPS:
            step = finite_number(event.metadata.get(field))
            if step is not None and step > 0:
                last[f"{field} of {event.key}"] = step
        point = points.get(event.lineno)
        if point is not None and point.position is not None:
            for name, step in last.items():
                found.setdefault(name, []).append((point, step, point.position / step))
            last = {}
    return found
