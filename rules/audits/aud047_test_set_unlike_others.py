"""A result states a different test set size from other results of its benchmark.

## What it does
Compares `eval_samples` of a result with the number that most other audited results of the benchmark from about the same
time, of two submitters at least, state. Slightly more is usual: the last batch is padded.

## Why it matters
The test set belongs to the benchmark. On a tenth of it an evaluation takes a tenth of the time, and the target is
reached sooner by chance.

## Example
Thirteen results of a round state 173, the fourteenth 17.

## Instead
Evaluate on the whole test set, and state its examples, not batches or tokens.

## Source
Numbers of published rounds: 24,567 in four results of GPT-3, 11,590,004 in the fifth, which counts tokens.
`train_samples` is not compared: its meaning differs from program to program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.checker.audit.facts import RunDigest, Tree, grouped
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.errors import printable

SCOPE = "tree"
LIMITS = ("min_others", "min_agreeing_fraction", "max_apart_days", "max_less", "max_more", "min_submitters")
DAY_MS = 86_400_000


def check(tree: Tree, rule: SignalRule) -> Iterator[Evidence]:
    first = {run.result: run for run in reversed(tree.runs)}  # AUD034 reports runs of one result that differ
    for group in grouped(first.values(), "benchmark"):
        for run, mine, others in _with_others(group, rule["max_apart_days"] * DAY_MS):
            num_others = others.total()
            if num_others < rule["min_others"]:
                continue
            sums: Counter[float] = Counter()
            for (number, _), times in others.items():
                sums[number] += times
            [(usual, num)] = sums.most_common(1)
            if sum(number == usual for number, _ in others) < rule["min_submitters"]:
                continue
            is_usual = usual / rule["max_less"] <= mine <= usual * rule["max_more"]
            if num >= rule["min_agreeing_fraction"] * num_others and not is_usual:
                usage = f"{num} of {num_others} other results of {printable(run.benchmark, 40)} state {usual:.12g}"
                message = f"eval_samples is {mine:.12g}; {usage}"
                yield evidence(run.path, None, message, 1.0, eval_samples=mine, usual=usual)


def _with_others(
    group: Sequence[RunDigest], apart_ms: float
) -> Iterator[tuple[RunDigest, float, Counter[tuple[float, str]]]]:
    """Each run that has a time and states a number, that number, and a count of the others' with their submitters."""
    timed = [
        (run.span_ms[0], (num, run.submitter), run)
        for run in group
        if run.span_ms is not None and (num := run.eval_samples) is not None
    ]
    timed.sort(key=lambda item: item[0])
    near: Counter[tuple[float, str]] = Counter()
    low = high = 0
    for at_ms, vote, run in timed:
        while high < len(timed) and timed[high][0] - at_ms <= apart_ms:
            near[timed[high][1]] += 1
            high += 1
        while at_ms - timed[low][0] > apart_ms:
            near[timed[low][1]] -= 1
            low += 1
        yield run, vote[0], near - Counter([vote])
