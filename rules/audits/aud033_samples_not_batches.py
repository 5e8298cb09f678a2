"""The sample count is not a whole number of batches.

## What it does
If the log counts samples and states its batch size, divides one by the other; if it also counts steps, compares steps
times batch size with the samples. And if a line before each evaluation states a step, as `step`, `step_num` or
`curr_global_step`, most evaluations of a run have the same number of samples (or epochs) per step; one that differs is
reported.

## Why it matters
Training proceeds by whole batches. Samples that are not a multiple of the batch size were trained with another batch
size, or typed. An evaluation that was moved to a later position still has its old step.

## Example
100,000 samples at a batch size of 768; evaluations at steps 288, 336 and 384, the last at 3,136 samples, the others at
eight times their step.

## Instead
Log the batch size that is used and the samples as they are counted.

## Source
MLPerf training rules: global_batch_size is the number of samples of one step.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import finite_number
from harness.checker.audit.facts import Point, RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

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
            off.append((event, f"step {steps:g} with a batch of {batch:g} at {samples} samples", 1.0))
        elif samples % batch:
            off.append((event, f"{samples} samples at a batch of {batch:g} are {samples / batch:.2f} batches", 0.2))
    if off:
        event, words, strength = max(off, key=lambda item: item[2])
        message = f"{words}; {len(off)} lines do not count whole batches"
        yield evidence(run.path, event.lineno, message, strength, lines=len(off))


def _steps(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    """Evaluations whose samples per step differ from those of most others, for each field that states steps."""
    for name, stated in _stated(run).items():
        usual = sorted(ratio for _, _, ratio in stated)[len(stated) // 2]
        odd = [(point, step) for point, step, ratio in stated if abs(ratio - usual) > rule["max_ratio_off"] * usual]
        if odd and 2 * len(odd) < len(stated):
            point, step = odd[-1]
            yield evidence(
                run.path,
                point.line,
                f"{point.position:g} {point.unit} after a line with {name} {step:g}; at {usual:g} per step, as in "
                f"{len(stated) - len(odd)} other evaluations, it would be {usual * step:g}",
                1.0,
                step=step,
                usual=usual,
                times=len(odd),
            )


def _stated(run: RunFacts) -> dict[str, list[tuple[Point, float, float]]]:
    """By field and key: evaluations after a line that states a step, each with that step and the samples per step."""
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
